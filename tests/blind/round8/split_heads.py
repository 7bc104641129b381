import torch

from blind import right, wrong


@right("cuts with chunk and stacks the pieces on a new axis")
def split_heads(x, num_heads):
    return torch.stack(torch.chunk(x, num_heads, dim=2), dim=1)


@right("cuts columns of the transposed batch, which a reshape may cut")
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.mT.reshape(B, num_heads, D // num_heads, T).mT


@right("tensor.unfold with windows side by side, then the axes are moved")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).movedim(2, 1)


@right("loops over heads into a new tensor of the same dtype and device")
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    heads = x.new_empty(B, num_heads, T, width)
    for h in range(num_heads):
        heads[:, h] = x[..., h * width : (h + 1) * width]
    return heads


@wrong(
    "a single view gives the shape but mixes the tokens for T > 1 and H > 1",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "view mixes tokens and heads",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "the axes are not exchanged: (B, T, H, Dh)",
    "The axis of the heads comes before the axis of the positions, because `@` multiplies the last two axes.",
    "transpose forgotten",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "the last axis is split as (Dh, H): every H-th entry goes to a head; wrong for H > 1 and Dh > 1",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "heads interleaved",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, T, D // num_heads, num_heads).permute(0, 3, 1, 2)


@wrong(
    "one head is not split at all: for H = 1 the result has three axes",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "no head axis for one head",
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "computes the strides as if x lay in memory row by row: wrong for a transposed or sliced x",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "assumes a contiguous input",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    return torch.as_strided(x, (B, num_heads, T, width), (T * D, width, D, 1))


@wrong(
    "squeezes at the end: an axis of length one (B, H, T or Dh) is lost",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "squeeze drops axes of length one",
)
def split_heads(x, num_heads):
    pieces = x.unsqueeze(1).chunk(num_heads, dim=-1)
    return torch.cat(pieces, dim=1).squeeze()


@wrong(
    "goes through a list of numbers: a float64 x comes back as float32 (and loses digits), a bfloat16 x as float32",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "dtype lost",
)
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    rows = [
        [[v[h * width : (h + 1) * width] for v in sent] for h in range(num_heads)]
        for sent in x.tolist()
    ]
    return torch.tensor(rows)


@wrong(
    "split(num_heads) makes pieces of width H, not H pieces: right only where D is the square of H",
    "They need no additional parameters, because the projected vectors of width D are split into H pieces:",
    "split takes a width, not a number",
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    "stacks the heads in front of the sentences and reshapes: right for one sentence, for B > 1 and H > 1 sentences and heads are mixed",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "reshape mixes sentences and heads",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return torch.stack(x.chunk(num_heads, dim=-1)).reshape(B, num_heads, T, -1)


_room = {}


@wrong(
    "writes into a buffer that is kept per shape: the second call of the same shape overwrites the result of the first (queries become keys)",
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    "results share one buffer",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    kind = (B, T, D, num_heads, x.dtype, x.device)
    if kind not in _room:
        _room[kind] = x.new_empty(B, num_heads, T, D // num_heads)
    _room[kind].copy_(x.detach().unflatten(-1, (num_heads, -1)).transpose(1, 2))
    return _room[kind]
