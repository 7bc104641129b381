import torch
from torch import nn

from blind import right, wrong


@right("folds the heads from left to right with cat")
def merge_heads(x):
    import functools

    return functools.reduce(lambda a, b: torch.cat([a, b], dim=-1), x.unbind(dim=1))


@right("a loop over the tokens, each flattened")
def merge_heads(x):
    return torch.stack([x[:, :, t].flatten(1) for t in range(x.size(2))], dim=1)


@right("heads and widths brought to the front, flattened there and moved to the end")
def merge_heads(x):
    return x.permute(1, 3, 0, 2).flatten(0, 1).permute(1, 2, 0)


@right("looks up head j // Dh and entry j % Dh for each entry j")
def merge_heads(x):
    width = x.size(3)
    j = torch.arange(x.size(1) * width, device=x.device)
    head = torch.div(j, width, rounding_mode="floor")
    return x[:, head, :, j % width].permute(1, 2, 0)


@wrong(
    "a single reshape without swapping the axes, which mixes the tokens",
    "concatenate the pieces of each token, from the first head to the last.",
    "reshape mixes the tokens",
)
def merge_heads(x):
    size, heads, length, width = x.shape
    return x.reshape(size, length, heads * width)


@wrong(
    "only swaps the axes and returns (B, T, H, Dh)",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "heads not concatenated",
)
def merge_heads(x):
    return x.transpose(1, 2)


@wrong(
    "interleaves the heads: first entry of every head, then second entry of every head, ...",
    "concatenate the pieces of each token, from the first head to the last.",
    "pieces interleaved instead of concatenated",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "view after a transpose: an error unless T = 1 or H = 1 or the memory happens to fit",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "view of a tensor that is not contiguous",
)
def merge_heads(x):
    size, heads, length, width = x.shape
    return x.transpose(1, 2).view(size, length, heads * width)


@wrong(
    "squeeze() drops every axis of length one, so B = 1 or T = 1 loses its axis",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "axes of length one dropped",
)
def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=-1).squeeze()


@wrong(
    "copies into a float32 tensor, whatever the dtype of x",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result always float32",
)
def merge_heads(x):
    size, heads, length, width = x.shape
    merged = torch.zeros(size, length, heads * width, device=x.device)
    for h in range(heads):
        merged[..., h * width : (h + 1) * width] = x[:, h]
    return merged


@wrong(
    "puts the tokens before the sentences and then reshapes: mixes the sentences if B > 1 and T > 1",
    "concatenate the pieces of each token, from the first head to the last.",
    "sentences mixed for B > 1",
)
def merge_heads(x):
    size, heads, length, width = x.shape
    return x.permute(2, 0, 1, 3).reshape(size, length, heads * width)


@wrong(
    "transpose_ swaps the axes of the caller's tensor",
    "Do not change the inputs.",
    "axes of the input swapped in place",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "assumes that x lies contiguous in memory, which the result of split_heads does not",
    "Merging is the inverse of splitting.",
    "strides of x ignored",
)
def merge_heads(x):
    size, heads, length, width = x.shape
    strides = (heads * length * width, width, length * width, 1)
    tokens = x.as_strided((size, length, heads, width), strides)
    return tokens.reshape(size, length, heads * width)


@wrong(
    "remembers the order of the entries for a width D, though it also depends on H",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "order cached under an incomplete key",
)
def merge_heads(x, _orders={}):
    _, heads, _, width = x.shape
    dim = heads * width
    if dim not in _orders:
        _orders[dim] = torch.arange(dim).view(width, heads).T.flatten()
    mixed = x.permute(0, 2, 3, 1).flatten(2)
    return mixed[..., _orders[dim].to(x.device)]
