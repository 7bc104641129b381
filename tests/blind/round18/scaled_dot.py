import math

import torch
from torch import nn
from blind import right, wrong
from attention_course.scores import Score

FORMULA = r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$"
DIVIDED = (
    "The dot product of query and key, divided by the square root of their width."
)
AXES = (
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases."
)
UNCHANGED = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
EARLIER = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("the fourth root on both sides, then einsum")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        factor = query.shape[-1] ** -0.25
        return torch.einsum("...td,...sd->...ts", query * factor, projected * factor)


@right("baddbmm with alpha, on tensors with one merged first axis")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        *lead, length, width = query.shape
        size = projected.shape[-2]
        q = query.reshape(-1, length, width)
        k = projected.reshape(-1, size, width).mT
        nothing = q.new_zeros(1, 1, 1)
        scores = torch.baddbmm(nothing, q, k, beta=0, alpha=1 / math.sqrt(width))
        return scores.reshape(*lead, length, size)


@right("key by key in float64, each a matrix times a vector")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        wide = query.double()
        columns = []
        for s in range(projected.shape[-2]):
            key = projected[..., s, :].double()
            columns.append(wide.matmul(key.unsqueeze(-1)).squeeze(-1))
        scores = torch.stack(columns, dim=-1) / math.sqrt(query.shape[-1])
        return scores.to(query.dtype)


def _root(x):
    """The root of the width, a number in a float32 tensor without axes."""
    return torch.tensor(float(x.shape[-1]), device=x.device).sqrt()


@right("keys times queries, transposed at the end, and a root in a float32 tensor")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        upright = torch.matmul(projected, query.transpose(-1, -2))
        return upright.div(_root(query)).transpose(-1, -2)


@wrong(
    "multiplies by the root",
    breaks=DIVIDED,
    name="multiplied instead of divided",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT * math.sqrt(query.shape[-1])


@wrong(
    "divides by D ** 1 / 2, which is D / 2",
    breaks=FORMULA,
    name="order of operations: half the width instead of its root",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / (query.shape[-1] ** 1 / 2)


@wrong(
    "divides by the root of the number of keys",
    breaks=DIVIDED,
    name="number of keys instead of width",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.shape[-2])


@wrong(
    "divides by the standard deviation that the scores of this call happen to have",
    breaks=FORMULA,
    name="measured standard deviation instead of the root of the width",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / scores.std()


@wrong(
    "divides the queries by the root and the keys as well, in all by D",
    breaks=FORMULA,
    name="scaled twice",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        root = math.sqrt(query.shape[-1])
        return (query / root) @ (projected / root).mT


@wrong(
    "rounds the root down to a whole number: right at widths such as 4, 64 and 1024",
    breaks=FORMULA,
    name="root rounded to a whole number",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.shape[-1])


@wrong(
    "reads the width from axis 2: with heads, this is the number of queries, and"
    " without a batch there is no such axis",
    breaks=AXES,
    name="width read from an axis counted from the front",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[2])


@wrong(
    "keeps the root of the first width that it has seen",
    breaks=EARLIER,
    name="root of an earlier call",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    root = None

    def forward(self, query, projected):
        if self.root is None:
            self.root = math.sqrt(query.shape[-1])
        return query @ projected.mT / self.root


@wrong(
    "divides by a float32 tensor with one axis, which turns bfloat16 into float32",
    breaks=DTYPE,
    name="bfloat16 becomes float32",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        width = torch.tensor([query.shape[-1]], device=query.device)
        return query @ projected.mT / width.sqrt()


@wrong(
    "divides the caller's queries in place",
    breaks=UNCHANGED,
    name="queries changed in place",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        query /= math.sqrt(query.shape[-1])
        return query @ projected.mT
