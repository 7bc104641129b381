import math

import torch
from blind import right, wrong

from attention_course.scores import Score


class _Base(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def squared(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return difference.square().sum(dim=-1)

    def forward(self, query, projected):
        return -self.squared(query, projected) / (2 * self.bandwidth**2)


# Right
@right("one entry of the vectors after the other, by torch.addcmul")
class R1(_Base):
    def forward(self, query, projected):
        total = query.new_zeros(*query.shape[:-1], projected.size(-2))
        for q, k in zip(query.unbind(-1), projected.unbind(-1), strict=True):
            gap = q.unsqueeze(-1) - k.unsqueeze(-2)
            total = torch.addcmul(total, gap, gap)
        return total * (-0.5 / (self.bandwidth * self.bandwidth))


@right("einsum of the differences with themselves")
class R2(_Base):
    def forward(self, query, projected):
        gap = projected[..., None, :, :] - query[..., :, None, :]
        length = torch.einsum("...d,...d->...", gap, gap)
        return length.neg().div(2.0 * math.pow(self.bandwidth, 2))


@right("one key after the other, columns put together by cat")
class R3(_Base):
    def forward(self, query, projected):
        columns = []
        for k in projected.split(1, dim=-2):
            gap = (query.unsqueeze(-2) - k.unsqueeze(-3)) ** 2
            columns.append(-gap.sum(dim=-1) / 2 / self.bandwidth / self.bandwidth)
        return torch.cat(columns, dim=-1)


@right("a product of each difference, as a row, with itself, as a column")
class R4(_Base):
    def forward(self, query, projected):
        gap = torch.sub(query[..., None, :], projected[..., None, :, :])
        length = (gap[..., None, :] @ gap[..., None])[..., 0, 0]
        return 0 - length / (self.bandwidth**2 + self.bandwidth**2)


# Wrong
@wrong(
    "the mean of the squares in place of their sum: right for D = 1",
    breaks="$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$",
    name="mean over the width",
    subtle=True,
)
class W1(_Base):
    def squared(self, query, projected):
        return (query.unsqueeze(-2) - projected.unsqueeze(-3)).square().mean(dim=-1)


@wrong(
    "/ 2 * b ** 2, which multiplies by b squared: right for b = 1",
    breaks="$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$",
    name="multiplied by b squared",
    subtle=True,
)
class W2(_Base):
    def forward(self, query, projected):
        return -self.squared(query, projected) / 2 * self.bandwidth**2


@wrong(
    "the logarithm of a normal density, with its constant, which a softmax removes",
    breaks="$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$",
    name="constant of the normal density",
    subtle=True,
)
class W3(_Base):
    def forward(self, query, projected):
        scores = -self.squared(query, projected) / (2 * self.bandwidth**2)
        return scores - math.log(self.bandwidth * math.sqrt(2 * math.pi))


@wrong(
    "squares the bandwidth of the module at every call",
    breaks="bandwidth: b, the distance at which a key's weight has fallen to exp(-1/2)"
    " of that of a key at the query.",
    name="the bandwidth changes at every call",
    subtle=True,
)
class W4(_Base):
    def forward(self, query, projected):
        self.bandwidth **= 2
        return -self.squared(query, projected) / (2 * self.bandwidth)


@wrong(
    "query - projected.mT: right for D = 1, otherwise a wrong shape or none",
    breaks="Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    name="width of one only",
    subtle=True,
)
class W5(_Base):
    def squared(self, query, projected):
        return (query - projected.mT).square()


@wrong(
    "axes by None in front, as in [:, None, :] and [None, :, :]: no leading axes",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="two axes only",
    subtle=True,
)
class W6(_Base):
    def squared(self, query, projected):
        return (query[:, None, :] - projected[None, :, :]).square().sum(dim=-1)


@wrong(
    "the sum of the distances, squared: right for D = 1",
    breaks="$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 b^2}$$",
    name="city block distance",
    subtle=True,
)
class W7(_Base):
    def squared(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return gap.abs().sum(dim=-1).square()


@wrong(
    "scores below -50 are cut off",
    breaks="the bandwidth, says how fast alikeness falls with the distance",
    name="far keys all equally far",
    subtle=True,
)
class W8(_Base):
    def forward(self, query, projected):
        return super().forward(query, projected).clamp(min=-50.0)


@wrong(
    "a single query is subtracted from the keys that came in",
    breaks="what it was handed is unchanged",
    name="keys changed in place",
    subtle=True,
)
class W9(_Base):
    def squared(self, query, projected):
        if query.size(-2) > 1:
            return super().squared(query, projected)
        with torch.no_grad():
            projected -= query
        return projected.square().sum(dim=-1).unsqueeze(-2)


@wrong(
    "the bandwidth as a float32 tensor with an axis",
    breaks="the dtype and the device are kept",
    name="a tensor of another dtype in the quotient",
    subtle=True,
)
class W10(_Base):
    def forward(self, query, projected):
        bandwidth = torch.tensor([float(self.bandwidth)])
        return -self.squared(query, projected) / (2 * bandwidth**2)
