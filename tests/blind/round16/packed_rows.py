import itertools

import torch

from blind import right, wrong

OWN = "Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself."
RESTART = "Count the positions from 0, and start again from 0 in each sentence."
NUMBER = "Each sentence in a row has its own number, a whole number from 1 to a billion."
ORDER = "The numbers may come in any order, and different rows may use the same numbers."
EMPTY = "Padding is always at the end of a row, and a row may consist of padding only."
PADDING = "Padding must not attend to anything, and no token may attend to padding."
PADPOS = "Set the positions of padding to 0."
EXACT = "Positions and counts must be exact in every dtype."
INPUTS = "Do not change the inputs."
DTYPE = "A mask (B, T, T), of dtype bool, True = may attend; and positions (B, T), of"
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


@right("float64 with NaN for padding: NaN equals nothing, not even itself; positions from the last start")
def packed_rows(sentence):
    number = sentence.double().masked_fill(sentence == 0, torch.nan)
    mask = number[:, :, None] == number[:, None, :]
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    starts = torch.ones_like(sentence, dtype=torch.bool)
    starts[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    positions = t - torch.where(starts, t, 0).cummax(dim=1).values
    return mask, positions * (sentence != 0)


@right("plain Python: groupby over each row, and blocks of True")
def packed_rows(sentence):
    b, t = sentence.shape
    mask = torch.zeros(b, t, t, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros(b, t, dtype=torch.long, device=sentence.device)
    for r, row in enumerate(sentence.tolist()):
        start = 0
        for number, group in itertools.groupby(row):
            stop = start + len(list(group))
            if number:
                mask[r, start:stop, start:stop] = True
                positions[r, start:stop] = torch.arange(stop - start)
            start = stop
    return mask, positions


@right("positive products and no differing bit; positions from the diagonal of cumulated masks")
def packed_rows(sentence):
    q, k = sentence.unsqueeze(2), sentence.unsqueeze(1)
    mask = ((q ^ k) == 0) & (q * k > 0)
    counts = mask.cumsum(dim=2).diagonal(dim1=1, dim2=2)
    return mask, (counts - 1).clamp(min=0)


@right("numbers the runs of a row by counting the changes, and the first token of a run by argmax of the mask")
def packed_rows(sentence):
    changes = (sentence.diff(dim=1) != 0).long()
    run = torch.cat([torch.zeros_like(sentence[:, :1]), changes.cumsum(1)], dim=1)
    real = sentence.ne(0)
    mask = torch.eq(run[..., None], run[:, None]) & real[..., None] & real[:, None]
    first = mask.int().argmax(dim=-1)
    t = torch.arange(sentence.size(1), device=sentence.device)
    return mask, torch.where(real, t - first, torch.zeros_like(first))


def right_positions(same):
    return same.tril(-1).sum(-1)


def same_sentence(sentence):
    return (sentence[:, :, None] == sentence[:, None]) & (sentence != 0)[:, :, None]


@wrong("forgets padding: the number 0 equals the number 0", breaks=PADDING, name="padding attends to padding")
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None]
    return mask, right_positions(mask) * (sentence != 0)


@wrong("only earlier tokens and the token itself", breaks=OWN, name="causal mask")
def packed_rows(sentence):
    mask = same_sentence(sentence)
    return mask.tril(), right_positions(mask)


@wrong("padding goes on counting", breaks=PADPOS, name="positions of padding are not 0")
def packed_rows(sentence):
    equal = sentence[:, :, None] == sentence[:, None]
    return same_sentence(sentence), right_positions(equal)


@wrong("compares the numbers in float32: neighbours above 16777216 become the same sentence", breaks=NUMBER,
       name="sentence numbers in float32")
def packed_rows(sentence):
    mask = same_sentence(sentence.float())
    return mask, right_positions(mask)


@wrong("starts a new sentence only where the number grows: wrong for 5 5 2 2", breaks=ORDER,
       name="sentence numbers assumed to grow")
def packed_rows(sentence):
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    starts = torch.zeros_like(sentence, dtype=torch.bool)
    starts[:, 1:] = sentence[:, 1:] > sentence[:, :-1]
    positions = t - torch.where(starts, t, 0).cummax(1).values
    return same_sentence(sentence), positions * (sentence != 0)


@wrong("looks for changes in the flattened table: if a row begins with the number with which the row before ends, "
       "its positions go on", breaks=ORDER, name="sentences run across rows")
def packed_rows(sentence):
    flat = sentence.reshape(-1)
    t = torch.arange(flat.numel(), device=flat.device)
    starts = torch.ones_like(flat, dtype=torch.bool)
    starts[1:] = flat[1:] != flat[:-1]
    positions = (t - torch.where(starts, t, 0).cummax(0).values) * (flat != 0)
    return same_sentence(sentence), positions.reshape(sentence.shape)


@wrong("counts in bfloat16: positions above 256 are rounded", breaks=EXACT, name="positions counted in bfloat16")
def packed_rows(sentence):
    mask = same_sentence(sentence)
    return mask, mask.tril(-1).bfloat16().sum(-1).long()


@wrong("renumbers padding to -1 in the caller's table (and uses it only to tell it from sentences)", breaks=INPUTS,
       name="padding renumbered in the input")
def packed_rows(sentence):
    sentence[sentence == 0] = -1
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, :, None]
    return mask, right_positions(mask)


@wrong("finds the length of a row as the place of the first 0, and takes place 0 for 'no padding': a row of "
       "padding only becomes a sentence", breaks=EMPTY, name="row of padding taken for a full row")
def packed_rows(sentence):
    length = (sentence == 0).int().argmax(1)
    length = torch.where(length == 0, sentence.size(1), length)
    real = torch.arange(sentence.size(1), device=sentence.device) < length[:, None]
    mask = (sentence[:, :, None] == sentence[:, None]) & real[:, :, None] & real[:, None]
    return mask, right_positions(mask)


@wrong("subtracts the first place of each number in a table of 10000 entries: fails for larger numbers",
       breaks=NUMBER, name="table indexed by sentence number")
def packed_rows(sentence):
    b, t = sentence.shape
    place = torch.arange(t, device=sentence.device).expand(b, t)
    first = torch.full((b, 10_000), t, device=sentence.device)
    first = first.scatter_reduce(1, sentence, place, "amin")
    positions = place - first.gather(1, sentence)
    return same_sentence(sentence), positions * (sentence != 0)
