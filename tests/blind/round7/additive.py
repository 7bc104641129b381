import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("indexing with None, and a product with the energy vector")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        asks = self.query_proj(query)[..., :, None, :]
        hidden = torch.tanh(asks + projected[..., None, :, :])
        return hidden @ self.energy_proj.weight[0]


@right("one hidden unit after the other, added up")
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
        asks, total = self.query_proj(query), 0
        for unit, factor in enumerate(self.energy_proj.weight[0]):
            ask = asks[..., unit].unsqueeze(-1)
            key = projected[..., unit].unsqueeze(-2)
            total = total + factor * (ask + key).tanh()
        return total


@right("loops over the queries, einsum for the energies")
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
        vector, rows = self.energy_proj.weight.flatten(), []
        for ask in self.query_proj(query).split(1, dim=-2):
            if ask.size(-2):
                hidden = torch.tanh(projected + ask)
                rows.append(torch.einsum("...sa,a->...s", hidden, vector))
        if not rows:
            return projected.new_zeros(*query.shape[:-1], projected.size(-2))
        return torch.stack(rows, dim=-2)


@right("tanh written with a sigmoid; expanded pairs in one tensor")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key.matmul(self.key_proj.weight.mT)

    def forward(self, query, projected):
        lead = torch.Size([*query.shape[:-1], projected.size(-2)])
        asks = self.query_proj(query).unsqueeze(-2).expand(*lead, -1)
        keys = projected.unsqueeze(-3).expand(*lead, -1)
        hidden = 2 * torch.sigmoid(2 * (asks + keys)) - 1
        return self.energy_proj(hidden)[..., 0]


@wrong(
    "no tanh: the scores are sums of two linear maps",
    "A small network with one hidden layer of width A compares each query with each key.",
    "forgets tanh",
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
        return self.energy_proj(sums).squeeze(-1)


@wrong(
    "tanh of each part and then the sum: the numbers are others for every input",
    "$$e_{ts} = u^\\top \\tanh(W q_t + U k_s)$$",
    "tanh before the sum instead of after",
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
        asks = torch.tanh(self.query_proj(query)).unsqueeze(-2)
        keys = torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj(asks + keys).squeeze(-1)


@wrong(
    "the two maps are exchanged: raises if the widths differ, wrong numbers if they are equal",
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is `energy_proj`.",
    "query and key projection exchanged",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.query_proj(key)

    def forward(self, query, projected):
        asks = self.key_proj(query).unsqueeze(-2)
        hidden = torch.tanh(asks + projected.unsqueeze(-3))
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "tanh by hand with exponentials: for large sums both are infinite, and the score is nan",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "tanh by exponentials overflows",
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
        powers = (2 * sums).exp()
        return self.energy_proj((powers - 1) / (powers + 1)).squeeze(-1)


@wrong(
    "inserts the axes by their number from the front: right for (B, T, D) only, raises or compares heads with positions for (B, H, T, D) and (T, D)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
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
    "squeeze() without -1 also removes T, S or B if it is one",
    "A score is a number, so remove this axis with `squeeze(-1)`.",
    "squeeze removes all axes of length one",
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
    "adds query and keys without new axes and turns the result: right for the one query of a decoder's step, raises for more (or pairs query s with key s if T = S)",
    "There are T x S sums $W q_t + U k_s$, each of width A.",
    "works for a single query only",
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
        hidden = torch.tanh(self.query_proj(query) + projected)
        return self.energy_proj(hidden).mT


@wrong(
    "for one query the sum is made inside the projected keys, so the second step of a decoder finds changed keys",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "adds the query into the keys in place",
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
        asks, keys = self.query_proj(query).unsqueeze(-2), projected.unsqueeze(-3)
        if query.size(-2) == 1:
            sums = keys.add_(asks)  # saves memory in a decoder
        else:
            sums = keys + asks
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)


@wrong(
    "project_keys also keeps its result on self, and forward reads that instead of its argument: with two sentences in turn the keys are those of the sentence projected last",
    "Score every query (..., T, query_dim) against every projected key (..., S,\n        A): (..., T, S).",
    "forward ignores the keys it is given",
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


@wrong(
    "builds (S, T) and views it as (T, S): right if T or S is one, otherwise the scores stand in the wrong places",
    "Score every query (..., T, query_dim) against every projected key (..., S,\n        A): (..., T, S).",
    "reshapes where it should transpose",
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
        sums = projected.unsqueeze(-2) + self.query_proj(query).unsqueeze(-3)
        scores = self.energy_proj(torch.tanh(sums))
        return scores.reshape(*query.shape[:-1], projected.size(-2))
