import math

import torch
from torch import nn

from blind import right, wrong
from attention_course.scores import Score

WIDTH = "The dot product of query and key, divided by the root of their width."
EVERY = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
AXES = "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care."
MANNERS = "(what it was handed is unchanged, and the dtype and the device are kept)"


@right("the queries are made shorter first")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return (query * query.shape[-1] ** -0.5) @ projected.mT


@right("both sides divided by the fourth root")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = math.sqrt(math.sqrt(query.size(-1)))
        return torch.einsum("...td,...sd->...ts", query / root, projected / root)


@right("products summed, a closure for the scale")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        def scale(e, width=projected.size(-1)):
            return e.mul(1 / math.sqrt(width))

        return scale((query[..., :, None, :] * projected[..., None, :, :]).sum(dim=-1))


@right("key by key")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        out = query.new_zeros(*query.shape[:-1], projected.shape[-2])
        for s, k in enumerate(projected.unbind(-2)):
            out[..., s] = (query @ k.unsqueeze(-1)).squeeze(-1)
        return out / math.sqrt(query.shape[-1])


@wrong("divided by the width", breaks=WIDTH, name="no root")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong("not divided", breaks=WIDTH, name="not scaled")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@wrong("multiplied by the root", breaks=WIDTH, name="multiplied in place of divided")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT * math.sqrt(query.size(-1))


@wrong("always divided by 8", breaks=WIDTH, name="a constant for the width 64", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / 8.0


@wrong("scores cut at 50", breaks=WIDTH, name="large scores cut off", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT / math.sqrt(query.size(-1))).clamp(-50.0, 50.0)


@wrong("the third axis is taken for the width", breaks=AXES, name="right for three axes only", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[min(2, query.dim() - 1)])


@wrong("whole root", breaks=WIDTH, name="right for square numbers only", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong("the queries are divided in place", breaks=MANNERS, name="input changed", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        query.data /= math.sqrt(query.size(-1))
        return query @ projected.mT


@wrong("divided by a tensor of one number", breaks=MANNERS, name="half precision becomes single", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / torch.tensor([query.size(-1)], dtype=torch.float32).sqrt()


@wrong("the width of the first call is kept", breaks=WIDTH, name="state kept between calls", subtle=True)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        if not hasattr(self, "root"):
            self.root = math.sqrt(query.size(-1))
        return query @ projected.mT / self.root
