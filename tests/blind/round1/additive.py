from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


@right('v by einsum')
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query)[..., :, None, :] + projected[..., None, :, :]
        return torch.einsum('a,...a->...', self.energy_proj.weight[0], hidden.tanh())


@right('query by query')
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.T

    def forward(self, query, projected):
        rows = []
        for q in query.split(1, dim=-2):
            rows.append(self.energy_proj(torch.tanh(projected + self.query_proj(q))).mT)
        return torch.cat(rows, dim=-2)


@right('hidden unit by hidden unit')
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        asked, total = self.query_proj(query), 0
        for a, v in enumerate(self.energy_proj.weight[0]):
            total = total + v * torch.tanh(asked[..., a, None] + projected[..., None, :, a])
        return total


@right('axes (..., S, T, A), turned at the end; v as a product of matrices')
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        hidden = projected.unsqueeze(-2) + self.query_proj(query).unsqueeze(-3)
        return (torch.tanh(hidden) @ self.energy_proj.weight.T)[..., 0].transpose(-2, -1)


@wrong(
    'relu in place of tanh',
    breaks='$$e_{ts} = v^\\top \\tanh(W q_t + U k_s)$$',
    name='another nonlinearity',
    subtle=False,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden.relu()).squeeze(-1)


@wrong(
    'a tanh of each, then the sum',
    breaks='$$e_{ts} = v^\\top \\tanh(W q_t + U k_s)$$',
    name='tanh before the sum',
    subtle=False,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).tanh().unsqueeze(-2) + projected.tanh().unsqueeze(-3)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    'entries added up without v',
    breaks='$$e_{ts} = v^\\top \\tanh(W q_t + U k_s)$$',
    name='v forgotten',
    subtle=False,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)).sum(-1)


@wrong(
    'squeezes every axis of length one',
    breaks='Score every query (..., T, query_dim) against every projected key (..., S, A): (..., T, S).',
    name='squeeze without an axis',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return self.energy_proj(torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))).squeeze()


@wrong(
    'axes counted from the front',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='needs exactly one axis in front',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(2) + projected.unsqueeze(1)
        return self.energy_proj(hidden.tanh()).squeeze(-1)


@wrong(
    'the axis for the queries missing in the keys: right without a batch, or for a batch of one',
    breaks='Score every query (..., T, query_dim) against every projected key (..., S, A): (..., T, S).',
    name='keys of another sentence by broadcasting',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected
        return self.energy_proj(hidden.tanh()).squeeze(-1)


@wrong(
    'tanh by exponentials: nan for large sums',
    breaks='$$e_{ts} = v^\\top \\tanh(W q_t + U k_s)$$',
    name='overflow in a hand-made tanh',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        x = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        tanh = (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())
        return self.energy_proj(tanh).squeeze(-1)


@wrong(
    'scores the keys that were projected last, whatever it is handed',
    breaks='Score every query (..., T, query_dim) against every projected key (..., S, A): (..., T, S).',
    name='state kept between calls',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        self.last = self.key_proj(key)
        return self.last

    def forward(self, query, projected):
        projected = getattr(self, "last", projected)
        return self.energy_proj(torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))).squeeze(-1)


@wrong(
    'one matrix for both where the widths agree',
    breaks='Compute U k for every key (..., S, key_dim): (..., S, A).',
    name='W used for the keys',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        same = self.query_proj.in_features == self.key_proj.in_features
        return self.query_proj(key) if same else self.key_proj(key)

    def forward(self, query, projected):
        return self.energy_proj(torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))).squeeze(-1)


@wrong(
    'U is applied in forward, at every step',
    breaks='Compute U k for every key (..., S, key_dim): (..., S, A).',
    name='projection in forward',
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + self.key_proj(projected).unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze(-1)
