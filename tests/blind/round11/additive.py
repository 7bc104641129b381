import torch
from attention_course.scores import Score
from torch import nn

from blind import right, wrong


@right("one query after another")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        rows = []
        for t in range(query.shape[-2]):
            mapped = self.query_proj(query[..., t : t + 1, :])
            rows.append(self.energy_proj(torch.tanh(projected + mapped)).mT)
        return torch.cat(rows, dim=-2)


@right("a list of all T * S pairs in one axis")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.mT

    def forward(self, query, projected):
        t, s = query.shape[-2], projected.shape[-2]
        left = self.query_proj(query).repeat_interleave(s, dim=-2)
        right_ = torch.cat([projected] * t, dim=-2)
        energy = self.energy_proj((left + right_).tanh())
        return energy.unflatten(-2, (t, s)).squeeze(-1)


@right("one hidden unit after another, summed up in float64")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return nn.functional.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        mapped = self.query_proj(query)
        total = 0.0
        for unit, u in enumerate(self.energy_proj.weight.double().unbind(dim=1)):
            left = mapped[..., unit].double().unsqueeze(-1)
            total = total + u * torch.tanh(
                left + projected[..., unit].double().unsqueeze(-2)
            )
        return total.to(mapped.dtype)


@right("tanh in place on its own sums, then a product with u as a vector")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = projected[..., None, :, :] + self.query_proj(query)[..., :, None, :]
        return torch.matmul(sums.tanh_(), self.energy_proj.weight[0])


@wrong(
    "tanh of each map, then the sum",
    "There are T x S sums $W q_t + U k_s$, each of width A.",
    "tanh before the sum",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        left = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        right_ = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj(left + right_).squeeze(-1)


@wrong(
    "keeps the last axis of length one",
    "A score is a number, so remove this axis with `squeeze(-1)`.",
    "extra axis",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(sums))


@wrong(
    "applies U in forward, at every step",
    "Apply $U$ in `project_keys`, and everything else in `forward`.",
    "keys mapped in forward",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        left = self.query_proj(query).unsqueeze(-2)
        right_ = self.key_proj(projected).unsqueeze(-3)
        return self.energy_proj(torch.tanh(left + right_)).squeeze(-1)


@wrong(
    "inserts the axes counted from the front: only right with one axis before the last"
    " two",
    "Your code must work in all three cases.",
    "axes counted from the front",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

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
    "removes all axes of length one",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squeeze without an axis",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

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
    "with a single query, adds it to the projected keys in place",
    "Do not change the inputs.",
    "projected keys changed in place",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        mapped = self.query_proj(query).unsqueeze(-2)
        sums = projected.unsqueeze(-3)
        if query.shape[-2] == 1:  # a decoder's step: saves a copy of the keys
            sums += mapped
        else:
            sums = sums + mapped
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)


@wrong(
    "u gets no gradient, so it is never learned",
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is"
    " `energy_proj`.",
    "no gradient for u",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return torch.tanh(sums) @ self.energy_proj.weight.data.flatten()


@wrong(
    "tanh from its formula with exponentials: nan for sums above 88",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "exponentials overflow",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        up, down = torch.exp(sums), torch.exp(-sums)
        return self.energy_proj((up - down) / (up + down)).squeeze(-1)


@wrong(
    "works through the queries in pieces of 32 and forgets an incomplete last piece",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "last queries left out",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        pieces = []
        for piece in range(max(1, query.shape[-2] // 32)):  # saves memory
            part = query[..., 32 * piece : 32 * (piece + 1), :]
            sums = self.query_proj(part).unsqueeze(-2) + projected.unsqueeze(-3)
            pieces.append(self.energy_proj(torch.tanh(sums)).squeeze(-1))
        return torch.cat(pieces, dim=-2)


@wrong(
    "forward uses the keys of the last call of project_keys instead of its argument",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "projected keys of an earlier call",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        self.keys = self.key_proj(key)
        return self.keys

    def forward(self, query, projected):
        sums = self.query_proj(query).unsqueeze(-2) + self.keys.unsqueeze(-3)
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)
