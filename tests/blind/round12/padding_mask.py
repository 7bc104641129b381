import torch

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "True on padding",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "mask inverted",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions >= lengths[:, None])[:, None]


@wrong(
    "<= instead of <: one position of padding is True",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "off by one",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


@wrong(
    "no axis for the queries",
    "Here, all queries may use the same positions, so this axis has length one and the"
    " mask has the shape (B, 1, S).",
    "axis of the queries missing",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return positions < lengths[:, None]


@wrong(
    "ones and zeros instead of truth values",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "float mask",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None].float()


@wrong(
    "takes the padding to be in front",
    "What a model computes for a sentence must not depend on how much padding happens to"
    " follow it.",
    "mask of left padding",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions >= size - lengths[:, None])[:, None]


@wrong(
    "as many positions as the longest sentence has tokens, whatever `size` is",
    "size: S, the length of the padded rows; the longest sentence may be shorter.",
    "size ignored",
    subtle=True,
)
def padding_mask(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    "makes the positions on the CPU",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "positions on the CPU",
    subtle=True,
)
def padding_mask(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong(
    "positions in bfloat16, which cannot tell 257 from 256",
    "Positions and counts, however, must be exact in every dtype.",
    "positions rounded",
    subtle=True,
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).to(torch.bfloat16)
    return (positions < lengths[:, None].to(torch.bfloat16))[:, None]


@wrong(
    "looks up row lengths - 1 of a triangle: length 0 gets row -1, which is all True",
    "lengths: (B,), of `torch.long`, number of tokens in each sentence, which may be 0.",
    "length 0 wraps around",
    subtle=True,
)
def padding_mask(lengths, size):
    triangle = torch.ones(size, size, dtype=torch.bool, device=lengths.device).tril()
    return triangle[lengths - 1][:, None]


@wrong(
    "subtracts 1 from the caller's lengths in place",
    "Do not change the inputs.",
    "lengths changed in place",
    subtle=True,
)
def padding_mask(lengths, size):
    lengths -= 1
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


# ---------------------------------------------------------------- right answers


@right("counts from 1 with cumsum")
def padding_mask(lengths, size):
    count = lengths.new_ones(lengths.numel(), 1, size).cumsum(dim=2)
    return count <= lengths.view(-1, 1, 1)


@right("loop over sentences")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, n in enumerate(lengths.tolist()):
        mask[b, 0, :n] = True
    return mask


@right("looks up row `length` of a triangle with one row more")
def padding_mask(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device)
    return table.tril(-1).index_select(0, lengths).unsqueeze(1)


@right("torch.gt of an outer difference, the axes put in place at the end")
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device, dtype=lengths.dtype)
    left = lengths[None, :] - positions[:, None]  # (S, B)
    return torch.gt(left, 0).t().unsqueeze(1)
