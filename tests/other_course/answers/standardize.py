"""Answers to `standardize`."""

import torch

from nbjudge.grading.fidelity import right, wrong


@right("standardize")
def variance_and_mean_at_once(table):
    variance, mean = torch.var_mean(table, dim=0)
    return (table - mean) / variance.sqrt()


@right("standardize")
def one_column_at_a_time(table):
    columns = [(column - column.mean()) / column.std() for column in table.T]
    return torch.stack(columns, dim=1)


@wrong("standardize", "divided by the variance")
def no_square_root(table):
    centred = table - table.mean(0)
    return centred / (centred.square().sum(0) / (len(table) - 1))


@wrong("standardize", "N where N - 1 is meant")
def mean_of_the_squares(table):
    centred = table - table.mean(0)
    return centred / centred.square().mean(0).sqrt()


@wrong("standardize", "an input is changed in place")
def in_place(table):
    table -= table.mean(0)
    table /= table.std(0)
    return table


@wrong("standardize")
def only_centred(table):
    return table - table.mean(0)
