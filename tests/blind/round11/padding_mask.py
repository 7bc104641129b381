import torch

from blind import right, wrong


@right("marks the end of each sentence with scatter, and sums along the row")
def padding_mask(lengths, size):
    ends = torch.zeros(
        len(lengths), 1, size + 1, dtype=torch.long, device=lengths.device
    )
    ends.scatter_(2, lengths[:, None, None], 1)
    return ends.cumsum(2)[..., :size] == 0


@right("a loop over the sentences")
def padding_mask(lengths, size):
    mask = torch.zeros(
        lengths.size(0), 1, size, dtype=torch.bool, device=lengths.device
    )
    for row, length in zip(mask, lengths):
        row[:, : int(length)] = True
    return mask


@right("counts ones up to each position: at most as many as the sentence has tokens")
def padding_mask(lengths, size):
    count = lengths.new_ones(lengths.numel(), 1, size).cumsum(-1)
    return torch.le(count, lengths.reshape(-1, 1, 1))


@right("outer subtraction, and the tokens still to come as a truth value")
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    left = torch.sub(lengths.unsqueeze(1), positions).clamp(min=0)
    return left.bool().unsqueeze(-2)


@wrong(
    "True on the padding",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "inverted mask",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions >= lengths[:, None])[:, None]


@wrong(
    "no axis for the queries",
    "Here, all queries may use the same positions, so this axis has length one and the"
    " mask has the shape (B, 1, S).",
    "shape (B, S)",
)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong(
    "one position too many",
    "Position s of sentence b holds a token if s < lengths[b].",
    "off by one",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions <= lengths[:, None])[:, None]


@wrong(
    "takes the longest sentence for the length of the rows",
    "size: S, the length of the padded rows; the longest sentence may be shorter.",
    "size is ignored",
)
def padding_mask(lengths, size):
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions < lengths[:, None])[:, None]


@wrong(
    "builds the mask on the CPU",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "wrong device",
)
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :length] = True
    return mask


@wrong(
    "numbers 1 and 0 instead of truth values",
    "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.",
    "wrong dtype",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None]).float()[:, None]


@wrong(
    "keeps one position of an empty sentence, so that a softmax would not be empty",
    "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its"
    " padding.",
    "an empty sentence gets a token",
)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.clamp(min=1)[:, None])[:, None]


@wrong(
    "relative positions, whose rounding errors move the end of some sentences",
    "Positions and counts, however, must be exact in every dtype.",
    "positions as inexact fractions",
)
def padding_mask(lengths, size):
    positions = torch.linspace(0, 1, size + 1, device=lengths.device)[:-1]
    return (positions < lengths[:, None] / size)[:, None]


@wrong(
    "counts the caller's lengths down",
    "Do not change the inputs.",
    "lengths are changed in place",
)
def padding_mask(lengths, size):
    columns = []
    for _ in range(size):
        columns.append(lengths > 0)
        lengths -= 1
    return torch.stack(columns, 1).unsqueeze(1)


@wrong(
    "keeps the positions of the first call for all later calls, whatever their size"
    " and device",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "positions from an earlier call",
)
def padding_mask(lengths, size, cache={}):
    if "positions" not in cache:
        cache["positions"] = torch.arange(size, device=lengths.device)
    return (cache["positions"] < lengths[:, None])[:, None]
