import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong


@right("F.linear with the weight, and einsum")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("tensordot for the map, and a loop over the queries")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.tensordot(key, self.key_proj.weight, dims=([-1], [1]))

    def forward(self, query, projected):
        rows = [(projected @ q.unsqueeze(-1)).squeeze(-1) for q in query.unbind(-2)]
        if not rows:
            return query @ projected.mT
        return torch.stack(rows, dim=-2)


class _Mapped(Score):
    """A dot product after `self.map` of the keys."""

    def project_keys(self, key):
        return self.map(key)

    def forward(self, query, projected):
        return (projected @ query.transpose(-1, -2)).transpose(-1, -2)


@right("a helper class does the work; the product is taken the other way round")
class GeneralScore(_Mapped):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    @property
    def map(self):
        return self.key_proj


@right("einsum for the map, and products summed over an axis of their own")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key, letters="qk,...sk->...sq"):
        return torch.einsum(letters, self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.sum(query.unsqueeze(-2) * projected.unsqueeze(-3), dim=-1)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "maps the keys in forward and not in project_keys: project_keys returns the keys,"
    " and the map is computed at every step",
    "It therefore belongs in `project_keys`, which is called once per sentence, and not"
    " in `forward`, which is called at every step.",
    "the map is in forward",
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
    "maps in project_keys and in forward: W twice; an error if the widths differ",
    "Score every query (..., T, query_dim) against every projected key: (..., T, S).",
    "the keys are mapped twice",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "multiplies by the weight without transposing it: W^T k; right only if W is"
    " symmetric, an error if the widths differ",
    "Map every key (..., S, key_dim) into the space of the queries: (..., S, query_dim).",
    "W transposed",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


# --- corners -----------------------------------------------------------------------


@wrong(
    "skips the map if key and query have the same width: then W is not used at all",
    "A learned map $W$ takes the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "no map when the widths are equal",
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
    "keys are mapped with the weight's data: the scores are right, but W gets no"
    " gradient and is never learned",
    "A learned map $W$ takes the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "no gradient reaches W",
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
    "batched product with bmm: only for one axis in front",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "works with three axes only",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.bmm(query, projected.permute(0, 2, 1))


@wrong(
    "keeps the projected keys of the first sentence for all later ones of the same"
    " shape, also after W has been trained",
    "Map every key (..., S, key_dim) into the space of the queries: (..., S, query_dim).",
    "projected keys of the first sentence are kept",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    kept = None

    def project_keys(self, key):
        if self.kept is None or self.kept.shape[:-1] != key.shape[:-1]:
            self.kept = self.key_proj(key)
        return self.kept

    def forward(self, query, projected):
        return query @ projected.mT


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "forward maps the keys only if their width is not the query's, and project_keys"
    " does nothing: together right for different widths, unmapped for equal ones",
    "`self.key_proj` is $W$: call it. `forward` then gets keys that `project_keys` has"
    " already mapped.",
    "forward guesses by width whether keys are mapped",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        if projected.size(-1) != query.size(-1):
            projected = self.key_proj(projected)
        return query @ projected.mT


@wrong(
    "project_keys only keeps the keys; forward maps the queries by W^T instead, q W: the"
    " scores of the pair are right, but project_keys does not map the keys",
    "Map every key (..., S, key_dim) into the space of the queries: (..., S, query_dim).",
    "maps the queries instead of the keys",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return (query @ self.key_proj.weight) @ projected.mT


@wrong(
    "copies W at the first call and projects with the copy: right until an optimizer"
    " step or load_state_dict changes the weight",
    "A learned map $W$ takes the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "uses a copy of W from the first call",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    first = None

    def project_keys(self, key):
        if self.first is None:
            self.first = self.key_proj.weight.clone().to(key)
        return key @ self.first.mT

    def forward(self, query, projected):
        return query @ projected.mT
