import torch
import torch.nn.functional as F
from attention_course.scores import Score

from blind import right, wrong


@right("repairs 0 / 0 with nan_to_num instead of a clamp")
class CosineScore(Score):
    def project_keys(self, key):
        return (key / key.norm(dim=-1, keepdim=True)).nan_to_num(0.0)

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@right("scales by the largest entry first, in float64, then by the length")
class CosineScore(Score):
    def direction(self, x):
        wide = x.double()
        largest = wide.detach().abs().amax(dim=-1, keepdim=True)
        wide = wide / torch.where(largest == 0, torch.ones_like(largest), largest)
        square = torch.einsum("...d,...d->...", wide, wide).unsqueeze(-1)
        root = torch.where(square == 0, torch.ones_like(square), square).sqrt()
        return (wide / root).to(x.dtype)

    def project_keys(self, key):
        return self.direction(key)

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", self.direction(query), projected)


@right("F.cosine_similarity on all pairs; it divides the keys once more, by one")
class CosineScore(Score):
    def project_keys(self, key):
        return F.normalize(key, dim=-1)

    def forward(self, query, projected):
        pairs = query.unsqueeze(-2), projected.unsqueeze(-3)
        return F.cosine_similarity(*pairs, dim=-1)


@right("loops over the keys and over the queries, one vector at a time")
class CosineScore(Score):
    def project_keys(self, key):
        rows = [k / self.length(k) for k in key.unbind(dim=-2)]
        return torch.stack(rows, dim=-2)

    def forward(self, query, projected):
        rows = []
        for t in range(query.size(-2)):
            q = query[..., t, :]
            q = q / self.length(q)
            rows.append((projected * q.unsqueeze(-2)).sum(dim=-1))
        return torch.stack(rows, dim=-2)

    def length(self, x):
        return torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-6)


@wrong(
    "divides by the length without caring for zeros: nan for a vector of zeros",
    "All its scores must be 0.",
    "0 / 0 for a vector of zeros",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True)

    def forward(self, query, projected):
        return (query / query.norm(dim=-1, keepdim=True)) @ projected.mT


@wrong(
    "takes the norm over the positions (dim=-2), so each entry is divided by the length"
    " of its column",
    "The length of a vector is $\\lVert x \\rVert = \\sqrt{x_1^2 + \\dots + x_D^2}$.",
    "length along the wrong axis",
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-2, keepdim=True).clamp(min=1e-6)

    def forward(self, query, projected):
        query = query / query.norm(dim=-2, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT


@wrong(
    "divides the keys in place: the caller's keys have length one afterwards",
    "Do not change the inputs.",
    "/= changes the keys",
)
class CosineScore(Score):
    def project_keys(self, key):
        key /= key.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT


@wrong(
    "adds 1e-6 to the length: a vector of length 2e-6 is divided by 3e-6, and its cosine"
    " with itself is far below 1",
    "You may assume that all other vectors are longer than 1e-6.",
    "adds an epsilon to the length",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / (key.norm(dim=-1, keepdim=True) + 1e-6)

    def forward(self, query, projected):
        return (query / (query.norm(dim=-1, keepdim=True) + 1e-6)) @ projected.mT


@wrong(
    "clamps the square instead of the length at 1e-6, so every vector shorter than 1e-3"
    " counts as 1e-3 long: one of length 1e-4 is divided by 1e-3",
    "You may assume that all other vectors are longer than 1e-6.",
    "clamps before the square root",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        square = key.square().sum(dim=-1, keepdim=True)
        return key / square.clamp(min=1e-6).sqrt()

    def forward(self, query, projected):
        square = query.square().sum(dim=-1, keepdim=True)
        return (query / square.clamp(min=1e-6).sqrt()) @ projected.mT


@wrong(
    "detaches the lengths: the scores are right, the gradients lack the part that comes"
    " from the lengths",
    "Gradients must be right, too.",
    "no gradient through the length",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        return key / key.norm(dim=-1, keepdim=True).clamp(min=1e-6).detach()

    def forward(self, query, projected):
        length = query.norm(dim=-1, keepdim=True).clamp(min=1e-6).detach()
        return (query / length) @ projected.mT


@wrong(
    "multiplies by a float32 tensor that is 0 for vectors of zeros: bfloat16 vectors"
    " give float32 keys and scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "the mask of zeros widens bfloat16 to float32",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        length = key.norm(dim=-1, keepdim=True)
        return key / length.clamp(min=1e-6) * (length > 0).float()

    def forward(self, query, projected):
        return self.project_keys(query) @ projected.mT


@wrong(
    "leaves all vectors as they are if any of them is a vector of zeros, so padding of"
    " zeros in one sentence changes the scores of all",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one.",
    "one vector of zeros stops the division for all",
    subtle=True,
)
class CosineScore(Score):
    def direction(self, x):
        length = x.norm(dim=-1, keepdim=True)
        if (length == 0).any():
            return x
        return x / length

    def project_keys(self, key):
        return self.direction(key)

    def forward(self, query, projected):
        return self.direction(query) @ projected.mT


@wrong(
    "leaves the keys as they are in project_keys and divides both in forward: the scores"
    " are right, but the keys are divided at every step",
    "Divide each key by its length in `project_keys`, which is called once for each"
    " source, so that `forward` gets keys of length one.",
    "keys divided in forward",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        q = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        k = projected / projected.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return q @ k.mT


@wrong(
    "project_keys only remembers the lengths of the keys, and forward divides the scores"
    " by them: with two sources, those of the last one are used for both",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "lengths kept in the object",
    subtle=True,
)
class CosineScore(Score):
    def project_keys(self, key):
        self.lengths = key.norm(dim=-1).clamp(min=1e-6)
        return key

    def forward(self, query, projected):
        query = query / query.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        return query @ projected.mT / self.lengths.unsqueeze(-2)
