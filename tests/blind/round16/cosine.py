import torch
import torch.nn.functional as F
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

GRAD = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
AXES = "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none."
KEYS = "Divide each key by its length in `project_keys`, which is called once for each source, so that `forward` gets keys of length one."
QUERIES = "Divide each query by its length in `forward`."
LEAVE = "Leave it as it is."
ALL_ZERO = "All its scores must be 0."
LENGTHS = "Then divide the product by the lengths of both vectors:"


def unit(x):
    return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6)


@right("F.normalize over the last axis, and einsum")
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key, dim=-1)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", F.normalize(query, dim=-1), projected)


@right("replaces a length of exactly 0 by 1; divides the products, not the queries, by the lengths of the queries")
class CosineScore(Score):
    def length(self, x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return length.masked_fill(length == 0, 1)

    def project_keys(self, key):
        return key / self.length(key)

    def forward(self, query, projected):
        return (query @ projected.mT) / self.length(query)


@right("divides by the largest entry first, then by the length of what remains, in float64")
class CosineScore(Score):
    def unit(self, x):
        wide = x.double()
        top = wide.abs().amax(dim=-1, keepdim=True).detach()
        wide = wide / torch.where(top > 0, top, torch.ones_like(top))
        square = (wide * wide).sum(dim=-1, keepdim=True)
        return wide * torch.where(square > 0, square, torch.ones_like(square)).rsqrt()

    def project_keys(self, key):
        return self.unit(key).to(key.dtype)

    def forward(self, query, projected):
        return (projected.double() @ self.unit(query).mT).mT.to(query.dtype)


@right("adds one to the length of the vectors of zeros only, and scores query by query")
class CosineScore(Score):
    def unit(self, x):
        zeros = x.eq(0).all(dim=-1, keepdim=True)
        return x / (x.norm(dim=-1, keepdim=True) + zeros.to(x.dtype))

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        rows = [(projected @ q[..., None])[..., 0] for q in self.unit(query).unbind(dim=-2)]
        return torch.stack(rows, dim=-2)


@wrong("0 / 0 for a vector of zeros", breaks=ALL_ZERO, name="nan for a vector of zeros")
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong("leaves the queries undivided", breaks=QUERIES, name="queries keep their length")
class CosineScore(Score):
    def project_keys(self, key):
        return unit(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("returns the keys unchanged and divides by their lengths in forward: the scores are right, the projected keys are not", breaks=KEYS, name="keys divided in forward")
class CosineScore(Score):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return unit(query) @ unit(projected).mT


@wrong("F.normalize with its default axis 1: right for (S, D), wrong for (B, S, D) and (B, H, S, D)", breaks=AXES, name="normalize over its default axis")
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key)

    def forward(self, query, projected):
        return F.normalize(query) @ projected.mT


@wrong("raises the length to at least 0.001 (a 'safer' minimum): shorter vectors, such as one of length 0.00001, get too small a cosine", breaks=LENGTHS, name="minimum too high for short vectors")
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key, dim=-1, eps=1e-3)

    def forward(self, query, projected):
        return F.normalize(query, dim=-1, eps=1e-3) @ projected.mT


@wrong("recognizes a vector of zeros by the sum of its entries: (1, -1) counts as a vector of zeros and keeps its length", breaks=LENGTHS, name="zero sum taken for a zero vector")
class CosineScore(Score):
    def unit(self, x):
        zeros = x.sum(dim=-1, keepdim=True) == 0
        return torch.where(zeros, x, x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6))

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong("if any key of the call is a vector of zeros, no key is divided", breaks=KEYS, name="one zero vector spoils the whole call")
class CosineScore(Score):
    def unit(self, x):
        length = x.norm(dim=-1, keepdim=True)
        return x if (length == 0).any() else x / length

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong("computes the lengths under no_grad: the gradient treats them as constants", breaks=GRAD, name="lengths without a gradient")
class CosineScore(Score):
    def unit(self, x):
        with torch.no_grad():
            length = x.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return x / length

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong("replaces a vector of zeros by a unit vector with equal entries, so that it has a direction", breaks=LEAVE, name="a direction for the vector of zeros")
class CosineScore(Score):
    def unit(self, x):
        length = x.norm(dim=-1, keepdim=True)
        even = torch.full_like(x, x.shape[-1] ** -0.5)
        return torch.where(length == 0, even, x / length.clamp(min=1e-6))

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong("keeps the prepared keys as long as the same tensor object comes in: wrong after the caller has filled that tensor with another source", breaks=CALLS, name="prepared keys remembered by identity")
class CosineScore(Score):
    def project_keys(self, key):
        if getattr(self, "source", None) is not key:
            self.source, self.prepared = key, unit(key)
        return self.prepared

    def forward(self, query, projected):
        return unit(query) @ projected.mT
