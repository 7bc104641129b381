import torch

from blind import right, wrong

TRUE = "`True` on the tokens of a sentence, `False` on its padding."
AXIS = "a mask has an axis for the queries, here of length one, as the same positions are allowed to all of them: (B, 1, S)."
SAME = "The lengths stay as they are."
NONE = "(B,), tokens in each sentence; a sentence may have none."
SIZE = "S, the length to which the batch was padded; it may be more than the\n            longest sentence has."
DEVICE = "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token."


@right("positions counted by cumsum")
def padding_mask(lengths, size):
    ones = torch.ones(lengths.size(0), 1, size, dtype=torch.long, device=lengths.device)
    return ones.cumsum(-1) <= lengths[:, None, None]


@right("a loop that sets slices")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, n in enumerate(lengths):
        mask[b, :, : int(n)] = True
    return mask


@right("gt, all three axes at once")
def padding_mask(lengths, size):
    return lengths.view(-1, 1, 1).gt(torch.arange(size, device=lengths.device))


@right("rows looked up in a triangle")
def padding_mask(lengths, size):
    triangle = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return triangle[lengths.long()].unsqueeze(1)


@wrong("no axis for the queries", breaks=AXIS, name="an axis missing")
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong("True on padding", breaks=TRUE, name="mask the wrong way round")
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) >= lengths[:, None, None]


@wrong("one position too many", breaks=TRUE, name="off by one")
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) <= lengths[:, None, None]


@wrong("as wide as the longest sentence", breaks=SIZE, name="size ignored", subtle=True)
def padding_mask(lengths, size):
    return torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None, None]


@wrong("always on the CPU", breaks=DEVICE, name="wrong device", subtle=True)
def padding_mask(lengths, size):
    return torch.tensor([[[s < n for s in range(size)]] for n in lengths.tolist()], dtype=torch.bool).reshape(-1, 1, size)


@wrong("at least one token each", breaks=NONE, name="empty sentence gets a token", subtle=True)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths.clamp(min=1)[:, None, None]


@wrong("lengths lowered in place", breaks=SAME, name="input changed", subtle=True)
def padding_mask(lengths, size):
    lengths -= 1
    return torch.arange(size, device=lengths.device) <= lengths[:, None, None]


@wrong("lengths in one byte", breaks=TRUE, name="lengths of 256 and more wrap around", subtle=True)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths.to(torch.uint8)[:, None, None]


@wrong("squeeze before the axis is put in", breaks=AXIS, name="axes of length one lost", subtle=True)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None]).squeeze()[..., None, :]


KEPT = {}


@wrong("masks kept by shape only", breaks="Say which positions of a padded batch hold tokens.", name="the second call gets the first mask", subtle=True)
def padding_mask(lengths, size):
    key = len(lengths), size, lengths.device
    if key not in KEPT:
        KEPT[key] = torch.arange(size, device=lengths.device) < lengths[:, None, None]
    return KEPT[key].clone()
