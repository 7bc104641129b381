from blind import right, wrong
import math

import torch
from torch import nn
import torch.nn.functional as F

from attention_course.attention import attend


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right('a helper for project-and-split, einsum for the scores, queries scaled first')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        def heads(proj, x):
            return split_heads(proj(x), self.num_heads)
        q, k, v = heads(self.query_proj, query), heads(self.key_proj, key), heads(self.value_proj, value)
        scores = torch.einsum("bhtd,bhsd->bhts", q * q.size(-1) ** -0.5, k)
        if mask is not None:
            mask = mask.broadcast_to(scores.size(0), scores.size(2), scores.size(3)).unsqueeze(1)
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
        h = self.num_heads
        q, k, v = (
            split_heads(proj(x), h).flatten(0, 1)
            for proj, x in ((self.query_proj, query), (self.key_proj, key), (self.value_proj, value))
        )
        scores = torch.bmm(q, k.transpose(1, 2)).div(math.sqrt(q.size(2)))
        if mask is not None:
            full = mask.expand(query.size(0), query.size(1), key.size(1))
            mask = full.repeat_interleave(h, dim=0)
        context, weights = attend(scores, v, mask)
        context, weights = context.unflatten(0, (-1, h)), weights.unflatten(0, (-1, h))
        return self.output_proj(merge_heads(context)), weights


@right('the softmax by hand, empty rows zero')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        v = split_heads(self.value_proj(value), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        q = split_heads(self.query_proj(query), self.num_heads)
        scores = q.matmul(k.transpose(-1, -2)) / v.size(-1) ** 0.5
        keep = torch.ones(1, 1, 1, dtype=torch.bool, device=q.device) if mask is None else mask
        keep = keep[(None,) * (3 - keep.dim())]
        keep = keep.unsqueeze(1).expand_as(scores)
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        e = torch.where(keep, torch.exp(scores - scores.max(-1, keepdim=True).values), 0)
        weights = e / e.sum(-1, keepdim=True).clamp_min(torch.finfo(e.dtype).tiny)
        return self.output_proj(merge_heads(weights @ v)), weights


@right('heads on the first axis, and W^O applied by hand')
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads).transpose(0, 1)
        k = split_heads(self.key_proj(key), self.num_heads).transpose(0, 1)
        v = split_heads(self.value_proj(value), self.num_heads).transpose(0, 1)
        # (H, B, T, S): a mask of two or three axes fits as it is
        context, weights = attend(q @ k.mT * (1 / math.sqrt(k.size(-1))), v, mask)
        joined = merge_heads(context.transpose(0, 1))
        return joined @ self.output_proj.weight.T + self.output_proj.bias, weights.transpose(0, 1)


@wrong('scale by the root of D', breaks='The scale is the root of the width that is multiplied, Dh.', name='scale of the whole width', subtle=False)
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


@wrong('without W^O', breaks='\\mathrm{MultiHead}(Q, K, V) = W^O\\, [\\mathrm{head}_1; \\ldots; \\mathrm{head}_H]', name='output projection forgotten', subtle=False)
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


@wrong('weights averaged over the heads', breaks='Contexts (B, T, D), and the weights of every head (B, H, T, S).', name='weights averaged', subtle=False)
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
        return self.output_proj(merge_heads(context)), weights.mean(1)


@wrong('values made from the keys', breaks='$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.', name='value not used, right when it is the key', subtle=True)
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


@wrong('an axis for the heads also in a mask (T, S)', breaks='one without an axis for sentences, (T, S), does not.', name='axis put into a mask of two axes', subtle=True)
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
            mask = mask.unsqueeze(-3) if mask.dim() == 3 else mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong('a mask of three axes is read as padding only', breaks='A mask (B, T, S) or (B, 1, S) needs an axis for the heads', name='first row of the mask for all queries', subtle=True)
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
            mask = mask[:, :1][:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong('no mask: a square of ones', breaks='Queries and keys may come from two sequences, (B, T, D) and (B, S, D); then it is cross-attention.', name='T taken for S when there is no mask', subtle=True)
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
        if mask is None:
            mask = torch.ones(query.size(1), query.size(1), dtype=torch.bool, device=query.device)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong('whole root of Dh', breaks='The scale is the root of the width that is multiplied, Dh.', name='math.isqrt: right for square widths only', subtle=True)
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
        context, weights = attend(q @ k.mT / math.isqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(context)), weights


@wrong('one head needs no W^O', breaks='\\mathrm{MultiHead}(Q, K, V) = W^O\\, [\\mathrm{head}_1; \\ldots; \\mathrm{head}_H]', name='output projection left out for H = 1', subtle=True)
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
        if self.num_heads == 1:
            return context[:, 0], weights
        return self.output_proj(merge_heads(context)), weights


@wrong('masked scores set to -1e4 before an ordinary softmax', breaks='mask: True = may attend, (T, S) or broadcastable to (B, T, S)', name='a row without any True looks at everything', subtle=True)
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
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e4)
        weights = scores.softmax(-1)
        context = weights @ v
        return self.output_proj(merge_heads(context)), weights
