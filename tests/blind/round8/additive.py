import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong


@right("loops over the queries and stacks the rows")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        asked = self.query_proj(query)
        rows = [asked[..., :0, :] @ projected.mT]
        for t in range(query.size(-2)):
            hidden = torch.tanh(asked[..., t : t + 1, :] + projected)
            rows.append(self.energy_proj(hidden).transpose(-1, -2))
        return torch.cat(rows, dim=-2)


@right("loops over the hidden units: u_a times the tanh of one table of sums")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        asked = self.query_proj(query)
        u = self.energy_proj.weight[0]
        parts = [
            u[a] * torch.tanh(asked[..., a].unsqueeze(-1) + projected[..., a].unsqueeze(-2))
            for a in range(len(u))
        ]
        return torch.stack(parts).sum(dim=0)


@right("repeats both to the full table and multiplies with u by einsum")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.einsum("ak,...sk->...sa", self.key_proj.weight, key)

    def forward(self, query, projected):
        T, S = query.size(-2), projected.size(-2)
        asked = self.query_proj(query).repeat_interleave(S, dim=-2)
        keys = torch.cat([projected] * T, dim=-2) if T else projected[..., :0, :]
        hidden = (asked + keys).tanh()
        u = self.energy_proj.weight.squeeze(0)
        flat = torch.einsum("...na,a->...n", hidden, u)
        return flat.unflatten(-1, (T, S)) if T else query @ query.new_zeros(
            *query.shape[:-2], query.size(-1), S
        )


@right("a helper with the activation as a default argument, and indexing with None")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def compare(self, left, right, squash=torch.tanh):
        return self.energy_proj(squash(left + right))[..., 0]

    def forward(self, query, projected):
        return self.compare(
            self.query_proj(query)[..., :, None, :], projected[..., None, :, :]
        )


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "no tanh: the score is a sum of a part of the query and a part of the key",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "tanh forgotten",
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
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "projects the keys in forward again: U twice, or an error if A is not key_dim",
    "Score every query (..., T, query_dim) against every projected key (..., S, A):"
    " (..., T, S).",
    "U is applied twice",
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
        asked = self.query_proj(query).unsqueeze(-2)
        keys = self.key_proj(projected).unsqueeze(-3)
        return self.energy_proj(torch.tanh(asked + keys)).squeeze(-1)


@wrong(
    "the two axes are exchanged: (..., S, T) comes out",
    "There are T x S sums $W q_t + U k_s$, each of width A.",
    "scores come out as (S, T)",
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
        hidden = self.query_proj(query).unsqueeze(-3) + projected.unsqueeze(-2)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


# --- corners -----------------------------------------------------------------------


@wrong(
    "adds without new axes, as a decoder with one query can: right for T = 1, wrong or"
    " an error for more queries",
    "There are T x S sums $W q_t + U k_s$, each of width A.",
    "works for one query only",
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
        hidden = torch.tanh(self.query_proj(query) + projected)  # (..., S, A)
        return self.energy_proj(hidden).mT


@wrong(
    "`squeeze()` without an axis: with one query, one key or one sentence more axes"
    " than the last are lost",
    "A score is a number, so remove this axis with `squeeze(-1)`.",
    "squeeze without an axis",
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
        return self.energy_proj(torch.tanh(hidden)).squeeze()


@wrong(
    "counts axes from the front, unsqueeze(2) and unsqueeze(1): only right with exactly"
    " one axis in front",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "axes counted from the front",
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
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong(
    "for one query, adds into the projected keys in place to save memory: the second"
    " step of the decoder gets keys that contain the first query",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "adds the query into the projected keys",
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
        asked = self.query_proj(query).unsqueeze(-2)
        keys = projected.unsqueeze(-3)
        hidden = keys.add_(asked) if query.size(-2) == 1 else keys + asked
        return self.energy_proj(hidden.tanh()).squeeze(-1)


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "the addition theorem (a + b) / (1 + a b) with a = tanh(Wq), b = tanh(Uk): equal on"
    " paper, but for large opposite numbers a = 1, b = -1 and the result is nan",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "addition theorem: nan for large opposite sums",
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
        a = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        b = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj((a + b) / (1 + a * b)).squeeze(-1)


@wrong(
    "tanh by hand as (e^2x - 1) / (e^2x + 1): inf / inf is nan as soon as a sum is"
    " larger than about 45",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "tanh by hand overflows",
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
        power = torch.exp(2 * x)
        return self.energy_proj((power - 1) / (power + 1)).squeeze(-1)


@wrong(
    "u is taken from `energy_proj.weight.data`: the scores are right, but u gets no"
    " gradient and stays as it was drawn",
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is"
    " `energy_proj`.",
    "u is never learned",
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
        return torch.tanh(hidden) @ self.energy_proj.weight.data[0]
