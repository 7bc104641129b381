import torch

from blind import right, wrong

PIECES = "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last."


@right("dstack of the heads")
def merge_heads(x):
    return torch.dstack(x.unbind(dim=1))


@right("fills slices of a new tensor")
def merge_heads(x):
    B, H, T, width = x.shape
    out = x.new_empty(B, T, H * width)
    for h in range(H):
        out[..., h * width : (h + 1) * width] = x[:, h]
    return out


@right("indexes head and entry of every place")
def merge_heads(x):
    B, H, T, width = x.shape
    place = torch.arange(H * width, device=x.device)
    return x[:, place // width, :, place % width].permute(1, 2, 0)


@right("einsum only permutes, then reshape")
def merge_heads(x):
    swapped = torch.einsum("bhtd->bthd", x)
    return swapped.reshape(*swapped.shape[:2], swapped.shape[2] * swapped.shape[3])


@wrong(
    "a single reshape",
    breaks=PIECES,
    name="tokens mixed by a single reshape",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.reshape(B, T, H * width)


@wrong(
    "first entries of all heads, then the second entries, ...; right for Dh = 1 or H = 1",
    breaks=PIECES,
    name="heads interleaved",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "view works only after split_heads, not on a contiguous input",
    breaks="An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory.",
    name="view of a transposed tensor",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.transpose(1, 2).view(B, T, H * width)


@wrong(
    "puts each head in front of the earlier ones",
    breaks=PIECES,
    name="heads in reverse order",
)
def merge_heads(x):
    out = x[:, 0]
    for h in range(1, x.size(1)):
        out = torch.cat([x[:, h], out], dim=-1)
    return out


@wrong(
    "squeeze without an axis: batches, sentences or heads of size one lose it",
    breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="axes of length one lost",
)
def merge_heads(x):
    return torch.cat([piece.squeeze() for piece in x.split(1, dim=1)], dim=-1)


@wrong(
    "the new tensor is always on the CPU",
    breaks="For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    name="wrong device",
)
def merge_heads(x):
    B, H, T, width = x.shape
    out = torch.zeros(B, T, H * width, dtype=x.dtype)
    for h in range(H):
        out[..., h * width : (h + 1) * width] = x[:, h]
    return out


@wrong(
    "transposes the caller's tensor",
    breaks="Do not change the inputs.",
    name="input transposed in place",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "believes that the axes are in order when both have the same length",
    breaks=PIECES,
    name="no swap where H equals T",
)
def merge_heads(x):
    if x.size(1) != x.size(2):
        x = x.transpose(1, 2)
    return x.flatten(2)


@wrong(
    "copies the data only",
    breaks="Gradients must be right, too.",
    name="no gradient",
)
def merge_heads(x):
    return torch.cat([x.data[:, h] for h in range(x.size(1))], dim=-1)


_pieces = []


@wrong(
    "collects the pieces in a list that is never emptied",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="pieces of earlier calls",
)
def merge_heads(x):
    for h in range(x.size(1)):
        _pieces.append(x[:, h])
    return torch.cat(_pieces, dim=-1)
