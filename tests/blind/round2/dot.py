import torch
from torch import nn

from blind import right, wrong
from attention_course.scores import Score

ADD = "multiply entry by entry and add up."
EVERY = 'Score every query (..., T, D) against every key (..., S, D): (..., T, S).'
AXES = "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care."
COMPARE = "`forward(query, projected)` compares."
MANNERS = "(what it was handed is unchanged, and the dtype and the device are kept)"


@right("einsum")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("all products, then the sum")
class DotScore(Score):
    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(-1)


@right("keys times queries, turned")
class DotScore(Score):
    def forward(self, query, projected):
        return (projected @ query.transpose(-1, -2)).transpose(-1, -2)


@right("a loop over the queries, matrix times vector")
class DotScore(Score):
    def forward(self, query, projected):
        out = query.new_empty(*query.shape[:-1], projected.size(-2))
        for t in range(query.size(-2)):
            out[..., t, :] = (projected @ query[..., t, :, None]).squeeze(-1)
        return out


@wrong("divided by the root of the width", breaks=ADD, name="scaled")
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.5


@wrong("keys in rows, queries in columns", breaks=EVERY, name="transposed")
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong("cosine", breaks=ADD, name="vectors made of length one")
class DotScore(Score):
    def forward(self, query, projected):
        return nn.functional.normalize(query, dim=-1) @ nn.functional.normalize(projected, dim=-1).mT


@wrong("transpose(1, 2)", breaks=AXES, name="right for three axes only", subtle=True)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong("tensordot: right without a batch", breaks=AXES, name="every sentence against every other", subtle=True)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.tensordot(query, projected, dims=([-1], [-1]))


@wrong("squeeze of the result", breaks=EVERY, name="axes of length one lost", subtle=True)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).squeeze()


@wrong("the result in single precision", breaks=MANNERS, name="dtype not kept", subtle=True)
class DotScore(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong("transpose_: the caller's keys are turned", breaks=MANNERS, name="input changed", subtle=True)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose_(-1, -2)


@wrong("the turned keys of the first call are kept", breaks=COMPARE, name="state kept between calls", subtle=True)
class DotScore(Score):
    def forward(self, query, projected):
        kept = getattr(self, "kept", None)
        if kept is None or kept.shape != projected.mT.shape:
            self.kept = projected.mT
        return query @ self.kept
