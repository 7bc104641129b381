import torch
from torch import nn
from blind import right, wrong


@right('chunk and stack')
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right('sliding windows of the last axis, as wide as their step')
def split_heads(x, num_heads):
    width = x.shape[-1] // num_heads
    return x.unfold(-1, width, width).movedim(2, 1).contiguous()


@right('loops that copy one head after the other into a new tensor')
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    out = x.new_empty(batch, num_heads, length, width)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * width : (h + 1) * width]
    return out


@right('transposes first, and then splits the axis of the entries')
def split_heads(x, num_heads):
    batch, length, dim = x.size()
    columns = x.transpose(1, 2)
    return columns.reshape(batch, num_heads, dim // num_heads, length).transpose(-1, -2)


@wrong(
    'one view to (B, H, T, Dh): mixes the tokens when T > 1 and H > 1',
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    'single view mixes the tokens',
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    return x.reshape(batch, num_heads, length, dim // num_heads)


@wrong(
    'the two axes are not exchanged: (B, T, H, Dh)',
    'Heads come before positions, so that the last two axes are those that `@` multiplies.',
    'transpose forgotten',
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    'splits the last axis into (Dh, H): every H-th entry goes to a head, wrong when H > 1 and Dh > 1',
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    'entries dealt out in turns',
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    return x.reshape(batch, length, dim // num_heads, num_heads).permute(0, 3, 1, 2)


@wrong(
    'with one head the axis of the heads is missing',
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    'one head gets no axis',
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    'the sentences are merged with the tokens and taken apart in the wrong order: right for B = 1 alone',
    'Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    'works for one sentence only',
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    rows = x.reshape(batch * length, num_heads, dim // num_heads)
    return rows.transpose(0, 1).reshape(batch, num_heads, length, dim // num_heads)


@wrong(
    'the new tensor is float32 on the CPU whatever x is: half-precision or double inputs change their dtype',
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'new tensor has the default dtype',
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    out = torch.zeros(batch, num_heads, length, width)
    for h in range(num_heads):
        out[:, h] = x[..., h * width : (h + 1) * width]
    return out


@wrong(
    "x is transposed in place: the caller's tensor has another shape afterwards",
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'changes its input in place',
)
def split_heads(x, num_heads):
    x.transpose_(1, 2)
    return x.unflatten(1, (num_heads, -1)).mT


@wrong(
    'torch.split takes the size of a piece and is given the number of pieces: right only where H = Dh',
    'Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    'number of pieces mistaken for their size',
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    'the heads are sorted by their names as text: with more than ten heads, head 10 stands before head 2',
    "(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector belong to the first head.",
    'head 10 comes before head 2',
)
def split_heads(x, num_heads):
    heads = {f"head{h}": piece for h, piece in enumerate(x.chunk(num_heads, dim=-1))}
    return torch.stack([heads[name] for name in sorted(heads)], dim=1)


KNOWN = {}


@wrong(
    'results are remembered by the tensor object: if x is changed in place and split again, the old pieces come back',
    'Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    'returns a stale copy on the second call',
)
def split_heads(x, num_heads):
    key = (x, num_heads)
    if key not in KNOWN:
        KNOWN[key] = x.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous()
    return KNOWN[key]
