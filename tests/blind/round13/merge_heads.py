from functools import reduce

import torch

from blind import right, wrong


@right("concatenates the heads")
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=-1)


@right("appends one head after the other with reduce")
def merge_heads(x):
    return reduce(
        lambda left, h: torch.cat([left, x[:, h]], dim=2),
        range(1, x.size(1)),
        x[:, 0],
    )


@right("writes each head into its columns of an empty tensor, from the last to the first")
def merge_heads(x):
    batch, heads, length, width = x.shape
    out = x.new_empty(batch, length, heads * width)
    for h in reversed(range(heads)):
        out[:, :, h * width : (h + 1) * width] = x[:, h]
    return out


@right("brings the entries before the tokens, joins them with the heads, and swaps back")
def merge_heads(x):
    return x.mT.flatten(1, 2).mT


@wrong(
    "a single reshape to the right shape, without swapping axes, which mixes the tokens",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "reshape without a swap",
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.reshape(batch, length, heads * width)


@wrong(
    "interleaves the pieces: the first entries of all heads, then the second entries",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "entries before heads",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "concatenates from the last head to the first",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "heads in reverse order",
)
def merge_heads(x):
    return torch.cat(x.flip(1).unbind(1), dim=-1)


@wrong(
    "view after transpose: it works for what split_heads returns, but raises an error"
    " for a contiguous (B, H, T, Dh), which attend returns",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "view after transpose",
    subtle=True,
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).view(batch, length, heads * width)


@wrong(
    "swaps two axes of x in place: the result is right, but the caller's x is"
    " (B, T, H, Dh) afterwards",
    "Do not change the inputs.",
    "transpose_ changes x",
    subtle=True,
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "writes the heads into a tensor of zeros of the default dtype: bfloat16 and float64"
    " vectors come out as float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result is always float32",
    subtle=True,
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    out = torch.zeros(batch, length, heads * width, device=x.device)
    for h in range(heads):
        out[..., h * width : (h + 1) * width] = x[:, h]
    return out


@wrong(
    "squeezes all axes of length one, not only that of the heads: a single sentence or"
    " a single token loses its axis",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "squeeze removes too much",
    subtle=True,
)
def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=-1).squeeze()


@wrong(
    "detaches the heads, so that no gradient reaches them",
    "Gradients must be right, too.",
    "no gradient",
    subtle=True,
)
def merge_heads(x):
    return torch.cat([head.detach() for head in x.unbind(1)], dim=-1)


@wrong(
    "keeps one result tensor per shape and overwrites it: the result of a first call"
    " changes when a second call has the same shape, and their gradients get mixed up",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "one tensor for all calls",
    subtle=True,
)
def merge_heads(x, kept={}):
    batch, heads, length, width = x.shape
    name = (x.shape, x.dtype, x.device)
    if name not in kept:
        kept[name] = x.new_empty(batch, length, heads * width)
    out = kept[name]
    for h in range(heads):
        out[..., h * width : (h + 1) * width] = x[:, h]
    return out


@wrong(
    "guesses which axis is that of the heads, namely the shorter one: with no more"
    " tokens than heads, the axes are not swapped",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "axes guessed from their lengths",
    subtle=True,
)
def merge_heads(x):
    if x.size(1) < x.size(2):
        x = x.transpose(1, 2)
    return x.flatten(2)
