import math

import torch
from attention_course.scores import Score

from blind import right, wrong


@right("the fourth root of the width on either side of the product")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = query.size(-1) ** 0.25
        return (query / root) @ (projected / root).mT


@right("baddbmm with alpha, on flattened leading axes")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        *batch, length, width = query.shape
        size = projected.size(-2)
        q = query.reshape(-1, length, width)
        k = projected.reshape(-1, size, width)
        start = q.new_zeros(q.size(0), length, size)
        scores = torch.baddbmm(start, q, k.mT, beta=0, alpha=1 / math.sqrt(width))
        return scores.reshape(*batch, length, size)


@right("einsum in float64, the factor by way of a logarithm")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        factor = math.exp(-0.5 * math.log(projected.shape[-1]))
        scores = torch.einsum("...sd,...td->...ts", projected.double(), query.double())
        return (scores * factor).to(query.dtype)


@right("a loop over the queries, stacked on the axis before the last")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        rows = [self.one(q, projected) for q in query.unbind(dim=-2)]
        return torch.stack(rows, dim=-2)

    def one(self, q, keys):
        return (keys * q.unsqueeze(-2)).sum(dim=-1) * q.size(-1) ** -0.5


@wrong(
    "divides by the square root of the number of keys",
    "The dot product of query and key, divided by the square root of their width.",
    "root of S instead of D",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.size(-2))


@wrong(
    "divides by the standard deviation measured over all scores of the call",
    "The dot product of query and key, divided by the square root of their width.",
    "measured instead of known standard deviation",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / scores.std()


@wrong(
    "writes D ** 1 / 2, which is D / 2",
    "The dot product of query and key, divided by the square root of their width.",
    "D ** 1 / 2 is half the width",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.size(-1)
        return query @ projected.mT / (width**1 / 2)


@wrong(
    "takes the width from axis 1, which is D only for tensors without leading axes; in"
    " a batch it is T",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none.",
    "size(1) is not the width in a batch",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(1))


@wrong(
    "divides the query in place: the caller's query shrinks with each call",
    "Do not change the inputs.",
    "/= changes the query",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        query /= math.sqrt(query.size(-1))
        return query @ projected.mT


@wrong(
    "rounds the square root down to a whole number: right for D = 1, 4, 64, wrong for"
    " D = 8 (divides by 2)",
    "The dot product of query and key, divided by the square root of their width.",
    "whole-number square root",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong(
    "holds the width in a tensor (1,) on the CPU: vectors on a GPU raise an error",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "the divisor stays on the CPU",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = torch.tensor([query.size(-1)], dtype=query.dtype)
        return query @ projected.mT / width.sqrt()


@wrong(
    "holds the width in a float32 tensor (1,), which makes bfloat16 scores float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "the divisor widens bfloat16 to float32",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = torch.tensor([float(query.size(-1))], device=query.device)
        return query @ projected.mT / width.sqrt()


@wrong(
    "keeps the factor of the first width in the class: a later call or another object"
    " with vectors of another width divides by the old root",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keeps the first width's factor",
    subtle=True,
)
class ScaledDotScore(Score):
    factor = None

    def forward(self, query, projected):
        if type(self).factor is None:
            type(self).factor = 1 / math.sqrt(query.size(-1))
        return query @ projected.mT * type(self).factor


@wrong(
    "divides in train mode only, because the gradients are the reason for it",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "no scale in eval mode",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        if self.training:
            scores = scores / math.sqrt(query.size(-1))
        return scores
