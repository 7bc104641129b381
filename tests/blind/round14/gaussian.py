import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
LENGTHS = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRADS = "Gradients must be right, too."
OVERFLOW = "An exponential, however, may overflow."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
AXES = "Your code must work in all three cases."
FORMULA = r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$"


@right("cdist in float64 without its matrix product, squared again")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = torch.cdist(
            query.double(),
            projected.double(),
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        return ((distance / self.bandwidth).square() * -0.5).to(query.dtype)


@right("entry by entry of the vectors, in float64")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        total = 0
        for entry in range(query.shape[-1]):
            q, k = query[..., entry].double(), projected[..., entry].double()
            steps = (k.unsqueeze(-2) - q.unsqueeze(-1)) / self.bandwidth
            total = total - steps * steps
        return (total / 2).to(query.dtype)


@right("einsum of the differences with themselves, for sixteen queries at a time")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        parts = []
        for some in query.split(16, dim=-2):
            gap = some.unsqueeze(-2) - projected.unsqueeze(-3)
            parts.append(torch.einsum("...d,...d->...", gap, gap))
        return torch.cat(parts, dim=-2) / (-2 * self.bandwidth**2)


@right("a product of complex numbers: |(x + iy)|^2 for pairs of entries, in float64")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.double().unsqueeze(-2) - projected.double().unsqueeze(-3)
        gap = F.pad(gap / self.bandwidth, (0, gap.shape[-1] % 2))
        pairs = torch.complex(gap[..., 0::2], gap[..., 1::2])
        return -((pairs * pairs.conj()).real.sum(dim=-1) / 2).to(query.dtype)


@wrong(
    "takes the mean over the entries instead of the sum: right for vectors of width"
    " one, as in section 10",
    FORMULA,
    "mean instead of sum",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "does not square the bandwidth: right for a bandwidth of one",
    FORMULA,
    "bandwidth is not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "returns the Gaussian itself, between 0 and 1, instead of its exponent",
    FORMULA,
    "exponential already applied",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return torch.exp(-gap.square().sum(dim=-1) / (2 * self.bandwidth**2))


@wrong(
    "uses the distance, not its square",
    FORMULA,
    "distance is not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "computes the length with a square root and squares it: right scores, but nan"
    " gradients where a query equals a key",
    GRADS,
    "nan gradient at distance zero",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        length = gap.square().sum(dim=-1).sqrt()
        return -(length**2) / (2 * self.bandwidth**2)


@wrong(
    "takes the logarithm of the Gaussian, which underflows: the scores of distant keys"
    " are minus infinity",
    LENGTHS,
    "logarithm of an underflowing Gaussian",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        kernel = torch.exp(-gap.square().sum(dim=-1) / (2 * self.bandwidth**2))
        return kernel.log()


@wrong(
    "computes the divisor at the first call and keeps it on the class, so that an object"
    " with another bandwidth gets the first one's",
    CALLS,
    "divisor shared by all objects",
)
class GaussianScore(Score):
    _divisor = None

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        if type(self)._divisor is None:
            type(self)._divisor = 2 * self.bandwidth**2
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / self._divisor


@wrong(
    "puts the bandwidth into a float32 tensor, so that float64 scores carry its rounding"
    " error (for 0.3, not for 0.5 or 2)",
    PRECISE,
    "bandwidth rounded to float32",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rho = torch.tensor(self.bandwidth, dtype=torch.float32, device=query.device)
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / (2 * rho.square())


@wrong(
    "leaves out the squared length of the query, because the softmax does not notice it",
    FORMULA,
    "drops the query's squared length",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        square = projected.square().sum(dim=-1).unsqueeze(-2)
        return (query @ projected.mT - square / 2) / self.bandwidth**2


@wrong(
    "pairwise_distance adds 1e-6 to every difference, which shows for vectors that are"
    " about 1e-6 apart, and in float64",
    LENGTHS,
    "hidden epsilon in the distance",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = F.pairwise_distance(query.unsqueeze(-2), projected.unsqueeze(-3))
        return -distance.square() / (2 * self.bandwidth**2)
