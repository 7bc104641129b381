import torch
from attention_course.scores import Score
from torch import nn

from blind import right, wrong


def _unit_in_double(x):
    wide = x.double()
    square = wide.square().sum(dim=-1, keepdim=True)
    factor = torch.where(square == 0, torch.ones_like(square), square).rsqrt()
    return (wide * factor).to(x.dtype)


@right("a helper for both, with rsqrt in float64")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return _unit_in_double(key)

    def forward(self, query, projected):
        return _unit_in_double(query) @ projected.mT


@right("divides by the largest entry first, and then by the length")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def _direction(self, x):
        largest = x.abs().amax(dim=-1, keepdim=True)
        x = x / torch.where(largest > 0, largest, 1)
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=0.5)

    def project_keys(self, key):
        return self._direction(key)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", self._direction(query), projected)


@right("normalize in float64")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return nn.functional.normalize(key.double(), p=2, dim=-1).to(key.dtype)

    def forward(self, query, projected):
        wide = nn.functional.normalize(query.double(), p=2, dim=-1)
        return (projected.double() @ wide.mT).mT.to(query.dtype)


@right("finds the vectors of zeros by their entries and gives them the divisor 1")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        zero = (key == 0).all(dim=-1, keepdim=True)
        return key / key.norm(dim=-1, keepdim=True).masked_fill(zero, 1)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.transpose(-1, -2)


@wrong(
    "does not divide the query by its length",
    "Divide each query by its length in `forward`.",
    "query not divided by its length",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "nan for vectors of zeros",
    "All its scores must be 0.",
    "nan for a vector of zeros",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "leaves the keys alone in project_keys and divides them in forward",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one.",
    "keys divided in forward",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        key = projected / projected.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ key.mT


@wrong(
    "adds 1e-6 to the lengths, so short vectors do not get the length one",
    "This score is the cosine of the angle between query and key, a number between -1"
    " and 1.",
    "epsilon added to the length",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-6)

    def forward(self, query, projected):
        return (query / (query.norm(dim=-1, keepdim=True) + 1e-6)) @ projected.mT


@wrong(
    "divides the keys in place",
    "Do not change the inputs.",
    "keys changed in place",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        key /= key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6) @ projected.mT


@wrong(
    "normalize with its default epsilon of 1e-12, which is 0 in float16: nan for"
    " float16 vectors of zeros",
    "All its scores must be 0.",
    "epsilon underflows in float16",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return nn.functional.normalize(key, dim=-1)

    def forward(self, query, projected):
        return nn.functional.normalize(query, dim=-1) @ projected.mT


@wrong(
    "returns float32 for bfloat16 vectors",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "result always float32",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        length = key.float().norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key / length

    def forward(self, query, projected):
        length = query.float().norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return (query / length) @ projected.mT


@wrong(
    "clamps the squared length at 1e-6, so vectors shorter than 1e-3 do not get the"
    " length one",
    "You may assume that all other vectors are longer than 1e-6.",
    "clamp before the root",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / (key * key).sum(dim=-1, keepdim=True).clamp(min=1e-6).sqrt()

    def forward(self, query, projected):
        length = (query * query).sum(dim=-1, keepdim=True).clamp(min=1e-6).sqrt()
        return (query / length) @ projected.mT


@wrong(
    "if one of the vectors is a vector of zeros, it leaves all of them as they are",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one.",
    "one vector of zeros switches off the division for all",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def _lengths(self, x):
        lengths = x.norm(dim=-1, keepdim=True)
        if (lengths == 0).any():
            lengths = torch.ones_like(lengths)
        return lengths

    def project_keys(self, key):
        return key / self._lengths(key)

    def forward(self, query, projected):
        return (query / self._lengths(query)) @ projected.mT


@wrong(
    "project_keys remembers which keys were zeros, and forward sets their scores to 0,"
    " also if it gets the keys of another source",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "zeros of an earlier source remembered",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        length = key.norm(dim=-1, keepdim=True)
        self.zero = length == 0
        return key / length.masked_fill(self.zero, 1)

    def forward(self, query, projected):
        length = query.norm(dim=-1, keepdim=True)
        scores = (query / length.masked_fill(length == 0, 1)) @ projected.mT
        return scores.masked_fill(self.zero.mT, 0)
