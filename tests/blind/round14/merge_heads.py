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
TURN = (
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last."
)


@right("concatenates the heads")
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right("copies each head into its columns of a new tensor")
def merge_heads(x):
    batch, heads, length, width = x.shape
    result = x.new_zeros(batch, length, heads * width)
    for h in range(heads):
        result[..., h * width : (h + 1) * width] = x[:, h]
    return result


@right("gathers by computed indices")
def merge_heads(x):
    batch, heads, length, width = x.shape
    entry = torch.arange(heads * width, device=x.device)
    token = torch.arange(length, device=x.device)[:, None]
    return x[:, entry // width, token, entry % width]


@right("stacks token by token")
def merge_heads(x):
    return torch.stack([token.flatten(1) for token in x.unbind(2)], dim=1)


@wrong("reshapes without swapping the axes", TURN, "reshape without swapping axes")
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.reshape(batch, length, heads * width)


@wrong(
    "flattens (B, T, Dh, H), so the entries of the heads alternate",
    TURN,
    "entries of the heads interleaved",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "uses `view` after the swap, which fails unless x is itself a swapped view",
    TURN,
    "view on a transposed tensor",
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).view(batch, length, heads * width)


@wrong(
    "concatenates the heads along the tokens and not along the width",
    TURN,
    "concatenates along the tokens",
)
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=1)


@wrong(
    "swaps the wrong axes before the reshape, which mixes the sentences; right for one"
    " sentence",
    TURN,
    "sentences mixed up",
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.permute(2, 0, 1, 3).reshape(batch, length, heads * width)


@wrong(
    "removes all axes of length one, not only the axis of the heads",
    ALL,
    "squeeze removes too many axes",
)
def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=-1).squeeze()


@wrong(
    "treats a single token as a special case and forgets its axis: (B, D)",
    ALL,
    "axis lost for a single token",
)
def merge_heads(x):
    if x.size(2) == 1:
        return x.flatten(1)
    return x.transpose(1, 2).flatten(2)


@wrong(
    "computes strides as if x were contiguous, so the result of split_heads, which is a"
    " view, is merged wrongly",
    TURN,
    "assumes contiguous memory",
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    swapped = x.as_strided(
        (batch, length, heads, width),
        (heads * length * width, width, length * width, 1),
    )
    return swapped.flatten(2)


@wrong(
    "goes through NumPy in float32: no gradients, and float64 is rounded",
    GRAD,
    "goes through NumPy",
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    array = x.detach().cpu().float().numpy().transpose(0, 2, 1, 3)
    merged = torch.from_numpy(array.reshape(batch, length, heads * width))
    return merged.to(x.device, x.dtype)


@wrong(
    "swaps the axes of x in place before it flattens",
    CHANGE,
    "input transposed in place",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)
