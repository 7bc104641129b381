from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


@right('matrix products with the weight itself, einsum')
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.mT

    def forward(self, query, projected):
        return torch.einsum('...td,...sd->...ts', query, projected)


@right('einsum for the map, products stretched out')
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum('qk,...sk->...sq', self.key_proj.weight, key)

    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(-1)


@right('key by key, query by query')
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.stack([F.linear(k, self.key_proj.weight) for k in key.unbind(-2)], dim=-2)

    def forward(self, query, projected):
        return torch.cat([q.unsqueeze(-2) @ projected.transpose(-2, -1) for q in query.unbind(-2)], dim=-2)


@right('all axes in front made one and put back')
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        flat = self.key_proj(key.reshape(-1, key.size(-1)))
        return flat.reshape(*key.shape[:-1], flat.size(-1))

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@wrong(
    'maps in forward, at every step',
    breaks='it belongs into `project_keys`, which is called once per sentence, and not into `forward`, which is called at every step.',
    name='projection in forward',
    subtle=False,
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
    'scaled by the root of the width',
    breaks='$$e_{ts} = q_t^\\top W k_s$$',
    name='scaled although the general score is not',
    subtle=False,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(-1))


@wrong(
    'a tanh behind the map',
    breaks='$$e_{ts} = q_t^\\top W k_s$$',
    name='nonlinearity where there is none',
    subtle=False,
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
    'keeps the projected keys of the first source of a shape',
    breaks='it belongs into `project_keys`, which is called once per sentence, and not into `forward`, which is called at every step.',
    name='keys of another sentence kept',
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if getattr(self, "kept", None) is None or self.kept.shape[:-1] != key.shape[:-1]:
            self.kept = self.key_proj(key)
        return self.kept

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "leaves keys of the queries' width as they are",
    breaks='Map every key (..., S, key_dim) into the space of the queries: (..., S, query_dim).',
    name='no map where the widths agree',
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if key.size(-1) == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    'projects in forward again if the width looks unprojected',
    breaks='Score every query (..., T, query_dim) against every projected key: (..., T, S).',
    name='projected twice where the widths agree',
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.size(-1) == self.key_proj.in_features:
            projected = self.key_proj(projected)
        return query @ projected.mT


@wrong(
    'axes counted from the front',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='needs exactly one axis in front',
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.einsum('btd,bsd->bts', query, projected)


@wrong(
    'drops the axis of a single key',
    breaks='Score every query (..., T, query_dim) against every projected key: (..., T, S).',
    name='axis of length one squeezed away',
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return (query @ projected.mT).squeeze(-1)


@wrong(
    'the projection is made without gradients',
    breaks='A learned map $W$ takes the keys into the space of the queries, so that the two may differ in width.',
    name='gradient cut: W never learns',
    subtle=True,
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
    'drops out entries of the projected keys while training',
    breaks='$$e_{ts} = q_t^\\top W k_s$$',
    name='dropout in train mode',
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.dropout(self.key_proj(key), 0.1, self.training)

    def forward(self, query, projected):
        return query @ projected.mT
