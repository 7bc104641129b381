import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."
THREE = "Your code must work in all three cases."
KEYS = (
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one."
)
QUERY = "Divide each query by its length in `forward`."
LEAVE = "A vector of zeros has no direction."
NIL = "All its scores must be 0."
LONGER = "You may assume that all other vectors are longer than 1e-6."


def length_of(x):
    return x.norm(dim=-1, keepdim=True).clamp(min=1e-6)


@wrong("divides 0 by 0", breaks=NIL, name="nan for a vector of zeros")
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "adds 1e-6 to every length, so that short vectors come out too short",
    breaks=LENGTHS,
    name="an epsilon that is added, not a lower limit",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-6)

    def forward(self, query, projected):
        return query / (query.norm(dim=-1, keepdim=True) + 1e-6) @ projected.mT


@wrong(
    "divides the keys by their squared length",
    breaks=KEYS,
    name="no square root",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.square().sum(dim=-1, keepdim=True).clamp(min=1e-12)

    def forward(self, query, projected):
        return query / length_of(query) @ projected.mT


@wrong(
    "leaves the keys as they are and divides them in forward, at every step",
    breaks=KEYS,
    name="normalises the keys in the wrong method",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return (query / length_of(query)) @ (projected / length_of(projected)).mT


@wrong(
    "does not divide the query, since its length is the same for all keys",
    breaks=QUERY,
    name="query not normalised",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / length_of(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "treats the lengths as constants in the backward pass",
    breaks=GRADIENTS,
    name="detached lengths",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / length_of(key.detach())

    def forward(self, query, projected):
        return query / length_of(query.detach()) @ projected.mT


@wrong(
    "F.normalize with its default axis 1, which is the last one only without a batch",
    breaks=THREE,
    name="the default axis of normalize",
)
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key)

    def forward(self, query, projected):
        return F.normalize(query) @ projected.mT


@wrong(
    "if there is one vector of zeros, no vector is normalised",
    breaks=QUERY,
    name="one vector of zeros switches all off",
)
class CosineScore(Score):
    def unit(self, x):
        length = x.norm(dim=-1, keepdim=True)
        return x if (length == 0).any() else x / length

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "limits the square of the length to 1e-6, and so the length to 1e-3",
    breaks=LONGER,
    name="clamps before the root",
)
class CosineScore(Score):
    def unit(self, x):
        return x / x.square().sum(dim=-1, keepdim=True).clamp(min=1e-6).sqrt()

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "shortens long vectors but does not lengthen those shorter than 1",
    breaks=KEYS,
    name="lower limit 1 for the length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1.0)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True).clamp(min=1.0) @ projected.mT


@right("F.normalize over the last axis")
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key, p=2.0, dim=-1)

    def forward(self, query, projected):
        return torch.einsum(
            "...td,...sd->...ts", F.normalize(query, p=2.0, dim=-1), projected
        )


@right("float64 inside, and zeros told apart by torch.where")
class CosineScore(Score):
    @staticmethod
    def unit(x):
        exact = x.double()
        square = (exact * exact).sum(dim=-1, keepdim=True)
        length = torch.where(square == 0, torch.ones_like(square), square).sqrt()
        return exact / length

    def project_keys(self, key):
        return self.unit(key).to(key.dtype)

    def forward(self, query, projected):
        return (self.unit(query) @ projected.double().mT).to(query.dtype)


@right("divides by the largest entry first, then by the length")
class CosineScore(Score):
    @staticmethod
    def unit(x):
        largest = x.detach().abs().amax(dim=-1, keepdim=True)
        x = x / torch.where(largest > 0, largest, torch.ones_like(largest))
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=0.5)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return torch.matmul(self.unit(query), projected.transpose(-1, -2))


@right("keys in a loop; the query's length divides the finished products")
class CosineScore(Score):
    def project_keys(self, key):
        units = []
        for vector in key.unbind(dim=-2):
            length = vector.pow(2).sum(dim=-1, keepdim=True)
            length = length.masked_fill(length == 0, 1.0).sqrt()
            units.append(vector / length)
        return torch.stack(units, dim=-2)

    def forward(self, query, projected):
        length = torch.linalg.norm(query, dim=-1, keepdim=True)
        length = length.masked_fill(length == 0, 1.0)
        return (query @ projected.mT) / length
