import torch
from attention_course.scores import Score
from torch import nn

from blind import right, wrong


@right("a loop over the hidden units, whose shares of the score are added up")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        mapped = self.query_proj(query)
        scores = 0
        for a, u in enumerate(self.energy_proj.weight[0]):
            sums = mapped[..., a].unsqueeze(-1) + projected[..., a].unsqueeze(-2)
            scores = scores + u * torch.tanh(sums)
        return scores


@right("a loop over the queries")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.mT

    def forward(self, query, projected):
        rows = []
        for t in range(query.size(-2)):
            q = self.query_proj(query[..., t : t + 1, :])
            rows.append(self.energy_proj((projected + q).tanh()).mT)
        return torch.cat(rows, dim=-2)


@right("float64 inside, with einsum")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        w, u = self.query_proj.weight.double(), self.energy_proj.weight.double()
        q = torch.einsum("...td,ad->...ta", query.double(), w)
        k = projected.double()
        hidden = (q[..., :, None, :] + k[..., None, :, :]).tanh()
        return torch.einsum("...tsa,a->...ts", hidden, u[0]).to(query.dtype)


@right("all T x S pairs as one long list: queries repeated interleaved, keys in blocks")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        length, size = query.size(-2), projected.size(-2)
        q = self.query_proj(query).repeat_interleave(size, dim=-2)
        k = torch.cat([projected] * length, dim=-2)
        energies = self.energy_proj(torch.tanh(q + k))
        return energies.reshape(*query.shape[:-1], size)


@wrong(
    "takes the tanh of query and key apart and adds the results",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "two tanh instead of one of the sum",
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
    "adds up the hidden units with equal weights, without u",
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is `energy_proj`.",
    "u is missing",
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
        q, k = self.query_proj(query).unsqueeze(-2), projected.unsqueeze(-3)
        return torch.tanh(q + k).sum(dim=-1)


@wrong(
    "applies a tanh to the keys in project_keys and another one to the sum",
    "Apply $U$ in `project_keys`, and everything else in `forward`.",
    "tanh already in project_keys",
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.tanh(self.key_proj(key))

    def forward(self, query, projected):
        q, k = self.query_proj(query).unsqueeze(-2), projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


@wrong(
    "counts the axes from the left, unsqueeze(2) and unsqueeze(1): right for (B, T, D)"
    " only, not for (T, D) and (B, H, T, D)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases.",
    "axes counted from the left",
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
        q, k = self.query_proj(query).unsqueeze(2), projected.unsqueeze(1)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


@wrong(
    "squeezes all axes of length one: a batch of one sentence, a single query or a"
    " single key loses its axis",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze() without an axis",
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
        q, k = self.query_proj(query).unsqueeze(-2), projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(q + k)).squeeze()


@wrong(
    "expands the keys, calls contiguous(), which is no copy when T is 1, and adds the"
    " query in place: with a single query, the projected keys of the caller change",
    "Do not change the inputs.",
    "a view of the keys is changed for T = 1",
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
        shape = (*query.shape[:-1], *projected.shape[-2:])
        sums = projected.unsqueeze(-3).expand(shape).contiguous()
        sums += self.query_proj(query).unsqueeze(-2)
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)


@wrong(
    "writes tanh(x) as 1 - 2 / (exp(2 x) + 1): the value is right for every x, but for a"
    " sum of 100 in float32 exp is inf and the gradient is 0 times inf, nan",
    "Gradients must be right, too.",
    "nan gradient of a handmade tanh for large sums",
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
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        hidden = 1 - 2 / (torch.exp(2 * sums) + 1)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "collects the scores in a tensor of torch's default dtype: float64 and bfloat16"
    " vectors give float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result in the default dtype",
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
        size = projected.size(-2)
        scores = torch.zeros(*query.shape[:-1], size, device=query.device)
        q = self.query_proj(query)
        for s in range(size):
            hidden = torch.tanh(q + projected[..., s : s + 1, :])
            scores[..., s] = self.energy_proj(hidden).squeeze(-1)
        return scores


@wrong(
    "keeps the projected keys in the object and compares with them instead of with"
    " those that forward is given: with two sources, the last one always counts",
    "Score every query (..., T, query_dim) against every projected key (..., S, A):"
    " (..., T, S).",
    "forward ignores the keys it is given",
    subtle=True,
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        self.keys = self.key_proj(key)
        return self.keys

    def forward(self, query, projected):
        q, k = self.query_proj(query).unsqueeze(-2), self.keys.unsqueeze(-3)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


@wrong(
    "repeats both queries and keys in blocks, so the T x S sums belong to the wrong"
    " pairs: right for a decoder's single query, wrong for T = 2 and S = 3",
    "(..., T, 1, A) plus (..., 1, S, A) is (..., T, S, A): torch expands the axes of"
    " length one.",
    "repeat instead of repeat_interleave",
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
        length, size = query.size(-2), projected.size(-2)
        q = torch.cat([self.query_proj(query)] * size, dim=-2)
        k = torch.cat([projected] * length, dim=-2)
        energies = self.energy_proj(torch.tanh(q + k))
        return energies.reshape(*query.shape[:-1], size)
