import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("the heads side by side, by cat of unbind")
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right("picks each entry of the row by its head and its place in the head")
def merge_heads(x):
    H, width = x.size(1), x.size(3)
    j = torch.arange(H * width, device=x.device)
    return x[:, j // width, :, j % width].permute(1, 2, 0)


@right("fills the row slice by slice, in a loop over the heads")
def merge_heads(x):
    B, H, T, width = x.shape
    row = x.new_zeros(B, T, H * width)
    for h in range(H):
        row[..., h * width : (h + 1) * width] = x[:, h]
    return row


@right("joins head and entry while both stand before the positions, then turns")
def merge_heads(x):
    return x.mT.flatten(1, 2).mT


# ---------------------------------------------------------------- wrong


@wrong(
    "one reshape to the shape that is wanted",
    breaks="all pieces of a token in a row",
    name="reshape alone mixes the tokens",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.reshape(B, T, H * width)


@wrong(
    "view after transpose: works on what split_heads returns, and fails on a tensor that stands in order",
    breaks="(B, H, T, Dh) becomes (B, T, D)",
    name="view of a transposed tensor",
    subtle=True,
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.transpose(1, 2).view(B, T, H * width)


@wrong(
    "puts the heads last: the entries of the heads alternate",
    breaks="all pieces of a token in a row",
    name="pieces shuffled like cards",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "puts the heads one after the other along the axis of positions",
    breaks="(B, H, T, Dh) becomes (B, T, D)",
    name="joined along the wrong axis",
)
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(x.size(1))], dim=1)


@wrong(
    "cuts heads with split, joins them, and squeezes the left-over axis with all others of length one",
    breaks="Your code works for every length from one on",
    name="squeeze takes axes of length one away",
    subtle=True,
)
def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=-1).squeeze()


@wrong(
    "puts the positions before the sentences and reshapes: right for one sentence",
    breaks="all pieces of a token in a row",
    name="batch and positions exchanged",
    subtle=True,
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.permute(2, 0, 1, 3).reshape(B, T, H * width)


@wrong(
    "exchanges the axes of the caller's tensor, in place",
    breaks="What comes in stays as it is",
    name="transpose_ changes the caller's tensor",
    subtle=True,
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "collects the row in torch.empty, which is float32 and on the CPU",
    breaks="what goes out has its dtype and its device",
    name="empty of the default dtype",
    subtle=True,
)
def merge_heads(x):
    B, H, T, width = x.shape
    row = torch.empty(B, T, H * width)
    for h in range(H):
        row[:, :, h * width : (h + 1) * width] = x[:, h]
    return row


@wrong(
    "unpacks the shape as (B, T, H, Dh): right if there are as many heads as tokens",
    breaks="(B, H, T, Dh) becomes (B, T, D)",
    name="heads and positions exchanged in the unpacking",
    subtle=True,
)
def merge_heads(x):
    B, T, H, width = x.shape
    return x.transpose(1, 2).reshape(B, T, H * width)


@wrong(
    "loops over tokens of the first sentence only, and shows it for all",
    breaks="Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).",
    name="only the first sentence",
    subtle=True,
)
def merge_heads(x):
    rows = [torch.cat(list(x[0, :, t]), dim=0) for t in range(x.size(2))]
    return torch.stack(rows).expand(x.size(0), -1, -1)
