import math

import torch
from torch import nn
from torch.nn import functional as F

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
GRADIENTS = "Gradients must be right, too."
VIEWS = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
PRECISION = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OVERFLOW = "An exponential, however, may overflow."
THREE = "Your code must work in all three cases."
FORMULA = r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$"
RHO = (
    "ρ, the distance at which a key's weight has fallen to exp(-1/2) of that of a key"
    " at the query."
)
LEARN = "There is nothing to learn, and as in section 2, you do not write `project_keys`."
SQUARED = (
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis."
)
THREE_STEPS = "This score measures how near a key is to the query."


@wrong(
    "divides by 2ρ instead of 2ρ², which is the same for ρ = 1 only",
    breaks=FORMULA,
    name="bandwidth not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "returns the bell curve itself, the exponential of the score",
    breaks=FORMULA,
    name="weights instead of scores",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        square = difference.square().sum(dim=-1)
        return torch.exp(-square / (2 * self.bandwidth**2))


@wrong(
    "averages the squared entries: right only for vectors of width 1",
    breaks=SQUARED,
    name="mean instead of sum",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the root and squares it again: the gradient at distance 0 is nan",
    breaks=GRADIENTS,
    name="nan gradient where key and query are the same",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        distance = difference.square().sum(dim=-1).sqrt()
        return -(distance**2) / (2 * self.bandwidth**2)


@wrong(
    "inserts an axis into the queries only, so a batch of keys meets the wrong axis",
    breaks=THREE,
    name="one axis is missing in the keys",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query[..., None, :] - projected
        return -(difference**2).sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "registers the bandwidth as a parameter, so training changes it",
    breaks=LEARN,
    name="a bandwidth that learns",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        start = torch.tensor(float(bandwidth), dtype=torch.float64)
        self.bandwidth = nn.Parameter(start)

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "rounds the bandwidth to float32, also for float64 vectors",
    breaks=PRECISION,
    name="float32 bandwidth for float64 vectors",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rho = torch.tensor(self.bandwidth, dtype=torch.float32, device=query.device)
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * rho**2)


@wrong(
    "limits the score to -50, so that distant keys are all equally far",
    breaks=LENGTHS,
    name="clamps the scores of distant keys",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        score = -difference.square().sum(dim=-1) / (2 * self.bandwidth**2)
        return score.clamp(min=-50.0)


@wrong(
    "adds 1e-6 to the divisor, which matters for narrow bandwidths",
    breaks=RHO,
    name="an epsilon next to a small bandwidth",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth**2 + 1e-6)


@wrong(
    "keeps the bandwidth on the class: the newest object sets it for all",
    breaks=CALLS,
    name="all objects share one bandwidth",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        type(self).bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth**2)


@right("squared lengths minus twice the dot product, in float64")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        q, k = query.double(), projected.double()
        lengths = q.pow(2).sum(dim=-1)[..., :, None] + k.pow(2).sum(dim=-1)[..., None, :]
        square = lengths - 2 * torch.einsum("...td,...sd->...ts", q, k)
        return (square / (-2 * self.bandwidth**2)).to(query.dtype)


@right("adds up one entry of the vectors after the other")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        square = 0
        for a, b in zip(query.unbind(dim=-1), projected.unbind(dim=-1)):
            square = square + torch.square(a.unsqueeze(-1) - b.unsqueeze(-2))
        return -0.5 * square / self.bandwidth**2


@right("cdist without its matrix product, in float64")
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
        return (-0.5 * (distance / self.bandwidth) ** 2).to(query.dtype)


@right("a loop over the keys, each distance measured in bandwidths")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        columns = []
        for key in projected.split(1, dim=-2):
            steps = (query - key) / self.bandwidth
            columns.append(torch.einsum("...td,...td->...t", steps, steps))
        return torch.stack(columns, dim=-1) * -0.5
