import torch
from attention_course.scores import Score
from torch import nn

from blind import right, wrong


@right("the weight times the transposed keys")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return (self.key_proj.weight @ key.mT).mT

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("einsum in both methods")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...k->...q", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...sq,...tq->...ts", projected, query)


@right("key by key in project_keys, query by query in forward")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.stack([self.key_proj(k) for k in key.unbind(-2)], dim=-2)

    def forward(self, query, projected):
        rows = []
        for t in range(query.shape[-2]):
            rows.append((projected * query[..., t : t + 1, :]).sum(dim=-1))
        return torch.stack(rows, dim=-2)


@right("tensordot with the weight, and a product of row and column for each pair")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.tensordot(key, self.key_proj.weight, dims=([-1], [1]))

    def forward(self, query, projected):
        rows = query.unsqueeze(-2)  # (..., T, 1, query_dim)
        return (rows @ projected.unsqueeze(-3).mT).squeeze(-2)


@wrong(
    "applies W in forward, at every step",
    "Apply $W$ in `project_keys`, which is called once for each source.",
    "keys mapped in forward",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "applies W in project_keys and once more in forward",
    "Score every query (..., T, query_dim) against every projected key: (..., T, S).",
    "W applied twice",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "gives the map a bias",
    "It fixes the names and shapes of the parameters.",
    "changed the parameters",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "multiplies by the weight without transposing it: an error, or, if both widths are"
    " equal, the wrong numbers",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "W not transposed",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys without gradients, so W is never learned",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "no gradient for W",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "loses the axis of the queries if there is only one",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squeezes the axis of a single query",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.matmul(query, projected.mT).squeeze(-2)


@wrong(
    "computes in float32 and returns float32, whatever the vectors' dtype",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "result always float32",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "leaves out W if the keys are already as wide as the queries",
    "Map every key (..., S, key_dim) into the space of the queries: (..., S,"
    " query_dim).",
    "W left out if the widths are equal",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if key.shape[-1] == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "in eval mode, returns what it computed earlier for the same tensor, even if W or"
    " the tensor's entries have changed since",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "projected keys of an earlier call",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self._seen = (None, None)

    def project_keys(self, key):
        if not self.training and self._seen[0] is key:
            return self._seen[1]
        projected = self.key_proj(key)
        self._seen = (key, projected)
        return projected

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "objects of the same widths share one W",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "parameters shared by all objects",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    _maps = {}

    def __init__(self, query_dim, key_dim):
        super().__init__()
        widths = (key_dim, query_dim)
        if widths not in self._maps:
            self._maps[widths] = nn.Linear(key_dim, query_dim, bias=False)
        self.key_proj = self._maps[widths]

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT
