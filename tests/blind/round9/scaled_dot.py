import math

import torch
from attention_course.scores import Score
from blind import right, wrong


@right("divides the queries before the product, by a power with a negative exponent")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(query * query.size(-1) ** -0.5, projected.transpose(-1, -2))


@right("einsum, with a helper method for the scale")
class ScaledDotScore(Score):
    @staticmethod
    def scale(width):
        return 1.0 / math.sqrt(width)

    def forward(self, query, projected):
        products = torch.einsum("...td,...sd->...ts", query, projected)
        return products.mul(self.scale(projected.shape[-1]))


@right("a subclass of an own dot product, which is scaled afterwards")
class ScaledDotScore(type("Dot", (Score,), {"forward": lambda self, q, k: q @ k.mT})):
    def forward(self, query, projected):
        return super().forward(query, projected).div(math.sqrt(query.shape[-1]))


@right("mean of the products times the root of the width, a loop over the queries")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        wide = torch.promote_types(query.dtype, torch.float32)
        keys, rows = projected.to(wide), []
        for one in query.to(wide).unbind(dim=-2):
            rows.append((one.unsqueeze(-2) * keys).mean(dim=-1))
        scores = torch.stack(rows, dim=-2) * math.sqrt(query.shape[-1])
        return scores.to(query.dtype)


@wrong(
    "does not divide by anything; wrong for every width above 1",
    "The dot product of query and key, divided by the square root of their width.",
    "forgets the scale",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "divides by the width itself; wrong for every width above 1",
    "The dot product of query and key, divided by the square root of their width.",
    "divides by D, not by its root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1]


@wrong(
    "divides by the root of the number of keys; wrong whenever S is not D",
    "The dot product of query and key, divided by the square root of their width.",
    "scales by the number of keys",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(scores.shape[-1])


@wrong(
    "divides the caller's queries in place: a second call with them gives smaller"
    " scores",
    "Do not change the inputs.",
    "query /= changes the queries",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        with torch.no_grad():
            query /= math.sqrt(query.shape[-1])
        return query @ projected.mT


@wrong(
    "divides by a float32 tensor with one axis on the CPU: bfloat16 and float16 vectors"
    " give float32 scores, and vectors on a GPU an error",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "the root is a float32 tensor",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / torch.sqrt(torch.tensor([float(query.shape[-1])]))


@wrong(
    "takes axis 1 for the width: right for (T, D), but for (B, T, D) it divides by the"
    " root of T and for (B, H, T, D) by that of H",
    "Your code must work in all three cases.",
    "shape[1] is the width only without a batch",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[1])


@wrong(
    "exchanges axes 1 and 2 of the keys: right for (B, S, D) alone, an error without a"
    " batch and an error or wrong for (B, H, S, D)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`,"
    " or none.",
    "transpose(1, 2) counts axes from the front",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2) / math.sqrt(query.shape[-1])


@wrong(
    "math.isqrt rounds the root down: right for the widths 1, 4, 16, 64 and 1024, but"
    " width 8 is divided by 2 and width 32 by 5",
    "The dot product of query and key, divided by the square root of their width.",
    "root rounded to a whole number",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.shape[-1])


@wrong(
    "computes the scale at the first call of any object and keeps it in the class: the"
    " next width is divided by the root of the first one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "scale of the first call kept for all",
)
class ScaledDotScore(Score):
    scale = None

    def forward(self, query, projected):
        if self.scale is None:
            type(self).scale = math.sqrt(query.shape[-1])
        return query @ projected.mT / self.scale


@wrong(
    "recovers the scores from torch's attention as logarithms of its weights: each row"
    " is lower by a constant, so the weights are right and the scores wrong",
    '"""Score every query (..., T, D) against every key (..., S, D): (..., T, S)."""',
    "log weights are not scores",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scaled = query @ projected.mT / math.sqrt(query.shape[-1])
        return torch.log_softmax(scaled, dim=-1)
