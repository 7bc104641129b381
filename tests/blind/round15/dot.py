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
ALL = "A single matrix product, `@`, computes all T x S dot products."
SHAPE = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
ENTRIES = (
    "The simplest way is to multiply the two vectors entry by entry and to add up the"
    " products:"
)
TRANSPOSE = (
    "Transpose the keys first: `x.mT` exchanges the last two axes and leaves all others"
    " alone."
)


@wrong(
    "exchanges axes 1 and 2, which are the last two only with axes (B,)",
    breaks=THREE,
    name="transposes fixed axes",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong(
    "multiplies without transposing whenever the shapes happen to fit (S equals D)",
    breaks=SHAPE,
    name="no transpose when S equals D",
)
class DotScore(Score):
    def forward(self, query, projected):
        if query.shape[-1] != projected.shape[-2]:
            projected = projected.mT
        return query @ projected


@wrong(
    "reshapes the keys to (..., D, S) instead of transposing them",
    breaks=TRANSPOSE,
    name="reshape instead of transpose",
)
class DotScore(Score):
    def forward(self, query, projected):
        *lead, keys, width = projected.shape
        return query @ projected.reshape(*lead, width, keys)


@wrong(
    "keys times queries: the scores come out as (..., S, T)",
    breaks=SHAPE,
    name="queries and keys exchanged",
)
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "computes in float32 and converts back, also when the vectors are float64",
    breaks=PRECISION,
    name="float64 goes through float32",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query.float() @ projected.float().mT).to(query.dtype)


@wrong(
    "keeps the transposed keys of the last call and reuses them for the same shape",
    breaks=CALLS,
    name="old keys from an earlier call",
)
class DotScore(Score):
    def forward(self, query, projected):
        kept = getattr(self, "transposed", None)
        if kept is None or kept.mT.shape != projected.shape:
            self.transposed = projected.mT
        return query @ self.transposed


@wrong(
    "merges the leading axes with view, which fails for transposed or sliced inputs",
    breaks=VIEWS,
    name="view on a tensor that is not contiguous",
)
class DotScore(Score):
    def forward(self, query, projected):
        *lead, queries, width = query.shape
        keys = projected.shape[-2]
        flat_query = query.view(-1, queries, width)
        flat_key = projected.view(-1, keys, width)
        return torch.bmm(flat_query, flat_key.mT).view(*lead, queries, keys)


@wrong(
    "cuts the keys out of the graph, as they are computed once for each source",
    breaks=GRADIENTS,
    name="no gradient for the keys",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected.detach().mT)


@wrong(
    "drops the query axis when there is only one query",
    breaks=LENGTHS,
    name="squeeze removes the axis of a single query",
)
class DotScore(Score):
    def forward(self, query, projected):
        products = (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(dim=-1)
        return products.squeeze(-2)


@wrong(
    "limits the scores to -100 ... 100 so that the softmax does not saturate",
    breaks=LENGTHS,
    name="clamps large scores",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).clamp(-100, 100)


@right("einsum")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("products of all pairs, summed in float64")
class DotScore(Score):
    def forward(self, query, projected):
        pairs = query.double().unsqueeze(-2) * projected.double().unsqueeze(-3)
        return pairs.sum(dim=-1).to(query.dtype)


@right("a loop over the keys")
class DotScore(Score):
    def forward(self, query, projected):
        columns = []
        for s in range(projected.shape[-2]):
            columns.append((query * projected[..., s : s + 1, :]).sum(dim=-1))
        return torch.stack(columns, dim=-1)


@right("keys times queries, and the result transposed")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(projected, query.transpose(-1, -2)).transpose(-1, -2)
