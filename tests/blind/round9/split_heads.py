import torch
from torch import nn

from blind import right, wrong


@right("cuts the vectors into H pieces with chunk and stacks the pieces")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("windows of width Dh over the last axis, with unfold")
def split_heads(x, num_heads):
    width = x.shape[-1] // num_heads
    return x.unfold(-1, width, width).permute(0, 2, 1, 3)


@right("one gather over an index table")
def split_heads(x, num_heads):
    B, T, D = x.shape
    entries = torch.arange(D, device=x.device).reshape(num_heads, 1, D // num_heads)
    tokens = torch.arange(T, device=x.device).reshape(1, T, 1)
    return x[:, tokens, entries]


@right("fills an empty result in a loop over the heads, so the result is contiguous and shares no memory")
def split_heads(x, num_heads, out=None):
    B, T, D = x.size()
    Dh = D // num_heads
    if out is None:
        out = x.new_empty((B, num_heads, T, Dh))
    for h in range(num_heads):
        out[:, h] = x[:, :, h * Dh : (h + 1) * Dh]
    return out


@wrong(
    "a single view to (B, H, T, Dh): the shape is right, but heads get pieces of several tokens (right only for T = 1 or H = 1)",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "one view mixes the tokens",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "splits the last axis into (Dh, H) instead of (H, Dh): head h gets every H-th entry",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "heads get strided entries",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "leaves the heads after the tokens, (B, T, H, Dh)",
    "Put the axis of the heads before the axis of the tokens, because `@` multiplies the last two axes.",
    "the axes are not swapped",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "flattens batch and tokens with view, which raises for an x that is not contiguous, such as a transposed (T, B, D) tensor",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "view needs a contiguous input",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    flat = x.view(B * T, num_heads, D // num_heads)
    return flat.view(B, T, num_heads, D // num_heads).transpose(1, 2)


@wrong(
    "squeezes the result; a batch of one sentence, a single token, a single head or heads of width 1 lose their axis",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "axes of length one disappear",
)
def split_heads(x, num_heads):
    pieces = torch.stack(x.split(x.size(-1) // num_heads, dim=-1), dim=1)
    return pieces.squeeze()


@wrong(
    "fills a result made by torch.empty without dtype and device; bfloat16 inputs give float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "the result has the default dtype",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    result = torch.empty(B, num_heads, T, D // num_heads)
    for h, piece in enumerate(x.chunk(num_heads, dim=-1)):
        result[:, h] = piece
    return result


@wrong(
    "inserts an axis into x with unsqueeze_, so the caller's x has another shape afterwards",
    "Do not change the inputs.",
    "the input is reshaped in place",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    x.unsqueeze_(-2)  # (B, T, 1, D): now the vectors are rows of a matrix
    return x.unflatten(-1, (num_heads, -1)).squeeze(2).transpose(1, 2)


@wrong(
    "copies the numbers through .data, so no gradient reaches x",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "the graph is cut, no gradient",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    rows = x.data.reshape(B, T, num_heads, D // num_heads)
    return torch.einsum("bthd->bhtd", rows)


@wrong(
    "takes Dh from the first call and keeps it on the function; a later call with another D or H is cut wrongly or raises",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "the head width is remembered between calls",
)
def split_heads(x, num_heads, known={}):
    width = known.setdefault(num_heads, x.size(-1) // num_heads)
    return torch.stack(x.split(width, dim=-1), dim=1)


@wrong(
    "reshapes to (B, H, T, Dh) after swapping tokens and entries: (B, D, T) -> (B, H, Dh, T) is right, but then the last two axes are joined by reshape instead of transpose, which is the same only for T = 1 or Dh = 1",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "reshape instead of transpose inside a head",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    by_entry = x.mT.reshape(B, num_heads, D // num_heads, T)
    return by_entry.reshape(B, num_heads, T, D // num_heads)
