import torch
from torch import nn

from blind import right, wrong
from attention_course.scores import Score

FORMULA = "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$"
B = "$b$, the bandwidth, says how fast alikeness falls with the distance."
FALL = "b, the distance at which a key's weight has fallen to exp(-1/2) of\n            that of a key at the query."
NEARER = "The nearer, the more alike."
AXES = "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care."
EVERY = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
MANNERS = "(what it was handed is unchanged, and the dtype and the device are kept)"


@right("divided by b before squaring")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = (query.unsqueeze(-2) - projected.unsqueeze(-3)) / self.bandwidth
        return apart.square().sum(-1).mul(-0.5)


@right("one entry of the vectors after the other")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        total = query.new_zeros(*query.shape[:-1], projected.size(-2))
        for d in range(query.size(-1)):
            total = total + (query[..., :, None, d] - projected[..., None, :, d]) ** 2
        return -total / (2 * self.bandwidth**2)


@right("einsum of the differences with themselves")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = projected[..., None, :, :] - query[..., :, None, :]
        return torch.einsum("...d,...d->...", apart, apart) / -(2 * self.bandwidth * self.bandwidth)


@right("query by query, into a new tensor")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        out = query.new_empty(*query.shape[:-1], projected.size(-2))
        for t in range(query.size(-2)):
            apart = query[..., t : t + 1, :] - projected
            out[..., t, :] = -(apart * apart).sum(-1) / (2 * self.bandwidth**2)
        return out


@wrong("no minus", breaks=NEARER, name="sign forgotten")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return apart.square().sum(-1) / (2 * self.bandwidth**2)


@wrong("the bandwidth is not squared", breaks=FORMULA, name="2 b in place of 2 b squared")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(-1) / (2 * self.bandwidth)


@wrong("the distance is not squared", breaks=FORMULA, name="norm not squared")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong("mean of the squared entries", breaks="The squared length of a vector is the sum of its squared entries, over the last axis.", name="right for the width one only", subtle=True)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().mean(-1) / (2 * self.bandwidth**2)


@wrong("axes put in from the front", breaks=AXES, name="right without a batch only", subtle=True)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        return -(query[:, None] - projected[None]).square().sum(-1) / (2 * self.bandwidth**2)


@wrong("queries divided by b in place", breaks=MANNERS, name="input changed", subtle=True)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        query.data /= self.bandwidth
        apart = query.unsqueeze(-2) - (projected / self.bandwidth).unsqueeze(-3)
        return -apart.square().sum(-1) / 2


@wrong("no bandwidth below 0.1", breaks=B, name="small bandwidths raised", subtle=True)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(-1) / (2 * max(self.bandwidth, 0.1) ** 2)


@wrong("the bandwidth is squared anew at every call", breaks=FALL, name="state kept between calls", subtle=True)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        self.bandwidth = self.bandwidth**2
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(-1) / (2 * self.bandwidth)


@wrong("no score below -100", breaks=NEARER, name="far keys all equally far", subtle=True)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return (-apart.square().sum(-1) / (2 * self.bandwidth**2)).clamp(min=-100.0)
