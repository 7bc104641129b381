import math
import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "project_keys returns the keys as they are and forward applies W: the scores are right, but the work is done again at every step and forward cannot take projected keys",
    "Apply $W$ in `project_keys`, which is called once for each source.",
    "W applied in forward, not in project_keys",
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
    "applies W in both methods: an error if the widths differ, and q W W k if they are equal",
    "`forward` is called at every step and would repeat the same product each time.",
    "W applied twice",
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
    "multiplies the keys by the weight without transposing it: an error if the widths differ, and q W^T k if they are equal",
    r"$$e_{ts} = q_t^\top W k_s$$",
    "W is transposed",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


# ------------------------------------------------------------------------- corners


@wrong(
    "maps the keys under no_grad, because they belong to the encoder: the scores are right, but W gets no gradient and never learns",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and keys may differ in width.",
    "no gradient reaches W",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        with torch.no_grad():
            return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "transposes the projected keys with transpose(1, 2): an error without axes in front, and the heads and positions exchanged with the axes (B, H)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none.",
    "transposes axes 1 and 2 always",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(1, 2))


@wrong(
    "skips W in project_keys if keys and queries have the same width, as then the keys are already in the space of the queries",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and keys may differ in width.",
    "W left out when the widths agree",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if key.shape[-1] == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "casts keys, weight and queries to float32: bfloat16 and float64 modules give float32 projections and scores",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result always in float32",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return nn.functional.linear(key.float(), self.key_proj.weight.float())

    def forward(self, query, projected):
        return query.float() @ projected.float().mT


# ------------------------------------------------------------------- hard to notice


@wrong(
    "copies W in __init__ and uses the copy: right for a fresh object, wrong after W has been trained or loaded, and W gets no gradient",
    "`self.key_proj(...)` applies $W$.",
    "uses a copy of the initial W",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.matrix = self.key_proj.weight.detach().clone().mT

    def project_keys(self, key):
        return key @ self.matrix.to(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "remembers the projected keys of a source by the address of its memory: after W has changed, or the keys were overwritten in place, it returns the old ones",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "projected keys remembered across calls",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.seen = {}

    def project_keys(self, key):
        name = (key.data_ptr(), key.shape, key.dtype)
        if name not in self.seen:
            self.seen[name] = self.key_proj(key)
        return self.seen[name]

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "projects in forward if the last axis still has the width of a key, so that it can take both kinds of keys: if query_dim equals key_dim, W is applied twice",
    "In `forward`, the keys have already been mapped by `project_keys`.",
    "guesses from the width whether W was applied",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.shape[-1] == self.key_proj.in_features:
            projected = self.key_proj(projected)
        return query @ projected.mT


# --------------------------------------------------------------------------- right


@right("the weight taken out of the layer, einsum in both methods")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("W K^T by matmul, transposed back; the scores as (K Q^T)^T")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.matmul(self.key_proj.weight, key.mT).mT

    def forward(self, query, projected):
        return torch.matmul(projected, query.transpose(-1, -2)).transpose(-1, -2)


@right("loops over the keys in both methods")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.stack([self.key_proj(k) for k in key.unbind(-2)], dim=-2)

    def forward(self, query, projected):
        columns = [(query * k.unsqueeze(-2)).sum(-1) for k in projected.unbind(-2)]
        return torch.stack(columns, dim=-1)


class _Dot(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(-1, -2))


@right("inherits forward from a dot score and only adds the map; an extra argument with a default")
class GeneralScore(_Dot):
    def __init__(self, query_dim, key_dim, bias=False):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=bias)

    def project_keys(self, key):
        return nn.functional.linear(key, self.key_proj.weight, self.key_proj.bias)

    def forward(self, query, projected):
        return super().forward(query, projected)
