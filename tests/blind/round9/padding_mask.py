import torch

from blind import right, wrong


@right("looks the rows up in a triangle of ones")
def padding_mask(lengths, size):
    triangle = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device)
    return triangle.tril(-1)[lengths.long()].unsqueeze(1)


@right("puts a mark behind each sentence and looks where no mark has come yet")
def padding_mask(lengths, size):
    marks = torch.zeros(len(lengths), size + 1, dtype=torch.long, device=lengths.device)
    marks.scatter_(1, lengths.long().unsqueeze(-1), 1)
    return marks.cumsum(dim=-1)[:, None, :-1] == 0


@right("fills the beginning of each row in a loop")
def padding_mask(lengths, size):
    mask = torch.zeros((lengths.numel(), 1, size), dtype=torch.bool, device=lengths.device)
    for row, length in zip(mask, lengths.tolist()):
        row[0, :length] = True
    return mask


@right("counts down: what is left of a sentence at each position is more than nothing")
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).view(1, 1, size)
    left = lengths.long().view(-1, 1, 1) - positions
    return torch.logical_not(left.le(0))


@wrong(
    "<= instead of <: each sentence gets one position too many",
    "the mask is `True` on the tokens of a sentence and `False` on its padding.",
    "off by one: <= instead of <",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong(
    "the mask says where the padding is",
    "the mask is `True` on the tokens of a sentence and `False` on its padding.",
    "mask the wrong way round",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None]


@wrong(
    "the axis of the queries comes last: (B, S, 1)",
    "This axis therefore has length one, and the mask has the shape (B, 1, S).",
    "new axis at the wrong place",
)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[..., None]


@wrong(
    "as wide as the longest sentence: too narrow if the batch is padded further",
    "size: S, the length of the padded rows; the longest sentence may be shorter.",
    "longest sentence instead of size",
)
def padding_mask(lengths, size):
    longest = int(lengths.max())
    positions = torch.arange(longest, device=lengths.device)
    return (positions < lengths[:, None])[:, None, :]


@wrong(
    "the positions are on the CPU: lengths on another device raise",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "positions made on the CPU",
)
def padding_mask(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong(
    "marks the last token and sums up from the right: a sentence without tokens has its mark"
    " at index -1, so its whole row is True",
    "lengths: (B,), number of tokens in each sentence, which may be 0.",
    "length 0 wraps around to the last column",
)
def padding_mask(lengths, size):
    last = torch.zeros(len(lengths), size, dtype=torch.long, device=lengths.device)
    last[torch.arange(len(lengths), device=lengths.device), lengths - 1] = 1
    return last.flip(1).cumsum(1).flip(1).bool()[:, None]


@wrong(
    "squeeze removes the axis of the batch for one sentence and that of the positions for"
    " size 1",
    "This axis therefore has length one, and the mask has the shape (B, 1, S).",
    "squeeze removes axes of length one too many",
)
def padding_mask(lengths, size):
    mask = torch.arange(size, device=lengths.device)[None, None] < lengths[:, None, None]
    return mask.squeeze().unsqueeze(-2)


@wrong(
    "makes up for <= by subtracting one from the lengths, in place: the mask is right, but"
    " the caller's lengths are one smaller afterwards",
    "Do not change the inputs.",
    "lengths are changed in place",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    lengths -= 1
    return (positions <= lengths[:, None])[:, None]


@wrong(
    "compares (S, 1) with (B,) and reshapes instead of transposing: right for one sentence"
    " or if all sentences are full, otherwise the rows are mixed up",
    "the mask is `True` on the tokens of a sentence and `False` on its padding.",
    "reshape where a transpose is needed",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    mask = positions[:, None] < lengths  # every position with every sentence
    return mask.reshape(len(lengths), 1, size)


@wrong(
    "counts the positions in half precision, which skips numbers above 2048: the mask of a"
    " sentence with 2049 tokens has only 2048",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train"
    " mode and in eval mode.",
    "positions in half precision are not exact",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).half()
    return (positions < lengths[:, None].half())[:, None]
