import torch
from blind import right, wrong

TRUE_FALSE = "A mask says so: the mask is `True` on the tokens of a sentence and `False` on its padding."
RESULT = "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token."
SIZE = "size: S, the length of the padded rows; the longest sentence may be shorter."
ZERO = "lengths: (B,), of `torch.long`, number of tokens in each sentence, which may be 0."


@right("a running count of positions, compared with <=")
def padding_mask(lengths, size):
    count = lengths.new_ones(len(lengths), 1, size).cumsum(-1)
    return count <= lengths.reshape(-1, 1, 1)


@right("a loop over the sentences")
def padding_mask(lengths, size):
    mask = torch.zeros(lengths.size(0), 1, size, dtype=torch.bool, device=lengths.device)
    for row, n in zip(mask, lengths.tolist()):
        row[0, :n] = True
    return mask


@right("nested Python lists")
def padding_mask(lengths, size):
    rows = [[n > s for s in range(size)] for n in lengths.tolist()]
    mask = torch.tensor(rows, dtype=torch.bool, device=lengths.device)
    return mask.reshape(len(rows), 1, size)


@right("positions (S, B), then transposed, with sign instead of a comparison of the two")
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    left = torch.sub(lengths[None], positions[:, None])  # (S, B), tokens left
    return left.gt(0).mT.unsqueeze(1)


@wrong("<= instead of <: the first position of padding counts as a token", breaks=TRUE_FALSE, name="off by one")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong("compares to (S, B) and reshapes instead of transposing", breaks=TRUE_FALSE, name="reshape instead of transpose")
def padding_mask(lengths, size):
    mask = torch.arange(size, device=lengths.device)[:, None] < lengths
    return mask.reshape(lengths.size(0), 1, size)


@wrong("as wide as the longest sentence, not as wide as the batch", breaks=SIZE, name="ignores size")
def padding_mask(lengths, size):
    return (torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None])[:, None]


@wrong("every sentence has at least one token", breaks=ZERO, name="empty sentence gets a token")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths.clamp(min=1)[:, None])[:, None]


@wrong("a tensor of whole numbers, 0 and 1", breaks=RESULT, name="mask of numbers instead of bool")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.long, device=lengths.device)
    for b, n in enumerate(lengths):
        mask[b, :, :n] = 1
    return mask


@wrong("positions in float16: above 2048 they are rounded",
       breaks="Positions and counts must be exact in every dtype.", name="positions in half precision")
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).half()
    return (positions < lengths.half()[:, None])[:, None]


@wrong("unsqueeze_ gives the caller's lengths another shape", breaks="Do not change the inputs.",
       name="in-place unsqueeze of the lengths")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths.unsqueeze_(1))[:, None]


@wrong("the positions are on the CPU, so lengths on a GPU give an error", breaks=RESULT, name="positions on the CPU")
def padding_mask(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong("clears the last size - n positions with a slice from -0 if a sentence has no padding", breaks=TRUE_FALSE,
       name="slice from minus zero")
def padding_mask(lengths, size):
    mask = torch.ones(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, n in enumerate(lengths.tolist()):
        mask[b, 0, -(size - n) :] = False
    return mask


masks = {}


@wrong("keeps the mask of every lengths tensor, and returns it even if the tensor has been filled with new lengths",
       breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
       name="mask from a cache")
def padding_mask(lengths, size):
    if (lengths, size) not in masks:
        mask = torch.arange(size, device=lengths.device) < lengths[:, None]
        masks[lengths, size] = mask[:, None]
    return masks[lengths, size]
