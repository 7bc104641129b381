import math

import torch
import torch.nn.functional as F
from torch import nn

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
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
AXES = "Your code must work in all three cases."
FORMULA = r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$"
WHERE = "Apply $U$ in `project_keys`, and everything else in `forward`."
EACH = (
    "The network has one hidden layer of width A and compares each query with each key."
)


@right("query by query, and the rows are stacked at the end")
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
        for q in self.query_proj(query).unbind(-2):
            hidden = (projected + q.unsqueeze(-2)).tanh()
            rows.append(self.energy_proj(hidden)[..., 0])
        return torch.stack(rows, dim=-2)


@right("one hidden unit after the other, in float64: no tensor of four axes is built")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return (key.double() @ self.key_proj.weight.double().mT).to(key.dtype)

    def forward(self, query, projected):
        q = query.double() @ self.query_proj.weight.double().mT
        k, u = projected.double(), self.energy_proj.weight.double().reshape(-1)
        total = 0
        for unit in range(len(u)):
            sums = q[..., unit].unsqueeze(-1) + k[..., unit].unsqueeze(-2)
            total = total + u[unit] * torch.tanh(sums)
        return total.to(query.dtype)


@right("builds all pairs [q; k] and maps them with the block matrix [W I]")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.einsum("...sk,ak->...sa", key, self.key_proj.weight)

    def forward(self, query, projected):
        count, size = query.shape[-2], projected.shape[-2]
        width = projected.shape[-1]
        left = query.unsqueeze(-2).expand(*query.shape[:-1], size, query.shape[-1])
        right_ = projected.unsqueeze(-3)
        right_ = right_.expand(*projected.shape[:-2], count, size, width)
        identity = torch.eye(width, dtype=projected.dtype, device=projected.device)
        both = torch.cat((self.query_proj.weight, identity), dim=1)
        hidden = torch.tanh(F.linear(torch.cat((left, right_), dim=-1), both))
        return torch.einsum("...a,a->...", hidden, self.energy_proj.weight[0])


@right("blocks of 32 keys; keys in front, and the scores are transposed at the end")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return (self.key_proj.weight @ key.mT).mT

    def forward(self, query, projected):
        query = self.query_proj(query).unsqueeze(-3)
        parts = []
        for keys in projected.split(32, dim=-2):
            hidden = torch.tanh(keys.unsqueeze(-2) + query)
            parts.append((hidden @ self.energy_proj.weight.mT).squeeze(-1))
        return torch.cat(parts, dim=-2).mT


@wrong(
    "applies tanh to query and key separately and adds afterwards",
    FORMULA,
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
        query = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        keys = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj(query + keys).squeeze(-1)


@wrong(
    "adds query t and key t only, and repeats the result: right only for one query",
    EACH,
    "adds without separate axes",
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
        if query.shape[-2] in (1, projected.shape[-2]):
            sums = self.query_proj(query) + projected
        else:
            sums = self.query_proj(query)[..., :1, :] + projected
        scores = self.energy_proj(torch.tanh(sums)).mT
        return scores.expand(*query.shape[:-1], projected.shape[-2])


@wrong(
    "returns the keys unchanged from project_keys and applies U in forward",
    WHERE,
    "maps the keys in forward",
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
        query = self.query_proj(query).unsqueeze(-2)
        keys = self.key_proj(projected).unsqueeze(-3)
        return self.energy_proj(torch.tanh(query + keys)).squeeze(-1)


@wrong("uses ReLU in place of tanh", FORMULA, "ReLU instead of tanh")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(F.relu(sums)).squeeze(-1)


@wrong(
    "squeezes all axes of length one, so a batch of one, one query or one key loses"
    " its axis",
    LENGTHS,
    "squeeze removes too many axes",
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
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(sums)).squeeze()


@wrong(
    "inserts the axes at 2 and 1, counted from the front: right for (B, T, D) only",
    AXES,
    "new axes counted from the front",
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
        sums = self.query_proj(query).unsqueeze(2) + projected.unsqueeze(1)
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)


@wrong(
    "writes tanh as 1 - 2 / (exp(2x) + 1): right scores, but nan gradients where the"
    " exponential overflows",
    OVERFLOW,
    "nan gradients of a hand-written tanh",
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
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        hidden = 1 - 2 / (torch.exp(2 * sums) + 1)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "saves memory for many pairs by filling a buffer query by query, and makes the"
    " buffer without a dtype: long inputs always give float32",
    DTYPE,
    "float32 buffer for long inputs",
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
        query = self.query_proj(query)
        count, size = query.shape[-2], projected.shape[-2]
        if count * size <= 64 * 64:
            sums = query.unsqueeze(-2) + projected.unsqueeze(-3)
            return self.energy_proj(torch.tanh(sums)).squeeze(-1)
        scores = torch.zeros(*query.shape[:-1], size, device=query.device)
        for t in range(count):
            hidden = torch.tanh(query[..., t : t + 1, :] + projected)
            scores[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return scores


@wrong(
    "a short cut for one query, the case of a decoder, adds it to the projected keys in"
    " place: the next step of the decoder gets wrong keys",
    INPUTS,
    "changes projected keys for one query",
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
        query = self.query_proj(query)
        if query.shape[-2] == 1 and not torch.is_grad_enabled():
            projected += query
            return self.energy_proj(projected.tanh()).mT
        sums = query.unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)


@wrong(
    "squeezes the weights of energy_proj to a vector, which fails for a hidden layer of"
    " width A = 1",
    LENGTHS,
    "fails for hidden width one",
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
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return torch.tanh(sums) @ self.energy_proj.weight.squeeze()
