import torch

from blind import right, wrong


@right("concatenates the heads one by one on the last axis")
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right("einsum exchanges the axes, then reshape")
def merge_heads(x):
    B, H, T, width = x.shape
    return torch.einsum("bhtd->bthd", x).reshape(B, T, H * width)


@right("fills a new tensor head by head")
def merge_heads(x):
    B, H, T, width = x.shape
    merged = x.new_zeros(B, T, H * width)
    for h in range(H):
        merged[:, :, h * width : (h + 1) * width] = x[:, h]
    return merged


@right("picks every entry by index arithmetic: entry j is entry j % Dh of head j // Dh")
def merge_heads(x):
    width = x.size(-1)
    entry = torch.arange(x.size(1) * width, device=x.device)
    return x[:, entry // width, :, entry % width].permute(1, 2, 0)


@wrong(
    "reshape without exchanging the axes mixes the tokens for H > 1 and T > 1",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "transpose forgotten before the reshape",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.reshape(B, T, H * width)


@wrong(
    "view after transpose: works on what split_heads returned (a view), raises for a contiguous (B, H, T, Dh), as `weights @ v` is",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "view on a tensor that is not contiguous",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.transpose(1, 2).view(B, T, H * width)


@wrong(
    "the heads come last, so the entries are interleaved: first entry of each head, second entry of each head; wrong for H > 1 and Dh > 1",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "pieces interleaved",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "drops axes of length one: a single sentence or a single token loses its axis",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "squeeze drops axes of length one",
)
def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=-1).squeeze()


@wrong(
    "exchanges the axes in place: the caller's x has the shape (B, T, H, Dh) afterwards",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "transpose in place changes the input",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "loops over as many heads as there are positions: raises for T > H, and loses heads for T < H",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "loops over positions instead of heads",
)
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(x.size(2))], dim=-1)


@wrong(
    "allocates the default dtype: float64 and bfloat16 come back as float32",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "dtype lost",
)
def merge_heads(x):
    B, H, T, width = x.shape
    merged = torch.zeros(B, T, H, width, device=x.device)
    for h in range(H):
        merged[:, :, h] = x[:, h]
    return merged.flatten(2)


@wrong(
    "returns the tensor that x is a view of: right for split_heads(y), wrong for a view of something else, such as the heads of a slice or of a larger tensor of the same size",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "undoes the view instead of merging",
)
def merge_heads(x):
    B, H, T, width = x.shape
    if x._base is not None and x._base.numel() == x.numel():
        return x._base.reshape(B, T, H * width)
    return x.transpose(1, 2).reshape(B, T, H * width)


@wrong(
    "computes the strides as if x were contiguous: wrong for what split_heads returns, which is a view with other strides",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "assumes a contiguous input",
)
def merge_heads(x):
    B, H, T, width = x.shape
    y = x.as_strided((B, T, H, width), (H * T * width, width, T * width, 1))
    return y.reshape(B, T, H * width)


@wrong(
    "stacks on the sentences' axis and regroups: right for one sentence, for B > 1 and H > 1 pieces of different sentences are concatenated",
    "Merging is the inverse of splitting: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.",
    "pieces of different sentences mixed",
)
def merge_heads(x):
    B, H, T, width = x.shape
    flat = x.transpose(0, 1).reshape(B, H, T, width)
    return flat.transpose(1, 2).reshape(B, T, H * width)
