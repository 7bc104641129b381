import torch
from torch import nn
from blind import right, wrong


@right('the heads are taken apart and concatenated')
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right('permute and reshape with all sizes written out')
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, length, heads * width)


@right('loops that copy into a new tensor')
def merge_heads(x):
    batch, heads, length, width = x.shape
    out = torch.empty(batch, length, heads * width, dtype=x.dtype, device=x.device)
    for t in range(length):
        for h in range(heads):
            out[:, t, h * width : (h + 1) * width] = x[:, h, t]
    return out


@right('one row of entries by heads and widths, transposed at the end')
def merge_heads(x):
    return x.mT.flatten(1, 2).mT.contiguous()


@wrong(
    'reshape without exchanging the axes: mixes the tokens when T > 1 and H > 1',
    'This is the way back: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.',
    'transpose forgotten',
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.reshape(batch, length, heads * width)


@wrong(
    'concatenates the heads along the positions: (B, H * T, Dh)',
    'Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    'concatenated along the wrong axis',
)
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(x.size(1))], dim=1)


@wrong(
    'brings the heads behind the entries: the pieces are interleaved, wrong when H > 1 and Dh > 1',
    'This is the way back: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.',
    'pieces interleaved',
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    'view after transpose: works on what split_heads returned, raises an error on a contiguous tensor with T > 1 and H > 1',
    'Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    'view of a tensor that is not contiguous',
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).view(batch, length, heads * width)


@wrong(
    'squeeze: with one sentence or one position an axis is lost',
    'Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.',
    'squeeze drops axes of length one',
)
def merge_heads(x):
    return torch.cat(x.split(1, dim=1), dim=-1).squeeze()


@wrong(
    'the new tensor has the default dtype: double or half-precision pieces come back as float32',
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'new tensor has the default dtype',
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    out = torch.zeros(batch, length, heads * width)
    for h in range(heads):
        out[..., h * width : (h + 1) * width] = x[:, h]
    return out


@wrong(
    "exchanges the axes in place: the caller's tensor has another shape afterwards",
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'changes its input in place',
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    'exchanges sentences with positions: right for one sentence alone',
    'This is the way back: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.',
    'works for one sentence only',
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(0, 2).reshape(batch, length, heads * width)


@wrong(
    'the heads are sorted by their names as text: with more than ten heads, head 10 stands before head 2',
    'Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    'head 10 comes before head 2',
)
def merge_heads(x):
    heads = {str(h): x[:, h] for h in range(x.size(1))}
    return torch.cat([heads[name] for name in sorted(heads)], dim=-1)


@wrong(
    'returns the tensor below if x is a view: that undoes split_heads, but for a view of a tensor in another layout the pieces are mixed',
    'This is the way back: (B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated.',
    'reads the memory below instead of the tensor',
)
def merge_heads(x):
    batch, heads, length, width = x.shape
    if x._base is not None and x._base.numel() == x.numel():
        return x._base.reshape(batch, length, heads * width)
    return x.reshape(batch, heads, length, width).transpose(1, 2).flatten(2)
