import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong

FORMULA = r"$$e_{ts} = q_t^\top W k_s$$"
ONCE = "Apply $W$ in `project_keys`, which is called once for each source."
MAP = "A learned matrix $W$ maps the keys into the space of the queries, so queries and keys may differ in width."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
INPUTS = "Do not change the inputs."
LAYOUT = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
DTYPE = "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU."
GRADIENTS = "Gradients must be right, too."


@right("einsum with the weight of the layer, twice")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("the weight times the transposed keys, transposed back")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return (self.key_proj.weight @ key.mT).mT

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("one position of the source after the other, and one query after the other")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.stack([self.key_proj(one) for one in key.unbind(-2)], dim=-2)

    def forward(self, query, projected):
        rows = [(projected * one.unsqueeze(-2)).sum(-1) for one in query.unbind(-2)]
        return torch.stack(rows, dim=-2)


@right("a sum of the columns of W, one for each entry of a key")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        columns = self.key_proj.weight.unbind(dim=1)
        parts = [key[..., i, None] * column for i, column in enumerate(columns)]
        return sum(parts)

    def forward(self, query, projected):
        pairs = query[..., :, None, :] * projected[..., None, :, :]
        return pairs.sum(dim=-1)


@wrong(
    "returns the keys unchanged and applies W in forward",
    breaks=ONCE,
    name="the keys are mapped again at every step",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "divides the products by the root of the width of the queries",
    breaks=FORMULA,
    name="a scaled general score",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.5


@wrong(
    "puts a tanh around the mapped keys",
    breaks=MAP,
    name="a nonlinearity that the formula does not have",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.tanh(self.key_proj(key))

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "leaves the keys as they are if they are already as wide as the queries",
    breaks=MAP,
    name="W is skipped when both widths are equal",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if self.key_proj.in_features == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys with weight.data",
    breaks=GRADIENTS,
    name="W never gets a gradient",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight.data)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "transposes the projected keys in place, with transpose_",
    breaks=INPUTS,
    name="the memory's keys have exchanged axes after the first step",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.size(-1) == query.size(-1):
            projected.transpose_(-2, -1)
        return query @ projected


@wrong(
    "drops the axis of the sentences when there is only one",
    breaks=LENGTHS,
    name="the keys of a single sentence lose their first axis",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        mapped = self.key_proj(key)
        return mapped.squeeze(0) if mapped.dim() == 3 else mapped

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "keeps a transposed copy of W from the first call",
    breaks=CALLS,
    name="an old W after the optimizer has changed the parameter",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.flipped = None

    def project_keys(self, key):
        if self.flipped is None or self.flipped.dtype != key.dtype:
            self.flipped = self.key_proj.weight.mT.contiguous() * 1
        return key @ self.flipped

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "computes the scores of bfloat16 vectors in float32 and returns them like that",
    breaks=DTYPE,
    name="bfloat16 in, float32 out",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if query.dtype == torch.bfloat16:
            query, projected = query.float(), projected.float()
        return query @ projected.mT


@wrong(
    "maps the rows of the storage in order, with as_strided on contiguous strides",
    breaks=LAYOUT,
    name="the entries of a key are read from the wrong place if it is a view",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        count, width = key.numel() // key.size(-1), key.size(-1)
        rows = key.as_strided((count, width), (width, 1))
        return self.key_proj(rows).unflatten(0, key.shape[:-1])

    def forward(self, query, projected):
        return query @ projected.mT
