import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("nn.functional.normalize with its own tiny eps")
class CosineScore(Score):
    def project_keys(self, key):
        return nn.functional.normalize(key, dim=-1)

    def forward(self, query, projected):
        return nn.functional.normalize(query, dim=-1) @ projected.mT


@right("float64 inside; a vector of zeros is divided by 1")
class CosineScore(Score):
    def _unit(self, x):
        wide = x.double()
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        return (wide / torch.where(length == 0, 1.0, length)).to(x.dtype)

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", self._unit(query), projected)


@right("divides by the largest entry first, then by the length; zeros are guarded")
class CosineScore(Score):
    @staticmethod
    def shorten(x):
        largest = x.detach().abs().amax(dim=-1, keepdim=True)
        zero = largest == 0
        x = x / largest.masked_fill(zero, 1)
        return x / x.square().sum(-1, keepdim=True).masked_fill(zero, 1).sqrt()

    def project_keys(self, key):
        return self.shorten(key)

    def forward(self, query, projected):
        rows = [
            self.shorten(query[..., t : t + 1, :]) @ projected.mT
            for t in range(query.size(-2))
        ]
        return torch.cat(rows, dim=-2)


@right("multiplies by the inverse root of the square, in forward only after the product")
class CosineScore(Score):
    def inverse_length(self, x):
        square = torch.einsum("...d,...d->...", x, x).unsqueeze(-1)
        return torch.rsqrt(square.masked_fill(square == 0, 1))

    def project_keys(self, key):
        return key * self.inverse_length(key)

    def forward(self, query, projected):
        return (query @ projected.mT) * self.inverse_length(query)


@wrong(
    "divides the keys by their lengths, but not the queries",
    "Divide each query by its length in `forward`.",
    "queries keep their length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "takes the length over the positions instead of over the width",
    "Divide every key (..., S, D) by its length: (..., S, D).",
    "length over the wrong axis",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-2, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        query = query / query.norm(dim=-2, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT


@wrong(
    "divides a vector of zeros by 0: nan",
    "All its scores must be 0.",
    "0 / 0",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong(
    "adds 1e-6 to every length: a vector of length 2e-6 becomes one of length 0.67",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one.",
    "eps added to the length",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-6)

    def forward(self, query, projected):
        return (query / (query.norm(dim=-1, keepdim=True) + 1e-6)) @ projected.mT


@wrong(
    "replaces lengths below the eps of the dtype, which is 0.0078 in bfloat16: a"
    " bfloat16 vector of length 1e-4 does not get length one",
    "You may assume that all other vectors are longer than 1e-6.",
    "eps of the dtype as the smallest length",
    subtle=True,
)
class CosineScore(Score):
    def unit(self, x):
        eps = torch.finfo(x.dtype).eps
        return nn.functional.normalize(x, dim=-1, eps=eps)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "takes the root of the sum of squares before it clamps: the scores are right, but"
    " the root of 0 has an infinite derivative, and 0 times it gives nan gradients for"
    " a vector of zeros",
    "Gradients must be right, too.",
    "nan gradients at a vector of zeros",
    subtle=True,
)
class CosineScore(Score):
    def length(self, x):
        return torch.sqrt((x**2).sum(dim=-1, keepdim=True)).clamp(min=1e-6)

    def project_keys(self, key):
        return key / self.length(key)

    def forward(self, query, projected):
        return (query / self.length(query)) @ projected.mT


@wrong(
    "divides the keys of the caller in place",
    "Do not change the inputs.",
    "changes the keys",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        key /= key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT


@wrong(
    "remembers in project_keys which keys are zero and uses it in forward: after a"
    " second source was projected, the scores of the first are set to 0 at the zeros of"
    " the second",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "forward uses what the last project_keys left behind",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        length = key.norm(dim=-1, keepdim=True)
        self.zero_keys = length == 0
        return key / length.masked_fill(self.zero_keys, 1)

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return (query @ projected.mT).masked_fill(self.zero_keys.mT, 0)


@wrong(
    "computes the cosine of two vectors of length one from their distance, 1 - d^2 / 2:"
    " a vector of zeros then scores 0.5",
    "All its scores must be 0.",
    "a formula that needs length one, used for zeros",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        gaps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return 1 - gaps.square().sum(dim=-1) / 2


@wrong(
    "treats the lengths as constants: the gradients lack the part that goes through"
    " them",
    "Gradients must be right, too.",
    "length detached",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.detach().norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        length = query.detach().norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return (query / length) @ projected.mT
