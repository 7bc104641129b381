import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."
THREE = "Your code must work in all three cases."
FORMULA = r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$"
HIDDEN = (
    "The network has one hidden layer of width A and compares each query with each key."
)
PLACES = "Apply $U$ in `project_keys`, and everything else in `forward`."
SQUEEZE = "A score is a number, so remove this axis with `squeeze(-1)`."


@wrong(
    "takes the tanh of W q and of U k separately and adds the results",
    breaks=FORMULA,
    name="tanh before the sum",
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
        asked = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        offered = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj(asked + offered).squeeze(-1)


@wrong(
    "takes the tanh of the finished score instead of the hidden layer",
    breaks=FORMULA,
    name="tanh after u",
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
        return torch.tanh(self.energy_proj(hidden).squeeze(-1))


@wrong(
    "inserts the new axes at positions 2 and 1, as if there were always a batch axis",
    breaks=THREE,
    name="counts the axes from the front",
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
    "builds the pairs as (S, T) and reshapes them to (T, S) instead of transposing",
    breaks=HIDDEN,
    name="reshape instead of transpose",
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
        asked = self.query_proj(query)
        hidden = projected.unsqueeze(-2) + asked.unsqueeze(-3)
        energy = self.energy_proj(torch.tanh(hidden)).squeeze(-1)
        return energy.reshape(*energy.shape[:-2], asked.shape[-2], projected.shape[-2])


@wrong(
    "squeeze without an axis: axes of length one (B, T or S) disappear too",
    breaks=SQUEEZE,
    name="squeeze removes too many axes",
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
    "computes tanh from exp, which is inf / inf for large sums",
    breaks=OVERFLOW,
    name="the exponential in a home-made tanh overflows",
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
        power = torch.exp(2 * hidden)
        return self.energy_proj((power - 1) / (power + 1)).squeeze(-1)


@wrong(
    "saves memory with blocks of 128 keys, but stops each block one key early",
    breaks=LENGTHS,
    name="off by one between blocks of keys",
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
        asked = self.query_proj(query)
        size = projected.shape[-2]
        scores = asked.new_zeros(*asked.shape[:-1], size)
        for begin in range(0, size, 128):
            end = min(begin + 127, size)
            block = projected[..., begin:end, :]
            hidden = torch.tanh(asked.unsqueeze(-2) + block.unsqueeze(-3))
            scores[..., begin:end] = self.energy_proj(hidden).squeeze(-1)
        return scores


@wrong(
    "a fast path for one query adds W q to the prepared keys in place",
    breaks=INPUTS,
    name="a single query overwrites the keys",
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
        asked = self.query_proj(query)
        if asked.shape[-2] == 1:
            hidden = projected
            hidden += asked
            return self.energy_proj(torch.tanh(hidden)).mT
        hidden = asked.unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong(
    "collects the scores in a tensor of zeros, which is float32 and on the CPU",
    breaks=DTYPE,
    name="torch.zeros without dtype and device",
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
        asked = self.query_proj(query)
        scores = torch.zeros(*asked.shape[:-1], projected.shape[-2])
        for t in range(asked.shape[-2]):
            hidden = torch.tanh(asked[..., t : t + 1, :] + projected)
            scores[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return scores


@wrong(
    "scores only the newest query outside of training",
    breaks=LENGTHS,
    name="in eval mode only the last query",
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
        if not self.training:
            query = query[..., -1:, :]
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@right("a loop over the queries")
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
        for asked in self.query_proj(query).split(1, dim=-2):
            hidden = torch.tanh(projected + asked)
            rows.append(self.energy_proj(hidden).mT)
        return torch.cat(rows, dim=-2)


@right("einsum with the three weight matrices")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.einsum("ak,...sk->...sa", self.key_proj.weight, key)

    def forward(self, query, projected):
        asked = torch.einsum("aq,...tq->...ta", self.query_proj.weight, query)
        hidden = asked[..., :, None, :] + projected[..., None, :, :]
        return torch.einsum("a,...tsa->...ts", self.energy_proj.weight[0], hidden.tanh())


@right("float64 inside and back")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return F.linear(key.double(), self.key_proj.weight.double()).to(key.dtype)

    def forward(self, query, projected):
        asked = F.linear(query.double(), self.query_proj.weight.double())
        hidden = torch.tanh(asked.unsqueeze(-2) + projected.double().unsqueeze(-3))
        energy = F.linear(hidden, self.energy_proj.weight.double())
        return energy.flatten(-2).to(query.dtype)


@right("blocks of keys, joined with cat, and a weighted sum instead of the last layer")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.matmul(key, self.key_proj.weight.t())

    def forward(self, query, projected):
        asked = torch.matmul(query, self.query_proj.weight.t()).unsqueeze(-2)
        u = self.energy_proj.weight.squeeze(0)
        blocks = []
        for block in projected.split(50, dim=-2):
            hidden = torch.tanh(torch.add(asked, block.unsqueeze(-3)))
            blocks.append((hidden * u).sum(dim=-1))
        return torch.cat(blocks, dim=-1)
