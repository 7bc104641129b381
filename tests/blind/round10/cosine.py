import math
import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "forgets to divide the queries by their lengths: every score is too large by the length of its query",
    "Divide each query by its length in `forward`.",
    "queries are not normalised",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "does not guard against the length 0: a vector of zeros becomes nan, and so do its scores",
    "All its scores must be 0.",
    "zero divided by zero is nan",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong(
    "takes the length over the axis of the vectors (-2) instead of over their entries, so neither keys nor queries have length one",
    r"Divide the product by the lengths of both vectors, $\lVert x \rVert = \sqrt{x_1^2 + \dots + x_D^2}$.",
    "norm taken over the wrong axis",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-2, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        unit = query / query.norm(dim=-2, keepdim=True).clamp(min=1e-6)
        return unit @ projected.mT


# ------------------------------------------------------------------------- corners


@wrong(
    "adds 1e-3 to the lengths instead of guarding only the zero: a vector of length 0.001 gets half its cosine, one of length 0.01 loses a tenth",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "adds a constant to every length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-3)

    def forward(self, query, projected):
        unit = query / (query.norm(dim=-1, keepdim=True) + 1e-3)
        return unit @ projected.mT


@wrong(
    "calls F.normalize without dim, which works along axis 1: right for (T, D), but along the positions for (B, T, D) and along the heads or the positions for (B, H, T, D)",
    "Your code must work in all three cases.",
    "F.normalize along its default axis 1",
)
class CosineScore(Score):
    def project_keys(self, key):
        return nn.functional.normalize(key)

    def forward(self, query, projected):
        return nn.functional.normalize(query) @ projected.mT


@wrong(
    "if any vector has the length 0, adds 1 to all lengths: the other vectors of this call then no longer have length one",
    "Divide each key by its length in `project_keys`, which is called once for each source.",
    "one zero vector changes all others",
)
class CosineScore(Score):
    def unit(self, x):
        length = x.norm(dim=-1, keepdim=True)
        if (length == 0).any():
            length = length + 1
        return x / length

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "divides in place: the caller's keys and queries have length one after the call",
    "Do not change the inputs.",
    "normalises the inputs in place",
)
class CosineScore(Score):
    def project_keys(self, key):
        key /= key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        query /= query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT


# ------------------------------------------------------------------- hard to notice


@wrong(
    "project_keys leaves nan in place of a key of zeros; forward hides it with nan_to_num, so all scores are right but the projected key is not the vector of zeros",
    "Leave it as it is.",
    "nan keys hidden by nan_to_num on scores",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        unit = query / query.norm(dim=-1, keepdim=True)
        return torch.nan_to_num(unit @ projected.mT)


@wrong(
    "project_keys only stores the lengths of the keys and returns them undivided; forward divides by the stored lengths, so scoring against an earlier source after preparing a second one is wrong",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "key lengths stored between the two methods",
)
class CosineScore(Score):
    def project_keys(self, key):
        self.length = key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        unit = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return unit @ (projected / self.length).mT


@wrong(
    "clamps the length of the queries at 1 instead of at 1e-6: right for the usual random queries, which are longer than 1, while a shorter query is not divided and its scores are too small",
    "The result is the cosine of the angle between query and key, a number between -1 and 1.",
    "clamp at one: short queries keep their length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return nn.functional.normalize(key, dim=-1, eps=1e-6)

    def forward(self, query, projected):
        length = query.square().sum(dim=-1, keepdim=True).sqrt()
        return (query / length.clamp(min=1.0)) @ projected.mT


# --------------------------------------------------------------------------- right


@right("F.normalize along the last axis and einsum")
class CosineScore(Score):
    def project_keys(self, key):
        return nn.functional.normalize(key, dim=-1, eps=1e-6)

    def forward(self, query, projected):
        unit = nn.functional.normalize(query, dim=-1, eps=1e-6)
        return torch.einsum("...td,...sd->...ts", unit, projected)


@right("the length 0 is replaced by 1 with torch.where; the product is divided by the lengths of the queries afterwards")
class CosineScore(Score):
    @staticmethod
    def _lengths(x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return torch.where(length == 0, torch.ones_like(length), length)

    def project_keys(self, key):
        return key / self._lengths(key)

    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(-2, -1)) / self._lengths(query)


@right("shrinks each vector by its largest entry first, then root of the sum of squares")
class CosineScore(Score):
    def unit(self, x):
        largest = x.detach().abs().amax(dim=-1, keepdim=True)
        zero = largest == 0
        x = x / largest.masked_fill(zero, 1)
        squares = x.pow(2).sum(dim=-1, keepdim=True)
        return x * squares.masked_fill(zero, 1).rsqrt()

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@right("a loop over the queries, and the smallest divisor as an extra argument of __init__")
class CosineScore(Score):
    def __init__(self, smallest=1e-6):
        super().__init__()
        self.smallest = smallest

    def project_keys(self, key):
        return key.div(key.norm(dim=-1, keepdim=True).clamp(min=self.smallest))

    def forward(self, query, projected):
        rows = []
        for q in query.unbind(dim=-2):
            q = q / q.norm(dim=-1, keepdim=True).clamp(min=self.smallest)
            rows.append((projected * q.unsqueeze(-2)).sum(dim=-1))
        return torch.stack(rows, dim=-2)
