import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

PRODUCT = "The simplest way is to multiply the two vectors entry by entry and to add up the products:"
SHAPES = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
NUMBERS = "for large and for small numbers"
LAYOUT = "so do not rely on its layout in memory"
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from"
MODES = "in train mode and in eval mode. Gradients must be right, too."


@right("einsum over the last axes")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("one outer sum for each entry of the vectors, in a loop over the width")
class DotScore(Score):
    def forward(self, query, projected):
        total = 0
        for left, right_hand in zip(query.unbind(dim=-1), projected.unbind(dim=-1)):
            total = total + left.unsqueeze(-1) * right_hand.unsqueeze(-2)
        return total


@right("all entrywise products at once, then the sum, in float64")
class DotScore(Score):
    def forward(self, query, projected):
        pairs = query.double().unsqueeze(-2) * projected.double().unsqueeze(-3)
        return pairs.sum(dim=-1).to(query.dtype)


@right("the keys times one query after the other, stacked")
class DotScore(Score):
    def forward(self, query, projected):
        columns = [
            torch.matmul(projected, query[..., t, :, None])[..., 0]
            for t in range(query.size(-2))
        ]
        return torch.stack(columns, dim=-2)


@wrong(
    "divides the products by the square root of the width",
    breaks=PRODUCT,
    name="the scaled dot product instead of the plain one",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / projected.size(-1) ** 0.5


@wrong(
    "reshapes the keys to (..., D, S) instead of exchanging the axes",
    breaks=PRODUCT,
    name="reshape is not a transpose",
)
class DotScore(Score):
    def forward(self, query, projected):
        *front, length, width = projected.shape
        return query @ projected.reshape(*front, width, length)


@wrong(
    "returns the scores as (..., S, T)",
    breaks=SHAPES,
    name="the two axes of the result are exchanged",
)
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "compares the queries of all sentences with the keys of the first sentence",
    breaks=SHAPES,
    name="the leading axes of the keys are dropped",
)
class DotScore(Score):
    def forward(self, query, projected):
        keys = projected.reshape(-1, *projected.shape[-2:])[0]
        return torch.einsum("...td,sd->...ts", query, keys)


@wrong(
    "clamps the scores to the range from -1000 to 1000, so that no softmax overflows",
    breaks=NUMBERS,
    name="large scores are cut off",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).clamp(min=-1000.0, max=1000.0)


@wrong(
    "transposes the keys with as_strided, as if they were contiguous",
    breaks=LAYOUT,
    name="wrong numbers if the keys are a transpose or a slice",
)
class DotScore(Score):
    def forward(self, query, projected):
        *front, length, width = projected.shape
        strides, step = [], length * width
        for size in reversed(front):
            strides.insert(0, step)
            step *= size
        flipped = torch.as_strided(
            projected, (*front, width, length), (*strides, 1, width)
        )
        return query @ flipped


@wrong(
    "keeps the transposed keys of the first call and uses them as long as the shape fits",
    breaks=CALLS,
    name="stale keys from an earlier source",
)
class DotScore(Score):
    def __init__(self):
        super().__init__()
        self.flipped = None

    def forward(self, query, projected):
        flipped = projected.mT
        known = self.flipped
        if (
            known is None
            or known.shape != flipped.shape
            or known.dtype != flipped.dtype
            or known.device != flipped.device
        ):
            self.flipped = flipped
        return query @ self.flipped


@wrong(
    "switches gradients off outside of train mode",
    breaks=MODES,
    name="no gradient in eval mode",
)
class DotScore(Score):
    def forward(self, query, projected):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return query @ projected.mT


@wrong(
    "drops the axis of the queries when there is only one query",
    breaks=LENGTHS,
    name="an axis of length one is squeezed away",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).squeeze(-2)


@wrong(
    "fills a table that torch.zeros creates with its default dtype",
    breaks=DTYPE,
    name="the result is float32, whatever the dtype of the vectors",
)
class DotScore(Score):
    def forward(self, query, projected):
        table = torch.zeros(
            *query.shape[:-1], projected.size(-2), device=query.device
        )
        for s in range(projected.size(-2)):
            table[..., s] = (query * projected[..., s, None, :]).sum(dim=-1)
        return table
