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
ROOT = "The dot product of query and key, divided by the square root of their width."
SHAPE = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."


@wrong("divides by D", breaks=ROOT, name="no square root")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1]


@wrong(
    "divides by the square root of the number of keys",
    breaks=ROOT,
    name="the root of the wrong length",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(scores.size(-1))


@wrong(
    "rounds the root down: right only if D is a square number",
    breaks=ROOT,
    name="whole-number square root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.shape[-1])


@wrong(
    "the root is a float32 number, so float64 scores are right to 7 digits only",
    breaks=PRECISION,
    name="float32 root for float64 vectors",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / torch.sqrt(torch.tensor(query.shape[-1]))


@wrong(
    "divides by a float32 tensor with one axis, which turns bfloat16 into float32",
    breaks=DTYPE,
    name="bfloat16 becomes float32",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        dtype = torch.promote_types(query.dtype, torch.float32)
        width = torch.tensor([query.shape[-1]], dtype=dtype, device=query.device)
        return query @ projected.mT / width.sqrt()


@wrong(
    "divides the query in place unless contiguous() happened to copy it",
    breaks=INPUTS,
    name="scales the caller's query",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scaled = query.contiguous()
        scaled /= math.sqrt(query.shape[-1])
        return scaled @ projected.mT


@wrong(
    "computes the factor at the first call and keeps it for other widths",
    breaks=CALLS,
    name="remembers the first width",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        if not hasattr(self, "factor"):
            self.factor = query.shape[-1] ** -0.5
        return query @ projected.mT * self.factor


@wrong(
    "scales in training only, as if it were a kind of regularisation",
    breaks=LENGTHS,
    name="no scaling in eval mode",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        if self.training:
            scores = scores / math.sqrt(query.shape[-1])
        return scores


@wrong(
    "divides by the measured standard deviation of the scores",
    breaks=ROOT,
    name="standardises instead of scaling",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / scores.std(correction=0).clamp(min=1e-6)


@wrong(
    "an einsum for exactly one leading axis",
    breaks=THREE,
    name="only with axes (B,)",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = torch.einsum("btd,bsd->bts", query, projected)
        return scores / math.sqrt(query.shape[-1])


@right("both vectors times the fourth root, einsum in float64")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        factor = query.shape[-1] ** -0.25
        scores = torch.einsum(
            "...td,...sd->...ts", query.double() * factor, projected.double() * factor
        )
        return scores.to(query.dtype)


@right("divides its own product in place")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = torch.matmul(query, projected.transpose(-2, -1))
        scores /= math.sqrt(projected.shape[-1])
        return scores


@right("mean of the products of all pairs, times the root")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.shape[-1]
        pairs = query.unsqueeze(-2) * projected.unsqueeze(-3)
        return pairs.mean(dim=-1) * width**0.5


@right("baddbmm with alpha on merged leading axes")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        lead = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2])
        queries, width = query.shape[-2:]
        keys = projected.shape[-2]
        left = query.expand(*lead, queries, width).reshape(-1, queries, width)
        right_ = projected.expand(*lead, keys, width).reshape(-1, keys, width)
        nothing = left.new_zeros(left.shape[0], queries, keys)
        scores = torch.baddbmm(
            nothing, left, right_.mT, beta=0, alpha=1 / math.sqrt(width)
        )
        return scores.reshape(*lead, queries, keys)
