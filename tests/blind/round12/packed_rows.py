from itertools import groupby

import torch

from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("products instead of comparisons: a b = a a, and not 0, only if b = a")
def packed_rows(sentence):
    product = sentence[:, :, None] * sentence[:, None, :]  # at most 10^18
    mask = (product == sentence.square()[:, :, None]) & (product != 0)
    return mask, mask.cumsum(dim=-1).diagonal(dim1=1, dim2=2).sub(1).clamp(min=0)


@right("finds where sentences start, and cummax carries the start along")
def packed_rows(sentence):
    real = sentence > 0
    places = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    starts = torch.ones_like(real)
    starts[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    first = torch.where(starts, places, 0).cummax(dim=1).values
    positions = torch.where(real, places - first, 0)
    # two tokens are of one sentence if theirs starts at the same place
    mask = first.unsqueeze(2).eq(first.unsqueeze(1))
    return mask & real.unsqueeze(2) & real.unsqueeze(1), positions


@right("plain Python: groupby, and a block of the mask per sentence")
def packed_rows(sentence):
    b, t = sentence.shape
    mask = torch.zeros(b, t, t, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros_like(sentence)
    for row, numbers in enumerate(sentence.tolist()):
        start = 0
        for number, group in groupby(numbers):
            end = start + len(list(group))
            if number != 0:
                mask[row, start:end, start:end] = True
                positions[row, start:end] = torch.arange(end - start)
            start = end
    return mask, positions


@right("xor for the mask; positions step by step, from the token before")
def packed_rows(sentence):
    differ = sentence.unsqueeze(-1) ^ sentence.unsqueeze(-2)
    mask = ~(differ.bool() | (sentence == 0).unsqueeze(-1))
    columns = [torch.zeros_like(sentence[:, 0])]
    for t in range(1, sentence.size(1)):
        goes_on = mask[:, t, t - 1].long()
        columns.append(goes_on * (columns[-1] + 1))
    return mask, torch.stack(columns, dim=1)


# ---------------------------------------------------------------- wrong answers


@wrong(
    "lets padding attend to padding, because 0 equals 0",
    "Padding must not attend to anything, and no token may attend to padding.",
    "padding taken for a sentence",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    positions = mask.tril(-1).sum(dim=-1)
    return mask, positions.masked_fill(sentence == 0, 0)


@wrong(
    "counts the positions through the whole row",
    "Count the positions from 0, and start again from 0 in each sentence.",
    "positions do not start again",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    places = torch.arange(sentence.size(1), device=sentence.device)
    return mask, places * real


@wrong(
    "forbids later tokens, as a causal mask does",
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to"
    " later tokens and to itself.",
    "mask is causal",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    return mask.tril(), mask.tril(-1).sum(dim=-1)


@wrong(
    "lets a new sentence start only where the number grows",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "expects rising numbers",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    places = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    starts = torch.zeros_like(sentence)
    starts[:, 1:] = (sentence[:, 1:] > sentence[:, :-1]) * places[:, 1:]
    return mask, (places - starts.cummax(dim=1).values) * real


@wrong(
    "numbers padding 0, 1, 2, ..., as if it were a sentence; the mask is right",
    "Set the positions of padding to 0.",
    "padding is counted",
    subtle=True,
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None, :]
    positions = same.tril(-1).sum(dim=-1)
    return same & (sentence != 0)[:, :, None], positions


@wrong(
    "compares the numbers in float32, where 1000000000 and 999999999 are equal",
    "Each sentence in a row has its own number, a whole number from 1 to a billion.",
    "large numbers compared in float32",
    subtle=True,
)
def packed_rows(sentence):
    number = sentence.float()
    apart = (number[:, :, None] - number[:, None, :]).abs()
    mask = (apart < 0.5) & (number > 0)[:, :, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "counts runs in the flattened table: where a full row ends with the number with"
    " which the next row begins, the count goes on",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "runs cross the border of the rows",
    subtle=True,
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    _, counts = torch.unique_consecutive(sentence.flatten(), return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    places = torch.arange(sentence.numel(), device=sentence.device)
    return mask, (places - starts).view(sentence.shape) * real


@wrong(
    "counts in int8, which goes from 127 to -128: wrong in a sentence of more than 128"
    " tokens",
    "Positions and counts, however, must be exact in every dtype.",
    "count overflows",
    subtle=True,
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & real[:, :, None]
    return mask, mask.tril(-1).sum(dim=-1, dtype=torch.int8).long()


@wrong(
    "writes -1 for padding into the caller's table",
    "Do not change the inputs.",
    "changes the table",
    subtle=True,
)
def packed_rows(sentence):
    sentence[sentence == 0] = -1
    same = sentence[:, :, None] == sentence[:, None, :]
    mask = same & (sentence > 0)[:, :, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "takes the first padding for the end of the row, and place 0 for 'no padding': a row"
    " of padding only then counts as a full row",
    "Padding is always at the end of a row, and a row may consist of padding only.",
    "row of padding only taken for a full row",
    subtle=True,
)
def packed_rows(sentence):
    length = sentence.size(1)
    first = (sentence == 0).int().argmax(dim=1)  # 0 if there is no padding
    lengths = torch.where(first == 0, length, first)
    inside = torch.arange(length, device=sentence.device) < lengths[:, None]
    mask = (sentence[:, :, None] == sentence[:, None, :]) & inside[:, :, None]
    return mask, mask.tril(-1).sum(dim=-1)
