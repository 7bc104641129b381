from itertools import groupby

import torch

from blind import right, wrong

OWN = "Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself."
RESTART = "Count the positions from 0, and start again from 0 in each sentence."
BILLION = "Each sentence in a row has its own number, a whole number from 1 to a billion."
ORDER = "The numbers may come in any order, and different rows may use the same numbers."
SAME = "different rows may use the same numbers."
PAD_ROW = "Padding is always at the end of a row, and a row may consist of padding only."
PADDING = "Padding must not attend to anything, and no token may attend to padding."
LONG = "A mask (B, T, T), of dtype bool, True = may attend; and positions (B, T), of dtype long."
INPUTS = "Do not change the inputs."
COUNTS = "Positions and counts must be exact in every dtype."


# ---------------------------------------------------------------- right answers


@right("position = own index minus the index of the first token that is equal")
def packed_rows(sentence):
    same = sentence.unsqueeze(2) == sentence.unsqueeze(1)
    first = same.byte().argmax(dim=2)  # the first of equal maxima
    t = torch.arange(sentence.size(1), device=sentence.device)
    token = sentence > 0
    mask = same & token[:, :, None]
    return mask, torch.where(token, t - first, torch.zeros_like(first))


@right("fills blocks of zeros, sentence by sentence, with groupby")
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
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


@right("starts found by comparing neighbours; cummax carries them on")
def packed_rows(sentence):
    begins = torch.ones_like(sentence, dtype=torch.bool)
    begins[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    run = begins.long().cumsum(dim=1) * (sentence != 0)
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    start = torch.where(begins, t, 0).cummax(dim=1).values
    mask = run[:, None, :].eq(run[:, :, None]).logical_and(run[:, None, :].ne(0))
    return mask, (t - start) * (sentence != 0)


@right("bits that differ: xor of two numbers is 0 only if they are equal")
def packed_rows(sentence):
    differ = sentence[:, :, None] ^ sentence[:, None, :]
    both = sentence[:, :, None] * sentence[:, None, :]  # at most 10 ** 18
    mask = (differ == 0) & (both != 0)
    earlier = torch.ones_like(mask[0]).tril(-1)
    positions = torch.einsum("bts,ts->bt", mask.long(), earlier.long())
    return mask, positions


# ---------------------------------------------------------------- wrong answers


@wrong("compares the numbers only", breaks=PADDING, name="padding attends to padding")
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    positions = mask.tril(-1).sum(-1) * (sentence != 0)
    return mask, positions


@wrong(
    "numbers the positions of the row from 0 to T - 1",
    breaks=RESTART,
    name="positions do not start again",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & token[:, None]
    t = torch.arange(sentence.size(1), device=sentence.device)
    return mask, t * token


@wrong(
    "a sentence begins where the number grows",
    breaks=ORDER,
    name="expects rising numbers",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & token[:, None]
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    before = torch.cat([torch.zeros_like(sentence[:, :1]), sentence[:, :-1]], dim=1)
    start = torch.where(sentence > before, t, 0).cummax(dim=1).values
    return mask, (t - start) * token


@wrong("counts in int32", breaks=LONG, name="positions of dtype int32")
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & token[:, None]
    return mask, mask.tril(-1).sum(-1, dtype=torch.int32)


@wrong(
    "compares the numbers as float32, by their distance",
    breaks=BILLION,
    name="large neighbouring numbers become equal",
)
def packed_rows(sentence):
    s = sentence.float()
    apart = (s[:, :, None] - s[:, None, :]).abs()
    mask = (apart < 0.5) & (sentence != 0)[:, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "finds the runs of the flattened batch with unique_consecutive",
    breaks=SAME,
    name="a run goes on in the next row",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & token[:, None]
    _, lengths = sentence.flatten().unique_consecutive(return_counts=True)
    starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    t = torch.arange(sentence.numel(), device=sentence.device)
    return mask, (t - starts).view(sentence.shape) * token


@wrong(
    "sums the mask in uint8",
    breaks=COUNTS,
    name="positions start again after 255",
)
def packed_rows(sentence):
    token = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & token[:, None]
    earlier = mask.to(torch.uint8).tril(-1)
    return mask, earlier.sum(-1, dtype=torch.uint8).long()


@wrong(
    "gives each padding a negative number of its own, in the caller's table",
    breaks=INPUTS,
    name="table changed in place",
)
def packed_rows(sentence):
    t = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    pad = sentence == 0
    sentence[pad] = -1 - t[pad]
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & ~pad[:, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "takes the first 0 for the end of the row, and 'found at 0' for 'not found'",
    breaks=PAD_ROW,
    name="a row of padding counts as full",
)
def packed_rows(sentence):
    B, T = sentence.shape
    length = (sentence == 0).int().argmax(dim=1, keepdim=True)
    length = torch.where(length == 0, T, length)
    t = torch.arange(T, device=sentence.device).expand(B, T)
    token = t < length
    same = sentence[:, :, None] == sentence[:, None, :]
    mask = same & (token[:, :, None] & token[:, None, :])
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "products in int32: two positive numbers are equal if a * b = a * a",
    breaks=OWN,
    name="overflow makes tokens of two sentences attend to each other",
)
def packed_rows(sentence):
    s = sentence.int()  # a billion fits
    q, k = s[:, :, None], s[:, None, :]
    mask = (q * k == q * q) & (q > 0) & (k > 0)
    begins = torch.ones_like(mask[:, 0])
    begins[:, 1:] = s[:, 1:] != s[:, :-1]
    t = torch.arange(s.size(1), device=s.device).expand(s.shape)
    start = torch.where(begins, t, 0).cummax(dim=1).values
    return mask, (t - start) * (s > 0)
