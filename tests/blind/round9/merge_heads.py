import torch
from torch import nn

from blind import right, wrong


@right("unbind the heads and concatenate them")
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right("einsum for the order of the axes, then view on a contiguous copy")
def merge_heads(x):
    b, h, t, dh = x.shape
    return torch.einsum("bhtd->bthd", x).contiguous().view(b, t, h * dh)


@right("gathers every entry of the result by its head and its place")
def merge_heads(x):
    heads, width = x.size(1), x.size(3)
    entry = torch.arange(heads * width, device=x.device)
    head = torch.div(entry, width, rounding_mode="floor")
    # advanced indices with a slice between them come first: (D, B, T)
    return x[:, head, :, entry - head * width].permute(1, 2, 0)


@right("a recursion that joins halves of the heads")
def merge_heads(x):
    def joined(heads):
        if len(heads) == 1:
            return heads[0]
        middle = len(heads) // 2
        return torch.cat([joined(heads[:middle]), joined(heads[middle:])], dim=2)

    return joined([x[:, h] for h in range(x.size(1))]).clone()


@wrong(
    "reshapes without swapping the axes: tokens and heads are mixed unless T = 1 or H = 1",
    "concatenate the pieces of each token, from the first head to the last.",
    "reshape without a transpose",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    return x.reshape(B, T, H * Dh)


@wrong(
    "swaps the last two axes instead of the second and the third, then reshapes; the pieces of a token do not lie next to each other",
    "concatenate the pieces of each token, from the first head to the last.",
    "swaps the wrong two axes",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    return x.transpose(-2, -1).reshape(B, T, H * Dh)


@wrong(
    "swaps the head axis with the last axis, so the entries of the heads are interleaved: the first entry of every head, then the second ...",
    "concatenate the pieces of each token, from the first head to the last.",
    "pieces are interleaved",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "calls view after the transpose; it works if x comes straight from split_heads (its axes are swapped back) and raises for a contiguous (B, H, T, Dh), such as the result of a matrix product",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "view fails on a contiguous input",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    return x.transpose(1, 2).view(B, T, H * Dh)


@wrong(
    "concatenates along dim=-1 and squeezes; a batch of one sentence, or one token, or D = 1, loses its axis",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "axes of length one disappear",
)
def merge_heads(x):
    pieces = [piece.squeeze() for piece in x.chunk(x.size(1), dim=1)]
    return torch.cat(pieces, dim=-1)


@wrong(
    "collects the result in torch.zeros of the default dtype (and on the CPU); bfloat16 pieces give float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "the result has the default dtype",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    merged = torch.zeros(B, T, H * Dh)
    for h in range(H):
        merged[..., h * Dh : (h + 1) * Dh] = x[:, h]
    return merged


@wrong(
    "swaps the axes of x itself with transpose_, so the caller's tensor is (B, T, H, Dh) afterwards",
    "Do not change the inputs.",
    "transposes the input in place",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "decides by the strides whether the axes are already swapped: a contiguous tensor is thought to be (B, T, H, Dh); the result of split_heads (not contiguous) is merged correctly, and so are contiguous pieces with T = 1 or H = 1, but not a contiguous copy of the pieces",
    "Merging is the inverse of splitting.",
    "result depends on the memory layout",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    if not x.is_contiguous():
        x = x.transpose(1, 2)
    return x.reshape(B, T, H * Dh)


@wrong(
    "transposes the wrong pair of axes whenever T == Dh: it looks for the axis of the tokens by its size in the shape (list.index)",
    "concatenate the pieces of each token, from the first head to the last.",
    "finds an axis by its length",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    sizes = list(x.shape)
    heads, tokens, width = sizes.index(H, 1), sizes.index(T, 2), 3
    if sizes.index(Dh, 2) != width:  # the same number twice
        tokens, width = 3, 2
    return x.permute(0, tokens, heads, width).reshape(B, T, H * Dh)


@wrong(
    "writes into one result that it keeps for each shape, so the result of an earlier call is overwritten by the next call",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "reuses one output buffer",
)
def merge_heads(x, kept={}):
    B, H, T, Dh = x.shape
    key = (B, T, H * Dh, x.dtype, x.device)
    if x.requires_grad:
        return x.transpose(1, 2).flatten(2)
    if key not in kept:
        kept[key] = torch.empty(B, T, H * Dh, dtype=x.dtype, device=x.device)
    kept[key].view(B, T, H, Dh).copy_(x.transpose(1, 2))
    return kept[key]
