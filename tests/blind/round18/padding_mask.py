import torch
import torch.nn.functional as F

from blind import right, wrong

TRUE = (
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding."
)
SHAPE = (
    "Here, all queries may use the same positions, so this axis has length one and the"
    " mask has the shape (B, 1, S)."
)
SHORTER = "S, the length of the padded rows; the longest sentence may be shorter."
MAY_BE_0 = "number of tokens in each sentence, which may\n            be 0."
INPUTS = "Do not change the inputs."
LAYOUT = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("no comparison of positions: a one-hot end marker and its cumulative sum")
def padding_mask(lengths, size):
    ended = F.one_hot(lengths, size + 1).cumsum(-1)[:, None, :size]
    return ended == 0


@right("looks up each length in a triangular table of all possible rows")
def padding_mask(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device)
    return table.tril(-1)[lengths].unsqueeze(-2)


@right("fills the beginning of each row in a loop")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for row, length in zip(mask, lengths.tolist()):
        row[:, :length].fill_(True)
    return mask


@right("counts down from the length: what is left is above zero on the tokens")
def padding_mask(lengths, size):
    steps = lengths.new_ones(lengths.shape[0], 1, size).cumsum(-1)
    return torch.einsum("bqs->bqs", lengths.reshape(-1, 1, 1) - steps).ge(0)


@wrong(
    "also marks the first position after the end",
    breaks=TRUE,
    name="one position too many",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return positions <= lengths[:, None, None]


@wrong(
    "forgets the axis for the queries",
    breaks=SHAPE,
    name="axis of the queries missing",
)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    "is True on the padding, as PyTorch's key_padding_mask",
    breaks=TRUE,
    name="mask inverted",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return positions >= lengths[:, None, None]


@wrong(
    "sorts the lengths first, as for packed sequences, so rows get the mask of others",
    breaks=TRUE,
    name="rows sorted by length",
)
def padding_mask(lengths, size):
    lengths = lengths.sort(descending=True).values
    positions = torch.arange(size, device=lengths.device)
    return positions < lengths[:, None, None]


@wrong(
    "repeats the mask for S queries",
    breaks=SHAPE,
    name="axis of the queries too long",
)
def padding_mask(lengths, size):
    mask = torch.arange(size, device=lengths.device) < lengths[:, None, None]
    return mask.expand(-1, size, -1)


@wrong(
    "is only as long as the longest sentence, and ignores the size",
    breaks=SHORTER,
    name="longest sentence instead of size",
)
def padding_mask(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return positions < lengths[:, None, None]


@wrong(
    "looks up the row lengths - 1 of a triangle, so the length 0 becomes the last row",
    breaks=MAY_BE_0,
    name="sentence without tokens gets a full mask",
)
def padding_mask(lengths, size):
    table = torch.ones(size, size, dtype=torch.bool, device=lengths.device).tril()
    return table[lengths - 1][:, None]


@wrong(
    "reads the lengths as if they lay next to each other in memory",
    breaks=LAYOUT,
    name="memory layout of the lengths",
)
def padding_mask(lengths, size):
    column = lengths.as_strided((len(lengths), 1, 1), (1, 1, 1))
    return torch.arange(size, device=lengths.device) < column


_masks = {}


@wrong(
    "keeps the masks by their shape, so a second batch gets the mask of the first",
    breaks=STATE,
    name="mask of an earlier call",
)
def padding_mask(lengths, size):
    key = len(lengths), size, lengths.device
    if key not in _masks:
        positions = torch.arange(size, device=lengths.device)
        _masks[key] = positions < lengths[:, None, None]
    return _masks[key].clone()


@wrong(
    "turns the lengths into last positions, in place",
    breaks=INPUTS,
    name="lengths changed in place",
)
def padding_mask(lengths, size):
    lengths -= 1
    return torch.arange(size, device=lengths.device) <= lengths[:, None, None]
