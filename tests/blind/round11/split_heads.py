import torch
from torch import nn

from blind import right, wrong


@right("chunks of the width, stacked on a new axis")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("windows of width Dh by unfold")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).movedim(2, 1)


@right("brings the width to the front, splits it there and sorts the axes")
def split_heads(x, num_heads):
    size, length, dim = x.shape
    columns = x.permute(2, 0, 1)
    pieces = columns.reshape(num_heads, dim // num_heads, size, length)
    return pieces.permute(2, 0, 3, 1)


@right("a table of column numbers, one row per head")
def split_heads(x, num_heads):
    columns = torch.arange(x.shape[-1], device=x.device).reshape(num_heads, -1)
    return x[:, :, columns].swapaxes(1, 2)


@wrong(
    "a single view, which mixes the tokens",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "view mixes the tokens",
)
def split_heads(x, num_heads):
    size, length, dim = x.shape
    return x.reshape(size, num_heads, length, dim // num_heads)


@wrong(
    "leaves the heads after the tokens: (B, T, H, Dh)",
    "Put the axis of the heads before the axis of the tokens, because `@` treats the last two axes as matrices.",
    "axes not swapped",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads))


@wrong(
    "deals the entries out like cards: head h gets the entries h, h + H, h + 2H, ...",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "entries interleaved between the heads",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "torch.split takes the size of a piece: D / H pieces of width H, right only if H = Dh",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "number of heads and width of a head confused",
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    "concatenates the pieces along the batch and views the result as (B, H, ...): mixes sentences and heads if B > 1",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "sentences and heads mixed for B > 1",
)
def split_heads(x, num_heads):
    size, length, dim = x.shape
    pieces = torch.cat(x.chunk(num_heads, dim=-1), dim=0)
    return pieces.view(size, num_heads, length, dim // num_heads)


@wrong(
    "returns x with three axes if there is one head",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "no axis for a single head",
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "copies the pieces into a float32 tensor, whatever the dtype of x",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result always float32",
)
def split_heads(x, num_heads):
    size, length, dim = x.shape
    width = dim // num_heads
    heads = torch.zeros(size, num_heads, length, width, device=x.device)
    for h in range(num_heads):
        heads[:, h] = x[:, :, h * width : (h + 1) * width]
    return heads


@wrong(
    "swaps the axes only if the second one has not H entries, so it does not swap them if T = H",
    "Put the axis of the heads before the axis of the tokens, because `@` treats the last two axes as matrices.",
    "axes not swapped if T = H",
)
def split_heads(x, num_heads):
    heads = x.unflatten(-1, (num_heads, x.size(-1) // num_heads))
    if heads.size(1) != num_heads:
        heads = heads.transpose(1, 2)
    return heads


@wrong(
    "assumes that x lies contiguous in memory: wrong numbers for a slice or a transposed tensor",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "strides of x ignored",
)
def split_heads(x, num_heads):
    size, length, dim = x.shape
    width = dim // num_heads
    shape = (size, num_heads, length, width)
    return x.as_strided(shape, (length * dim, width, dim, 1))


@wrong(
    "unsqueeze_ gives the caller's x a fourth axis",
    "Do not change the inputs.",
    "shape of the input changed in place",
)
def split_heads(x, num_heads):
    x.unsqueeze_(1)
    return torch.cat(x.chunk(num_heads, dim=-1), dim=1)
