import math

import torch
from torch import nn

from attention_course.scores import Score

from blind import right, wrong


@right("one entry of the vectors after the other, (T, 1) minus (1, S)")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        keys = projected.mT
        total = 0
        for d in range(query.size(-1)):
            total = total + (query[..., d : d + 1] - keys[..., d : d + 1, :]) ** 2
        return total / (-2 * self.bandwidth**2)


@right("multiplies the square out, in float64")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        q, k = query.double(), projected.double()
        squares = (
            (q * q).sum(-1, keepdim=True) - 2 * q @ k.mT + (k * k).sum(-1).unsqueeze(-2)
        )
        return (-squares / (2 * self.bandwidth**2)).to(query.dtype)


@right("differences in bandwidths, squared and added by einsum")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth
        self.half = 0.5

    def forward(self, query, projected):
        gap = (query[..., :, None, :] - projected[..., None, :, :]) / self.bandwidth
        return -self.half * torch.einsum("...d,...d->...", gap, gap)


@right("the square of vector_norm, whose gradient at 0 is 0; a loop over the keys")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        columns = []
        for key in projected.split(1, dim=-2):
            distance = torch.linalg.vector_norm(query - key, dim=-1)
            columns.append(-(distance.square()) / (2 * self.bandwidth**2))
        return torch.stack(columns, dim=-1)


@wrong(
    "leaves out the minus sign",
    "The nearer a key is to the query, the higher its score.",
    "sign",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return diff.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "divides by the square of the bandwidth without the 2",
    "bandwidth: ρ, the distance at which a key's weight has fallen to exp(-1/2) of",
    "the 2 is missing",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -diff.square().sum(dim=-1) / self.bandwidth**2


@wrong(
    "uses the distance, not its square",
    r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$",
    "distance not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -diff.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the mean of the squared entries: right for D = 1 only",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "mean for sum",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -diff.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the root of the sum of squares and squares it again: where a query equals a"
    " key, the gradient is 0 / 0, nan",
    "Gradients must be right, too.",
    "nan gradients at distance 0",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        length = torch.sqrt((diff**2).sum(dim=-1))
        return -(length**2) / (2 * self.bandwidth**2)


@wrong(
    "keeps the bandwidth in the class, not in the object: a second score with another"
    " bandwidth changes the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "one bandwidth for all objects",
    subtle=True,
)
class GaussianScore(Score):
    bandwidth = None

    def __init__(self, bandwidth):
        super().__init__()
        type(self).bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -diff.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "uses pairwise_distance, which adds 1e-6 to every difference: wrong for distances"
    " and a bandwidth of about 1e-6",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "a hidden eps in the distance",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = nn.functional.pairwise_distance(
            query.unsqueeze(-2), projected.unsqueeze(-3)
        )
        return -(distance**2) / (2 * self.bandwidth**2)


@wrong(
    "inserts the axes at the front, right for (T, D) and (S, D) as in the experiment:"
    " with an axis B, every sentence meets the keys of every other one",
    "Your code must work in all three cases.",
    "no axes before the last two",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query[:, None] - projected[None]
        return -diff.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "divides by a float32 tensor with one axis, made on the CPU: bfloat16 vectors give"
    " float32 scores, and on a GPU it fails",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "a tensor of another dtype promotes the result",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = torch.tensor([float(bandwidth)])

    def forward(self, query, projected):
        diff = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -diff.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "computes in float32 and goes back: float64 vectors 1 and 1 + 1e-10 have the"
    " distance 0, though a bandwidth of 1e-10 asks for the score -0.5",
    "If you compute in the dtype of the inputs or in a more precise one, rounding"
    " errors cost no points.",
    "float64 computed in float32",
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        diff = query.float().unsqueeze(-2) - projected.float().unsqueeze(-3)
        scores = -diff.square().sum(dim=-1) / (2 * self.bandwidth**2)
        return scores.to(query.dtype)
