import torch
import torch.nn.functional as F
from blind import right, wrong


# Right
@right("one sentence at a time into a mask of False on the device of the lengths")
def r1(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, 0, :length] = True
    return mask


@right("a row of a triangle for each length, from a table with the length 0 in front")
def r2(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device)
    return table.tril(-1)[lengths.long()].unsqueeze(1)


@right("cumulative sum of ones, made by lengths.new_ones, against the lengths")
def r3(lengths, size):
    ordinal = lengths.new_ones((lengths.numel(), 1, size)).cumsum(-1)
    return torch.logical_not(torch.gt(ordinal, lengths.view(-1, 1, 1)))


@right("one-hot at the end of each sentence, and everything before it")
def r4(lengths, size):
    end = F.one_hot(lengths.long(), size + 1)
    return (end.cumsum(1) < 1)[:, None, :size]


# Wrong
@wrong(
    "positions up to the longest sentence in the batch, not up to size",
    breaks="it may be more than the longest sentence has",
    name="width from the longest sentence",
    subtle=True,
)
def w1(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    "one position too many",
    breaks="`True` on the tokens of a sentence, `False` on its padding",
    name="off by one",
)
def w2(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


@wrong(
    "gives the lengths themselves a second axis",
    breaks="The lengths stay as they are.",
    name="unsqueeze_ in place",
    subtle=True,
)
def w3(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.unsqueeze_(1)).unsqueeze(1)


@wrong(
    "a list of lists made into a tensor on the CPU",
    breaks="on the device of `lengths`",
    name="mask on the CPU",
    subtle=True,
)
def w4(lengths, size):
    return torch.tensor(
        [[[s < int(length) for s in range(size)]] for length in lengths],
        dtype=torch.bool,
        device="cpu",
    ).reshape(len(lengths), 1, size)


@wrong(
    "a row of a lower triangle at length - 1: the last row, all True, for length 0",
    breaks="a sentence may have none",
    name="index -1 for an empty sentence",
    subtle=True,
)
def w5(lengths, size):
    table = torch.ones(size, size, dtype=torch.bool, device=lengths.device).tril()
    return table[lengths - 1][:, None]


@wrong(
    "an empty sentence gets one token, lest a softmax become nan",
    breaks="a sentence may have none",
    name="at least one token",
    subtle=True,
)
def w6(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.clamp(min=1)[:, None])[:, None]


@wrong(
    "mask of the dtype of the lengths, zeros and ones",
    breaks="of `torch.bool`",
    name="integers, not truth values",
    subtle=True,
)
def w7(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None].to(lengths.dtype)


@wrong(
    "squeezes and then adds the axis: a batch of one loses its B",
    breaks="(B, 1, S), of `torch.bool`",
    name="axes of length one disappear",
    subtle=True,
)
def w8(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None]).squeeze().unsqueeze(-2)


_masks = {}


@wrong(
    "keeps the mask for the next batch of the same shape",
    breaks="`True` on the tokens of a sentence, `False` on its padding",
    name="the mask of an earlier batch",
    subtle=True,
)
def w9(lengths, size):
    key = (len(lengths), size, lengths.device)
    if key not in _masks:
        positions = torch.arange(size, device=lengths.device)
        _masks[key] = (positions < lengths[:, None])[:, None]
    return _masks[key]


@wrong(
    "positions and lengths as bytes, which start anew after 255",
    breaks="`True` on the tokens of a sentence, `False` on its padding",
    name="bytes overflow in long sentences",
    subtle=True,
)
def w10(lengths, size):
    there = torch.ones(size, dtype=torch.uint8, device=lengths.device)
    positions = there.cumsum(0, dtype=torch.uint8) - there
    return (positions < lengths.to(torch.uint8)[:, None])[:, None]
