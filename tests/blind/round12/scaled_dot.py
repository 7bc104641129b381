import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("divides queries and keys by the fourth root of the width each")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = query.size(-1) ** 0.25
        return (query / root) @ (projected / root).mT


@right("einsum, divided by a tensor of float64 without axes, which changes no dtype")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = torch.tensor(query.shape[-1], dtype=torch.float64)
        return torch.einsum("...sd,...td->...ts", projected, query) / width.sqrt()


@right("the mean of the products times the root of the width, in float64")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        def spread(x, axis):
            return x.to(torch.float64).unsqueeze(axis)

        means = (spread(query, -2) * spread(projected, -3)).mean(dim=-1)
        return (means * math.sqrt(query.size(-1))).to(query.dtype)


@right("baddbmm with alpha, over flattened axes")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        q = query.flatten(0, -3) if query.dim() > 2 else query[None]
        k = projected.flatten(0, -3) if projected.dim() > 2 else projected[None]
        nothing = q.new_zeros(q.size(0), q.size(1), k.size(1))
        scores = torch.baddbmm(
            nothing, q, k.mT, beta=0, alpha=1 / math.sqrt(q.size(-1))
        )
        return scores.reshape(*query.shape[:-1], projected.size(-2))


@wrong(
    "divides by D",
    "The dot product of query and key, divided by the square root of their width.",
    "the root is missing",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong(
    "does not divide",
    "The dot product of query and key, divided by the square root of their width.",
    "not scaled",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "divides by the square root of the number of keys",
    "The dot product of query and key, divided by the square root of their width.",
    "S for D",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.size(-2))


@wrong(
    "divides by the standard deviation that it measures in these scores",
    "The dot product of query and key, divided by the square root of their width.",
    "measures the deviation instead of using the width",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / scores.std()


@wrong(
    "takes the width from axis 2, which is T for (B, H, T, D) and missing for (T, D)",
    "Your code must work in all three cases.",
    "axis counted from the front",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(2))


@wrong(
    "divides the queries of the caller in place",
    "Do not change the inputs.",
    "changes the queries",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        query /= math.sqrt(query.size(-1))
        return query @ projected.mT


@wrong(
    "computes the root at the first call and keeps it: vectors of another width are"
    " divided by the root of the first width",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keeps the scale of the first call",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        if not hasattr(self, "scale"):
            self.scale = math.sqrt(query.size(-1))
        return query @ projected.mT / self.scale


@wrong(
    "rounds the root down to a whole number: right for the widths 4, 64 and 1024, wrong"
    " for 2 or 32",
    "The dot product of query and key, divided by the square root of their width.",
    "whole-number root",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scale = int(query.size(-1) ** 0.5)
        return query @ projected.mT / scale


@wrong(
    "divides by a float32 tensor with one axis, made on the CPU: bfloat16 vectors give"
    " float32 scores, and on a GPU it fails",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "a tensor of another dtype promotes the result",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scale = torch.sqrt(torch.FloatTensor([query.size(-1)]))
        return query @ projected.mT / scale


@wrong(
    "clamps the scores to -50 ... 50, so that the softmax cannot overflow",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "clamps large scores",
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT / math.sqrt(query.size(-1))
        return scores.clamp(-50, 50)
