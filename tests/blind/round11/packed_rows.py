import torch
from torch import nn

from blind import right, wrong


@right("start of the current sentence by cummax")
def packed_rows(sentence):
    token = sentence != 0
    same = sentence.unsqueeze(2) == sentence.unsqueeze(1)
    mask = same & token.unsqueeze(2) & token.unsqueeze(1)
    first = torch.ones_like(token)
    first[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    index = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    start = torch.where(first, index, torch.zeros_like(index)).cummax(dim=1).values
    return mask, torch.where(token, index - start, torch.zeros_like(index))


@right("plain Python: groups of equal numbers, one block of the mask per group")
def packed_rows(sentence):
    from itertools import groupby

    size, length = sentence.shape
    mask = torch.zeros(size, length, length, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros_like(sentence)
    for b, row in enumerate(sentence.tolist()):
        start = 0
        for number, group in groupby(row):
            end = start + len(list(group))
            if number:
                mask[b, start:end, start:end] = True
                positions[b, start:end] = torch.arange(end - start)
            start = end
    return mask, positions


@right("distance to the first True of each row of the mask, found by argmax")
def packed_rows(sentence):
    query, key = sentence[..., None], sentence[:, None]
    mask = query.eq(key).logical_and(query.ne(0))
    first = mask.to(torch.uint8).argmax(dim=-1)
    here = torch.arange(sentence.shape[1], device=sentence.device)
    return mask, (here - first) * sentence.ne(0)


@right("diagonal of the running sums over the mask, minus one, but at least zero")
def packed_rows(sentence):
    differs = torch.bitwise_xor(sentence[:, :, None], sentence[:, None, :]) != 0
    mask = ~(differs | (sentence == 0)[:, None, :])
    count = mask.long().cumsum(dim=-1).diagonal(dim1=1, dim2=2)
    return mask, (count - 1).clamp(min=0)


@wrong(
    "compares the numbers only, so padding attends to padding",
    "Padding must not attend to anything, and no token may attend to padding.",
    "padding attends to padding",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None]
    positions = mask.tril(-1).sum(dim=-1)
    return mask, positions * (sentence != 0)


@wrong(
    "numbers the tokens of the whole row without starting again",
    "Count the positions from 0, and start again from 0 in each sentence.",
    "positions do not start again",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & token[:, None]
    positions = torch.arange(sentence.size(1), device=sentence.device)
    return mask, positions * token


@wrong(
    "a causal mask within each sentence",
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself.",
    "later tokens forbidden",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & token[:, None]
    return mask.tril(), mask.tril(-1).sum(dim=-1)


@wrong(
    "counts the token itself and subtracts one, so padding gets the position -1",
    "Set the positions of padding to 0.",
    "position of padding is -1",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & token[:, None]
    return mask, mask.tril().sum(dim=-1) - 1


@wrong(
    "looks for the last token of each row, which a row of padding does not have: an error",
    "Padding is always at the end of a row, and a row may consist of padding only.",
    "fails for a row of padding only",
)
def packed_rows(sentence):
    size, length = sentence.shape
    mask = torch.zeros(size, length, length, dtype=torch.bool, device=sentence.device)
    for b, row in enumerate(sentence):
        end = int(row.nonzero().max()) + 1
        mask[b, :end, :end] = row[:end, None] == row[None, :end]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "marks padding with -1 in the caller's table",
    "Do not change the inputs.",
    "table changed in place",
)
def packed_rows(sentence):
    sentence[sentence == 0] = -1
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "the positions are int32",
    "A mask (B, T, T), of dtype bool, True = may attend; and positions (B, T), of dtype long.",
    "positions of the wrong dtype",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & token[:, None]
    return mask, mask.int().tril(-1).sum(dim=-1, dtype=torch.int32)


@wrong(
    "compares float32 numbers, which cannot tell large sentence numbers apart",
    "Each sentence in a row has its own number, a whole number from 1 to a billion.",
    "large sentence numbers rounded",
)
def packed_rows(sentence):
    number = sentence.float()
    token = (number > 0).float()
    apart = (number[:, :, None] - number[:, None]).abs()
    mask = (apart < 0.5) & (token[:, :, None] * token[:, None] > 0)
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "counts through all rows as one long row: a sentence goes on if the next row starts with the same number",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "positions go on from one row to the next",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & token[:, None]
    _, counts = sentence.flatten().unique_consecutive(return_counts=True)
    start = (counts.cumsum(0) - counts).repeat_interleave(counts)
    index = torch.arange(sentence.numel(), device=sentence.device)
    return mask, (index - start).view_as(sentence) * token


@wrong(
    "counts in int8, which wraps around in sentences of more than 128 tokens",
    "Positions and counts, however, must be exact in every dtype.",
    "counts overflow in long sentences",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & token[:, None]
    earlier = mask.to(torch.int8).tril(-1)
    return mask, earlier.sum(dim=-1, dtype=torch.int8).long()
