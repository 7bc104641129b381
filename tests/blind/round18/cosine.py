import torch
from torch import nn
from blind import right, wrong
from attention_course.scores import Score

IN_PROJECT = (
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one."
)
LENGTH = (
    r"The length of a vector is $\lVert x \rVert = \sqrt{x_1^2 + \dots + x_D^2}$."
)
BOTH = "Then divide the product by the lengths of both vectors:"
EVERY_KEY = "Divide every key (..., S, D) by its length: (..., S, D)."
ZERO = "A vector of zeros has no direction. Leave it as it is. All its scores must be 0."
SMALL = "You may assume that all other vectors are longer than 1e-6."
GRADIENTS = "Gradients must be right, too."
EARLIER = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("torch's own normalize")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return nn.functional.normalize(key, dim=-1, eps=1e-9)

    def forward(self, query, projected):
        unit = nn.functional.normalize(query, dim=-1, eps=1e-9)
        return torch.matmul(projected, unit.mT).mT


def _squares(x):
    """The squared lengths in float64, and 1 for a vector of zeros."""
    total = torch.einsum("...d,...d->...", x.double(), x.double())
    return torch.where(total == 0, 1.0, total)


@right("in float64: the queries' lengths divide the finished products")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return (key.double() / _squares(key).sqrt()[..., None]).to(key.dtype)

    def forward(self, query, projected):
        products = torch.einsum(
            "...td,...sd->...ts", query.double(), projected.double()
        )
        return (products * _squares(query).rsqrt()[..., None]).to(query.dtype)


def _unit(vector):
    length = torch.linalg.vector_norm(vector)
    return vector / length if length > 0 else vector.clone()


@right("vector by vector, with an if for a vector of zeros")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        rows = [_unit(row) for row in key.reshape(-1, key.shape[-1])]
        return torch.stack(rows).reshape(key.shape)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.transpose(-2, -1)


class _Direction(nn.Module):
    """Shrinks each vector so that its largest entry is 1, then to length one."""

    def forward(self, x):
        top = x.detach().abs().amax(dim=-1, keepdim=True)
        shrunk = x / top.masked_fill(top == 0, 1)
        total = shrunk.square().sum(dim=-1, keepdim=True)
        return shrunk * total.masked_fill(total == 0, 1).rsqrt()


@right("a helper module that first divides by the largest entry")
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def __init__(self):
        super().__init__()
        self.direction = _Direction()

    def project_keys(self, key):
        return self.direction(key)

    def forward(self, query, projected):
        unit = self.direction(query)
        return (unit.unsqueeze(-2) * projected.unsqueeze(-3)).sum(dim=-1)


@wrong(
    "divides the keys in `forward`, at every step, and inherits `project_keys`",
    breaks=IN_PROJECT,
    name="keys are divided in forward",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        key = projected / projected.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ key.mT


@wrong(
    "divides by the sum of squares, without the root",
    breaks=LENGTH,
    name="root forgotten",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.square().sum(dim=-1, keepdim=True).clamp(min=1e-12)

    def forward(self, query, projected):
        total = query.square().sum(dim=-1, keepdim=True).clamp(min=1e-12)
        return query / total @ projected.mT


@wrong(
    "divides by the length of all vectors together",
    breaks=EVERY_KEY,
    name="one length for the whole tensor",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.norm().clamp(min=1e-6)

    def forward(self, query, projected):
        return query / query.norm().clamp(min=1e-6) @ projected.mT


@wrong(
    "divides by the sum of the absolute entries",
    breaks=LENGTH,
    name="sum of absolute values instead of the length",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.norm(p=1, dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        length = query.norm(p=1, dim=-1, keepdim=True).clamp(min=1e-6)
        return query / length @ projected.mT


@wrong(
    "divides a vector of zeros by 0",
    breaks=ZERO,
    name="a vector of zeros gives nan",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "adds 1e-6 to each length, so that vectors that are not much longer get too short",
    breaks=SMALL,
    name="a number added to the length changes short vectors",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-6)

    def forward(self, query, projected):
        return query / (query.norm(dim=-1, keepdim=True) + 1e-6) @ projected.mT


def _all_or_none(x):
    length = x.norm(dim=-1, keepdim=True)
    if (length == 0).any():
        return x
    return x / length


@wrong(
    "if one vector is zero, leaves all vectors of the call as they are",
    breaks=EVERY_KEY,
    name="one vector of zeros switches the division off for all",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return _all_or_none(key)

    def forward(self, query, projected):
        return _all_or_none(query) @ projected.mT


@wrong(
    "takes the lengths for constants: the scores are right, their gradients are not",
    breaks=GRADIENTS,
    name="no gradient through the length",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        with torch.no_grad():
            length = key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key / length

    def forward(self, query, projected):
        with torch.no_grad():
            length = query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query / length @ projected.mT


@wrong(
    "`project_keys` remembers the lengths, and `forward` divides by those of the last"
    " source",
    breaks=EARLIER,
    name="lengths of the keys kept in the object",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        self.length = key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ (projected / self.length).mT


@wrong(
    "divides by at least 1, so vectors shorter than one keep their length",
    breaks=BOTH,
    name="short vectors are not made longer",
)
class CosineScore(Score):
    """The cosine of the angle between query and key."""

    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True).clamp(min=1) @ projected.mT
