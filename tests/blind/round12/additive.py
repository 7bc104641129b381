import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("a loop over the keys; the axis of length one of energy_proj becomes that of S")
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
        columns = []
        for s in range(projected.size(-2)):
            columns.append(self.energy_proj((q + projected[..., [s], :]).tanh()))
        return torch.cat(columns, dim=-1)


@right("einsum with the weights, float64 inside")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        U = self.key_proj.weight.double()
        return torch.einsum("ak,...sk->...sa", U, key.double()).to(key.dtype)

    def forward(self, query, projected):
        W = self.query_proj.weight.double()
        u = self.energy_proj.weight.double()[0]
        q = torch.einsum("aq,...tq->...ta", W, query.double())
        hidden = torch.tanh(q[..., :, None, :] + projected.double()[..., None, :, :])
        return torch.einsum("...a,a->...", hidden, u).to(query.dtype)


@right("one hidden unit after the other: (T, 1) plus (1, S), added up")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.mT

    def forward(self, query, projected):
        q, k = self.query_proj(query), projected.mT  # (..., T, A) and (..., A, S)
        total = 0
        for a, u in enumerate(self.energy_proj.weight.flatten()):
            total = total + u * torch.tanh(q[..., a : a + 1] + k[..., a : a + 1, :])
        return total


@right("writes all T x S pairs below each other and unflattens at the end")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        T, S = query.size(-2), projected.size(-2)
        q = self.query_proj(query).repeat_interleave(S, dim=-2)
        k = torch.cat([projected] * T, dim=-2)
        energy = self.energy_proj(torch.tanh(q + k))
        return energy[..., 0].unflatten(-1, (T, S))


@wrong(
    "leaves out the tanh",
    "The network has one hidden layer of width A and compares each query with each"
    " key.",
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
    "takes the tanh of both maps and then adds",
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
    "applies query_proj to the keys and key_proj to the queries",
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is"
    " `energy_proj`.",
    "W and U exchanged",
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.query_proj(key)

    def forward(self, query, projected):
        hidden = self.key_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong(
    "applies U in forward; project_keys returns the keys unchanged",
    "Apply $U$ in `project_keys`, and everything else in `forward`.",
    "U in the wrong method",
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
        q = self.query_proj(query).unsqueeze(-2)
        k = self.key_proj(projected).unsqueeze(-3)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


@wrong(
    "removes every axis of length one: for B = 1, T = 1 or S = 1 an axis is missing",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze without an axis",
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
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze()


@wrong(
    "inserts the new axes at 2 and 1, counted from the front: right for (B, T, D) only",
    "Your code must work in all three cases.",
    "axes counted from the front",
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
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong(
    "writes the tanh as 1 - 2 / (exp(2x) + 1): the value is right even where exp is"
    " infinite, but there the gradient is 0 times infinity, nan (x > 45 in float32)",
    "Gradients must be right, too.",
    "nan gradients for large sums",
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
        hidden = 1 - 2 / (torch.exp(2 * x) + 1)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "adds the query to the projected keys in place if there is one query, as in a"
    " decoder's step: the next step gets keys that contain the first query",
    "Do not change the inputs.",
    "changes the projected keys at T = 1",
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
        q = self.query_proj(query).unsqueeze(-2)
        hidden = projected.unsqueeze(-3)
        if query.size(-2) == 1:  # a step of the decoder: no need for a copy
            hidden += q
        else:
            hidden = hidden + q
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong(
    "keeps the last projection and returns it for the next keys of the same shape",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "cache by shape",
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)
        self.shape = None

    def project_keys(self, key):
        if key.shape != self.shape:  # a new source
            self.shape = key.shape
            self.projected = self.key_proj(key)
        return self.projected

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong(
    "fills zeros of the default dtype: float64 and bfloat16 models get float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result always float32",
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
        q = self.query_proj(query)
        scores = torch.zeros(
            *query.shape[:-1], projected.size(-2), device=query.device
        )
        for t in range(query.size(-2)):
            hidden = torch.tanh(q[..., t : t + 1, :] + projected)
            scores[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return scores
