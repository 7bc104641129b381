from blind import right, wrong
import math

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.attention import attend


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right('mask stretched to (B, 1, T, S), einsum')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)

        if mask is not None:
            mask = mask.expand(query.size(0), query.size(1), key.size(1)).unsqueeze(1)
        scores = torch.einsum('bhtd,bhsd->bhts', q / math.sqrt(q.size(-1)), k)
        context, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(context)), weights


@right('heads folded into the batch')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)

        b, h = q.shape[:2]
        if mask is not None:
            mask = mask.expand(b, query.size(1), key.size(1)).repeat_interleave(h, dim=0)
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        context, weights = attend(torch.bmm(q, k.mT) * q.size(-1) ** -0.5, v, mask)
        context, weights = (x.unflatten(0, (b, h)) for x in (context, weights))
        return self.output_proj(merge_heads(context)), weights


@right('a closure that projects and cuts; keys scaled')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        def pieces(proj, x):
            return split_heads(F.linear(x, proj.weight, proj.bias), self.num_heads)

        q, k, v = pieces(self.query_proj, query), pieces(self.key_proj, key), pieces(self.value_proj, value)
        while mask is not None and 2 < mask.dim() < 4:
            mask = mask.unsqueeze(-3)
        context, weights = attend(q @ (k / k.size(-1) ** 0.5).mT, v, mask)
        return self.output_proj(merge_heads(context)), weights


@right('W^O on the pieces: no joined vector is kept')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        scores = (k @ q.mT).mT / math.sqrt(query.size(-1) / self.num_heads)
        context, weights = attend(scores, v, mask)

        joined = merge_heads(context)
        return torch.einsum('oi,bti->bto', self.output_proj.weight, joined) + self.output_proj.bias, weights


@wrong(
    'scaled by the root of D',
    breaks='The scale is the root of the width that is multiplied, Dh.',
    name='scale of the whole width',
    subtle=False,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'no output projection',
    breaks='$$ \\mathrm{MultiHead}(Q, K, V) = W^O\\, [\\mathrm{head}_1; \\ldots; \\mathrm{head}_H] $$',
    name='W^O forgotten',
    subtle=False,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return merge_heads(context), weights


@wrong(
    'no axis for the heads in the mask',
    breaks='A mask (B, T, S) or (B, 1, S) needs an axis for the heads; one without an axis for sentences, (T, S), does not.',
    name='mask without an axis for the heads',
    subtle=False,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'an axis for the heads in every mask, (T, S) too',
    breaks='A mask (B, T, S) or (B, 1, S) needs an axis for the heads; one without an axis for sentences, (T, S), does not.',
    name='axis for the heads where there are no sentences',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'values made from the keys: right where both are the same',
    breaks='$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.',
    name='values taken from the keys',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(key), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'a loop over the heads',
    breaks='All heads at once: no loop over them.',
    name='loop over the heads',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)

        if mask is not None and mask.dim() < 3:
            mask = mask[None]
        heads = [attend(q[:, h] @ k[:, h].mT / math.sqrt(q.size(-1)), v[:, h], mask) for h in range(self.num_heads)]
        context, weights = (torch.stack(x, dim=1) for x in zip(*heads))
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'scaled by the root of H: right where Dh = H',
    breaks='The scale is the root of the width that is multiplied, Dh.',
    name='root of the number of heads',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(self.num_heads), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    "the first query's row of the mask for all queries: right for padding",
    breaks='mask: True = may attend, (T, S) or broadcastable to (B, T, S); None allows everything.',
    name='one row of the mask for all queries',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)

        if mask is not None and mask.dim() == 3:
            mask = mask[:, None, :1]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong(
    'no output projection for one head',
    breaks='$$ \\mathrm{MultiHead}(Q, K, V) = W^O\\, [\\mathrm{head}_1; \\ldots; \\mathrm{head}_H] $$',
    name='W^O left out for H = 1',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)

        joined = merge_heads(context)
        return joined if self.num_heads == 1 else self.output_proj(joined), weights


@wrong(
    "the mean of the heads' weights where there is one query",
    breaks='Contexts (B, T, D), and the weights of every head (B, H, T, S).',
    name='weights averaged over the heads for T = 1',
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)

        if query.size(1) == 1:
            weights = weights.mean(1, keepdim=True)
        return self.output_proj(merge_heads(context)), weights
