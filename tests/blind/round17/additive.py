import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong

FORMULA = r"$$e_{ts} = u^\top \tanh(W q_t + U k_s)$$"
APPLY = "Apply $U$ in `project_keys`, and everything else in `forward`."
PAIRS = "The network has one hidden layer of width A and compares each query with each key."
VECTOR = "$W$ is `query_proj`, $U$ is `key_proj`, and the learned vector $u$ is `energy_proj`."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
OVERFLOW = "An exponential, however, may overflow."
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
AXES = "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none."


@right("a loop over the hidden units, each with its own entry of u")
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
        scores = 0
        for unit, factor in enumerate(self.energy_proj.weight[0].unbind()):
            sums = asked[..., :, None, unit] + projected[..., None, :, unit]
            scores = scores + factor * sums.tanh()
        return scores


@right("one query after the other, stacked, with u as a matrix product")
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
        for t in range(query.size(-2)):
            asked = F.linear(query[..., t : t + 1, :], self.query_proj.weight)
            hidden = torch.tanh(projected + asked)
            rows.append((hidden @ self.energy_proj.weight.mT).mT)
        return torch.cat(rows, dim=-2)


@right("every pair is written out with repeat_interleave and repeat, then unflattened")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        count, length = query.size(-2), projected.size(-2)
        asked = self.query_proj(query).repeat_interleave(length, dim=-2)
        again = torch.cat([projected] * count, dim=-2)
        energy = self.energy_proj(torch.tanh(asked + again))
        return energy.squeeze(-1).unflatten(-1, (count, length))


@right("einsum for the maps, and the source in pieces of at most 16 positions")
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        asked = torch.einsum("aq,...tq->...ta", self.query_proj.weight, query)
        pieces = []
        for piece in projected.split(16, dim=-2):
            hidden = torch.add(piece[..., None, :, :], asked[..., :, None, :]).tanh()
            pieces.append(
                torch.einsum("...tsa,a->...ts", hidden, self.energy_proj.weight[0])
            )
        return torch.cat(pieces, dim=-1)


@wrong(
    "adds up the hidden layer instead of weighting it with u",
    breaks=VECTOR,
    name="the learned vector u is left out",
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
        return torch.tanh(sums).sum(dim=-1)


@wrong(
    "applies tanh to the query and to the key, and adds the results",
    breaks=FORMULA,
    name="tanh before the sum instead of after it",
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
        hidden = asked + torch.tanh(projected).unsqueeze(-3)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "has no tanh between the sum and u",
    breaks=FORMULA,
    name="the hidden layer is linear",
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
        return self.energy_proj(sums).squeeze(-1)


@wrong(
    "returns the keys unchanged and applies U at every step",
    breaks=APPLY,
    name="U is applied in forward",
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
        asked, keys = self.query_proj(query), self.key_proj(projected)
        hidden = torch.tanh(asked.unsqueeze(-2) + keys.unsqueeze(-3))
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "writes tanh as a quotient of exponentials",
    breaks=OVERFLOW,
    name="inf / inf = nan for large sums",
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
        powers = torch.exp(2 * sums)
        return self.energy_proj((powers - 1) / (powers + 1)).squeeze(-1)


@wrong(
    "removes all axes of length one with squeeze()",
    breaks=LENGTHS,
    name="squeeze without an axis",
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
    "adds a single query to the projected keys with +=",
    breaks=INPUTS,
    name="the keys change in place if there is one query",
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
        if asked.size(-2) == 1:  # a decoding step: no additional axis is needed
            projected += asked
            return self.energy_proj(torch.tanh(projected)).mT
        hidden = torch.tanh(asked.unsqueeze(-2) + projected.unsqueeze(-3))
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "takes long sources in blocks of 64 and forgets the rest after the last full block",
    breaks=LENGTHS,
    name="the last positions of a long source get no score",
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
        asked, size = self.query_proj(query).unsqueeze(-2), 64
        length = projected.size(-2)
        blocks = []
        for block in range(max(1, length // size)):
            keys = projected[..., block * size : (block + 1) * size, :]
            hidden = torch.tanh(asked + keys.unsqueeze(-3))
            blocks.append(self.energy_proj(hidden).squeeze(-1))
        return torch.cat(blocks, dim=-1)


@wrong(
    "stores the large hidden layer in float16 to save memory",
    breaks=PRECISE,
    name="the hidden layer has lower precision than the inputs",
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
        hidden = torch.tanh(sums).half()
        return self.energy_proj(hidden.to(sums.dtype)).squeeze(-1)


@wrong(
    "maps the query again only if it lies at another address than the last one",
    breaks=CALLS,
    name="the query of an earlier call is remembered by its address",
)
class AdditiveScore(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)
        self.place = self.asked = None

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        place = (query.data_ptr(), query.shape, query.dtype)
        if place != self.place:
            self.place, self.asked = place, self.query_proj(query)
        hidden = torch.tanh(self.asked.unsqueeze(-2) + projected.unsqueeze(-3))
        return self.energy_proj(hidden).squeeze(-1)
