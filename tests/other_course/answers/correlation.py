"""Answers to `correlation`."""

import torch

from nbjudge.grading.fidelity import right, wrong


@right("correlation")
def by_torch(table):
    return torch.corrcoef(table.T)


@right("correlation")
def by_cosines(table):
    centred = (table - table.mean(0)).T
    return torch.cosine_similarity(centred[:, None], centred, dim=-1)


@wrong("correlation", "covariance, where the correlation is meant")
def covariance(table):
    return torch.cov(table.T)


@wrong("correlation", "rows compared, not columns")
def not_transposed(table):
    return torch.corrcoef(table)


@wrong("correlation")
def scaled_but_not_centred(table):
    z = table / table.std(0)
    return z.T @ z / (len(table) - 1)
