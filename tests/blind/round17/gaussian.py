import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong

FORMULA = r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$"
NEARER = "The nearer a key is to the query, the higher its score."
WIDTH = r"The bandwidth $\rho$ controls how slowly the weight falls with the distance."
SHAPES = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
GRADIENTS = "Gradients must be right, too."
SMALL = "for large and for small numbers"
OVERFLOW = "An exponential, however, may overflow."
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."


@right("cdist without matrix products, then the square; bfloat16 goes through float32")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        precise = torch.promote_types(query.dtype, torch.float32)
        distance = torch.cdist(
            query.to(precise),
            projected.to(precise),
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        return (-0.5 * (distance / self.bandwidth) ** 2).to(query.dtype)


@right("one coordinate after the other is subtracted from the scores")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        scores = torch.zeros_like(query[..., :, None, 0] + projected[..., None, :, 0])
        for d in range(query.size(-1)):
            apart = projected[..., None, :, d] - query[..., :, None, d]
            scores = scores - apart * apart / (2 * self.bandwidth**2)
        return scores


@right("mse_loss without a reduction on the expanded pairs")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        left, other = torch.broadcast_tensors(
            query.unsqueeze(-2), projected.unsqueeze(-3)
        )
        squared = F.mse_loss(left, other, reduction="none").sum(dim=-1)
        return squared / (-2.0 * self.bandwidth * self.bandwidth)


@right("differences in units of the bandwidth, multiplied by themselves with einsum")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rows = []
        for one in query.unbind(dim=-2):
            apart = (one.unsqueeze(-2) - projected) / (self.bandwidth * math.sqrt(2))
            rows.append(torch.einsum("...sd,...sd->...s", apart, apart).neg())
        return torch.stack(rows, dim=-2)


@wrong(
    "forgets the minus sign",
    breaks=NEARER,
    name="the farthest key gets the highest score",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return apart.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the distance instead of its square",
    breaks=FORMULA,
    name="the length of the difference is not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "divides by twice the bandwidth",
    breaks=WIDTH,
    name="the bandwidth is not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "returns the exponential of the score",
    breaks=SHAPES,
    name="Gaussian weights instead of scores",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return torch.exp(-apart.square().sum(dim=-1) / (2 * self.bandwidth**2))


@wrong(
    "takes the root of the squared distance and squares it again later",
    breaks=GRADIENTS,
    name="nan gradients where a key is equal to the query",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        distance = apart.square().sum(dim=-1).sqrt()
        return -0.5 * (distance / self.bandwidth) ** 2


@wrong(
    "adds 1e-6 to the divisor against a division by zero",
    breaks=SMALL,
    name="an epsilon that counts when the bandwidth is small",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / (2 * self.bandwidth**2 + 1e-6)


@wrong(
    "cuts scores off at -80, because their exponential is zero anyway",
    breaks=NEARER,
    name="all distant keys get the same score",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return (apart.square().sum(dim=-1) / (-2 * self.bandwidth**2)).clamp(min=-80)


@wrong(
    "computes the divisor once and keeps it on the class",
    breaks=CALLS,
    name="all objects use the bandwidth of the first one",
)
class GaussianScore(Score):
    divisor = None

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        kind = type(self)
        if kind.divisor is None:
            kind.divisor = 2 * self.bandwidth**2
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / kind.divisor


@wrong(
    "divides queries and keys by the bandwidth in place",
    breaks=INPUTS,
    name="the vectors of the caller are rescaled",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        if self.bandwidth != 1:
            query /= self.bandwidth
            projected /= self.bandwidth
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / 2


@wrong(
    "adds up bfloat16 squares in float32 and leaves the sum in float32",
    breaks=DTYPE,
    name="a float32 result for bfloat16 vectors",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        precise = torch.promote_types(apart.dtype, torch.float32)
        squared = apart.square().sum(dim=-1, dtype=precise)
        return -squared / (2 * self.bandwidth**2)
