import torch

from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
OWN = (
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to"
    " later tokens and to itself."
)
ELSE = "Do not let it attend to anything else."
COUNT = "Count the positions from 0, and start again from 0 in each sentence."
NUMBER = "Each sentence in a row has its own number, a whole number from 1 to a billion."
ROWS = (
    "The numbers may come in any order, and different rows may use the same numbers."
)
PAD = "Padding must not attend to anything, and no token may attend to padding."
ZERO = "Set the positions of padding to 0."


@right("the start of a sentence is the first key that its mask allows")
def packed_rows(sentence):
    length = sentence.size(1)
    real = sentence > 0
    mask = torch.eq(sentence.unsqueeze(2), sentence.unsqueeze(1)) & real.unsqueeze(2)
    place = torch.arange(length, device=sentence.device)
    first = torch.where(mask, place, length).amin(dim=-1)
    return mask, torch.where(real, place - first, 0)


@right("numbers the runs by a cumulative sum of changes; starts by a running maximum")
def packed_rows(sentence):
    before = torch.cat([sentence.new_full((len(sentence), 1), -1), sentence[:, :-1]], 1)
    begins = sentence != before
    run = begins.cumsum(dim=1)
    place = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    start = torch.where(begins, place, 0).cummax(dim=1).values
    real = sentence != 0
    mask = (run[:, :, None] == run[:, None]) & real[:, None]
    return mask, (place - start) * real


@right("plain Python lists, sentence by sentence")
def packed_rows(sentence):
    batch, length = sentence.shape
    mask = torch.zeros(batch, length, length, dtype=torch.bool, device=sentence.device)
    places = torch.zeros_like(sentence)
    for b, row in enumerate(sentence.tolist()):
        begin = 0
        while begin < length and row[begin] != 0:
            end = begin
            while end < length and row[end] == row[begin]:
                end += 1
            mask[b, begin:end, begin:end] = True
            places[b, begin:end] = torch.arange(end - begin, device=sentence.device)
            begin = end
    return mask, places


@right("walks over the columns and counts; bitwise comparison of the numbers")
def packed_rows(sentence):
    places = [torch.zeros_like(sentence[:, 0])]
    for t in range(1, sentence.size(1)):
        goes_on = (sentence[:, t] == sentence[:, t - 1]) & (sentence[:, t] != 0)
        places.append((places[-1] + 1) * goes_on)
    differs = (sentence[:, :, None] ^ sentence[:, None, :]).bool()
    padding = (sentence == 0)[:, None, :]
    return torch.logical_not(differs | padding), torch.stack(places, dim=1)


@wrong("lets padding attend to padding, because 0 equals 0", PAD, "padding attends to padding")
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None]
    positions = mask.tril(-1).sum(dim=-1) * (sentence != 0)
    return mask, positions


@wrong(
    "counts the positions through the whole row without starting again",
    COUNT,
    "positions do not start again",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & real[:, :, None]
    positions = torch.arange(sentence.size(1), device=sentence.device) * real
    return mask, positions


@wrong(
    "lets tokens attend only to earlier tokens of their sentence and to themselves",
    OWN,
    "causal mask inside each sentence",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & real[:, :, None]
    mask = mask.tril()
    return mask, (mask.sum(dim=-1) - 1).clamp(min=0)


@wrong(
    "goes on counting in the padding, which forms a run of its own",
    ZERO,
    "positions of padding not zero",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None]
    return same & (sentence != 0)[:, None], same.tril(-1).sum(dim=-1)


@wrong(
    "compares the numbers in float32, where neighbours near a billion are equal",
    NUMBER,
    "sentence numbers compared in float32",
)
def packed_rows(sentence):
    number = sentence.float()
    distance = (number[:, :, None] - number[:, None]).abs()
    mask = (distance < 0.5) & (sentence != 0)[:, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "finds the start of each sentence by binary search in its row, which needs numbers"
    " in ascending order",
    ROWS,
    "assumes sorted sentence numbers",
)
def packed_rows(sentence):
    real = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None]) & real[:, None]
    order = sentence.masked_fill(~real, torch.iinfo(torch.long).max)
    start = torch.searchsorted(order, order)
    place = torch.arange(sentence.size(1), device=sentence.device)
    return mask, (place - start) * real


@wrong(
    "detects new sentences in the flattened batch, so a row that begins with the last"
    " number of the row above goes on counting",
    ROWS,
    "sentences run on into next row",
)
def packed_rows(sentence):
    flat = sentence.flatten()
    place = torch.arange(flat.numel(), device=flat.device)
    begins = torch.ones_like(flat, dtype=torch.bool)
    begins[1:] = flat[1:] != flat[:-1]
    start = torch.where(begins, place, 0).cummax(dim=0).values
    positions = ((place - start) * (flat != 0)).view_as(sentence)
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence != 0)[:, None]
    return mask, positions


@wrong(
    "goes through all numbers of the table but the smallest, because it takes the"
    " smallest for padding even if there is none",
    OWN,
    "assumes there is always padding",
)
def packed_rows(sentence):
    batch, length = sentence.shape
    mask = torch.zeros(batch, length, length, dtype=torch.bool, device=sentence.device)
    for number in sentence.unique()[1:]:
        here = sentence == number
        mask |= here[:, :, None] & here[:, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "counts in int8 to save memory, so positions from 128 on overflow",
    EXACT,
    "positions overflow in int8",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence != 0)[:, None]
    return mask, mask.tril(-1).sum(dim=-1, dtype=torch.int8).long()


@wrong(
    "lets each position of a row of padding attend to itself, so that softmax finds"
    " something there",
    PAD,
    "padding-only row attends to itself",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence != 0)[:, None]
    positions = mask.tril(-1).sum(dim=-1)
    only_padding = (sentence == 0).all(dim=1)
    eye = torch.eye(sentence.size(1), dtype=torch.bool, device=sentence.device)
    return mask | (only_padding[:, None, None] & eye), positions
