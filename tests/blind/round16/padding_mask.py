import torch
from torch import nn
from blind import right, wrong

INPUTS = "Do not change the inputs."
SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
EXACT = "Positions and counts must be exact in every dtype."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
TRUE = "the mask is `True` on the tokens of a sentence and `False` on its padding."
SHAPE = "Here, all queries may use the same positions, so this axis has length one and the mask has the shape (B, 1, S)."
SIZE = "size: S, the length of the padded rows; the longest sentence may be shorter."
RESULT = "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token."

_masks = {}


@right('numbers the positions from 1 with cumsum and compares with at most')
def padding_mask(lengths, size):
    ones = lengths.new_ones(lengths.size(0), 1, size)
    return ones.cumsum(-1) <= lengths[:, None, None]


@right('picks rows of a lower triangle: row n holds n times True')
def padding_mask(lengths, size):
    stairs = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device)
    return stairs.tril(-1)[lengths].unsqueeze(1)


@right('marks the first position of padding in a row with one more column, and sums up')
def padding_mask(lengths, size):
    ends = torch.zeros(len(lengths), size + 1, dtype=torch.long, device=lengths.device)
    ends = ends.scatter(1, lengths[:, None], 1)
    return (ends.cumsum(1) == 0)[:, None, :size]


@right('nested lists')
def padding_mask(lengths, size):
    rows = [[[True] * n + [False] * (size - n)] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=lengths.device)


@wrong(
    'one token too many, because of <=',
    breaks=TRUE,
    name='one position too many',
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


@wrong(
    'has no axis for the queries',
    breaks=SHAPE,
    name='axis of the queries missing',
)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    'True on padding, as key_padding_mask wants it',
    breaks=TRUE,
    name='mask the wrong way round',
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions >= lengths[:, None])[:, None]


@wrong(
    'is only as wide as the longest sentence',
    breaks=SIZE,
    name='width of the longest sentence',
)
def padding_mask(lengths, size):
    positions = torch.arange(min(size, int(lengths.max())), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    'gives a sentence without tokens one token, so that no row is all False',
    breaks=TRUE,
    name='empty sentence gets a token',
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.clamp(min=1)[:, None])[:, None]


@wrong(
    'zeroes the last size - n positions with a negative index; a full row (n == size) is all False',
    breaks=TRUE,
    name='full row all False',
)
def padding_mask(lengths, size):
    mask = torch.ones(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, n in enumerate(lengths.tolist()):
        mask[b, 0, n - size :] = False
    return mask


@wrong(
    'numbers the positions in float16, which is not exact beyond 2048',
    breaks=EXACT,
    name='positions in half precision',
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).half()
    return (positions < lengths[:, None].half())[:, None]


@wrong(
    'squeezes away the axis of the sentences if there is only one, or that of the positions',
    breaks=SIZES,
    name='squeeze drops an axis of length one',
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None]).squeeze()[:, None]


@wrong(
    'keeps the masks by their shape, so another batch of the same shape gets the old mask',
    breaks=CALLS,
    name='mask of an earlier batch',
)
def padding_mask(lengths, size):
    key = (len(lengths), size, lengths.device)
    if key not in _masks:
        positions = torch.arange(size, device=lengths.device)
        _masks[key] = (positions < lengths[:, None])[:, None]
    return _masks[key].clone()


@wrong(
    "reshapes the lengths in place, so the caller's tensor is (B, 1, 1) afterwards",
    breaks=INPUTS,
    name='lengths changed in place',
)
def padding_mask(lengths, size):
    lengths.unsqueeze_(-1).unsqueeze_(-1)
    return torch.arange(size, device=lengths.device) < lengths
