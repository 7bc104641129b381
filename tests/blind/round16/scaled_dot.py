import math

import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
WORK = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRAD = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
AXES = "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none."
ROOT = "The dot product of query and key, divided by the square root of their width."
FORMULA = r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$"


@right("shares the divisor: divides both queries and keys by the fourth root of the width")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        fourth = query.size(-1) ** 0.25
        return (query / fourth).matmul((projected / fourth).transpose(-2, -1))


@right("computes the products in float64 and multiplies by exp(-log(D) / 2)")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        wide = torch.einsum("...td,...sd->...ts", query.double(), projected.double())
        return (wide * math.exp(-0.5 * math.log(query.shape[-1]))).to(query.dtype)


@right("the mean of the products times the square root of the width, one query at a time")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        rows = [(projected * q.unsqueeze(-2)).mean(dim=-1) for q in query.unbind(dim=-2)]
        return torch.stack(rows, dim=-2) * math.sqrt(query.shape[-1])


@right("scales the transposed keys, and transposes the product K Q^T back")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scale = float(torch.ones(query.shape[-1], dtype=torch.float64).norm())
        return ((projected / scale) @ query.mT).mT


@wrong("divides by D", breaks=ROOT, name="divided by the width")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1]


@wrong("divides by the root of the number of keys", breaks=ROOT, name="root of the wrong axis")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.shape[-2])


@wrong("divides by the measured standard deviation of random products, which is only about the root of the width and differs from call to call", breaks=ROOT, name="measured instead of computed")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.shape[-1]
        products = (torch.randn(1000, width) * torch.randn(1000, width)).sum(dim=-1)
        return query @ projected.mT / products.std().item()


@wrong("takes the whole-number root: right for the widths 1, 4, 16, 64, 1024, wrong for 2, 5 or 8", breaks=FORMULA, name="root of a square number only")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.shape[-1])


@wrong("divides the caller's query in place", breaks=INPUTS, name="query divided in place")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        if not query.requires_grad:
            query /= math.sqrt(query.shape[-1])
            return query @ projected.mT
        return query @ projected.mT / math.sqrt(query.shape[-1])


@wrong("remembers the width of the first call: wrong when the same object is used for vectors of another width", breaks=CALLS, name="width of the first call")
class ScaledDotScore(Score):
    def __init__(self):
        super().__init__()
        self.root = None

    def forward(self, query, projected):
        if self.root is None:
            self.root = math.sqrt(query.shape[-1])
        return query @ projected.mT / self.root


@wrong("divides only the data of the scores: the gradients lack the factor", breaks=GRAD, name="divided behind autograd's back")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        scores.data.div_(math.sqrt(query.shape[-1]))
        return scores


@wrong("divides by a float32 tensor with an axis, which turns bfloat16 scores into float32", breaks=DTYPE, name="root as a float32 tensor")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / torch.tensor([float(query.shape[-1])], device=query.device).sqrt()


@wrong("takes the width from axis 2: right for (B, T, D), an error without a batch and the number of queries with heads", breaks=AXES, name="width from a counted axis")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[2])


@wrong("scales in train mode only", breaks=WORK, name="unscaled in eval mode")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(query.shape[-1]) if self.training else scores
