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
FORMULA = r"$$e_{ts} = \frac{q_t^\top k_s}{\lVert q_t \rVert \, \lVert k_s \rVert}$$"
WHERE = (
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one."
)
LENGTH = (
    r"The length of a vector is $\lVert x \rVert = \sqrt{x_1^2 + \dots + x_D^2}$."
)
ZERO = "All its scores must be 0."
LONGER = "You may assume that all other vectors are longer than 1e-6."


@right("in float64: multiplies by rsqrt of the sum of squares, with 1 for a zero sum")
class CosineScore(Score):
    def _unit(self, x):
        x = x.double()
        square = torch.einsum("...d,...d->...", x, x).unsqueeze(-1)
        return x * torch.where(square > 0, square, torch.ones_like(square)).rsqrt()

    def project_keys(self, key):
        return self._unit(key).to(key.dtype)

    def forward(self, query, projected):
        return (self._unit(query) @ projected.double().mT).to(query.dtype)


@right("divides by the largest entry first (detached), then by what length is left")
class CosineScore(Score):
    def _unit(self, x):
        top = x.detach().abs().amax(dim=-1, keepdim=True)
        x = x / top.masked_fill(top == 0, 1)
        length = x.square().sum(dim=-1, keepdim=True)
        return x / length.masked_fill(length == 0, 1).sqrt()

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return torch.einsum("...sd,...td->...ts", projected, self._unit(query))


@right("0 / 0 becomes nan, and nan_to_num turns the zero vector back into zeros")
class CosineScore(Score):
    def project_keys(self, key):
        length = torch.linalg.vector_norm(key, dim=-1, keepdim=True)
        return (key / length).nan_to_num(nan=0.0)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        length = x.double().square().sum(dim=-1, keepdim=True).sqrt()
        length = length.masked_fill(length == 0, 1)
        unit = x.double() / length
        ctx.save_for_backward(unit, length)
        return unit.to(x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        unit, length = ctx.saved_tensors
        along = (grad.double() * unit).sum(dim=-1, keepdim=True)
        return ((grad.double() - along * unit) / length).to(grad.dtype)


@right("an autograd function of its own, and a loop over the queries")
class CosineScore(Score):
    def project_keys(self, key):
        return _Unit.apply(key)

    def forward(self, query, projected):
        rows = _Unit.apply(query).unbind(-2)
        rows = [(projected @ row.unsqueeze(-1)).squeeze(-1) for row in rows]
        return torch.stack(rows, dim=-2)


@wrong(
    "leaves the keys as they are in project_keys and normalises both in forward",
    WHERE,
    "keys normalised in forward",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        query = F.normalize(query, dim=-1)
        return query @ F.normalize(projected, dim=-1).mT


@wrong("forgets the square root of the length", LENGTH, "divides by the squared length")
class CosineScore(Score):
    def _unit(self, x):
        return x / x.square().sum(dim=-1, keepdim=True).clamp(min=1e-12)

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return self._unit(query) @ projected.mT


@wrong(
    "protects only the keys: a query of zeros gets nan",
    ZERO,
    "nan for a zero query",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "adds 1e-6 to each length, so that a vector of length 2e-6 is a third too short",
    LENGTHS,
    "adds epsilon to the length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-6)

    def forward(self, query, projected):
        return query / (query.norm(dim=-1, keepdim=True) + 1e-6) @ projected.mT


@wrong(
    "clamps the squared length at 1e-6, so that all vectors shorter than 1e-3 get"
    " cosines that are too small",
    LONGER,
    "clamps the squared length",
)
class CosineScore(Score):
    def _unit(self, x):
        return x / x.square().sum(dim=-1, keepdim=True).clamp(min=1e-6).sqrt()

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return self._unit(query) @ projected.mT


@wrong(
    "takes a vector for zero if its entries add up to zero, such as (1, -1)",
    FORMULA,
    "recognises zero vectors by their sum",
)
class CosineScore(Score):
    def _unit(self, x):
        zero = x.sum(dim=-1, keepdim=True) == 0
        length = x.norm(dim=-1, keepdim=True)
        return (x / length.masked_fill(length == 0, 1)).masked_fill(zero, 0)

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return self._unit(query) @ projected.mT


@wrong(
    "if any vector of the batch is zero, none of the vectors is divided",
    FORMULA,
    "one zero vector stops all divisions",
)
class CosineScore(Score):
    def _unit(self, x):
        length = x.norm(dim=-1, keepdim=True)
        return x if (length == 0).any() else x / length

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return self._unit(query) @ projected.mT


@wrong(
    "keeps the divided keys as long as it gets the same tensor object, even if the"
    " numbers in it have changed",
    CALLS,
    "stale cache of divided keys",
)
class CosineScore(Score):
    _source, _unit_keys = None, None

    def project_keys(self, key):
        if key is not self._source or key.requires_grad:
            length = key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
            self._source, self._unit_keys = key, key / length
        return self._unit_keys

    def forward(self, query, projected):
        length = query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query / length @ projected.mT


@wrong(
    "computes the lengths without gradients, so that the gradients keep a part along"
    " the vector",
    GRADS,
    "no gradient through the length",
)
class CosineScore(Score):
    @torch.no_grad()
    def _length(self, x):
        return x.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def project_keys(self, key):
        return key / self._length(key)

    def forward(self, query, projected):
        return query / self._length(query) @ projected.mT


@wrong(
    "computes the length of bfloat16 vectors in float32 and forgets to convert back:"
    " the keys, and with them the scores, are float32",
    DTYPE,
    "bfloat16 becomes float32",
)
class CosineScore(Score):
    def _unit(self, x):
        square = (x.float() if x.dtype == torch.bfloat16 else x).square()
        return x / square.sum(dim=-1, keepdim=True).sqrt().clamp(min=1e-6)

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return self._unit(query) @ projected.mT.to(self._unit(query).dtype)
