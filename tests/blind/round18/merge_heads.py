from functools import reduce

import torch
import torch.nn.functional as F

from blind import right, wrong

INVERSE = "Merging is the inverse of splitting."
TURN = (
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the "
    "first head to the last."
)
SINGLE = "Once the heads have attended, each token needs a single vector again."
LENGTHS = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for "
    "large and for small numbers, in train mode and in eval mode."
)
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class."
)


# ---------------------------------------------------------------- right


@right("concatenates the heads one by one, starting from the last")
def merge_heads(x):
    merged = x[:, -1]
    for head in reversed(range(x.size(1) - 1)):
        merged = torch.cat([x[:, head], merged], dim=-1)
    return merged


@right("flattens heads and widths in the layout (B, H, Dh, T), then transposes")
def merge_heads(x):
    return x.mT.flatten(1, 2).mT


@right("pads each head's pieces with zeros to the width D and adds them")
def merge_heads(x):
    H, width = x.size(1), x.size(3)
    wide = [
        F.pad(piece, (head * width, (H - 1 - head) * width))
        for head, piece in enumerate(x.unbind(1))
    ]
    return reduce(torch.add, wide)


@right("gathers each entry of the result from its head and its place in the piece")
def merge_heads(x):
    B, H, T, width = x.shape
    b = torch.arange(B, device=x.device)[:, None, None]
    t = torch.arange(T, device=x.device)[:, None]
    entry = torch.arange(H * width, device=x.device)
    return x[b, entry // width, t, entry % width]


# ---------------------------------------------------------------- wrong


@wrong(
    "reshapes to (B, T, D) without swapping the axes back",
    breaks=INVERSE,
    name="mixes the tokens",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.reshape(B, T, H * width)


@wrong(
    "puts each next head before the ones so far, so that the last head comes first",
    breaks=TURN,
    name="heads in reverse order",
)
def merge_heads(x):
    merged = x[:, 0]
    for head in range(1, x.size(1)):
        merged = torch.cat([x[:, head], merged], dim=-1)
    return merged


@wrong(
    "adds the heads up: (B, T, Dh)",
    breaks=TURN,
    name="sums instead of concatenating",
)
def merge_heads(x):
    return x.sum(dim=1)


@wrong(
    "concatenates the heads along the tokens: (B, H T, Dh)",
    breaks=SINGLE,
    name="concatenates along the wrong axis",
)
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=1)


@wrong(
    "swaps two axes of the caller's tensor with transpose_",
    breaks=INPUTS,
    name="changes the input's shape",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "for heads of width 1, drops the last axis and returns (B, H, T) in place of (B, T, H)",
    breaks=TURN,
    name="a special case for width 1 forgets the swap",
)
def merge_heads(x):
    if x.size(-1) == 1:  # nothing to concatenate
        return x.squeeze(-1)
    return x.transpose(1, 2).flatten(2)


@wrong(
    "drops the axis of the tokens if there is only one: (B, D)",
    breaks=LENGTHS,
    name="squeeze drops the tokens' axis",
)
def merge_heads(x):
    pieces = [piece.squeeze(1) for piece in x.split(1, dim=1)]
    merged = torch.cat(pieces, dim=-1)
    return merged.squeeze(1)


BUFFERS = {}


@wrong(
    "writes into a buffer that is kept: the next call of this shape overwrites the result",
    breaks=CALLS,
    name="results share one buffer",
)
def merge_heads(x):
    B, H, T, width = x.shape
    key = (B, T, H * width, x.dtype, x.device)
    if key not in BUFFERS:
        BUFFERS[key] = torch.empty(B, T, H * width, dtype=x.dtype, device=x.device)
    return BUFFERS[key].detach().copy_(x.transpose(1, 2).flatten(2))


@wrong(
    "joins neighbours pair by pair, and loses the last of an odd number of heads",
    breaks=TURN,
    name="drops a head if their number is odd",
)
def merge_heads(x):
    while x.size(1) > 1:
        even = x.size(1) // 2 * 2
        x = torch.cat([x[:, 0:even:2], x[:, 1:even:2]], dim=-1)
    return x[:, 0]


@wrong(
    "skips heads that hold only zeros: the numbers are right, but no gradient reaches them",
    breaks=GRADIENTS,
    name="no gradient for a head of zeros",
)
def merge_heads(x):
    B, H, T, width = x.shape
    merged = x.new_zeros(B, T, H * width)
    for head in range(H):
        if x[:, head].any():
            merged[..., head * width : (head + 1) * width] = x[:, head]
    return merged
