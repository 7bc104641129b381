from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


@right('differences measured in bandwidths, einsum')
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        z = (query[..., :, None, :] - projected[..., None, :, :]) / self.bandwidth
        return -0.5 * torch.einsum('...d,...d->...', z, z)


@right('one coordinate after the other')
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        total = 0
        for q, k in zip(query.unbind(-1), projected.unbind(-1)):
            total = total + (q[..., None] - k[..., None, :]).pow(2)
        return total / (-2 * self.bandwidth * self.bandwidth)


@right('query by query')
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rows = [(projected - q).square().sum(-1) for q in query.split(1, dim=-2)]
        return -torch.stack(rows, dim=-2) / (2 * self.bandwidth**2)


@right('from the middle of query and key: the squared length by a product of matrices, and an extra buffer')
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth
        self.register_buffer('unused', torch.zeros(1), persistent=False)

    def forward(self, query, projected):
        d = (projected.unsqueeze(-3) - query.unsqueeze(-2)).unsqueeze(-1)
        return (d.mT @ d)[..., 0, 0].neg().div(2 * self.bandwidth**2)


@wrong(
    'the minus is missing',
    breaks='$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$',
    name='sign',
    subtle=False,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return difference.square().sum(-1) / (2 * self.bandwidth**2)


@wrong(
    'the distance is not squared',
    breaks='$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$',
    name='length not squared',
    subtle=False,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    'divided by b^2 only',
    breaks='$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$',
    name='factor 2 forgotten',
    subtle=False,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(-1) / self.bandwidth**2




@wrong(
    'mean of the squares in place of the sum: right at width 1',
    breaks='The squared length of a vector is the sum of its squared entries, over the last axis.',
    name='mean over the width',
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().mean(-1) / (2 * self.bandwidth**2)


@wrong(
    'axes counted from the front: right without a batch',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='no axis in front allowed',
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(1) - projected.unsqueeze(0)
        return -difference.square().sum(-1) / (2 * self.bandwidth**2)


@wrong(
    'the bandwidth is a parameter',
    breaks='There is nothing to learn.',
    name='bandwidth learned',
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth
        self.width = nn.Parameter(torch.tensor(math.log(bandwidth)))

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(-1) / (2 * self.width.exp() ** 2)


@wrong(
    'scores stop at -50',
    breaks='$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$',
    name='scores clamped',
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return (-difference.square().sum(-1) / (2 * self.bandwidth**2)).clamp(min=-50.0)


@wrong(
    'the largest of each row is taken out: same weights, other scores',
    breaks='$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$',
    name='scores shifted row by row',
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        scores = -difference.square().sum(-1) / (2 * self.bandwidth**2)
        return scores - scores.amax(-1, keepdim=True)


@wrong(
    'bandwidths below 0.1 are taken as 0.1',
    breaks="b, the distance at which a key's weight has fallen to exp(-1/2) of that of a key at the query.",
    name='bandwidth floored',
    subtle=True,
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(-1) / (2 * max(self.bandwidth, 0.1) ** 2)
