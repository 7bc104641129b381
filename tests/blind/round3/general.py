import torch
import torch.nn.functional as F
from blind import right, wrong
from torch import nn

from attention_course.scores import Score


class _Base(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


# Right
@right("the weight by einsum, and the scores by einsum")
class R1(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("one key after the other, by F.linear, and sums over the width")
class R2(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        mapped = [F.linear(k, self.key_proj.weight) for k in key.split(1, dim=-2)]
        return torch.cat(mapped, dim=-2)

    def forward(self, query, projected):
        columns = [
            (query.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1)
            for k in projected.split(1, dim=-2)
        ]
        return torch.cat(columns, dim=-1)


@right("keys @ weight.mT; queries turned, result turned back")
class R3(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.mT

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("keys turned, mapped from the left, and turned back; sums of columns")
class R4(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        (weight,) = self.key_proj.parameters()
        return torch.matmul(weight, key.transpose(-1, -2)).transpose(-1, -2)

    def forward(self, query, projected):
        return torch.sum(query[..., :, None, :] * projected[..., None, :, :], dim=-1)


# Wrong
@wrong(
    "the map is in forward, project_keys returns the keys",
    breaks="it belongs into `project_keys`, which is called once per sentence, and not"
    " into `forward`",
    name="map in forward",
    subtle=True,
)
class W1(_Base):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "the queries are mapped into the space of the keys",
    breaks="A learned map $W$ takes the keys into the space of the queries",
    name="queries mapped in place of keys",
    subtle=True,
)
class W2(_Base):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj.weight @ projected.mT


@wrong(
    "keeps the projected keys of the first sentence",
    breaks="which is called once per sentence",
    name="the keys of an earlier sentence",
    subtle=True,
)
class W3(_Base):
    def project_keys(self, key):
        if not hasattr(self, "kept") or self.kept.shape[:-1] != key.shape[:-1]:
            self.kept = self.key_proj(key)
        return self.kept


@wrong(
    "projects without a gradient",
    breaks="A learned map $W$ takes the keys into the space of the queries",
    name="the map does not learn",
    subtle=True,
)
class W4(_Base):
    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)


@wrong(
    "forward maps what looks like unmapped keys: twice if the widths are equal",
    breaks="Score every query (..., T, query_dim) against every projected key",
    name="mapped twice for equal widths",
    subtle=True,
)
class W5(_Base):
    def forward(self, query, projected):
        if projected.size(-1) == self.key_proj.in_features:
            projected = self.key_proj(projected)
        return query @ projected.mT


@wrong(
    "forward uses what project_keys saw last, not what it is given",
    breaks="Score every query (..., T, query_dim) against every projected key",
    name="forward ignores its argument",
    subtle=True,
)
class W6(_Base):
    def project_keys(self, key):
        self.last = self.key_proj(key)
        return self.last

    def forward(self, query, projected):
        keys = getattr(self, "last", projected)
        return query @ keys.mT


@wrong(
    "transpose(1, 2): three axes only",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="three axes only",
    subtle=True,
)
class W7(_Base):
    def forward(self, query, projected):
        return query.bmm(projected.transpose(1, 2))


@wrong(
    "squeezes the scores of a single query or key",
    breaks="(..., T, S)",
    name="axes of length one disappear",
    subtle=True,
)
class W8(_Base):
    def forward(self, query, projected):
        return (query @ projected.mT).squeeze()


@wrong(
    "all leading axes of the keys are flattened into one",
    breaks="Map every key (..., S, key_dim) into the space of the queries: (..., S,"
    " query_dim).",
    name="leading axes flattened",
    subtle=True,
)
class W9(_Base):
    def project_keys(self, key):
        return self.key_proj(key.reshape(-1, key.size(-2), key.size(-1)))


@wrong(
    "keys that do not need a gradient are written over, if the widths are equal",
    breaks="what it was handed is unchanged",
    name="projected keys written over the keys",
    subtle=True,
)
class W10(_Base):
    def project_keys(self, key):
        projected = self.key_proj(key)
        if projected.shape == key.shape and not key.requires_grad:
            key.copy_(projected.detach())
        return projected
