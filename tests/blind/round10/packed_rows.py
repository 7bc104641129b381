from itertools import groupby

import torch

from blind import right, wrong


@right("walks along each row with groupby and fills square blocks")
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros(B, T, dtype=torch.long, device=sentence.device)
    for b, row in enumerate(sentence.tolist()):
        start = 0
        for number, run in groupby(row):
            stop = start + len(list(run))
            if number != 0:
                mask[b, start:stop, start:stop] = True
                positions[b, start:stop] = torch.arange(stop - start, device=sentence.device)
            start = stop
    return mask, positions


@right("starts of the sentences by comparing neighbours, cummax carries them on")
def packed_rows(sentence):
    B, T = sentence.shape
    new = torch.ones_like(sentence, dtype=torch.bool)
    new[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    place = torch.arange(T, device=sentence.device)
    start = torch.where(new, place, 0).cummax(dim=1).values
    real = sentence.ne(0)
    mask = (start[:, :, None] == start[:, None, :]) & real[:, :, None] & real[:, None, :]
    return mask, (place - start) * real


@right("xor of the numbers, positions are the smallest allowed key's distance")
def packed_rows(sentence):
    T = sentence.size(-1)
    differ = torch.bitwise_xor(sentence.unsqueeze(2), sentence.unsqueeze(1))
    mask = torch.logical_not(differ) & sentence.unsqueeze(1).bool()
    place = torch.arange(T, device=sentence.device).expand_as(sentence)
    first = place.unsqueeze(1).expand_as(mask).masked_fill(~mask, T).amin(dim=2)
    return mask, (place - first).clamp(min=0)


@right("row by row: unique_consecutive, counts, block_diag")
def packed_rows(sentence):
    masks, positions = [], []
    for row in sentence:
        numbers, counts = torch.unique_consecutive(row, return_counts=True)
        blocks = [
            torch.full((c, c), n != 0, dtype=torch.uint8, device=row.device)
            for n, c in zip(numbers.tolist(), counts.tolist())
        ]
        masks.append(torch.block_diag(*blocks).bool())
        counted = torch.cat([torch.arange(c, device=row.device) for c in counts.tolist()])
        positions.append(counted.masked_fill(row == 0, 0))
    return torch.stack(masks), torch.stack(positions)


@wrong(
    "compares numbers only: padding attends to padding, and is counted, wherever a row has padding",
    "Padding must not attend to anything, and no token may attend to padding.",
    "padding taken for a sentence of number 0",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    positions = mask.tril(-1).sum(-1).masked_fill(sentence == 0, 0)
    return mask, positions


@wrong(
    "forbids later tokens of the same sentence; wrong for any sentence of two tokens",
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself.",
    "mask is causal",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = (mask & (sentence != 0)[:, None, :]).tril()
    return mask, mask.sum(-1).sub(1).clamp(min=0)


@wrong(
    "counts the padding like a sentence: positions 0, 1, 2 for three positions of padding",
    "Set the positions of padding to 0.",
    "positions of padding go on counting",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None, :]
    positions = same.tril(-1).sum(-1)
    return same & (sentence != 0)[:, :, None], positions


@wrong(
    "finds each sentence's start with searchsorted: only right where the numbers of a row ascend",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "assumes ascending sentence numbers",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, None, :]
    high = sentence.masked_fill(~real, torch.iinfo(torch.long).max)
    start = torch.searchsorted(high, high.clone())
    place = torch.arange(sentence.size(1), device=sentence.device)
    return mask, (place - start) * real


@wrong(
    "looks up the last real token of each row: raises an IndexError for a row of padding only",
    "Padding is always at the end of a row, and a row may consist of padding only.",
    "fails for a row of padding only",
)
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros_like(sentence)
    for b in range(B):
        length = sentence[b].nonzero()[-1].item() + 1
        row = sentence[b, :length]
        same = row[:, None] == row[None, :]
        mask[b, :length, :length] = same
        positions[b, :length] = same.tril(-1).sum(-1)
    return mask, positions


@wrong(
    "compares float32 distances: numbers above 2 ** 24 that differ by 1 count as one sentence",
    "Each sentence in a row has its own number, which can be any integer from 1 up.",
    "numbers compared in float32",
)
def packed_rows(sentence):
    numbers = sentence.float().unsqueeze(-1)
    mask = (numbers - numbers.mT).abs() < 0.5
    mask = mask & (sentence > 0).unsqueeze(1) & (sentence > 0).unsqueeze(2)
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "gives padding its own negative numbers in the caller's table, so that it matches nothing: sentence is changed where there is padding",
    "Do not change the inputs.",
    "writes into the table of sentences",
)
def packed_rows(sentence):
    padding = sentence == 0
    place = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    sentence[padding] = -1 - place[padding]
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask &= ~padding[:, None, :]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "compares neighbours in the flattened table: where a row ends with the number with which the next one begins, the count goes on",
    "Count the positions from 0, and start again from 0 in each sentence.",
    "count goes on across rows",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    flat = sentence.flatten()
    place = torch.arange(flat.numel(), device=flat.device)
    new = torch.cat([flat.new_ones(1, dtype=torch.bool), flat[1:] != flat[:-1]])
    start = torch.where(new, place, 0).cummax(0).values
    return mask, (place - start).view_as(sentence) * real


@wrong(
    "product equals square: overflows for large numbers, such as 2 ** 32 and 2 ** 33, which then count as one sentence",
    "Each sentence in a row has its own number, which can be any integer from 1 up.",
    "products of large numbers overflow",
)
def packed_rows(sentence):
    products = sentence[:, :, None] * sentence[:, None, :]
    mask = (products == sentence.square()[:, :, None]) & (sentence != 0)[:, :, None]
    mask = mask & mask.mT & (sentence != 0)[:, None, :]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "same start = same sentence, but the positions of padding are 0, so each padding is its own start and attends to itself",
    "Padding must not attend to anything, and no token may attend to padding.",
    "each padding position attends to itself",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None, :]
    positions = same.tril(-1).sum(-1) * (sentence != 0)
    start = torch.arange(sentence.size(1), device=sentence.device) - positions
    return start[:, :, None] == start[:, None, :], positions
