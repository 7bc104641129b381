"""Answers to dot."""

import torch
from answers.core import right, wrong
from answers.lab03_scoring.products import PRODUCTS, score
from answers.signs import (
    AXES,
    CUT,
    EXCHANGED,
    FACTOR,
    FITS,
    TAKEN_OUT,
)

from attention_course.scores import Score

for product in PRODUCTS:
    right("dot", product.__name__)(score(product))


@wrong("dot", FITS)
class EntryByEntry(Score):
    def forward(self, query, projected):
        return (query * projected).sum(-1)


@wrong("dot", FITS, "keys not transposed")
class NotTurned(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected)


@wrong("dot", "rows and columns exchanged", EXCHANGED)
class KeysFirst(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...st", query, projected)


@wrong("dot", AXES)
class ThreeLetters(Score):
    def forward(self, query, projected):
        return torch.einsum("btd,bsd->bts", query, projected)


@wrong("dot", AXES, FITS)
class AxesFromTheFront(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong("dot", FITS)
class AllAxesTurned(Score):
    def forward(self, query, projected):
        return query @ projected.permute(*range(projected.dim() - 1, -1, -1))


@wrong("dot", CUT)
class KeysDetached(Score):
    def forward(self, query, projected):
        return query @ projected.detach().mT


@wrong("dot", "cosine, where the plain product is meant")
class Cosine(Score):
    def forward(self, query, projected):
        q = query / query.norm(dim=-1, keepdim=True)
        k = projected / projected.norm(dim=-1, keepdim=True)
        return q @ k.mT


@wrong("dot", FACTOR)
class MeanNotSum(Score):
    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).mean(-1)


@wrong("dot", "weights, where scores are meant")
class Softmaxed(Score):
    def forward(self, query, projected):
        return torch.softmax(query @ projected.mT, dim=-1)


@wrong("dot", TAKEN_OUT, CUT)
class ThroughNumbers(Score):
    def forward(self, query, projected):
        return torch.tensor(
            (query @ projected.mT).tolist(), dtype=query.dtype, device=query.device
        )


@wrong("dot", "the first sentence stands for all")
class FirstSentence(Score):
    def forward(self, query, projected):
        return query @ projected[0].mT


@wrong("dot")
class Distance(Score):
    def forward(self, query, projected):
        return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).norm(dim=-1)


@wrong("dot", "nothing returned")
class NoReturn(Score):
    def forward(self, query, projected):
        query @ projected.mT
