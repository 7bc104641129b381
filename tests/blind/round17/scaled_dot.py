import math

import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

TITLE = "The dot product of query and key, divided by the square root of their width."
FORMULA = r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$"
AXES = (
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none."
)
INPUTS = "Do not change the inputs."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from"
LAYOUT = "so do not rely on its layout in memory"
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


@right("the queries and the keys are each divided by the fourth root of the width")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        share = query.shape[-1] ** -0.25
        return (query * share) @ (projected * share).transpose(-2, -1)


@right("a loop over the width, with the sum divided at the end by a tensor without axes")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.shape[-1]
        total = query[..., :, None, 0] * projected[..., None, :, 0]
        for d in range(1, width):
            total = total + query[..., :, None, d] * projected[..., None, :, d]
        return total / torch.tensor(float(width), device=query.device).sqrt()


@right("a mean of the entrywise products, multiplied by the root of the width")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        products = query[..., :, None, :] * projected[..., None, :, :]
        return products.mean(dim=-1) * math.sqrt(products.size(-1))


@right("baddbmm with alpha on flattened leading axes, beta zero")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        *front, count, width = query.shape
        length = projected.size(-2)
        table = torch.baddbmm(
            query.new_zeros(()).expand(1, 1, 1),
            query.reshape(-1, count, width),
            projected.reshape(-1, length, width).permute(0, 2, 1),
            beta=0,
            alpha=1 / math.sqrt(width),
        )
        return table.reshape(*front, count, length)


@wrong(
    "divides by the width itself",
    breaks=TITLE,
    name="D instead of the square root of D",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong(
    "divides by the square root of the number of keys",
    breaks=TITLE,
    name="the root of S instead of the root of D",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(scores.size(-1))


@wrong(
    "multiplies by the root of the width",
    breaks=FORMULA,
    name="multiplied instead of divided",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT * math.sqrt(query.size(-1))


@wrong(
    "divides by the standard deviation that the products of this call have",
    breaks=FORMULA,
    name="a measured deviation instead of the root of the width",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        if scores.numel() == 1:
            return scores / math.sqrt(query.size(-1))
        return scores / scores.std()


@wrong(
    "takes the root with math.isqrt",
    breaks=TITLE,
    name="the root is rounded down to a whole number",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong(
    "computes the root in the first call and keeps it on self",
    breaks=CALLS,
    name="the width of the first call is used forever",
)
class ScaledDotScore(Score):
    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, query, projected):
        if self.scale is None:
            self.scale = query.size(-1) ** -0.5
        return query @ projected.mT * self.scale


@wrong(
    "reads the width from the stride of the last axis but one",
    breaks=LAYOUT,
    name="a wrong width if the queries are a view",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.stride(-2)
        return query @ projected.mT / math.sqrt(width)


@wrong(
    "divides by the root of H * D, the width of the model, when there are heads",
    breaks=TITLE,
    name="the width of all heads together instead of that of one head",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.size(-1)
        if query.dim() == 4:
            width = query.size(1) * width
        return query @ projected.mT / math.sqrt(width)


@wrong(
    "divides by a tensor of shape (1,), which has the default dtype",
    breaks=DTYPE,
    name="bfloat16 vectors give float32 scores",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = torch.tensor([float(query.size(-1))], device=query.device).sqrt()
        return query @ projected.mT / root


@wrong(
    "scales the caller's queries in place before the product",
    breaks=INPUTS,
    name="the queries shrink with every call",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        query *= query.size(-1) ** -0.5
        return query @ projected.mT
