import torch

from blind import right, wrong


@right("two Python loops over the tokens of every row")
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros(B, T, dtype=torch.long, device=sentence.device)
    for b, row in enumerate(sentence.tolist()):
        for t, number in enumerate(row):
            if number == 0:
                continue
            if t > 0 and row[t - 1] == number:
                positions[b, t] = positions[b, t - 1] + 1
            for s in range(T):
                mask[b, t, s] = row[s] == number
    return mask, positions


@right("start of each sentence by a running maximum over the places where the number changes")
def packed_rows(sentence):
    here = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    first = torch.ones_like(sentence, dtype=torch.bool)
    first[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    start = torch.where(first, here, 0).cummax(dim=1).values
    positions = torch.where(sentence > 0, here - start, 0)
    segment = first.cumsum(1)
    mask = (segment.unsqueeze(2) == segment.unsqueeze(1)) & (sentence > 0)[:, None]
    return mask, positions


@right("position = index minus the first index of the own sentence, by argmax")
def packed_rows(sentence):
    same = torch.eq(sentence[..., None], sentence[..., None, :])
    same = same.logical_and(sentence[..., None].ne(0))
    index = torch.arange(sentence.size(-1), device=sentence.device)
    start = same.long().argmax(dim=-1)
    return same, (index - start) * (sentence != 0)


@right("masked cumulative sum over the columns, read off on the diagonal")
def packed_rows(sentence):
    number = sentence.masked_fill(sentence == 0, -1)
    mask = number[:, :, None] == sentence[:, None, :]
    counts = mask.cumsum(dim=2).diagonal(dim1=1, dim2=2)
    return mask, (counts - 1).clamp(min=0)


@wrong(
    "two zeros are equal: padding attends to padding",
    "Padding attends to nothing, nothing attends to it, and its positions are 0.",
    "padding attends to padding",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    positions = mask.tril(-1).sum(-1) * (sentence != 0)
    return mask, positions


@wrong(
    "returns a causal mask: later tokens of the own sentence are forbidden",
    "A token may attend to all tokens of its own sentence: to earlier ones, to later ones and to itself.",
    "later tokens of the sentence forbidden",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = (mask & (sentence != 0)[:, None]).tril()
    return mask, (mask.sum(-1) - 1).clamp(min=0)


@wrong(
    "positions go on through the whole row and do not start again",
    "Positions count from 0, and they start again from 0 in each sentence.",
    "positions do not restart",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    positions = torch.arange(sentence.size(1), device=sentence.device) * real
    return mask, positions


@wrong(
    "compares the numbers as float32: two neighbours above 2**24, such as 16777216 and 16777217, become one sentence",
    "Each sentence of a row has its own number, which can be any number from 1 on.",
    "large numbers collide in float32",
)
def packed_rows(sentence):
    number = sentence.float()
    mask = (number[:, :, None] - number[:, None, :]).abs() < 0.5
    mask = mask & (number > 0)[:, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "finds the start of a sentence by searchsorted, which needs sorted numbers: wrong for [5, 5, 5, 2, 2, 0]-like rows",
    "The numbers need not increase from left to right.",
    "assumes increasing numbers",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    big = sentence.masked_fill(~real, torch.iinfo(torch.long).max)
    start = torch.searchsorted(big, big)
    index = torch.arange(sentence.size(1), device=sentence.device)
    return mask, (index - start) * real


@wrong(
    "takes the maximum over the sentences' tokens of each row without a guard: a row of padding only raises (max of an empty tensor)",
    "A row may consist of padding only.",
    "fails on a row of padding",
)
def packed_rows(sentence):
    mask = torch.zeros(*sentence.shape, sentence.size(1), dtype=torch.bool)
    mask = mask.to(sentence.device)
    positions = torch.zeros_like(sentence)
    for b, row in enumerate(sentence):
        size = row.nonzero().max() + 1
        row = row[:size]
        mask[b, :size, :size] = row[:, None] == row
        positions[b, :size] = mask[b, :size, :size].tril(-1).sum(-1)
    return mask, positions


@wrong(
    "marks the padding with -1 in the table that it was given: the caller's zeros are gone",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "writes into the input",
)
def packed_rows(sentence):
    padding = sentence == 0
    sentence[padding] = -1
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask &= ~padding[:, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "compares products with squares: with numbers such as 2**32 and 2**33 both overflow to 0, and two sentences become one",
    "Each sentence of a row has its own number, which can be any number from 1 on.",
    "product of large numbers overflows",
)
def packed_rows(sentence):
    square = sentence * sentence
    mask = sentence[:, :, None] * sentence[:, None, :] == square[:, :, None]
    mask = mask & (sentence != 0)[:, :, None] & (sentence != 0)[:, None, :]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "counts the tokens of each number over the whole batch: a number that occurs in two rows does not start from 0 in the second",
    "Positions count from 0, and they start again from 0 in each sentence.",
    "counts over all rows together",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    positions = torch.zeros_like(sentence)
    for number in sentence[real].unique():
        where = sentence == number
        positions[where] = torch.arange(int(where.sum()), device=sentence.device)
    return mask, positions


@wrong(
    "tells sentences apart by the number modulo 1021 (a table of fixed size): 1 and 1022 in one row are taken for the same sentence",
    "Each sentence of a row has its own number, which can be any number from 1 on.",
    "numbers collide in a small table",
)
def packed_rows(sentence):
    real = sentence != 0
    bags = torch.nn.functional.one_hot(sentence % 1021, 1021) * real[..., None]
    bags = bags.float()
    mask = (bags @ bags.mT) > 0
    return mask, mask.tril(-1).sum(-1)
