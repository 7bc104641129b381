import math

import torch
from attention_course.scores import Score
from blind import right, wrong


@right("einsum with an ellipsis for the axes in front")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("a loop over the entries of the vectors, summed in at least float32")
class DotScore(Score):
    def forward(self, query, projected):
        wide = torch.promote_types(query.dtype, torch.float32)
        q, k = query.to(wide), projected.to(wide)
        total = torch.zeros((), dtype=wide, device=query.device)
        for d in range(query.shape[-1]):
            total = total + q[..., :, d, None] * k[..., None, :, d]
        return total.to(query.dtype)


@right("one matrix-vector product for each query, stacked along the axis of queries")
class DotScore(Score):
    def forward(self, query, projected, axis=-2):
        columns = [
            torch.matmul(projected, one.unsqueeze(-1)).squeeze(-1)
            for one in query.unbind(axis)
        ]
        return torch.stack(columns, dim=axis)


@right("flattens the axes in front into one, baddbmm, and restores them")
class DotScore(Score):
    """A batched matrix product of three axes."""

    def forward(self, query, projected):
        front = query.shape[:-2]
        number = math.prod(front)
        q = query.reshape(number, *query.shape[-2:])
        k = projected.reshape(number, *projected.shape[-2:])
        scores = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0)
        return scores.view(*front, query.shape[-2], projected.shape[-2])


@wrong(
    "divides by the square root of the width; wrong for every width above 1",
    "The simplest way to measure how well a key matches a query is to multiply the two"
    " vectors entry by entry and add up the products.",
    "scales the dot product",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[-1])


@wrong(
    "x.T reverses all axes: right without a batch, an error or wrong for (B, T, D)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`,"
    " or none.",
    "x.T instead of x.mT",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.T


@wrong(
    "multiplies keys by queries, so the scores are (..., S, T); same shape for T = S,"
    " but transposed",
    '"""Score every query (..., T, D) against every key (..., S, D): (..., T, S)."""',
    "scores transposed",
)
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "exchanges the axes of the caller's keys in place: afterwards they are (..., D, S)",
    "Do not change the inputs.",
    "transposes the keys in place",
)
class DotScore(Score):
    def forward(self, query, projected):
        projected.transpose_(-2, -1)
        return query @ projected


@wrong(
    "bmm takes exactly three axes: an error without a batch and for (B, H, T, D)",
    "Your code must work in all three cases.",
    "bmm works for one batch axis only",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.bmm(query, projected.transpose(1, 2))


@wrong(
    "squeeze() removes all axes of length one: for B = 1, T = 1 or S = 1 axes of the"
    " result are missing",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squeeze without an axis",
)
class DotScore(Score):
    def forward(self, query, projected):
        pairs = query[..., :, None, None, :] @ projected[..., None, :, :, None]
        return pairs.squeeze()


@wrong(
    "computes in float32 and returns float32 for bfloat16, float16 and float64 vectors",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "result is always float32",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "keeps the transposed keys until keys of another shape come: a second source of"
    " the same shape is scored against the keys of the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keeps the keys of an earlier source",
)
class DotScore(Score):
    def __init__(self):
        super().__init__()
        self.columns = None

    def forward(self, query, projected):
        shape = (*projected.shape[:-2], projected.shape[-1], projected.shape[-2])
        if self.columns is None or self.columns.shape != shape:
            self.columns = projected.mT
        return query @ self.columns


@wrong(
    "(|q + k|^2 - |q - k|^2) / 4 cancels: for q of about 1e4 and k of about 1e-4, whose"
    " product is about 1, the result is 0 or a multiple of 2",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "difference of two huge squares",
)
class DotScore(Score):
    def forward(self, query, projected):
        q, k = query.unsqueeze(-2), projected.unsqueeze(-3)
        return ((q + k).square().sum(-1) - (q - k).square().sum(-1)) / 4


@wrong(
    "tensordot scores every query against the keys of all sentences, and the keys of"
    " the first sentence are taken for all: right without a batch and for B = 1",
    "The simplest way to measure how well a key matches a query is to multiply the two"
    " vectors entry by entry and add up the products.",
    "every sentence gets the first sentence's keys",
)
class DotScore(Score):
    def forward(self, query, projected):
        scores = torch.tensordot(query, projected, dims=([-1], [-1]))
        for _ in query.shape[:-2]:  # the keys' batch axes stand right after T
            scores = scores.select(query.dim() - 1, 0)
        return scores
