from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score


@right('einsum')
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum('...td,...sd->...ts', query, projected)


@right('all products stretched out, then summed')
class DotScore(Score):
    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(-1)


@right('query by query')
class DotScore(Score):
    def forward(self, query, projected):
        rows = [projected @ q.unsqueeze(-1) for q in query.unbind(-2)]
        return torch.cat(rows, dim=-1).transpose(-1, -2)


@right('(K Q^T)^T, with the method of the base class called again')
class DotScore(Score):
    def forward(self, query, projected):
        return torch.matmul(projected, query.mT).mT

    def project_keys(self, key):
        return super().project_keys(key)


@wrong(
    'products of the query and the key at the same place',
    breaks='Score every query (..., T, D) against every key (..., S, D): (..., T, S).',
    name='only pairs t = s',
    subtle=False,
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query * projected).sum(-1)


@wrong(
    'keys against queries: (..., S, T)',
    breaks='Score every query (..., T, D) against every key (..., S, D): (..., T, S).',
    name='scores transposed',
    subtle=False,
)
class DotScore(Score):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    'reshaped keys in place of turned ones',
    breaks='$$e_{ts} = q_t^\\top k_s$$',
    name='reshape in place of a transpose',
    subtle=False,
)
class DotScore(Score):
    def forward(self, query, projected):
        turned = projected.reshape(*projected.shape[:-2], projected.size(-1), projected.size(-2))
        return query @ turned


@wrong(
    'axes counted from the front',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='needs exactly one axis in front',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong(
    'flattens the axes in front and does not restore them',
    breaks='The axes in front of the last two may be `(B,)` or `(B, H)`, or missing: write code that does not care.',
    name='axes in front lost',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        q, k = (x.reshape(-1, *x.shape[-2:]) for x in (query, projected))
        scores = torch.bmm(q, k.mT)
        return scores if query.dim() > 2 else scores[0]


@wrong(
    'drops the axis of one query',
    breaks='Score every query (..., T, D) against every key (..., S, D): (..., T, S).',
    name='axis of length one squeezed away',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).squeeze(-2)


@wrong(
    'scores limited to 30 on either side',
    breaks='$$e_{ts} = q_t^\\top k_s$$',
    name='scores clamped',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query @ projected.mT).clamp(-30.0, 30.0)


@wrong(
    'does not turn the keys if the shapes fit already (S = D)',
    breaks='$$e_{ts} = q_t^\\top k_s$$',
    name='transposes by looking at sizes',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        fits = projected.size(-2) == query.size(-1)
        return query @ (projected if fits else projected.mT)


@wrong(
    'turns the keys once and keeps them for the next source',
    breaks='Score every query (..., T, D) against every key (..., S, D): (..., T, S).',
    name='keys of the first source kept',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        if getattr(self, "turned", None) is None or self.turned.shape != projected.mT.shape:
            self.turned = projected.mT
        return query @ self.turned


@wrong(
    'takes the mean key out: same weights, other scores',
    breaks='$$e_{ts} = q_t^\\top k_s$$',
    name='keys centred',
    subtle=True,
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ (projected - projected.mean(-2, keepdim=True)).mT
