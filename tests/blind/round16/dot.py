import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
WORK = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRAD = "Gradients must be right, too."
LAYOUT = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
AXES = "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none."
PRODUCT = "The simplest way is to multiply the two vectors entry by entry and to add up the products:"
DOC = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."


@right("multiplies keys by queries and transposes the result")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(projected, query.mT).mT


@right("adds up D outer products in float64")
class DotScore(Score):
    def forward(self, query, projected):
        total = 0
        for q, k in zip(query.double().unbind(dim=-1), projected.double().unbind(dim=-1)):
            total = total + q.unsqueeze(-1) * k.unsqueeze(-2)
        return total.to(query.dtype)


@right("scores one query after the other by a matrix-vector product and stacks the rows")
class DotScore(Score):
    def forward(self, query, projected):
        rows = [projected.matmul(q.unsqueeze(-1)).squeeze(-1) for q in query.unbind(dim=-2)]
        return torch.stack(rows, dim=-2)


@right("einsum over the shared axis")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@wrong("divides by the square root of the width", breaks=PRODUCT, name="scaled although it should not be")
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1] ** 0.5


@wrong("brings the keys to the right shape by reshape instead of a transpose", breaks=PRODUCT, name="reshape instead of transpose")
class DotScore(Score):
    def forward(self, query, projected):
        *lead, size, width = projected.shape
        return query @ projected.reshape(*lead, width, size)


@wrong("returns (..., S, T); looks right when T and S are equal and query and key are the same", breaks=DOC, name="rows and columns exchanged")
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong("exchanges axes 1 and 2: right for (B, S, D), wrong with heads or without a batch", breaks=AXES, name="axes counted from the front")
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong("squeezes the result: axes of length one (one query, one key, one sentence) disappear", breaks=DOC, name="squeeze removes axes of length one")
class DotScore(Score):
    def forward(self, query, projected):
        products = query.unsqueeze(-2).unsqueeze(-2) @ projected.unsqueeze(-3).unsqueeze(-1)
        return products.squeeze()


@wrong("flattens batch and heads with view: an error for heads that were split by a transpose, (B, T, H, D) to (B, H, T, D)", breaks=LAYOUT, name="view of a transposed tensor")
class DotScore(Score):
    def forward(self, query, projected):
        lead = query.shape[:-2]
        q = query.view(-1, *query.shape[-2:])
        k = projected.view(-1, *projected.shape[-2:])
        return torch.bmm(q, k.mT).view(*lead, query.shape[-2], projected.shape[-2])


@wrong("clamps the scores to [-10000, 10000], so that a later softmax does not overflow: wrong for large products", breaks=WORK, name="clamped scores")
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).clamp(-1e4, 1e4)


@wrong("treats the prepared keys as constants: no gradient reaches the keys", breaks=GRAD, name="detached keys")
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.detach().mT


@wrong("transposes the keys in place: the numbers are right, but the caller's keys are (D, S) afterwards", breaks=INPUTS, name="transposed in place")
class DotScore(Score):
    def forward(self, query, projected):
        if projected.is_leaf and projected.requires_grad:
            return query @ projected.mT
        return query @ projected.transpose_(-1, -2)


@wrong("keeps the transposed keys of the first source and uses them again for every source of the same shape", breaks=CALLS, name="keys remembered by their shape")
class DotScore(Score):
    def forward(self, query, projected):
        known = getattr(self, "known", None)
        if known is None or known.mT.shape != projected.shape or known.dtype != projected.dtype:
            self.known = known = projected.mT.contiguous()
        return query @ known
