import math
import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "leaves out the tanh: the scores are u W q + u U k, and every query ranks the keys in the same way",
    r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$",
    "no tanh",
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
    "takes tanh of both parts and then adds them, instead of adding first",
    r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$",
    "tanh before the sum",
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
        q = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        k = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj(q + k).squeeze(-1)


@wrong(
    "exchanges the two unsqueezes, so the scores are (..., S, T), with the keys along the rows",
    "There are T x S sums $W q_t + U k_s$, each of width A.",
    "axes T and S exchanged",
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
        q = self.query_proj(query).unsqueeze(-3)
        k = projected.unsqueeze(-2)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


# ------------------------------------------------------------------------- corners


@wrong(
    "squeezes all axes of length one from the result: with T = 1, S = 1 or B = 1 an axis is missing",
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
        return self.energy_proj(hidden.tanh()).squeeze()


@wrong(
    "counts the new axes from the left (2 and 1): right for (B, T, D), wrong or an error without axes in front and with the axes (B, H)",
    "Your code must work in all three cases.",
    "new axes counted from the left",
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
    "writes tanh as (e^2x - 1) / (e^2x + 1): for a sum above about 44, e^2x is infinite in float32 and the score is nan",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "own tanh overflows for large numbers",
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
        hidden = self.query_proj(query)[..., :, None, :] + projected[..., None, :, :]
        e = torch.exp(2 * hidden)
        return self.energy_proj((e - 1) / (e + 1)).squeeze(-1)


@wrong(
    "adds into the projected keys when there is a single query, to save memory: from the second step on, a decoder scores against changed keys",
    "Do not change the inputs.",
    "adds into the projected keys in place",
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
        q = self.query_proj(query)
        if query.shape[-2] == 1:
            hidden = projected.detach()
            hidden += q.detach()
            return self.energy_proj(torch.tanh(hidden)).mT
        hidden = torch.tanh(q.unsqueeze(-2) + projected.unsqueeze(-3))
        return self.energy_proj(hidden).squeeze(-1)


# ------------------------------------------------------------------- hard to notice


@wrong(
    "adds the queries to the keys without new axes and transposes the energies: right for T = 1, as in the decoder; wrong for T = S > 1 and an error for other T",
    "(..., T, 1, A) plus (..., 1, S, A) is (..., T, S, A): torch expands the axes of length one.",
    "only right for a single query",
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
        hidden = torch.tanh(self.query_proj(query) + projected)
        energy = self.energy_proj(hidden).transpose(-1, -2)
        return energy.expand(*energy.shape[:-2], query.shape[-2], projected.shape[-2])


@wrong(
    "writes tanh(x) as 2 sigmoid(x) - 1, which is tanh(x / 2): the curves look the same, the numbers differ",
    r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$",
    "sigmoid of x instead of 2x",
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
        return self.energy_proj(2 * torch.sigmoid(hidden) - 1).squeeze(-1)


@wrong(
    "fills a tensor made by torch.zeros, query by query: its dtype is float32 and its device the CPU, whatever the parameters have",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "result tensor made in the default dtype",
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
        q = self.query_proj(query)
        size = projected.shape[-2]
        scores = torch.zeros(*q.shape[:-1], size)
        for t in range(q.shape[-2]):
            hidden = torch.tanh(q[..., t : t + 1, :] + projected)
            scores[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return scores


# --------------------------------------------------------------------------- right


@right("a loop over the queries, the rows stacked")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        rows = []
        for q in self.query_proj(query).unbind(dim=-2):
            hidden = torch.tanh(q.unsqueeze(-2) + projected)
            rows.append(self.energy_proj(hidden).squeeze(-1))
        return torch.stack(rows, dim=-2)


@right("the vector u taken out of its layer, the last step as an einsum")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)
    def project_keys(self, key):
        return torch.einsum("...sk,ak->...sa", key, self.key_proj.weight)

    def forward(self, query, projected):
        q = torch.matmul(query, self.query_proj.weight.mT)
        hidden = (q[..., :, None, :] + projected[..., None, :, :]).tanh()
        return torch.einsum("...a,a->...", hidden, self.energy_proj.weight[0])


@right("one hidden unit after the other: T x S tables, weighted by the entries of u and summed")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        q, u = self.query_proj(query), self.energy_proj.weight.flatten()
        tables = []
        for a in range(u.numel()):
            left, right_ = q[..., a].unsqueeze(-1), projected[..., a].unsqueeze(-2)
            tables.append(u[a] * torch.tanh(left + right_))
        return torch.stack(tables).sum(dim=0)


@right("repeats queries and keys to T * S rows, one flat network, then a reshape")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        q = self.query_proj(query)
        steps, size = q.shape[-2], projected.shape[-2]
        left = q.repeat_interleave(size, dim=-2)
        right_ = torch.cat([projected] * steps, dim=-2)
        network = nn.Sequential(nn.Tanh(), self.energy_proj)
        return network(left + right_).unflatten(-2, (steps, size)).squeeze(-1)
