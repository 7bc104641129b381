import torch
import torch.nn.functional as F
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
WORK = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRAD = "Gradients must be right, too."
AXES = "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none."
FORMULA = r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$"
EACH = "The network has one hidden layer of width A and compares each query with each key."
DOC = "Score every query (..., T, query_dim) against every projected key (..., S, A): (..., T, S)."


class Given(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)


@right("one query after the other: (..., 1, A) + (..., S, A), and the rows are stacked")
class AdditiveScore(Given):
    def forward(self, query, projected):
        rows = []
        for t in range(query.shape[-2]):
            asked = self.query_proj(query[..., t : t + 1, :])
            rows.append(self.energy_proj(torch.tanh(asked + projected)).mT)
        return torch.cat(rows, dim=-2)


@right("adds up over the hidden units in float64, with the columns of the weights")
class AdditiveScore(Given):
    def forward(self, query, projected):
        asked = self.query_proj(query).double()
        total = 0
        for a, u in enumerate(self.energy_proj.weight[0].double()):
            total = total + u * torch.tanh(asked[..., a, None] + projected[..., None, :, a].double())
        return total.to(query.dtype)


@right("lists all T times S pairs along one axis and unflattens the result")
class AdditiveScore(Given):
    def project_keys(self, key):
        return torch.einsum("...sk,ak->...sa", key, self.key_proj.weight)

    def forward(self, query, projected):
        T, S = query.shape[-2], projected.shape[-2]
        t = torch.arange(T, device=query.device).repeat_interleave(S)
        s = torch.arange(S, device=query.device).repeat(T)
        hidden = self.query_proj(query)[..., t, :] + projected[..., s, :]
        return (hidden.tanh() @ self.energy_proj.weight[0]).unflatten(-1, (T, S))


@right("builds (..., S, T, A), replaces tanh(x) by 2 sigmoid(2x) - 1, and transposes the scores")
class AdditiveScore(Given):
    def forward(self, query, projected):
        hidden = projected.unsqueeze(-2).double() + self.query_proj(query).unsqueeze(-3).double()
        squashed = 2 * torch.sigmoid(2 * hidden) - 1
        return torch.einsum("...sta,a->...ts", squashed, self.energy_proj.weight[0].double()).to(query.dtype)


@wrong("forgets tanh", breaks=FORMULA, name="no tanh")
class AdditiveScore(Given):
    def forward(self, query, projected):
        return self.energy_proj(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)).squeeze(-1)


@wrong("squashes the query and the key separately: tanh(W q) + tanh(U k)", breaks=FORMULA, name="tanh of each part")
class AdditiveScore(Given):
    def forward(self, query, projected):
        asked = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        return self.energy_proj(asked + torch.tanh(projected).unsqueeze(-3)).squeeze(-1)


@wrong("inserts the two axes the wrong way round: (..., S, T)", breaks=DOC, name="axes of T and S exchanged")
class AdditiveScore(Given):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-3) + projected.unsqueeze(-2)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong("uses the addition theorem of tanh to save memory: 0 / 0 or noise when W q and U k are large and of opposite signs", breaks=WORK, name="addition theorem of tanh")
class AdditiveScore(Given):
    def forward(self, query, projected):
        a = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        b = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj((a + b) / (1 + a * b)).squeeze(-1)


@wrong("squeezes all axes of length one, not only the last", breaks=DOC, name="squeeze without an axis")
class AdditiveScore(Given):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze()


@wrong("for a single query, adds and squashes in the memory of the projected keys: they are changed for the next step", breaks=INPUTS, name="projected keys overwritten")
class AdditiveScore(Given):
    def forward(self, query, projected):
        asked = self.query_proj(query)
        if query.shape[-2] == 1 and not torch.is_grad_enabled():
            return self.energy_proj(projected.add_(asked).tanh_()).mT
        return self.energy_proj(torch.tanh(asked.unsqueeze(-2) + projected.unsqueeze(-3))).squeeze(-1)


@wrong("adds queries and keys pairwise if there are as many queries as keys, because no new axis is needed for the sum: one score per pair (t, t), copied along the row", breaks=EACH, name="pairs instead of all combinations")
class AdditiveScore(Given):
    def forward(self, query, projected):
        asked = self.query_proj(query)
        if query.shape[-2] == projected.shape[-2]:
            pairs = self.energy_proj(torch.tanh(asked + projected))
            return pairs.expand(*pairs.shape[:-1], projected.shape[-2])
        return self.energy_proj(torch.tanh(asked.unsqueeze(-2) + projected.unsqueeze(-3))).squeeze(-1)


@wrong("works in blocks of 32 queries to save memory and forgets the incomplete last block: rows are missing for T = 33", breaks=WORK, name="last block forgotten")
class AdditiveScore(Given):
    def forward(self, query, projected):
        asked = self.query_proj(query)
        blocks = max(1, asked.shape[-2] // 32)
        size = min(32, asked.shape[-2])
        rows = []
        for b in range(blocks):
            part = asked[..., b * size : (b + 1) * size, :].unsqueeze(-2)
            rows.append(self.energy_proj(torch.tanh(part + projected.unsqueeze(-3))).squeeze(-1))
        return torch.cat(rows, dim=-2)


@wrong("inserts axes counted from the front: [:, :, None] and [:, None] are right for (B, T, A) only", breaks=AXES, name="axes inserted from the front")
class AdditiveScore(Given):
    def forward(self, query, projected):
        hidden = self.query_proj(query)[:, :, None] + projected[:, None]
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)


@wrong("prepares the keys under no_grad, because this happens only once: the scores are right, but U and the keys get no gradient", breaks=GRAD, name="U without a gradient")
class AdditiveScore(Given):
    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(hidden)).squeeze(-1)
