import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong

FORMULA = r"$$e_{ts} = \frac{q_t^\top k_s}{\lVert q_t \rVert \, \lVert k_s \rVert}$$"
LENGTH = r"The length of a vector is $\lVert x \rVert = \sqrt{x_1^2 + \dots + x_D^2}$."
KEYS = (
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one."
)
QUERIES = "Divide each query by its length in `forward`."
ZERO = "A vector of zeros has no direction. Leave it as it is."
ZERO_SCORE = "All its scores must be 0."
SHORT = "You may assume that all other vectors are longer than 1e-6."
GRADIENTS = "Gradients must be right, too."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from"


@right("cosine_similarity on all pairs, and F.normalize for the keys")
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key, dim=-1)

    def forward(self, query, projected):
        return F.cosine_similarity(
            query.unsqueeze(-2), projected.unsqueeze(-3), dim=-1
        )


@right("the products are divided by the length of the query, after the product")
class CosineScore(Score):
    def length_or_one(self, x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return length + (length == 0).to(x.dtype)

    def project_keys(self, key):
        return key / self.length_or_one(key)

    def forward(self, query, projected):
        return (query @ projected.mT) / self.length_or_one(query)


@right("the reciprocal root of the squared length, with a guard far below 1e-12")
class CosineScore(Score):
    def project_keys(self, key):
        squared = torch.einsum("...d,...d->...", key, key)
        return key * squared.clamp(min=1e-14).rsqrt()[..., None]

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", self.project_keys(query), projected)


@right("vectors of zeros are divided by one, chosen with torch.where, in float64")
class CosineScore(Score):
    def project_keys(self, key):
        x = key.to(torch.float64)
        empty = (x == 0).all(dim=-1, keepdim=True)
        safe = torch.where(empty, torch.ones_like(x), x)
        length = safe.square().sum(dim=-1, keepdim=True).sqrt()
        return torch.where(empty, x, x / length).to(key.dtype)

    def forward(self, query, projected):
        units = self.project_keys(query)
        return (projected @ units.transpose(-1, -2)).transpose(-1, -2)


@wrong(
    "divides by the length without a guard",
    breaks=ZERO_SCORE,
    name="nan for a vector of zeros",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong(
    "divides all queries, and all keys, by one common norm",
    breaks=KEYS,
    name="the norm of the whole tensor instead of one length for each vector",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm().clamp(min=1e-6)

    def forward(self, query, projected):
        return (query / query.norm().clamp(min=1e-6)) @ projected.mT


@wrong(
    "normalizes the keys only",
    breaks=QUERIES,
    name="the length of the query still counts",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "measures the length as the sum of the absolute entries",
    breaks=LENGTH,
    name="the L1 norm instead of the Euclidean length",
)
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key, p=1, dim=-1)

    def forward(self, query, projected):
        return F.normalize(query, p=1, dim=-1) @ projected.mT


@wrong(
    "clamps the squared length to 1e-6 before it takes the root",
    breaks=SHORT,
    name="vectors shorter than 1e-3 do not get length one",
)
class CosineScore(Score):
    def unit(self, x):
        return x / x.square().sum(dim=-1, keepdim=True).clamp(min=1e-6).sqrt()

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "leaves every vector as it is that has a zero among its entries",
    breaks=KEYS,
    name="one entry of zero is taken for a vector of zeros",
)
class CosineScore(Score):
    def unit(self, x):
        empty = (x == 0).any(dim=-1, keepdim=True)
        length = x.norm(dim=-1, keepdim=True)
        return x / torch.where(empty, torch.ones_like(length), length)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "recognizes a vector of zeros by the sum of its entries",
    breaks=FORMULA,
    name="vectors whose entries cancel out are not normalized",
)
class CosineScore(Score):
    def unit(self, x):
        length = x.norm(dim=-1, keepdim=True)
        return x / length.masked_fill(x.sum(dim=-1, keepdim=True) == 0, 1)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "detaches the lengths, as if they were constants",
    breaks=GRADIENTS,
    name="the gradient through the length is missing",
)
class CosineScore(Score):
    def unit(self, x):
        return x / x.detach().norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "gives a vector of zeros the same entry everywhere, so that it has length one",
    breaks=ZERO,
    name="an invented direction for a vector of zeros",
)
class CosineScore(Score):
    def unit(self, x):
        empty = (x == 0).all(dim=-1, keepdim=True)
        x = x.masked_fill(empty, 1)
        return x / x.norm(dim=-1, keepdim=True)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.mT


@wrong(
    "computes with lengths in float32 and does not convert the quotient back",
    breaks=DTYPE,
    name="bfloat16 vectors come back as float32",
)
class CosineScore(Score):
    def unit(self, x):
        precise = torch.promote_types(x.dtype, torch.float32)
        return x / x.to(precise).norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def project_keys(self, key):
        return self.unit(key)

    def forward(self, query, projected):
        return self.unit(query) @ projected.to(torch.promote_types(projected.dtype, torch.float32)).mT
