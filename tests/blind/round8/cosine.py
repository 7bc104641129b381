import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong


def _unit(x):
    """Length one, also for very long and very short vectors; zeros stay zeros."""
    top = x.detach().abs().amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == 0, 1)
    x = x / top
    length = x.square().sum(dim=-1, keepdim=True)
    return x / length.masked_fill(length == 0, 1).sqrt()


@right("divides by the largest entry before it squares, zeros picked out by masked_fill")
class CosineScore(Score):
    def project_keys(self, key):
        return _unit(key)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", _unit(query), projected)


@right("torch.where picks out the zeros; queries divided after the product")
class CosineScore(Score):
    def length(self, x):
        return torch.linalg.vector_norm(x, dim=-1)

    def project_keys(self, key):
        length = self.length(key)[..., None]
        return torch.where(length > 0, key / length.where(length > 0, 1), key)

    def forward(self, query, projected):
        length = self.length(query)
        inverse = torch.where(length > 0, length.where(length > 0, 1).reciprocal(), 0)
        return torch.matmul(query, projected.mT) * inverse.to(query.dtype).unsqueeze(-1)


@right("F.normalize along the last axis on both sides")
class CosineScore(Score):
    def project_keys(self, key, eps=1e-6):
        return F.normalize(key, p=2.0, dim=-1, eps=eps)

    def forward(self, query, projected):
        return F.normalize(query, dim=-1, eps=1e-6) @ projected.transpose(-1, -2)


@right("vector by vector in loops, with one function for both sides")
class CosineScore(Score):
    def project_keys(self, key):
        flat = key.reshape(-1, key.size(-1))
        unit = [row / row.norm() if row.any() else row for row in flat]
        return torch.stack(unit).reshape(key.shape) if unit else key.clone()

    def forward(self, query, projected):
        unit = self.project_keys(query)
        rows = [
            (unit[..., t : t + 1, :] * projected).sum(dim=-1)
            for t in range(unit.size(-2))
        ]
        if not rows:
            return unit @ projected.mT
        return torch.stack(rows, dim=-2)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "does not divide the queries: the scores grow with the length of the query",
    "The queries are divided by their lengths in `forward`.",
    "queries not normalised",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "no protection: a vector of zeros gives nan",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores"
    " are 0.",
    "0 / 0 for a vector of zeros",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong(
    "leaves project_keys to the base class and computes the whole cosine in forward:"
    " project_keys returns keys that are not of length one",
    "The length of a key depends on the source alone, so `project_keys` divides by it,"
    " once per sentence, and `forward` gets keys of length one.",
    "all done in forward, nothing in project_keys",
)
class CosineScore(Score):
    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        key = projected / projected.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ key.mT


# --- corners -----------------------------------------------------------------------


@wrong(
    "F.normalize without dim divides along axis 1: right for (S, D), wrong as soon as"
    " there is an axis in front",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "F.normalize along its default axis 1",
)
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key)

    def forward(self, query, projected):
        return F.normalize(query) @ projected.mT


@wrong(
    "clamps the divisor at 1: vectors shorter than 1 are not brought to length one",
    "The result is the cosine of the angle between query and key, a number between -1"
    " and 1.",
    "vectors shorter than one stay short",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1)

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1)
        return query @ projected.mT


@wrong(
    "adds a small number to the vectors in place of the divisor: a vector of zeros gets"
    " the direction (1, 1, ..., 1), and its scores are not 0",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores"
    " are 0.",
    "zeros get a direction",
)
class CosineScore(Score):
    def project_keys(self, key):
        key = key + 1e-9
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        query = query + 1e-9
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong(
    "divides the keys in place: the memory that the decoder looks its values up in has"
    " length one afterwards",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "normalises the given keys in place",
)
class CosineScore(Score):
    def project_keys(self, key):
        key /= key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        length = query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT / length


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "recognises a vector of zeros by the sum of its entries: (1, -1) sums to zero, too,"
    " and is taken for a vector without direction",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores"
    " are 0.",
    "entries that cancel are taken for zeros",
)
class CosineScore(Score):
    def unit(self, x):
        empty = x.sum(dim=-1, keepdim=True) == 0
        length = x.norm(dim=-1, keepdim=True).masked_fill(empty, 1)
        return (x / length).masked_fill(empty, 0)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "forgets the root on one side and squares it on the other: keys are divided by the"
    " square of their length, which only shows if their length is not one",
    "The length of a key depends on the source alone, so `project_keys` divides by it,"
    " once per sentence, and `forward` gets keys of length one.",
    "keys divided by the squared length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key * key).sum(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        key = projected / projected.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ key.mT


@wrong(
    "one vector of zeros anywhere, and all scores of the batch are set to 0",
    "A vector of zeros has no direction: it stays a vector of zeros, and all its scores"
    " are 0.",
    "one zero query makes all scores zero",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        length = query.norm(dim=-1, keepdim=True)
        scores = query @ projected.mT
        if (length == 0).any():
            return torch.zeros_like(scores)
        return scores / length
