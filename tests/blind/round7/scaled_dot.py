import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("scales query and key by the fourth root each, inside forward")
class ScaledDotScore(Score):
    """The dot product of query and key, divided by the root of their width."""

    def forward(self, query, projected):
        factor = query.shape[-1] ** -0.25
        return (query * factor).matmul((projected * factor).transpose(-2, -1))


@right("einsum, width from the keys, a default argument")
class ScaledDotScore(Score):
    def forward(self, query, projected, power=0.5):
        products = torch.einsum("...id,...jd->...ij", query, projected)
        return products.div(math.pow(projected.shape[-1], power))


@right("a mean over the entries times the root of the width")
class ScaledDotScore(Score):
    @staticmethod
    def root(width):
        return math.exp(0.5 * math.log(width))

    def forward(self, query, projected):
        products = query[..., :, None, :] * projected[..., None, :, :]
        return products.mean(dim=-1) * self.root(query.size(-1))


@right("subclass of a plain dot score, loop over the queries")
class ScaledDotScore(Score):
    def dot(self, query, projected):
        rows = [
            (projected @ ask.unsqueeze(-1)).squeeze(-1) for ask in query.unbind(dim=-2)
        ]
        if not rows:
            return projected.new_zeros(
                *query.shape[:-1], projected.size(-2)
            )
        return torch.stack(rows, dim=-2)

    def forward(self, query, projected):
        return self.dot(query / query.size(-1) ** 0.5, projected)


@wrong(
    "no division at all: every score is too large by the root of D",
    "$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$",
    "forgets to scale",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "divides by D instead of its root: every score is too small unless D = 1",
    "$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$",
    "divides by the width, not by its root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong(
    "divides by the root of the number of keys: wrong for every S != D",
    "$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$",
    "root of the number of keys, not width",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.size(-2))


@wrong(
    "rounds the root down: right for the widths 4, 64 and 1024, wrong for 5, 8 or 32",
    "$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$",
    "rounds the root to a whole number",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong(
    "takes the width from axis 2: raises without a batch axis, and takes T for the width where there are heads",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    "counts the axes from the front",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(-2, -1) / math.sqrt(query.size(2))


@wrong(
    "the root is a float32 tensor with an axis: half-precision vectors give float32 scores, and on another device it raises",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "divisor tensor promotes the dtype",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = torch.tensor([float(query.size(-1))])
        return query @ projected.mT / width.sqrt()


@wrong(
    "limits the scores to ±10000: vectors with entries of a few hundred get wrong scores",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "clamps large scores",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT / math.sqrt(query.size(-1))
        return scores.clamp(-1e4, 1e4)


@wrong(
    "the root is computed in the first call and kept: vectors of another width in a second call are divided by the wrong root",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "width remembered from the first call",
)
class ScaledDotScore(Score):
    def __init__(self):
        super().__init__()
        self.root = None

    def forward(self, query, projected):
        if self.root is None:
            self.root = math.sqrt(query.size(-1))
        return query @ projected.mT / self.root


@wrong(
    "divides the caller's query in place and multiplies it back: exact for D = 4 or 64, but for D = 3 or 7 the query has other last digits afterwards (and a query that needs a gradient raises)",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "changes the query and restores it inexactly",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = math.sqrt(query.size(-1))
        query.div_(root)
        scores = query @ projected.mT
        query.mul_(root)
        return scores


@wrong(
    "subtracts the largest score of each row: the weights after a softmax are the same, but every score is wrong",
    "$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$",
    "shifts each row of scores by its maximum",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT / math.sqrt(query.size(-1))
        if scores.size(-1) == 0:
            return scores
        return scores - scores.amax(dim=-1, keepdim=True).detach()
