import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("matrix product with the weight, transposed by hand")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return (self.key_proj.weight @ key.mT).mT

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("einsum in float64, rounded to the dtype of the vectors")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        W = self.key_proj.weight.double()
        return torch.einsum("qk,...sk->...sq", W, key.double()).to(key.dtype)

    def forward(self, query, projected):
        scores = torch.einsum("...tq,...sq->...ts", query.double(), projected.double())
        return scores.to(query.dtype)


@right("one row of the weight after the other, stacked")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.stack([key @ row for row in self.key_proj.weight], dim=-1)

    def forward(self, query, projected):
        columns = []
        for s in range(projected.size(-2)):
            columns.append((query * projected[..., s, :].unsqueeze(-2)).sum(-1))
        return torch.stack(columns, dim=-1)


@right("functional linear over flattened positions, a loop over queries, an extra note")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.note = None

    def project_keys(self, key):
        self.note = tuple(key.shape)
        flat = nn.functional.linear(key.reshape(-1, key.size(-1)), self.key_proj.weight)
        return flat.reshape(*key.shape[:-1], -1)

    def forward(self, query, projected):
        rows = [q.unsqueeze(-2) @ projected.mT for q in query.unbind(dim=-2)]
        return torch.cat(rows, dim=-2)


@wrong(
    "maps the queries and leaves the keys as they are",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "maps the queries",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return self.key_proj(query) @ projected.mT


@wrong(
    "applies W in forward; project_keys returns the keys unchanged",
    "Apply $W$ in `project_keys`, which is called once for each source.",
    "W in the wrong method",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "multiplies the keys by the weight without transposing it: fails, or applies the"
    " transpose of W where the two widths agree",
    "`self.key_proj(...)` applies $W$.",
    "W transposed",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "gives the map a bias, and with it a parameter key_proj.bias",
    "It fixes the names and shapes of the parameters.",
    "a bias that is not in the formula",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "skips the map if keys and queries have the same width",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "no map at equal widths",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if self.key_proj.in_features == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "projects the first source and returns this projection for every later one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keeps the first projection",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.projected = None

    def project_keys(self, key):
        if self.projected is None:  # once for each source
            self.projected = self.key_proj(key)
        return self.projected

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "uses the data of the weight: W gets no gradient and is never learned",
    "Gradients must be right, too.",
    "no gradient for W",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.data.T

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "exchanges axes 1 and 2 of the keys, which are the last two for (B, S, D) only",
    "Your code must work in all three cases.",
    "axes counted from the front",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(1, 2))


@wrong(
    "removes the axis of the queries if there is only one query",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeezes T = 1",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores.squeeze(-2)


@wrong(
    "drops a fifth of the projected keys' entries in train mode; in eval mode it is"
    " right",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "dropout that is not in the formula",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return nn.functional.dropout(self.key_proj(key), 0.2, self.training)

    def forward(self, query, projected):
        return query @ projected.mT
