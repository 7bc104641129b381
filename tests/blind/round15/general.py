import math

import torch
from torch import nn
from torch.nn import functional as F

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
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."
THREE = "Your code must work in all three cases."
ONCE = "Apply $W$ in `project_keys`, which is called once for each source."
AGAIN = "`forward` is called at every step and would repeat the same product each time."
MAPPED = "In `forward`, the keys have already been mapped by `project_keys`."
MAP = (
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width."
)
PLAIN = "A dot product after a learned map of the keys."


@wrong(
    "returns the keys unchanged and maps them in forward",
    breaks=AGAIN,
    name="maps the keys at every step",
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
    "maps the keys once more if their width is that of unmapped keys (equal widths)",
    breaks=MAPPED,
    name="maps twice when the widths are equal",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.shape[-1] == self.key_proj.in_features:
            projected = self.key_proj(projected)
        return query @ projected.mT


@wrong(
    "reshapes the weight matrix to (key_dim, query_dim) instead of transposing it",
    breaks=MAP,
    name="reshape instead of transpose",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        weight = self.key_proj.weight
        return key @ weight.reshape(weight.shape[1], weight.shape[0])

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "keeps the mapped keys of the last source, although W changes in training",
    breaks=CALLS,
    name="a cache that ignores the weights",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        if getattr(self, "last_key", None) is not key:
            self.last_key, self.last_projected = key, self.key_proj(key)
        return self.last_projected

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "divides by the square root of the width, as the scaled dot product does",
    breaks=PLAIN,
    name="scaled although the formula is not",
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
    "multiplies in float32 and forgets to convert back",
    breaks=DTYPE,
    name="bfloat16 and float64 become float32",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "flattens the keys to two axes for the linear layer and never restores the others",
    breaks=THREE,
    name="the keys of all sentences in one list",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        return self.key_proj(key.reshape(-1, key.shape[-1]))

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "cuts the query out of the graph: only the keys' map shall learn",
    breaks=GRADIENTS,
    name="no gradient for the query",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query.detach() @ projected.mT


@wrong(
    "uses W only if queries and keys differ in width",
    breaks=ONCE,
    name="no map when the widths are equal",
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
    "prepares the keys under no_grad, so neither W nor the encoder learns from them",
    breaks=GRADIENTS,
    name="W gets no gradient",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@right("einsum twice, with the weight matrix itself")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("F.linear in float64 and back")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        exact = F.linear(key.double(), self.key_proj.weight.double())
        return exact.to(key.dtype)

    def forward(self, query, projected):
        exact = query.double() @ projected.double().transpose(-1, -2)
        return exact.to(query.dtype)


@right("W times the transposed keys, and a loop over the queries")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        return torch.matmul(self.key_proj.weight, key.mT).mT

    def forward(self, query, projected):
        rows = [
            torch.matmul(projected, q.unsqueeze(-1)).squeeze(-1)
            for q in query.unbind(dim=-2)
        ]
        return torch.stack(rows, dim=-2)


@right("a sum of outer products over the entries of the key")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
    def project_keys(self, key):
        columns = self.key_proj.weight.unbind(dim=1)
        parts = [key[..., i, None] * column for i, column in enumerate(columns)]
        return torch.stack(parts).sum(dim=0)

    def forward(self, query, projected):
        return (query[..., :, None, :] * projected[..., None, :, :]).sum(dim=-1)
