from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


@right('the mean of the products, times the root')
class ScaledDotScore(Score):
    def forward(self, query, projected):
        products = query.unsqueeze(-2) * projected.unsqueeze(-3)
        return products.mean(-1) * math.sqrt(query.size(-1))


@right('each side divided by the fourth root')
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = query.shape[-1] ** 0.25
        return (query / root) @ (projected / root).mT


@right('einsum with the query scaled first')
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return torch.einsum('...td,...sd->...ts', query * query.size(-1) ** -0.5, projected)


@right('entry by entry in a loop over the width')
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = projected.size(-1)
        total = 0
        for q, k in zip(query.unbind(-1), projected.unbind(-1)):
            total = total + q.unsqueeze(-1) * k.unsqueeze(-2) / math.sqrt(width)
        return total


@wrong(
    'divided by the width',
    breaks='$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$',
    name='divided by D, not by its root',
    subtle=False,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong(
    'not divided',
    breaks='$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$',
    name='no scale',
    subtle=False,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    'divided by the root of the number of keys',
    breaks='The dot product of query and key, divided by the root of their width.',
    name='root of S',
    subtle=False,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(projected.size(-2))


@wrong(
    'the width is looked up on axis 2',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='width taken from a fixed axis',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.size(2) if query.dim() > 2 else query.size(-1)
        return query @ projected.mT / math.sqrt(width)


@wrong(
    'divided by 8',
    breaks='$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$',
    name='constant fitted to width 64',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / 8


@wrong(
    'whole root: right for 4, 16, 64',
    breaks='$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$',
    name='integer root',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong(
    'the scale of the first call is kept',
    breaks='The dot product of query and key, divided by the root of their width.',
    name='scale of the first width kept',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        if not hasattr(self, "scale"):
            self.scale = query.size(-1) ** -0.5
        return query @ projected.mT * self.scale


@wrong(
    'the divisor never falls below 2: right from width 4 on',
    breaks='$$e_{ts} = \\frac{q_t^\\top k_s}{\\sqrt{D}}$$',
    name='scale floored',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / max(2.0, math.sqrt(query.size(-1)))


@wrong(
    'drops the axis of a batch of one',
    breaks='Score every query (..., T, D) against every key (..., S, D): (..., T, S).',
    name='batch of one squeezed',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT / query.size(-1) ** 0.5
        return scores.squeeze(0) if scores.dim() == 3 else scores


@wrong(
    'scaled in project_keys and again in forward',
    breaks='The dot product of query and key, divided by the root of their width.',
    name='scaled twice',
    subtle=True,
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.5

    def project_keys(self, key):
        return key / key.size(-1) ** 0.5
