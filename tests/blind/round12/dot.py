import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("einsum")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("a loop over the keys, stacked along a new last axis")
class DotScore(Score):
    def forward(self, query, projected):
        columns = []
        for s in range(projected.shape[-2]):
            columns.append((query * projected[..., s : s + 1, :]).sum(-1))
        return torch.stack(columns, dim=-1)


@right("all products at once in float64, summed and rounded once")
class DotScore(Score):
    def forward(self, query, projected):
        products = query.double().unsqueeze(-2) * projected.double().unsqueeze(-3)
        return products.sum(dim=-1).to(query.dtype)


@right("flattens the axes before the last two, bmm the other way round; counts calls")
class DotScore(Score):
    calls = 0

    def forward(self, query, projected):
        self.calls += 1
        q = query.reshape(-1, query.size(-2), query.size(-1))
        k = projected.reshape(-1, projected.size(-2), projected.size(-1))
        scores = torch.bmm(k, q.mT).mT
        return scores.reshape(*query.shape[:-1], projected.size(-2))


@wrong(
    "multiplies query t with key t only and adds up",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "pairs instead of all against all",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query * projected).sum(dim=-1)


@wrong(
    "divides by the square root of the width",
    "The simplest way is to multiply the two vectors entry by entry and to add up the"
    " products:",
    "scales the dot product",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(-1))


@wrong(
    "returns (..., S, T)",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "queries and keys exchanged",
)
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "uses torch.bmm, which takes three axes only: it fails for (T, D) and (B, H, T, D)",
    "Your code must work in all three cases.",
    "three axes only",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.bmm(query, projected.transpose(-2, -1))


@wrong(
    "computes in float32 for precision and does not go back: bfloat16 and float64"
    " vectors give float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result always float32",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "multiplies by one query at a time and squeezes all axes of length one from the"
    " result: for T = 1, S = 1 or B = 1 an axis is missing",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze without an axis",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        scores = query.unsqueeze(-2) @ projected.mT.unsqueeze(-3)  # (..., T, 1, S)
        return scores.squeeze()


@wrong(
    "switches gradients off, as the score has no parameters; queries and keys then get"
    " no gradients",
    "Gradients must be right, too.",
    "no gradients",
    subtle=True,
)
class DotScore(Score):
    @torch.no_grad()
    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "transposes the keys at the first call and keeps them: a second source is scored"
    " with the keys of the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keeps the keys of the first call",
    subtle=True,
)
class DotScore(Score):
    def __init__(self):
        super().__init__()
        self.transposed = None

    def forward(self, query, projected):
        if self.transposed is None:
            self.transposed = projected.mT
        return query @ self.transposed


@wrong(
    "transposes the keys only if the product is impossible otherwise: for S = D it"
    " multiplies with the keys as they are",
    "The simplest way is to multiply the two vectors entry by entry and to add up the"
    " products:",
    "decides by shapes whether to transpose",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        if query.size(-1) != projected.size(-2):
            projected = projected.mT
        return query @ projected


@wrong(
    "fills zeros that it makes on the CPU: vectors on a GPU give scores on the CPU",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "result on the CPU",
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        scores = torch.zeros(
            *query.shape[:-1], projected.size(-2), dtype=query.dtype
        )
        for s in range(projected.size(-2)):
            scores[..., s] = (query * projected[..., s : s + 1, :]).sum(dim=-1)
        return scores
