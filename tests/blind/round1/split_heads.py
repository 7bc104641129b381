from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend


@right('chunks, stacked on a new axis')
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right('windows side by side')
def split_heads(x, num_heads):

    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).permute(0, 2, 1, 3)


@right('entries fetched by number')
def split_heads(x, num_heads):

    numbers = torch.arange(x.size(-1), device=x.device).view(num_heads, 1, -1)
    tokens = torch.arange(x.size(1), device=x.device).view(1, -1, 1)
    return x[:, tokens, numbers]


@right('head by head into an empty tensor')
def split_heads(x, num_heads):

    b, t, d = x.shape
    out = x.new_empty(b, num_heads, t, d // num_heads)
    for h in range(num_heads):
        out[:, h] = x[..., h * (d // num_heads) : (h + 1) * (d // num_heads)]
    return out


@wrong(
    'a single reshape',
    breaks="(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector are the first head's.",
    name='tokens mixed up by one view',
    subtle=False,
)
def split_heads(x, num_heads):
    return x.reshape(x.size(0), num_heads, x.size(1), -1)


@wrong(
    'heads left behind positions',
    breaks='Heads come before positions, so that the last two axes are those that `@` multiplies.',
    name='axes not exchanged',
    subtle=False,
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    'every H-th entry to the same head',
    breaks="(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector are the first head's.",
    name='entries dealt out in turn',
    subtle=False,
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    'no axis for one head',
    breaks='Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    name='axis of one head dropped',
    subtle=True,
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).squeeze(1)


@wrong(
    'no axis for pieces of width one',
    breaks='Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    name='axis of width one dropped',
    subtle=True,
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).squeeze(-1)


@wrong(
    'does not exchange the axes where T = H: the shape fits',
    breaks='Heads come before positions, so that the last two axes are those that `@` multiplies.',
    name='exchanges by looking at sizes',
    subtle=True,
)
def split_heads(x, num_heads):

    pieces = x.unflatten(-1, (num_heads, -1))
    return pieces if pieces.size(1) == num_heads else pieces.transpose(1, 2)


@wrong(
    'pieces joined along the batch, then viewed: right for one sentence or one head',
    breaks='Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    name='sentences and heads mixed',
    subtle=True,
)
def split_heads(x, num_heads):

    pieces = torch.cat(x.chunk(num_heads, dim=-1), dim=0)
    return pieces.view(x.size(0), num_heads, x.size(1), -1)


@wrong(
    'strides of a contiguous tensor taken for granted',
    breaks="(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector are the first head's.",
    name='memory read in the wrong order',
    subtle=True,
)
def split_heads(x, num_heads):

    b, t, d = x.shape
    width = d // num_heads
    return x.as_strided((b, num_heads, t, width), (t * d, width, d, 1))


@wrong(
    'pieces of width 8, whatever H is',
    breaks='Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).',
    name='width of a head fixed',
    subtle=True,
)
def split_heads(x, num_heads):

    width = 8 if x.size(-1) % 8 == 0 else x.size(-1) // num_heads
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


@wrong(
    'one buffer per shape, written again by the next call',
    breaks="(B, T, D) becomes (B, H, T, Dh): the first Dh entries of *each token's* vector are the first head's.",
    name='result shared between calls',
    subtle=True,
)
def split_heads(x, num_heads):

    pieces = x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    kept = split_heads_buffers.setdefault((pieces.shape, x.dtype), torch.empty_like(pieces).detach())
    kept.detach_().copy_(pieces)
    return kept


split_heads_buffers = {}
