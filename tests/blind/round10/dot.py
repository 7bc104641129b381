import math
import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "uses .T, which reverses all axes: right for (T, D) and (S, D), an error or a wrong shape with the axes (B,) or (B, H)",
    "Your code must work in all three cases.",
    "transposes all axes instead of the last two",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.permute(*range(projected.dim() - 1, -1, -1))


@wrong(
    "reshapes the keys from (S, D) to (D, S) instead of transposing them: the entries get mixed up whenever S > 1 and D > 1",
    "The simplest way to measure how well a key matches a query is to multiply the two vectors entry by entry and add up the products.",
    "reshape is not a transpose",
)
class DotScore(Score):
    def forward(self, query, projected):
        *axes, size, width = projected.shape
        return query @ projected.reshape(*axes, width, size)


@wrong(
    "multiplies query t with key t only: an error if T is not S, and (..., T) in place of (..., T, S) if they are equal",
    '"""Score every query (..., T, D) against every key (..., S, D): (..., T, S)."""',
    "compares query t with key t only",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query * projected).sum(dim=-1)


# ------------------------------------------------------------------------- corners


@wrong(
    "uses bmm, which accepts exactly one batch axis: (T, D) and (B, H, T, D) raise",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none.",
    "bmm only works with one batch axis",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.bmm(query, projected.transpose(1, 2))


@wrong(
    "squeezes the result: with T = 1, S = 1 or B = 1 an axis is missing",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes axes of length one",
)
class DotScore(Score):
    def forward(self, query, projected):
        products = projected.unsqueeze(-3) @ query.unsqueeze(-1)
        return products.squeeze()


@wrong(
    "computes in float32 for precision and forgets to go back: bfloat16 and float64 inputs give float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result left in float32",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "transposes the keys with transpose_: the caller's key tensor has the shape (..., D, S) after the call",
    "Do not change the inputs.",
    "transposes the input in place",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose_(-2, -1))


# ------------------------------------------------------------------- hard to notice


@wrong(
    "overrides project_keys so that it transposes the keys, and forward multiplies without a transpose: right through both methods, but forward fails on keys as Score returns them, and project_keys changes them",
    "so you do not write this method here: you inherit it from `Score`, which returns the keys unchanged.",
    "transpose moved into project_keys",
)
class DotScore(Score):
    def project_keys(self, key):
        return key.mT

    def forward(self, query, projected):
        return query @ projected


@wrong(
    "keeps the transposed keys for the next call and renews them only if the shape changes: a second source of the same shape is scored with the first one's keys",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "keys remembered by their shape",
)
class DotScore(Score):
    def forward(self, query, projected):
        last = getattr(self, "last", None)
        if last is None or last.mT.shape != projected.shape:
            self.last = last = projected.mT
        return query @ last


@wrong(
    "computes (|q|^2 + |k|^2 - |q - k|^2) / 2: for a query with entries near 1e4 and keys with entries near 1e-3 the product vanishes in the rounding of |q|^2",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "dot product from distances, loses all digits",
)
class DotScore(Score):
    def forward(self, query, projected):
        q, k = query.unsqueeze(-2), projected.unsqueeze(-3)
        near = (q - k).square().sum(-1)
        return (q.square().sum(-1) + k.square().sum(-1) - near) / 2


# --------------------------------------------------------------------------- right


@right("einsum with an ellipsis")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("all products by broadcasting, then a sum")
class DotScore(Score):
    def forward(self, query, projected):
        return (query[..., :, None, :] * projected[..., None, :, :]).sum(dim=-1)


@right("one key after the other, stacked along the last axis")
class DotScore(Score):
    def forward(self, query, projected):
        columns = []
        for key in projected.unbind(dim=-2):
            columns.append(torch.matmul(query, key.unsqueeze(-1)).squeeze(-1))
        return torch.stack(columns, dim=-1)


@right("an __init__ of its own, and the product the other way round: (K Q^T)^T")
class DotScore(Score):
    def __init__(self, axis=-1):
        super().__init__()
        self.axis = axis

    def forward(self, query, projected):
        turned = torch.movedim(query, self.axis, -2)
        return torch.matmul(projected, turned).transpose(-1, -2).contiguous()
