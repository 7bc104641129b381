import torch
import torch.nn.functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("F.normalize in float64, einsum for the products")
class CosineScore(Score):
    def _unit(self, x):
        return F.normalize(x.double(), dim=-1, eps=1e-150).to(x.dtype)

    def project_keys(self, key):
        return self._unit(key)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", self._unit(query), projected)


@right("where instead of clamp: a length of zero is replaced by one")
class CosineScore(Score):
    def project_keys(self, key):
        wide = key.to(torch.float64)
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        wide = wide / torch.where(length > 0, length, torch.ones_like(length))
        return wide.to(key.dtype)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.transpose(-1, -2)


@right("divides the products by the queries' lengths, and scales with the largest entry")
class CosineScore(Score):
    def project_keys(self, key):
        return self.shrink(key)[0]

    def forward(self, query, projected):
        return self.shrink(query)[0].matmul(projected.mT)

    @staticmethod
    def shrink(x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        top = wide.abs().amax(dim=-1, keepdim=True)
        small = wide / top.masked_fill(top == 0, 1)
        squares = (small * small).sum(dim=-1, keepdim=True)
        root = squares.masked_fill(squares == 0, 1).sqrt()
        return (small / root).to(x.dtype), root


@right("one vector after the other, in a list")
class CosineScore(Score):
    def project_keys(self, key):
        done = []
        for x in key.double().unbind(dim=-2):
            length = x.norm(dim=-1, keepdim=True)
            done.append((x / (length + (length == 0))).to(key.dtype))
        return torch.stack(done, dim=-2)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "divides by the length without a lower limit: a vector of zeros gives nan",
    "A vector of zeros has no direction. Leave it as it is. All its scores must be 0.",
    "zero vectors give nan",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "norm() without an axis is one number for the whole tensor; right only for a single"
    " vector",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source.",
    "one length for all vectors",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm().clamp(min=1e-6)

    def forward(self, query, projected):
        return query / query.norm().clamp(min=1e-6) @ projected.mT


@wrong(
    "leaves the keys as they are in project_keys and divides them in forward, so what"
    " project_keys returns has not length one",
    "So `forward` gets keys of length one.",
    "keys divided in forward, at every step",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        keys = projected / projected.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ keys.mT


@wrong(
    "divides the caller's keys in place: they have length one afterwards",
    "Do not change the inputs.",
    "div_ changes the keys",
)
class CosineScore(Score):
    def project_keys(self, key):
        length = key.detach().norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key.detach().div_(length) if not key.requires_grad else key / length

    def forward(self, query, projected):
        return query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6) @ projected.mT


@wrong(
    "squares in the dtype of the vectors: a float16 vector with an entry of 300 has the"
    " length inf, so all its scores are 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squares overflow in float16",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.pow(2).sum(dim=-1, keepdim=True).sqrt().clamp(min=1e-6)

    def forward(self, query, projected):
        length = query.pow(2).sum(dim=-1, keepdim=True).sqrt().clamp(min=1e-6)
        return (query / length) @ projected.mT


@wrong(
    "computes the lengths in float32, so bfloat16 and float16 keys come back as float32"
    " and the scores are float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "float32 lengths make float32 scores",
)
class CosineScore(Score):
    def project_keys(self, key):
        wide = torch.promote_types(key.dtype, torch.float32)
        return key / key.norm(dim=-1, keepdim=True, dtype=wide).clamp(min=1e-6)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "adds 0.01 to each length instead of a limit: vectors of a length around 0.01 get"
    " half their cosine",
    "The result is the cosine of the angle between query and key, a number between -1"
    " and 1.",
    "adds to the length, so short vectors lose",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-2)

    def forward(self, query, projected):
        return query / (query.norm(dim=-1, keepdim=True) + 1e-2) @ projected.mT


@wrong(
    "takes a vector whose entries sum to zero for a vector of zeros and does not divide"
    " it: (3, -3) stays as it is, and its scores are too large",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source.",
    "recognises zero vectors by their sum",
)
class CosineScore(Score):
    def project_keys(self, key):
        empty = key.sum(dim=-1, keepdim=True) == 0
        return key / key.norm(dim=-1, keepdim=True).masked_fill(empty, 1.0)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "adds 1e-6 to every entry: a vector of zeros becomes a vector along the diagonal,"
    " of length one, with scores that are not 0",
    "A vector of zeros has no direction. Leave it as it is. All its scores must be 0.",
    "gives the zero vector a direction",
)
class CosineScore(Score):
    def project_keys(self, key):
        key = key + 1e-6
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        query = query + 1e-6
        return query / query.norm(dim=-1, keepdim=True) @ projected.mT


@wrong(
    "remembers which keys of the last source were zero and hides their columns: if two"
    " sources are projected before forward, the columns of the other one become 0",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers the zero keys of the last source",
)
class CosineScore(Score):
    def project_keys(self, key):
        length = key.norm(dim=-1, keepdim=True)
        self.empty = (length == 0).mT
        return key / length.masked_fill(length == 0, 1.0)

    def forward(self, query, projected):
        length = query.norm(dim=-1, keepdim=True)
        scores = query / length.masked_fill(length == 0, 1.0) @ projected.mT
        if self.empty.shape[-1] == scores.shape[-1]:
            scores = scores.masked_fill(self.empty, 0.0)
        return scores
