import torch

from blind import right, wrong


@right("chunks of the width, stacked along a new axis")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("index table of the entries of each head, then movedim")
def split_heads(x, num_heads):
    entries = torch.arange(x.size(-1), device=x.device).view(num_heads, -1)
    return x[:, :, entries].movedim(2, 1)


@right("loops over heads and copies slices into a new tensor")
def split_heads(x, num_heads, out=None):
    B, T, D = x.shape
    width = D // num_heads
    if out is None:
        out = x.new_empty(B, num_heads, T, width)
    for h in range(num_heads):
        out[:, h] = x[..., h * width : (h + 1) * width]
    return out


@right("transpose first, so that a reshape may cut the width, transpose back")
def split_heads(x, num_heads):
    B, T, D = x.shape
    columns = x.mT.contiguous()  # (B, D, T): the rows of one head are neighbours
    return columns.view(B, num_heads, D // num_heads, T).mT


@wrong(
    "one view: right shape, but the tokens are mixed for H > 1 and T > 1",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "a single view mixes the tokens",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "head h gets the entries h, h + H, h + 2H ...; wrong for H > 1 and Dh > 1",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "entries dealt out like cards",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "leaves the heads behind the tokens: (B, T, H, Dh); wrong for H > 1 or T > 1",
    "Put the axis of the heads before the axis of the tokens, because `@` multiplies the last two axes.",
    "axes not swapped",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads))


@wrong(
    "puts the heads before the sentences and reshapes: right for B = 1, mixes sentences and heads for B > 1",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "sentences and heads mixed in larger batches",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    pieces = torch.cat(x.chunk(num_heads, dim=-1), dim=0)  # (H * B, T, Dh)
    return pieces.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "view over batch and tokens at once: raises where x is not contiguous, such as a transposed tensor with B > 1",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "view fails on non-contiguous input",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    rows = x.view(B * T, num_heads, D // num_heads)
    return rows.view(B, T, num_heads, D // num_heads).transpose(1, 2)


@wrong(
    "fills a tensor of the default dtype on the CPU: bfloat16 or float64 x gives float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result has default dtype and device",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    out = torch.zeros(B, num_heads, T, width)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * width : (h + 1) * width]
    return out


@wrong(
    "unsqueeze_ works in place: x has four axes after the call",
    "Do not change the inputs.",
    "in-place unsqueeze changes the caller's tensor",
)
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    x.unsqueeze_(1)
    return torch.cat(x.split(width, dim=-1), dim=1)


@wrong(
    "splits into pieces of width H instead of H pieces: right only where H = Dh, such as D = 16 and H = 4",
    "Each projected vector of width D is split into H pieces, and head h gets piece h:",
    "pieces of width H instead of H pieces",
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    "as_strided with the strides of a contiguous tensor: for a transposed or sliced x it reads the wrong numbers",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on.",
    "strides assume a contiguous tensor",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    return x.as_strided((B, num_heads, T, width), (T * D, width, D, 1))


_done = {}


@wrong(
    "remembers results by the address and shape of x: after x was changed in place, or where its memory is used again, the old numbers come back",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "remembers results by memory address",
)
def split_heads(x, num_heads):
    key = (x.data_ptr(), x.shape, x.stride(), x.dtype, x.device, num_heads)
    if key not in _done:
        _done[key] = x.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous().clone()
    return _done[key]
