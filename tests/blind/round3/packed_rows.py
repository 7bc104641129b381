from itertools import groupby

import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("groups of equal numbers in Python lists")
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros_like(sentence)
    for b, row in enumerate(sentence.tolist()):
        begin = 0
        for number, group in groupby(row):
            end = begin + len(list(group))
            if number != 0:
                mask[b, begin:end, begin:end] = True
                positions[b, begin:end] = torch.arange(end - begin)
            begin = end
    return mask, positions


@right("begins of sentences found by diff, carried on by cummax")
def packed_rows(sentence):
    real = sentence.ne(0)
    place = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    begins = torch.ones_like(real)
    begins[:, 1:] = sentence.diff(dim=1) != 0
    begin = torch.where(begins, place, 0).cummax(dim=1).values
    mask = (begin[..., None] == begin[:, None]) & real[..., None] & real[:, None]
    return mask, (place - begin) * real


@right("numbers are equal if their XOR is 0; positions are the diagonal of a running sum")
def packed_rows(sentence):
    column, row = sentence.unsqueeze(2), sentence.unsqueeze(1)
    mask = torch.logical_and(torch.bitwise_xor(column, row) == 0, column > 0)
    count = mask.cumsum(dim=-1).diagonal(dim1=1, dim2=2)
    return mask, (count - 1).clamp(min=0)


@right("position by position: count on if the number is that of the token before")
def packed_rows(sentence):
    positions = torch.zeros_like(sentence)
    for t in range(1, sentence.size(1)):
        same = (sentence[:, t] == sentence[:, t - 1]) & (sentence[:, t] != 0)
        positions[:, t] = torch.where(same, positions[:, t - 1] + 1, 0)
    rows = []
    for t in range(sentence.size(1)):
        one = sentence[:, t : t + 1]
        rows.append((sentence == one) & (one != 0))
    return torch.stack(rows, dim=1), positions


# ---------------------------------------------------------------- wrong


@wrong(
    "compares the numbers and forgets that two zeros are equal, too",
    breaks="Padding attends to nothing, nothing attends to it, and its positions are 0.",
    name="padding is a sentence, too",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    return mask, mask.long().tril(-1).sum(dim=-1)


@wrong(
    "counts with the diagonal and takes one away: padding stands at -1",
    breaks="Padding attends to nothing, nothing attends to it, and its positions are 0.",
    name="padding at position -1",
    subtle=True,
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None, :]) & (sentence != 0)[:, None]
    return mask, mask.long().tril().sum(dim=-1) - 1


@wrong(
    "lets a token see only its own sentence up to itself",
    breaks="A token may attend to all tokens of its own sentence, to earlier ones, to later ones and to itself.",
    name="causal where nobody asked for it",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None, :]) & (sentence != 0)[:, None]
    mask = mask.tril()
    return mask, (mask.sum(dim=-1) - 1).clamp(min=0)


@wrong(
    "counts each sentence in a table with T + 1 places: no number may be larger than T",
    breaks="Each sentence of a row has a number of its own, which can be any number from 1 on.",
    name="numbers used as places of a table",
    subtle=True,
)
def packed_rows(sentence):
    B, T = sentence.shape
    table = torch.nn.functional.one_hot(sentence, num_classes=max(T, 8) + 1)
    table[..., 0] = 0
    mask = (table @ table.mT).bool()
    positions = ((table.cumsum(dim=1) - 1) * table).sum(dim=-1)
    return mask, positions


@wrong(
    "measures distances in float32: large numbers that differ by one are the same",
    breaks="Each sentence of a row has a number of its own, which can be any number from 1 on.",
    name="numbers compared as floats",
    subtle=True,
)
def packed_rows(sentence):
    number = sentence.float()
    mask = (number[:, :, None] - number[:, None, :]).abs() < 0.5
    mask = mask & (sentence > 0).unsqueeze(1)
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "counts along all rows as one: a number that ends a row and begins the next counts on",
    breaks="Positions count from 0, and they begin anew in each sentence.",
    name="rows run into each other",
    subtle=True,
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None, :]) & (sentence != 0)[:, None]
    flat = sentence.flatten()
    place = torch.arange(len(flat), device=flat.device)
    change = torch.ones_like(flat, dtype=torch.bool)
    change[1:] = flat[1:] != flat[:-1]
    begin = torch.where(change, place, 0).cummax(dim=0).values
    positions = (place - begin).view_as(sentence)
    return mask, positions.masked_fill(sentence == 0, 0)


@wrong(
    "gives paddings different numbers below zero, in the caller's table",
    breaks="What comes in stays as it is",
    name="the table is changed in place",
    subtle=True,
)
def packed_rows(sentence):
    padding = sentence == 0
    sentence[padding] = -1
    mask = (sentence.unsqueeze(2) == sentence.unsqueeze(1)) & ~padding.unsqueeze(1)
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "lets every token attend to itself, padding as well, so that no softmax is empty",
    breaks="Padding attends to nothing, nothing attends to it",
    name="diagonal always allowed",
    subtle=True,
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None, :]) & (sentence != 0)[:, None]
    positions = mask.tril(-1).sum(dim=-1)
    return mask | torch.eye(mask.size(-1), dtype=torch.bool, device=mask.device), positions


@wrong(
    "adds up in float32 and returns float positions",
    breaks="and positions (B, T), of dtype long",
    name="positions are floats",
    subtle=True,
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None, :]) & (sentence != 0)[:, None]
    return mask, torch.tril(mask.float(), diagonal=-1).sum(dim=-1)


@wrong(
    "finds the first padding by argmax, which says 0 if there is none: full rows are all padding",
    breaks="A token may attend to all tokens of its own sentence",
    name="argmax of a row without padding",
    subtle=True,
)
def packed_rows(sentence):
    length = (sentence == 0).int().argmax(dim=1, keepdim=True)
    real = torch.arange(sentence.size(1), device=sentence.device) < length
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & real[:, :, None] & real[:, None, :]
    return mask, mask.tril(-1).sum(dim=-1)
