import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("functional linear and an einsum")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("weight matrix by hand, products added over the last axis")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.matmul(key, self.key_proj.weight.transpose(0, 1))

    def forward(self, query, projected):
        return query[..., :, None, :].mul(projected[..., None, :, :]).sum(-1)


@right("keys times queries, then transposed; a subclass that only renames")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    @property
    def bilinear(self):
        return self.key_proj

    def project_keys(self, key, *, mapped=None):
        return self.bilinear(key) if mapped is None else mapped

    def forward(self, query, projected):
        return (projected @ query.transpose(-2, -1)).transpose(-2, -1).contiguous()


@right("the map is applied row by row of W, the scores key by key")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        entries = [(key * row).sum(dim=-1) for row in self.key_proj.weight]
        return torch.stack(entries, dim=-1)

    def forward(self, query, projected):
        scores = [query @ one.unsqueeze(-1) for one in projected.unbind(-2)]
        return torch.cat(scores, -1) if scores else query[..., :0]


@wrong(
    "maps the keys in forward: project_keys returns keys of the old width, and every step does the work again",
    "It therefore belongs in `project_keys`, which is called once per sentence, and not in `forward`, which is called at every step.",
    "projects the keys in forward",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "maps the queries: raises if the widths differ; if they are equal, the keys are compared with W q instead of W k",
    "A learned map $W$ takes the keys into the space of the queries, so queries and keys may differ in width.",
    "projects the queries instead of the keys",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return self.key_proj(query) @ projected.mT


@wrong(
    "divides by the root of the width as well: all scores too small",
    "$$e_{ts} = q_t^\\top W k_s$$",
    "scales, which the formula does not",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(-1))


@wrong(
    "multiplies by W without transposing: W transposed is applied if both widths are equal, otherwise it raises",
    "$$e_{ts} = q_t^\\top W k_s$$",
    "weight of the linear layer not transposed",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "transposes axes 1 and 2 by number: raises for (S, D) and turns the wrong axes for (B, H, S, D)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    "axes counted from the front",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong(
    "squeezes the scores: axes of length one are missing for a single query, key or sentence",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "squeeze removes axes of length one",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return (query @ projected.mT).squeeze()


@wrong(
    "adds a bias to the map, set to zero at the start: right until it is trained or loaded, and there is a parameter too many",
    "Here and below, `__init__` is given, so that the names and shapes of the parameters are fixed.",
    "the map has a bias",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim)
        nn.init.zeros_(self.key_proj.bias)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps only the first time and then returns the stored result: a second sentence gets the keys of the first",
    "It therefore belongs in `project_keys`, which is called once per sentence, and not in `forward`, which is called at every step.",
    "stores the projected keys of the first sentence",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        shape = (*key.shape[:-1], self.key_proj.out_features)
        stored = getattr(self, "stored", None)
        if stored is None or stored.shape != shape or stored.dtype != key.dtype:
            self.stored = self.key_proj(key)
        return self.stored

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys without a gradient: the scores are right, but W never learns",
    "A learned map $W$ takes the keys into the space of the queries, so queries and keys may differ in width.",
    "no gradient reaches the map",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "projects in project_keys with a copy of W that was made in the constructor: right until W is trained, loaded or moved to another dtype",
    "`self.key_proj` is $W$: call it.",
    "uses a stale copy of W",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.turned = self.key_proj.weight.detach().t().clone()

    def project_keys(self, key):
        return key @ self.turned

    def forward(self, query, projected):
        return query @ projected.mT
