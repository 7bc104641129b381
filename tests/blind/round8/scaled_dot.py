import math

import torch
from torch import nn

from attention_course.scores import Score
from blind import right, wrong


@right("einsum, with the query divided first")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return torch.einsum(
            "...td,...sd->...ts", query / math.sqrt(query.shape[-1]), projected
        )


@right("the fourth root of the width on each side")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = math.pow(query.size(-1), 0.25)
        return torch.matmul(query / root, torch.swapaxes(projected / root, -1, -2))


@right("a list of the products of each of the D entries, stacked and summed")
class ScaledDotScore(Score):
    power = -0.5

    def forward(self, query, projected):
        width = query.size(-1)
        parts = [
            query[..., d, None] * projected[..., d].unsqueeze(-2) for d in range(width)
        ]
        return torch.stack(parts).sum(dim=0) * width**self.power


class _Dot(Score):
    """The plain dot product."""

    def forward(self, query, projected):
        return query @ projected.transpose(-2, -1)


@right("a subclass of the dot score, scaled with a tensor of the query's dtype")
class ScaledDotScore(_Dot):
    def forward(self, query, projected):
        scale = query.new_tensor(query.size(-1), dtype=torch.float64).rsqrt()
        return super().forward(query, projected) * scale.to(query.dtype)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "divides by D instead of its root: scores shrink as the width grows",
    "The dot product of query and key, divided by the root of their width.",
    "divides by D, not by its root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong(
    "divides by the root of the number of keys: right only if S = D",
    "The dot product of query and key, divided by the root of their width.",
    "root of S instead of D",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.size(-2))


@wrong(
    "`@` and `/` bind equally strongly, and the root is multiplied: q @ k.mT * D**0.5",
    "The dot product of query and key, divided by the root of their width.",
    "multiplies by the root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scale = projected.size(-1) ** 0.5
        return query @ projected.mT * scale


# --- corners -----------------------------------------------------------------------


@wrong(
    "takes the width from axis 2: right with one axis in front; with (B, H, T, D) it is"
    " T, and with (T, D) there is no such axis",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "width read from axis 2",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(2))


@wrong(
    "divides by a float32 tensor of shape (1,): float16 and bfloat16 scores come back"
    " as float32",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "float32 root promotes half precision",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = torch.tensor([query.size(-1)], device=query.device).sqrt()
        return query @ projected.mT / root


@wrong(
    "divides the caller's query in place: it is smaller after every call",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "scales the given query in place",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        with torch.no_grad():
            query /= math.sqrt(query.size(-1))
        return query @ projected.mT


@wrong(
    "squeezes the result of a product over four axes: with one query the axis T is lost",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "squeeze loses the axis of one query",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        D = query.size(-1)
        products = (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(-1)
        scores = products / math.sqrt(D)
        return scores.squeeze(-2) if query.dim() > 2 else scores


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "the whole-number root: right for the widths 4, 64 and 1024 of the cell above,"
    " wrong for 5 or 32",
    "The dot product of query and key, divided by the root of their width.",
    "isqrt: right for square widths only",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong(
    "half of the scaling sits in project_keys: forward after project_keys is right, but"
    " forward with the keys themselves is not, and projected keys are not the keys",
    "so the base class `Score` returns the keys as they are.",
    "half of the scaling in project_keys",
)
class ScaledDotScore(Score):
    def project_keys(self, key):
        return key / key.size(-1) ** 0.25

    def forward(self, query, projected):
        return (query / query.size(-1) ** 0.25) @ projected.mT


@wrong(
    "computes the root once, at the first call, and keeps it: a second call with"
    " vectors of another width is scaled by the old one",
    "The dot product of query and key, divided by the root of their width.",
    "keeps the first call's width",
)
class ScaledDotScore(Score):
    root = None

    def forward(self, query, projected):
        if self.root is None:
            self.root = math.sqrt(query.size(-1))
        return query @ projected.mT / self.root
