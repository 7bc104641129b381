import torch

from blind import right, wrong


@right("nested lists of Python's own comparisons")
def padding_mask(lengths, size):
    rows = [[[s < length for s in range(size)]] for length in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=lengths.device)


@right("scatters a stop mark behind each sentence and adds the marks up")
def padding_mask(lengths, size):
    stop = lengths.new_zeros(lengths.size(0), size + 1)
    stop = stop.scatter(1, lengths.unsqueeze(1), 1)
    return stop.cumsum(1)[:, :size].eq(0).unsqueeze(1)


@right("subtracts float64 positions and looks at what remains")
def padding_mask(lengths, size):
    positions = torch.arange(size, dtype=torch.float64, device=lengths.device)
    remaining = lengths.to(torch.float64).view(-1, 1, 1) - positions.view(1, 1, -1)
    return remaining.clamp(min=0).bool()


@right("fills the beginning of each row in a loop")
def padding_mask(lengths, size):
    mask = torch.zeros(
        (lengths.numel(), 1, size), dtype=torch.bool, device=lengths.device
    )
    for b in range(lengths.numel()):
        mask[b, 0].narrow(0, 0, int(lengths[b])).fill_(True)
    return mask


@wrong(
    "compares with <=, so one position of padding counts as a token",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "off by one",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


@wrong(
    "True on the padding",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "mask the wrong way round",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions >= lengths[:, None])[:, None]


@wrong(
    "returns (B, S), without the axis of the queries",
    "Here, all queries may use the same positions, so this axis has length one and the"
    " mask has the shape (B, 1, S).",
    "query axis missing",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return positions < lengths[:, None]


@wrong(
    "compares to (S, B) and only reshapes it, which mixes up the sentences",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "reshape instead of transpose",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions[:, None] < lengths).reshape(len(lengths), 1, size)


@wrong(
    "returns zeros and ones in uint8",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "not a bool mask",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None].to(torch.uint8)


@wrong(
    "makes the mask as long as the longest sentence and ignores size",
    "size: S, the length of the padded rows; the longest sentence may be shorter.",
    "length from lengths.max()",
    subtle=True,
)
def padding_mask(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    "makes the positions on the CPU, which fails for lengths on a GPU",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "positions always on the CPU",
    subtle=True,
)
def padding_mask(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong(
    "marks the last token of each sentence and adds up from behind; for length 0 the"
    " index is -1, so the whole row becomes True",
    "lengths: (B,), of `torch.long`, number of tokens in each sentence, which may be 0.",
    "index -1 for a sentence without tokens",
    subtle=True,
)
def padding_mask(lengths, size):
    last = torch.zeros(len(lengths), size, dtype=torch.long, device=lengths.device)
    last[torch.arange(len(lengths), device=lengths.device), lengths - 1] = 1
    return last.flip(1).cumsum(1).flip(1).bool()[:, None]


@wrong(
    "unsqueeze_ gives the caller's lengths the shape (B, 1)",
    "Do not change the inputs.",
    "in-place unsqueeze of the lengths",
    subtle=True,
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.unsqueeze_(1)).unsqueeze(1)


_positions = []


@wrong(
    "keeps the positions of the first call, and uses them for all other sizes",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "positions of the first call are kept",
    subtle=True,
)
def padding_mask(lengths, size):
    if not _positions:
        _positions.append(torch.arange(size))
    positions = _positions[0].to(lengths.device)[:size]
    return (positions < lengths[:, None])[:, None]
