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
FORMULA = r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$"


@right("divides both vectors by the fourth root of D, in float64, before the product")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = query.shape[-1] ** 0.25
        scores = (query.double() / root) @ (projected.double() / root).mT
        return scores.to(query.dtype)


@right("baddbmm with beta 0 and alpha 1/sqrt(D) on flattened leading axes")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        q = query.reshape(-1, *query.shape[-2:])
        k = projected.reshape(-1, *projected.shape[-2:])
        alpha = 1 / math.sqrt(query.shape[-1])
        scores = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.mT, beta=0, alpha=alpha)
        return scores.reshape(*query.shape[:-1], projected.shape[-2])


@right("vmap over the leading axes of a function of two matrices")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        def single(q, k):
            return torch.mm(q, k.t()).div(q.shape[1] ** 0.5)

        function = single
        for _ in range(query.dim() - 2):
            function = torch.func.vmap(function)
        return function(query, projected)


@right("query by query: the mean of the products, times sqrt(D), in float64")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        keys = projected.double()
        rows = [
            (keys * q.double().unsqueeze(-2)).mean(dim=-1) for q in query.unbind(-2)
        ]
        scores = torch.stack(rows, dim=-2) * math.sqrt(keys.shape[-1])
        return scores.to(query.dtype)


@wrong("divides by D, not by its square root", FORMULA, "divides by the width itself")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1]


@wrong(
    "divides by the square root of the number of keys",
    FORMULA,
    "scales by S instead of D",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.shape[-2])


@wrong(
    "divides by the measured standard deviation of the scores (nan for one score)",
    FORMULA,
    "divides by the measured deviation",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / scores.std()


@wrong(
    "multiplies by the square root of the width",
    FORMULA,
    "multiplies instead of dividing",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT * query.size(-1) ** 0.5


@wrong(
    "rounds the square root down to a whole number: right only for D = 1, 4, 9, 16, ...",
    FORMULA,
    "whole-number square root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / int(math.sqrt(query.shape[-1]))


@wrong(
    "computes the factor at the first call and keeps it on the class, so that vectors"
    " of another width, also in another object, get a wrong factor",
    CALLS,
    "scale kept on the class",
)
class ScaledDotScore(Score):
    _scale = None

    def forward(self, query, projected):
        if type(self)._scale is None:
            type(self)._scale = 1 / math.sqrt(query.shape[-1])
        return query @ projected.mT * self._scale


@wrong(
    "takes the square root as a float32 tensor, so that float64 scores carry its"
    " rounding error whenever D is not a square",
    PRECISE,
    "square root only in float32",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = torch.tensor(float(query.shape[-1]), device=query.device)
        return query @ projected.mT / width.sqrt()


@wrong(
    "saves memory without gradients by dividing the query in place",
    INPUTS,
    "scales the query in place without grad",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scale = math.sqrt(query.shape[-1])
        query = query / scale if torch.is_grad_enabled() else query.div_(scale)
        return query @ projected.mT


@wrong(
    "flattens the leading axes with view, which raises an error for heads that were"
    " split off with a transpose (not contiguous)",
    AXES,
    "view fails on non-contiguous input",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        q = query.view(-1, query.shape[-2], query.shape[-1])
        k = projected.view(-1, projected.shape[-2], projected.shape[-1])
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        return scores.view(*query.shape[:-1], -1)


@wrong(
    "clamps the scores to [-80, 80] so that the exponential cannot overflow",
    LENGTHS,
    "clamps large scores",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT / math.sqrt(query.shape[-1])
        return scores.clamp(min=-80, max=80)
