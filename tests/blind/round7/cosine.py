import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("functional normalize over the last axis")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return F.normalize(key, p=2, dim=-1, eps=1e-6)

    def forward(self, query, projected):
        return torch.einsum(
            "...td,...sd->...ts", F.normalize(query, dim=-1, eps=1e-6), projected
        )


@right("lengths of zero are replaced by one, with where")
class CosineScore(Score):
    def unit(self, x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / torch.where(length > 0, length, torch.ones_like(length))

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query).matmul(projected.transpose(-1, -2))


@right("first divides by the largest entry, so that squares cannot overflow")
class CosineScore(Score):
    def project_keys(self, key):
        top = key.detach().abs().amax(dim=-1, keepdim=True)
        key = key / top.masked_fill(top == 0, 1)
        length = (key * key).sum(dim=-1, keepdim=True)
        return key * length.masked_fill(length == 0, 1).rsqrt()

    def forward(self, query, projected):
        units = self.project_keys(query)
        return (units.unsqueeze(-2) * projected.unsqueeze(-3)).sum(-1)


@right("one query after the other, a plain function outside of the class")
class CosineScore(Score):
    def project_keys(self, key, smallest=1e-6):
        return key.div(key.norm(dim=-1, keepdim=True).clamp_min(smallest))

    def forward(self, query, projected):
        scores = query.new_empty(*query.shape[:-1], projected.size(-2))
        rows = []
        for t in range(query.size(-2)):
            ask = self.project_keys(query[..., t : t + 1, :])
            rows.append(ask @ projected.mT)
        return torch.cat(rows, dim=-2) if rows else scores


@wrong(
    "a vector of zeros is divided by 0: its scores are nan",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores are 0.",
    "no guard against length zero",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "normalizes the keys only: the scores of a long query are larger than 1",
    "The queries are divided by their lengths in `forward`.",
    "queries are not divided by their lengths",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "F.normalize without dim goes along axis 1: right for (T, D), but in a batch it divides by lengths over the positions",
    "If only the direction is to count, divide the product by the lengths of both vectors, $\\lVert x \\rVert = \\sqrt{x_1^2 + \\dots + x_D^2}$.",
    "normalize along the wrong axis",
)
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key)

    def forward(self, query, projected):
        return F.normalize(query) @ projected.mT


@wrong(
    "adds 1e-6 to every entry before dividing: a vector of zeros becomes a vector of length one, with scores other than 0",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores are 0.",
    "zero vectors get a direction",
)
class CosineScore(Score):
    def project_keys(self, key):
        key = key + 1e-6
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "the smallest divisor 1e-12 is 0 in half precision: a half-precision vector of zeros gives nan",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores are 0.",
    "guard vanishes in half precision",
)
class CosineScore(Score):
    def project_keys(self, key):
        length = key.norm(dim=-1, keepdim=True)
        return key / (length + torch.full_like(length, 1e-12))

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "divides by at least 1: vectors shorter than 1, which are rare in a wide space, keep their length",
    "`forward` gets keys of length one.",
    "vectors shorter than one are not divided",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1.0)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "adds 0.001 to every length: a vector of length 0.001 gets half of its cosine, and the cosine of a short vector with itself is not 1",
    "The result is the cosine of the angle between query and key, a number between -1 and 1.",
    "constant added to every length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-3)

    def forward(self, query, projected):
        return query / (query.norm(dim=-1, keepdim=True) + 1e-3) @ projected.mT


@wrong(
    "the keys are divided by their lengths in forward, at every step: the scores are right, but project_keys returns keys of their old length",
    "The length of a key depends on the source alone, so `project_keys` divides by it, once per sentence, and `forward` gets keys of length one.",
    "divides keys in forward, not in project_keys",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        query = F.normalize(query, dim=-1, eps=1e-6)
        return query @ F.normalize(projected, dim=-1, eps=1e-6).mT


@wrong(
    "the lengths of the queries lack their axis: right for one query per sentence, divides by the wrong lengths if T = D (or raises)",
    "The queries are divided by their lengths in `forward`.",
    "keepdim is missing for the queries",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        length = query.norm(dim=-1).clamp(min=1e-6)
        if query.size(-2) == 1:
            length = length.unsqueeze(-1)
        elif query.dim() == 3:
            length = length.unsqueeze(1)
        return query / length @ projected.mT


@wrong(
    "divides the caller's keys in place: the scores are right, also in a second call, but the keys have length one afterwards",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "divides the keys in place",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key.div_(key.norm(dim=-1, keepdim=True).clamp(min=1e-6))

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT
