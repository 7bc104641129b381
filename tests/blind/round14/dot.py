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
FORMULA = r"$$e_{ts} = q_t^\top k_s$$"


@right("einsum with named axes")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("keys times queries, and then the transpose of that")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(projected, query.transpose(-1, -2)).transpose(-2, -1)


@right("block by block of 64 keys, in float64, from the last block to the first")
class DotScore(Score):
    def forward(self, query, projected):
        exact = query.to(torch.float64)
        blocks = [
            exact @ block.to(torch.float64).mT
            for block in reversed(projected.split(64, dim=-2))
        ]
        return torch.cat(blocks[::-1], dim=-1).to(query.dtype)


@right("adds up D outer products, one for each entry of the vectors, in float64")
class DotScore(Score):
    def forward(self, query, projected):
        total = 0
        pairs = zip(query.double().unbind(-1), projected.double().unbind(-1))
        for q, k in pairs:
            total = total + q.unsqueeze(-1) * k.unsqueeze(-2)
        return total.to(query.dtype)


@wrong(
    "divides by the square root of the width, which is the score of the next section",
    FORMULA,
    "scales the dot product",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[-1])


@wrong(
    "reshapes the keys to (..., D, S) instead of transposing them: right only if S or D"
    " is 1",
    FORMULA,
    "reshape instead of transpose",
)
class DotScore(Score):
    def forward(self, query, projected):
        *lead, size, width = projected.shape
        return query @ projected.reshape(*lead, width, size)


@wrong(
    "exchanges axes 1 and 2: an error without a batch axis, and heads and positions"
    " mixed up with the axes (B, H)",
    AXES,
    "transposes fixed axes 1 and 2",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(1, 2))


@wrong(
    "returns (..., S, T): a row for each key instead of each query",
    FORMULA,
    "scores are transposed",
)
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "transposes the keys with transpose_, so that the caller's tensor has another"
    " shape after the call",
    INPUTS,
    "transposes the keys in place",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose_(-2, -1)


@wrong(
    "a short cut for a single query loses the axis T of length one: (..., S)",
    LENGTHS,
    "drops the axis of one query",
)
class DotScore(Score):
    def forward(self, query, projected):
        if query.shape[-2] == 1:
            return (query * projected).sum(dim=-1)
        return query @ projected.mT


@wrong(
    "computes in float32 and converts back: float64 vectors get scores with float32"
    " errors",
    PRECISE,
    "float64 computed in float32",
)
class DotScore(Score):
    def forward(self, query, projected):
        scores = query.float() @ projected.float().mT
        return scores.to(query.dtype)


@wrong(
    "switches gradients off in eval mode",
    GRADS,
    "no gradients in eval mode",
)
class DotScore(Score):
    def forward(self, query, projected):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return query @ projected.mT


@wrong(
    "keeps the transposed keys and recognises them by address and shape: after the"
    " keys have changed in the same memory, the old ones are used",
    CALLS,
    "stale cache of the keys",
)
class DotScore(Score):
    _known, _keys = None, None

    def forward(self, query, projected):
        tag = (projected.data_ptr(), projected.shape, projected.dtype)
        if projected.requires_grad or tag != self._known:
            self._known, self._keys = tag, projected.mT.clone()
        return query @ self._keys


@wrong(
    "computes bfloat16 in float16: products above 65504 become inf, and small ones 0",
    PRECISE,
    "bfloat16 computed in float16",
)
class DotScore(Score):
    def forward(self, query, projected):
        if query.dtype == torch.bfloat16:
            return (query.half() @ projected.half().mT).to(query.dtype)
        return query @ projected.mT
