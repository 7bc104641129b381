import torch
import torch.nn.functional as F
from attention_course.scores import Score

from blind import right, wrong


@right("a loop over the entries of the vectors, in units of the bandwidth")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        q, k = query / self.bandwidth, projected / self.bandwidth
        squares = 0
        for d in range(q.size(-1)):
            gap = q[..., d].unsqueeze(-1) - k[..., d].unsqueeze(-2)
            squares = squares + gap * gap
        return squares / -2


@right("an einsum of the differences with themselves")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth
        self.factor = -0.5 / bandwidth**2

    def forward(self, query, projected):
        gaps = projected[..., None, :, :] - query[..., :, None, :]
        return torch.einsum("...tsd,...tsd->...ts", gaps, gaps) * self.factor


@right("the square of a sum written out, as a product of matrices in float64")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        q, k = query.double(), projected.double()
        squares = (
            q.square().sum(dim=-1).unsqueeze(-1)
            - 2 * (q @ k.mT)
            + k.square().sum(dim=-1).unsqueeze(-2)
        )
        return (-squares / (2 * self.bandwidth**2)).to(query.dtype)


@right("a loop over the keys, with vector_norm, whose gradient at zero is zero")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        columns = []
        for key in projected.split(1, dim=-2):
            distance = torch.linalg.vector_norm(query - key, dim=-1)
            columns.append(-((distance / self.bandwidth) ** 2) / 2)
        return torch.stack(columns, dim=-1)


@wrong(
    "divides by 2 ρ instead of 2 ρ²: right for ρ = 1 only",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "bandwidth not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gaps.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "returns the kernel exp(-d² / 2 ρ²) instead of its exponent",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "returns the kernel instead of the score",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return torch.exp(-gaps.square().sum(dim=-1) / (2 * self.bandwidth**2))


@wrong(
    "takes the mean of the squared entries instead of their sum: right for D = 1 only",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "mean instead of sum",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gaps.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the root of the sum of squares and squares it again: where a query equals a"
    " key, the gradient is inf times 0, nan",
    "Gradients must be right, too.",
    "nan gradient at distance zero",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        distance = gaps.square().sum(dim=-1).sqrt()
        return -distance.square() / (2 * self.bandwidth**2)


@wrong(
    "uses torch.cdist on the vectors as they are, which raises an error for short"
    " bfloat16 inputs",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "cdist knows no bfloat16",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        return -torch.cdist(query, projected).square() / (2 * self.bandwidth**2)


@wrong(
    "leaves out the square of the query, because it is the same in the whole row and the"
    " softmax ignores it: the weights are right, the scores are not",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "scores right only up to a constant of the row",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        half = projected.square().sum(dim=-1).unsqueeze(-2) / 2
        return (query @ projected.mT - half) / self.bandwidth**2


@wrong(
    "keeps the bandwidth in the class: two scores made one after the other both use the"
    " bandwidth of the second",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "all objects share a bandwidth",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        type(self).bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gaps.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "computes in float32 and converts back: the float64 query 16777217 and key 16777216"
    " are the same number in float32, and the score is 0 instead of -0.5 (ρ = 1)",
    "If you compute in the dtype of the inputs or in a more precise one, rounding errors"
    " cost no points.",
    "float64 rounded to float32",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query.float().unsqueeze(-2) - projected.float().unsqueeze(-3)
        scores = -gaps.square().sum(dim=-1) / (2 * self.bandwidth**2)
        return scores.to(query.dtype)


@wrong(
    "inserts the axes from the left, query[:, None] - key[None, :], which is right for"
    " (T, D) and (S, D) only",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases.",
    "axes counted from the left",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gaps = query[:, None] - projected[None, :]
        return -gaps.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "uses F.pairwise_distance, which adds 1e-6 to every difference: with q = 0,"
    " k = -1e-6 and ρ = 1e-6 the score is -2 instead of -0.5",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "hidden epsilon of pairwise_distance",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        pairs = query.unsqueeze(-2), projected.unsqueeze(-3)
        return -F.pairwise_distance(*pairs).square() / (2 * self.bandwidth**2)
