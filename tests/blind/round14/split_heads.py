import torch

from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
TURN = "Turn (B, T, D) into (B, H, T, Dh)."
FIRST = (
    "The first Dh entries of *each token's* vector go to the first head, the next Dh"
    " entries to the second head, and so on."
)
AXIS = (
    "Put the axis of the heads before the axis of the tokens, because `@` treats the"
    " last two axes as matrices."
)


@right("stacks the chunks of the last axis")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("lets a window of width Dh jump over the last axis")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).movedim(2, 1)


@right("copies one head after the other into a new tensor")
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    result = x.new_zeros(num_heads, batch, length, width)
    for h in range(num_heads):
        result[h] = x.narrow(2, h * width, width)
    return result.transpose(0, 1).contiguous()


@right("gathers by computed indices from the flattened vectors")
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    head = torch.arange(num_heads, device=x.device)[:, None, None]
    token = torch.arange(length, device=x.device)[None, :, None]
    entry = torch.arange(width, device=x.device)[None, None, :]
    index = token * dim + head * width + entry
    return x.reshape(batch, length * dim)[:, index.flatten()].reshape(
        batch, num_heads, length, width
    )


@wrong("a single view to (B, H, T, Dh), which mixes the tokens", FIRST, "view mixes the tokens")
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    return x.reshape(batch, num_heads, length, dim // num_heads)


@wrong("does not swap the axes: (B, T, H, Dh)", AXIS, "axes not swapped")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "gives every H-th entry to a head: the sizes of the split are swapped",
    FIRST,
    "heads take interleaved entries",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "`split(H)` makes pieces of width H instead of H pieces, which is right only if"
    " H = Dh",
    TURN,
    "pieces of width H",
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    "puts the heads before the batch and reshapes to (B, H, T, Dh), which mixes the"
    " sentences; right only for one sentence or one head",
    FIRST,
    "heads and sentences mixed up",
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    heads = x.reshape(batch, length, num_heads, width).permute(2, 0, 1, 3)
    return heads.reshape(batch, num_heads, length, width)


@wrong(
    "computes strides as if x were contiguous, so a slice or a transposed tensor gives"
    " wrong numbers",
    FIRST,
    "assumes contiguous memory",
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    return x.as_strided(
        (batch, num_heads, length, width), (length * dim, width, dim, 1)
    )


@wrong(
    "merges batch and tokens with `view`, which fails for x with swapped axes in memory",
    TURN,
    "view fails for transposed inputs",
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    pieces = x.view(batch * length, num_heads, dim // num_heads)
    return pieces.view(batch, length, num_heads, -1).transpose(1, 2)


@wrong(
    "fills a new tensor of the default dtype on the CPU, so float64 and bfloat16 become"
    " float32",
    DTYPE,
    "new tensor of default dtype",
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    result = torch.empty(batch, num_heads, length, width)
    for h in range(num_heads):
        result[:, h] = x[:, :, h * width : (h + 1) * width]
    return result


@wrong(
    "swaps the axes of x in place, so the caller's x has the shape (B, D, T) afterwards",
    CHANGE,
    "input transposed in place",
)
def split_heads(x, num_heads):
    x.transpose_(1, 2)
    return x.unflatten(1, (num_heads, x.size(1) // num_heads)).transpose(2, 3)


@wrong(
    "goes through a detached copy, so no gradient flows back to x",
    GRAD,
    "gradient cut off by a detached copy",
)
def split_heads(x, num_heads):
    pieces = [piece.clone().detach() for piece in x.chunk(num_heads, dim=2)]
    return torch.stack(pieces, dim=1)
