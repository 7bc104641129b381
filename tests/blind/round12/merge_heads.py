import torch
import torch.nn.functional as F

from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("einsum swaps the axes, reshape joins the last two")
def merge_heads(x):
    b, h, t, dh = x.shape
    return torch.einsum("bhtd->bthd", x).reshape(b, t, h * dh)


@right("stacks the transposed heads on top of one another, and transposes back")
def merge_heads(x):
    return x.mT.flatten(1, 2).mT


@right("looks up for each entry its head and its place there")
def merge_heads(x):
    width = x.size(3)
    entry = torch.arange(x.size(1) * width, device=x.device)
    return x[:, entry // width, :, entry % width].permute(1, 2, 0)  # from (D, B, T)


@right("a sum of the heads, each padded with zeros to the full width")
def merge_heads(x):
    heads, width = x.size(1), x.size(3)
    merged = 0
    for h, piece in enumerate(x.unbind(dim=1)):
        merged = merged + F.pad(piece, (h * width, (heads - 1 - h) * width))
    return merged


# ---------------------------------------------------------------- wrong answers


@wrong(
    "a reshape without swapping the axes, which mixes the tokens",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "axes not swapped",
)
def merge_heads(x):
    b, h, t, dh = x.shape
    return x.reshape(b, t, h * dh)


@wrong(
    "adds the heads up instead of concatenating them: (B, T, Dh)",
    "Concatenate the pieces of each vector: (B, H, T, Dh) -> (B, T, D).",
    "heads summed",
)
def merge_heads(x):
    return x.sum(dim=1)


@wrong(
    "interleaves the heads: first the first entries of all heads, then the second ones",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "pieces interleaved",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "calls view after transpose, which fails for a contiguous x with T > 1 and H > 1",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "view of a tensor that is not contiguous",
)
def merge_heads(x):
    b, h, t, dh = x.shape
    return x.transpose(1, 2).view(b, t, h * dh)


@wrong(
    "drops the axis of the tokens if there is one token only: (B, D)",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "axis lost for T = 1",
    subtle=True,
)
def merge_heads(x):
    return x.transpose(1, 2).flatten(2).squeeze(1)


@wrong(
    "takes the longer of the two axes for the tokens: wrong if there are as many heads"
    " as tokens, or more",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the"
    " first head to the last.",
    "guesses which axis holds the heads",
    subtle=True,
)
def merge_heads(x):
    if x.size(1) < x.size(2):  # the heads come first: put the tokens there
        x = x.transpose(1, 2)
    return x.flatten(2)


@wrong(
    "copies the heads into a float32 tensor, whatever the dtype of x",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result always float32",
    subtle=True,
)
def merge_heads(x):
    b, h, t, dh = x.shape
    out = torch.zeros(b, t, h * dh, device=x.device)
    for i in range(h):
        out[..., i * dh : (i + 1) * dh] = x[:, i]
    return out


@wrong(
    "swaps the axes of the caller's x (transpose_): afterwards x is (B, T, H, Dh)",
    "Do not change the inputs.",
    "changes the shape of x",
    subtle=True,
)
def merge_heads(x):
    x.transpose_(1, 2)
    return torch.cat([x[:, :, h] for h in range(x.size(2))], dim=-1)


@wrong(
    "concatenates under no_grad, so that no gradient flows back",
    "Gradients must be right, too.",
    "gradient cut off",
    subtle=True,
)
def merge_heads(x):
    with torch.no_grad():
        return torch.cat(x.unbind(dim=1), dim=-1)


_heads = []


@wrong(
    "remembers the number of heads of the first call: a later call with another number"
    " fails",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "number of heads remembered from an earlier call",
    subtle=True,
)
def merge_heads(x):
    if not _heads:
        _heads.append(x.size(1))
    return x.transpose(1, 2).reshape(x.size(0), x.size(2), _heads[0] * x.size(3))
