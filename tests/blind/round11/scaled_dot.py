import math

import torch
from attention_course.scores import Score

from blind import right, wrong


@right("both vectors divided by the fourth root of the width")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        root = query.shape[-1] ** 0.25
        return (query / root) @ (projected / root).mT


@right("the mean of the products, times the square root of the width")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        products = query[..., :, None, :] * projected[..., None, :, :]
        return products.mean(dim=-1) * math.sqrt(products.shape[-1])


@right("baddbmm with alpha")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        lead = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2])
        (t, d), s = query.shape[-2:], projected.shape[-2]
        q = query.expand(*lead, t, d).reshape(-1, t, d)
        k = projected.expand(*lead, s, d).reshape(-1, s, d)
        zero = q.new_zeros(1, 1, 1)
        scores = torch.baddbmm(zero, q, k.mT, beta=0, alpha=1 / math.sqrt(d))
        return scores.reshape(*lead, t, s)


@right("one query after another, multiplied by the keys that were scaled first")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        keys = projected * projected.shape[-1] ** -0.5
        rows = [keys @ q.unsqueeze(-1) for q in query.unbind(dim=-2)]
        return torch.cat(rows, dim=-1).mT


@wrong(
    "divides by the width",
    "The dot product of query and key, divided by the square root of their width.",
    "no square root",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1]


@wrong(
    "divides by the square root of the number of keys",
    "The dot product of query and key, divided by the square root of their width.",
    "number of keys instead of width",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(scores.shape[-1])


@wrong(
    "D ** 1 / 2 is D / 2 (right for D = 4)",
    "The dot product of query and key, divided by the square root of their width.",
    "half the width instead of its root",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        scale = query.shape[-1] ** 1 / 2
        return query @ projected.mT / scale


@wrong(
    "takes axis 1 of the queries for their width: only right without a batch",
    "Your code must work in all three cases.",
    "width read from the wrong axis",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[1])


@wrong(
    "scales the query in place",
    "Do not change the inputs.",
    "query changed in place",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        query /= math.sqrt(query.shape[-1])
        return query @ projected.mT


@wrong(
    "divides by a float32 tensor of one axis, which turns bfloat16 into float32 and"
    " stays on the CPU",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "dtype and device of the divisor",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        scale = torch.sqrt(torch.tensor([query.shape[-1]]))
        return query @ projected.mT / scale


@wrong(
    "scales in train mode only, since the scaling is there for the gradients",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "no scaling in eval mode",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        scores = query @ projected.mT
        if self.training:
            scores = scores / math.sqrt(query.shape[-1])
        return scores


@wrong(
    "the square root is rounded down to a whole number (right for 4, 16, 64 ...)",
    "The dot product of query and key, divided by the square root of their width.",
    "square root rounded down",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.shape[-1])


@wrong(
    "the divisor of the first call is kept for all later calls and all objects",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "scale of the first call kept",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    scale = None

    def forward(self, query, projected):
        if self.scale is None:
            type(self).scale = math.sqrt(query.shape[-1])
        return query @ projected.mT / self.scale


@wrong(
    "exchanges the last axis with axis 1: only right with one axis before the last two",
    "Your code must work in all three cases.",
    "axes counted from the front",
)
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the square root of their width."""

    def forward(self, query, projected):
        return query @ projected.transpose(-1, 1) / math.sqrt(projected.size(-1))
