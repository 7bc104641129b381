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
FORMULA = r"$$e_{ts} = q_t^\top W k_s$$"
ONCE = "Apply $W$ in `project_keys`, which is called once for each source."


@right("einsum with the weights themselves, without calling key_proj")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("...sk,qk->...sq", key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("keys as columns: W times the transposed keys, and transposed back")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.matmul(self.key_proj.weight, key.mT).mT

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("adds up one column of W after the other in float64, and key by key in forward")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        total = 0
        columns = self.key_proj.weight.double().unbind(dim=1)
        for entry, column in zip(key.double().unbind(-1), columns):
            total = total + entry.unsqueeze(-1) * column
        return total.to(self.key_proj.weight.dtype)

    def forward(self, query, projected):
        scores = [
            (query * key.unsqueeze(-2)).sum(dim=-1) for key in projected.unbind(-2)
        ]
        return torch.stack(scores, dim=-1)


@right("flattens all keys into one matrix, and uses vmap over the leading axes")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        flat = torch.mm(key.reshape(-1, key.shape[-1]), self.key_proj.weight.t())
        return flat.unflatten(0, key.shape[:-1])

    def forward(self, query, projected):
        function = F.linear
        for _ in query.shape[:-2]:
            function = torch.vmap(function)
        return function(query, projected)


@wrong(
    "leaves the keys unchanged in project_keys and applies W in forward, at every step",
    ONCE,
    "maps the keys in forward",
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
    "divides by the square root of the width",
    FORMULA,
    "scales the general score",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[-1])


@wrong(
    "multiplies the keys by W transposed: an error, or wrong numbers if W is square",
    FORMULA,
    "multiplies by the transposed matrix",
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
    "squashes the mapped keys with tanh, as if W were a layer of a network",
    FORMULA,
    "tanh after the linear map",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.tanh(self.key_proj(key))

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "believes that W is only there for different widths, and skips it if queries and"
    " keys are equally wide",
    FORMULA,
    "skips the map for equal widths",
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
    "also accepts keys that are not mapped yet, which it recognises by their width: if"
    " the widths are equal, W is applied twice",
    FORMULA,
    "maps keys twice for equal widths",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.shape[-1] == self.key_proj.in_features:
            projected = self.project_keys(projected)
        return query @ projected.mT


@wrong(
    "keeps the mapped keys on self and uses them in forward instead of its argument:"
    " after a second source, the first is compared with the wrong keys",
    CALLS,
    "uses keys stored on self",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        self.keys = self.key_proj(key)
        return self.keys

    def forward(self, query, projected):
        keys = getattr(self, "keys", projected)
        if keys.shape != projected.shape:
            keys = projected
        return query @ keys.mT


@wrong(
    "without gradients, keeps a transposed copy of W from the first call, which is"
    " stale after the next training step",
    CALLS,
    "stale copy of the weights",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self._transposed = None

    def project_keys(self, key):
        if torch.is_grad_enabled():
            return self.key_proj(key)
        if self._transposed is None or self._transposed.dtype != key.dtype:
            self._transposed = self.key_proj.weight.detach().t().clone()
        return key @ self._transposed

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "multiplies by weight.data, so W never gets a gradient",
    GRADS,
    "no gradient for the parameter",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.data.mT

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "drops a tenth of the mapped keys in train mode",
    FORMULA,
    "dropout in train mode",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.dropout(self.key_proj(key), p=0.1, training=self.training)

    def forward(self, query, projected):
        return query @ projected.mT
