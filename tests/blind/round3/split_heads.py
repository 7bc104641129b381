import numpy as np
import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("windows of width Dh that do not overlap, by unfold")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).movedim(2, 1)


@right("stacks the chunks on a new axis 1")
def split_heads(x, num_heads):
    return torch.stack(torch.chunk(x, num_heads, dim=2), dim=1)


@right("fills an empty tensor, head by head and entry by entry")
def split_heads(x, num_heads):
    B, T, D = x.shape
    out = x.new_empty(B, num_heads, T, D // num_heads)
    for j in range(D):
        out[:, j // out.size(-1), :, j % out.size(-1)] = x[..., j]
    return out


@right("works from the last axis: turn, cut the axis of entries, turn back, in einsum")
def split_heads(x, num_heads):
    pieces = x.mT.unflatten(1, (num_heads, -1))
    return torch.einsum("bhdt->bhtd", pieces).contiguous()


# ---------------------------------------------------------------- wrong


@wrong(
    "one view to the shape that is wanted",
    breaks="the first Dh entries of *each token's* vector are the first head's",
    name="view alone mixes the tokens",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "cuts the last axis into (Dh, H): each head gets every H-th entry",
    breaks="the first Dh entries of *each token's* vector are the first head's",
    name="entries dealt out in turn",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "forgets to exchange the axes: (B, T, H, Dh)",
    breaks="Heads come before positions, so that the last two axes are those that `@` multiplies.",
    name="heads stand behind the positions",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "split(num_heads) makes pieces of width H, not H pieces",
    breaks="the vectors of width D are cut into H pieces",
    name="width and number of pieces confused",
    subtle=True,
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    "folds sentences and tokens, exchanges with the heads, and unfolds in the wrong order: right for one sentence",
    breaks="(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector are the first head's.",
    name="batch axis lost in the folding",
    subtle=True,
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    heads = x.reshape(B * T, num_heads, D // num_heads).transpose(0, 1)
    return heads.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "gives the vectors back as they are if there is one head",
    breaks="(B, T, D) becomes (B, H, T, Dh)",
    name="no axis for a single head",
    subtle=True,
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "gives x itself a new axis for the heads, in place",
    breaks="What comes in stays as it is",
    name="unsqueeze_ changes the caller's tensor",
    subtle=True,
)
def split_heads(x, num_heads):
    x.unsqueeze_(2)
    return x.unflatten(-1, (num_heads, -1)).squeeze(2).transpose(1, 2)


@wrong(
    "collects the heads in torch.zeros, which is float32 and on the CPU",
    breaks="what goes out has its dtype and its device",
    name="zeros of the default dtype",
    subtle=True,
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    out = torch.zeros(B, num_heads, T, width)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * width : (h + 1) * width]
    return out


@wrong(
    "goes by way of NumPy: float64 and half stay, but not the device",
    breaks="what goes out has its dtype and its device",
    name="a detour over NumPy",
    subtle=True,
)
def split_heads(x, num_heads):
    pieces = np.split(x.detach().cpu().numpy(), num_heads, axis=-1)
    return torch.from_numpy(np.stack(pieces, axis=1))


@wrong(
    "squeezes at the end, to be on the safe side",
    breaks="Your code works for every length from one on",
    name="squeeze takes axes of length one away",
    subtle=True,
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.view(B, T, num_heads, -1).permute(0, 2, 1, 3).squeeze(2)
