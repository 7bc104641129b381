import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right("looks each length up in a table of rows that begin with 0, 1, 2, ... True")
def padding_mask(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return table[lengths.long()].unsqueeze(1)


@right("a loop over sentences that sets slices")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :length] = True
    return mask


@right("subtracts instead of comparing, in an axis order that needs no None")
def padding_mask(lengths, size):
    columns = torch.arange(size, device=lengths.device).expand(lengths.size(0), 1, size)
    left = lengths.long().view(-1, 1, 1) - columns
    return left.clamp(min=0).to(torch.bool)


@right("counts the columns with cumsum and compares with torch.le")
def padding_mask(lengths, size):
    ones = lengths.new_ones((lengths.shape[0], 1, size), dtype=torch.long)
    return torch.le(ones.cumsum(dim=-1), lengths.reshape(-1, 1, 1))


@wrong(
    "has no axis for the queries: (B, S)",
    "This axis therefore has length one, and the mask has the shape (B, 1, S).",
    "axis for the queries is missing",
)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    "True where there is padding",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "mask is inverted",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None]


@wrong(
    "one position too many: the length itself counts as a position",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "off by one: <= instead of <",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong(
    "uses the longest sentence instead of size: too narrow if it is shorter",
    "size: S, the length of the padded rows; the longest sentence may be shorter.",
    "ignores size",
)
def padding_mask(lengths, size):
    columns = torch.arange(int(lengths.max()), device=lengths.device)
    return columns[None, None, :] < lengths[:, None, None]


@wrong(
    "makes the positions on the CPU: with lengths on a GPU it raises",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "positions are on the CPU",
)
def padding_mask(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong(
    "takes row length - 1 of a triangle: for the length 0 this is row -1, the last one, in"
    " which everything is True",
    "lengths: (B,), number of tokens in each sentence, which may be 0.",
    "length 0 wraps around to a full row",
)
def padding_mask(lengths, size):
    triangle = torch.ones(size, size, dtype=torch.bool, device=lengths.device).tril()
    return triangle[lengths - 1][:, None]


@wrong(
    "compares in bfloat16 to save memory, which cannot tell 256 from 257: wrong for long"
    " rows",
    "- Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "positions in bfloat16 are rounded",
)
def padding_mask(lengths, size):
    columns = torch.arange(size, device=lengths.device).to(torch.bfloat16)
    return (columns < lengths.to(torch.bfloat16)[:, None])[:, None]


@wrong(
    "compares as (S, B) and then only renames the axes with view, which mixes the"
    " sentences: right for one sentence, or if all are full",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "view where a transpose is needed",
)
def padding_mask(lengths, size):
    inside = torch.arange(size, device=lengths.device)[:, None] < lengths
    return inside.view(len(lengths), 1, size)


@wrong(
    "adds the axis to the caller's lengths in place: afterwards they have the shape (B, 1,"
    " 1)",
    "- Do not change the inputs.",
    "unsqueeze_ changes the shape of lengths",
)
def padding_mask(lengths, size):
    columns = torch.arange(size, device=lengths.device)
    return columns < lengths.unsqueeze_(1).unsqueeze_(2)


MASKS = {}


@wrong(
    "remembers masks by the lengths' object and size: if the same tensor is filled with"
    " other lengths (lengths -= 1 in a loop), the old mask comes back",
    "- The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembered mask is out of date",
)
def padding_mask(lengths, size):
    key = (lengths, size)  # tensors are hashed by identity
    if key not in MASKS:
        columns = torch.arange(size, device=lengths.device)
        MASKS[key] = (columns < lengths[:, None])[:, None]
    return MASKS[key]
