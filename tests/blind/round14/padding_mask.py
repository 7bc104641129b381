"""Answers to `padding_mask`."""
import torch
import torch.nn.functional as F

from blind import right, wrong


@right('looks up the rows of a triangular table')
def padding_mask_right1(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return table[lengths][:, None]


@right('marks the first position of padding and accumulates')
def padding_mask_right2(lengths, size):
    ends = torch.zeros(len(lengths), size + 1, dtype=torch.long, device=lengths.device)
    ends.scatter_(1, lengths.unsqueeze(1), 1)
    return ends.cumsum(1)[:, None, :size].eq(0)


@right('fills one row after the other')
def padding_mask_right3(lengths, size):
    mask = torch.zeros(lengths.numel(), 1, size, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, 0, :length] = True
    return mask


@right('compares the columns with negated numbers and inverts the result')
def padding_mask_right4(lengths, size):
    positions = torch.arange(0, -size, -1, device=lengths.device)
    return (positions.expand(len(lengths), 1, size) <= -lengths[:, None, None]).logical_not()


@wrong(
    'Lets the first position of padding count as a token.',
    'A mask says so: the mask is `True` on the tokens of a sentence and `False` on its padding.',
    'one position too many',
)
def padding_mask_wrong1(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong(
    'Is True on padding.',
    'A mask says so: the mask is `True` on the tokens of a sentence and `False` on its padding.',
    'mask is inverted',
)
def padding_mask_wrong2(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None]


@wrong(
    'Lacks the axis for the queries.',
    'Here, all queries may use the same positions, so this axis has length one and the mask has the shape (B, 1, S).',
    'axis for queries is missing',
)
def padding_mask_wrong3(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    'Makes as many columns as the longest sentence has tokens, and ignores the size.',
    'size: S, the length of the padded rows; the longest sentence may be shorter.',
    'size is ignored',
)
def padding_mask_wrong4(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    'Treats an empty sentence as if it had one token, so that no softmax gets an empty row.',
    'A mask says so: the mask is `True` on the tokens of a sentence and `False` on its padding.',
    'empty sentence gets a token',
)
def padding_mask_wrong5(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.clamp(min=1)[:, None])[:, None]


@wrong(
    'Counts positions in float16, which cannot tell neighbours apart above 2048.',
    'Positions and counts must be exact in every dtype.',
    'positions in half precision',
)
def padding_mask_wrong6(lengths, size):
    positions = torch.arange(size, device=lengths.device).half()
    return (positions < lengths.half()[:, None])[:, None]


@wrong(
    'Makes the positions on the CPU, which fails for lengths on a GPU.',
    '(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.',
    'positions on the wrong device',
)
def padding_mask_wrong7(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


_masks_wrong8 = {}


@wrong(
    'Remembers masks by the number of sentences, the size and the number of tokens, and returns one for other lengths with the same sum.',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'mask of an earlier batch',
)
def padding_mask_wrong8(lengths, size):
    key = (len(lengths), size, int(lengths.sum()), lengths.device)
    if key not in _masks_wrong8:
        positions = torch.arange(size, device=lengths.device)
        _masks_wrong8[key] = (positions < lengths[:, None])[:, None]
    return _masks_wrong8[key].clone()


@wrong(
    "Subtracts one from the caller's lengths.",
    'Do not change the inputs.',
    'lengths are changed in place',
)
def padding_mask_wrong9(lengths, size):
    lengths -= 1
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong(
    'Marks the last token with one_hot, which fails for a sentence without tokens.',
    'lengths: (B,), of `torch.long`, number of tokens in each sentence, which may',
    'fails for an empty sentence',
)
def padding_mask_wrong10(lengths, size):
    last = F.one_hot(lengths - 1, size)
    return last.flip(-1).cumsum(-1).flip(-1).bool()[:, None]
