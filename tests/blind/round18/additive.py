import torch
from torch import nn
from blind import right, wrong
from attention_course.scores import Score

FORMULA = r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$"
LAYER = (
    "The network has one hidden layer of width A and compares each query with each key."
)
NAMES = (
    "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is"
    " `energy_proj`."
)
OVERFLOW = "An exponential, however, may overflow."
UNCHANGED = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
MODES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)


@right("one query after the other, and u by a matrix product")
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
        for q in self.query_proj(query).unbind(dim=-2):
            hidden = torch.tanh(projected + q.unsqueeze(-2))
            rows.append(hidden @ self.energy_proj.weight[0])
        return torch.stack(rows, dim=-2)


@right("one hidden unit after the other, added up in float64")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.T

    def forward(self, query, projected):
        mapped = (query @ self.query_proj.weight.T).double()
        keys = projected.double()
        scores = 0
        for a, u in enumerate(self.energy_proj.weight.flatten().double()):
            scores = scores + u * (mapped[..., a, None] + keys[..., None, :, a]).tanh()
        return scores.to(query.dtype)


@right("a list of all T x S pairs, then unflatten")
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
        length, size = query.shape[-2], projected.shape[-2]
        t = torch.arange(length, device=query.device).repeat_interleave(size)
        s = torch.arange(size, device=query.device).repeat(length)
        sums = self.query_proj(query)[..., t, :] + projected[..., s, :]
        return self.energy_proj(sums.tanh())[..., 0].unflatten(-1, (length, size))


@right("the hidden axis first, einsum everywhere")
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.einsum("...sk,ak->...sa", key, self.key_proj.weight)

    def forward(self, query, projected):
        mapped = torch.einsum("...tq,aq->a...t", query, self.query_proj.weight)
        keys = projected.movedim(-1, 0)
        hidden = torch.tanh(mapped[..., :, None] + keys[..., None, :])
        return torch.einsum("oa,a...ts->...ts", self.energy_proj.weight, hidden)


@wrong(
    "applies tanh to the finished score instead of to the hidden layer",
    breaks=FORMULA,
    name="tanh after u instead of before",
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
        return torch.tanh(self.energy_proj(sums).squeeze(-1))


@wrong(
    "adds tanh of W q and tanh of U k",
    breaks=FORMULA,
    name="tanh before the sum",
)
class AdditiveScore(Score):
    """A small network compares each query with each key."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return torch.tanh(self.key_proj(key))

    def forward(self, query, projected):
        mapped = torch.tanh(self.query_proj(query))
        hidden = mapped.unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "adds up the hidden units without u",
    breaks=NAMES,
    name="u forgotten",
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
        return torch.tanh(sums).sum(dim=-1)


@wrong(
    "adds queries and keys without a new axis, which is right for a single query only",
    breaks=LAYER,
    name="queries and keys are not paired",
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
    "maps the keys by W and the queries by U",
    breaks=NAMES,
    name="the two maps exchanged",
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
        sums = self.key_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(sums)).squeeze(-1)


@wrong(
    "writes tanh as a quotient of exponentials, which is nan for large sums",
    breaks=OVERFLOW,
    name="the exponentials of tanh overflow",
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
        up, down = sums.exp(), (-sums).exp()
        return self.energy_proj((up - down) / (up + down)).squeeze(-1)


@wrong(
    "for a single query, adds W q to the projected keys in place: the next step of the"
    " decoder finds other keys",
    breaks=UNCHANGED,
    name="projected keys changed in place",
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
        mapped = self.query_proj(query)
        if query.shape[-2] == 1:
            projected += mapped
            return self.energy_proj(torch.tanh(projected)).mT
        hidden = torch.tanh(mapped.unsqueeze(-2) + projected.unsqueeze(-3))
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "reads the numbers of u from `.data`, so u gets no gradient",
    breaks=GRADIENTS,
    name="no gradient for u",
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
        return torch.tanh(sums) @ self.energy_proj.weight.data[0]


@wrong(
    "drops a tenth of the hidden units in train mode",
    breaks=MODES,
    name="dropout in train mode",
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
        hidden = nn.functional.dropout(torch.tanh(sums), 0.1, training=self.training)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "writes the rows into torch.zeros(...), which is always float32 and on the CPU",
    breaks=DTYPE,
    name="the result is always float32",
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
        mapped = self.query_proj(query)
        scores = torch.zeros(*query.shape[:-1], projected.shape[-2])
        for t in range(query.shape[-2]):
            hidden = torch.tanh(mapped[..., t : t + 1, :] + projected)
            scores[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return scores
