import torch
from torch import nn
from blind import right, wrong


@right('loops over rows with a dictionary that counts')
def packed_rows(sentence):
    batch, length = sentence.shape
    mask = torch.zeros(batch, length, length, dtype=torch.bool)
    places = torch.zeros(batch, length, dtype=torch.long)
    for b, row in enumerate(sentence.tolist()):
        members = {}
        for t, number in enumerate(row):
            if number != 0:
                others = members.setdefault(number, [])
                places[b, t] = len(others)
                others.append(t)
        for group in members.values():
            for t in group:
                mask[b, t, group] = True
    return mask.to(sentence.device), places.to(sentence.device)


@right('where a sentence begins, found by comparing neighbours, and a running maximum')
def packed_rows(sentence):
    real = sentence != 0
    same = (sentence[:, :, None] - sentence[:, None, :]) == 0
    mask = same & real[:, None, :]
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    begins = torch.ones_like(real)
    begins[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    first = torch.where(begins, t, 0).cummax(dim=1).values
    return mask, torch.where(real, t - first, 0)


@right('the first position of a sentence is the first True in its row of the mask')
def packed_rows(sentence):
    mask = torch.eq(sentence.unsqueeze(2), sentence.unsqueeze(1))
    mask = mask.logical_and(sentence.ne(0).unsqueeze(1))
    first = mask.to(torch.uint8).argmax(dim=2)
    t = torch.arange(sentence.shape[1], device=sentence.device)
    return mask, (t - first) * (sentence != 0)


@right('runs of equal numbers are numbered first; the cumulative sum of the mask counts')
def packed_rows(sentence):
    changes = torch.zeros_like(sentence)
    changes[:, 1:] = (sentence[:, 1:] != sentence[:, :-1]).long()
    run = changes.cumsum(dim=1)
    run = run.masked_fill(sentence == 0, -1)
    mask = (run[:, :, None] == run[:, None, :]) & (run >= 0)[:, :, None]
    counted = mask.long().cumsum(dim=-1).diagonal(dim1=1, dim2=2)
    return mask, (counted - 1).clamp(min=0)


@wrong(
    'two zeros are equal, too: padding attends to padding',
    'The number 0 means padding, which stands at the end of a row.',
    'padding attends to padding',
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    real = (sentence != 0).long()
    return mask, mask.tril(-1).sum(dim=-1) * real


@wrong(
    'a token does not see later tokens of its own sentence',
    'A token may attend to all tokens of its own sentence, to earlier ones, to later ones and to itself.',
    'causal mask added',
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = (mask & (sentence != 0)[:, :, None]).tril()
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    'the positions run on through the whole row instead of beginning anew',
    'Positions count from 0, and they begin anew in each sentence.',
    'positions do not begin anew',
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, :, None]
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    return mask, t.masked_fill(sentence == 0, 0)


@wrong(
    'positions come from the comparison before padding was taken out: two or more paddings get 0, 1, 2',
    'Padding attends to nothing, nothing attends to it, and its positions are 0.',
    'positions of padding are counted',
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None, :]
    mask = same & (sentence != 0)[:, :, None]
    return mask, same.tril(-1).sum(dim=-1)


@wrong(
    'looks for the sentences 1 to T: tokens with a larger number attend to nothing',
    'Each sentence of a row has a number of its own, which can be any number from 1 on.',
    'takes the numbers to be at most T',
)
def packed_rows(sentence):
    batch, length = sentence.shape
    mask = torch.zeros(
        batch, length, length, dtype=torch.bool, device=sentence.device
    )
    for number in range(1, length + 1):
        own = sentence == number
        mask |= own[:, :, None] & own[:, None, :]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    'the numbers are compared as float32: 16777216 and 16777217 are the same sentence',
    'Each sentence of a row has a number of its own, which can be any number from 1 on.',
    'large numbers collide in single precision',
)
def packed_rows(sentence):
    numbers = sentence.float()
    near = torch.cdist(numbers[:, :, None], numbers[:, :, None], p=1) < 0.5
    mask = near & (sentence != 0)[:, :, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    'a sentence begins after all tokens with a smaller number: wrong where the numbers do not rise from left to right',
    'The numbers need not rise from left to right.',
    'takes the numbers to rise',
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    smaller = (sentence[:, None, :] < sentence[:, :, None]) & real[:, None, :]
    t = torch.arange(sentence.size(1), device=sentence.device)
    return mask, (t - smaller.sum(dim=-1)).clamp(min=0) * real


@wrong(
    'padding is what equals the last token of the row: in a row without padding the last sentence counts as padding',
    'The number 0 means padding, which stands at the end of a row.',
    'takes the last number for padding',
)
def packed_rows(sentence):
    real = sentence != sentence[:, -1:]
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "the counters are not emptied between rows: if two rows use the same number, the second one's positions go on",
    'Positions count from 0, and they begin anew in each sentence.',
    'counters shared by all rows',
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, :, None]
    places, counts = torch.zeros_like(sentence), {}
    for b, row in enumerate(sentence.tolist()):
        for t, number in enumerate(row):
            if number:
                places[b, t] = counts.get(number, 0)
                counts[number] = counts.get(number, 0) + 1
    return mask, places


@wrong(
    'the product of two numbers says whether both are real: it overflows and becomes negative or zero for numbers above three thousand millions',
    'Each sentence of a row has a number of its own, which can be any number from 1 on.',
    'product of large numbers overflows',
)
def packed_rows(sentence):
    ask, asked = sentence[:, :, None], sentence[:, None, :]
    mask = (ask == asked) & (ask * asked > 0)
    return mask, mask.tril(-1).sum(dim=-1)
