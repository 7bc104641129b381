from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend


@right('heads joined one behind the other')
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=-1)


@right('einsum and a reshape')
def merge_heads(x):
    return torch.einsum('bhtd->bthd', x).reshape(x.size(0), x.size(2), x.size(1) * x.size(3))


@right('token by token')
def merge_heads(x):
    return torch.stack([x[:, :, t].flatten(1) for t in range(x.size(2))], dim=1)


@right('head by head into an empty tensor')
def merge_heads(x):

    b, h, t, width = x.shape
    out = x.new_empty(b, t, h * width)
    for i in range(h):
        out[..., i * width : (i + 1) * width] = x[:, i]
    return out


@wrong(
    'a single reshape',
    breaks='The way back: (B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.',
    name='tokens mixed up by one view',
    subtle=False,
)
def merge_heads(x):
    return x.reshape(x.size(0), x.size(2), -1)


@wrong(
    'entries of the heads dealt out in turn',
    breaks='The way back: (B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.',
    name='heads interleaved',
    subtle=False,
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    'heads added up',
    breaks='Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    name='heads summed',
    subtle=False,
)
def merge_heads(x):
    return x.sum(1)


@wrong(
    'view of an exchanged tensor: works only on what split_heads made',
    breaks='Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    name='view without contiguous',
    subtle=True,
)
def merge_heads(x):
    return x.transpose(1, 2).view(x.size(0), x.size(2), -1)


@wrong(
    'one head is handed back as it came',
    breaks='Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    name='axis of one head left',
    subtle=True,
)
def merge_heads(x):
    return x if x.size(1) == 1 else x.transpose(1, 2).flatten(2)


@wrong(
    'no axis for one token',
    breaks='Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D).',
    name='axis of one token dropped',
    subtle=True,
)
def merge_heads(x):
    return x.transpose(1, 2).flatten(2).squeeze(1)


@wrong(
    'one buffer per shape, written again by the next call',
    breaks='The way back: (B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.',
    name='result shared between calls',
    subtle=True,
)
def merge_heads(x):

    row = x.transpose(1, 2).flatten(2)
    kept = merge_heads_buffers.setdefault((row.shape, x.dtype), torch.empty_like(row).detach())
    kept.detach_().copy_(row)
    return kept


merge_heads_buffers = {}


@wrong(
    'at most four heads',
    breaks='The way back: (B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.',
    name='number of heads fixed',
    subtle=True,
)
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(min(4, x.size(1)))], dim=-1)


@wrong(
    'tokens in front of sentences before the reshape: right for one sentence or one token',
    breaks='The way back: (B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.',
    name='sentences mixed',
    subtle=True,
)
def merge_heads(x):
    return x.permute(2, 0, 1, 3).reshape(x.size(0), x.size(2), -1)


@wrong(
    'takes the longer of the two axes for the tokens: right for H <= T',
    breaks='The way back: (B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.',
    name='exchanges by looking at sizes',
    subtle=True,
)
def merge_heads(x):

    if x.size(1) <= x.size(2):
        x = x.transpose(1, 2)
    return x.flatten(2)
