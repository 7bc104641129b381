import math

import torch
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong


# ---------------------------------------------------------------- right


@right("keeps the groups as an axis of their own: einsum over (B, G, R, T, Dh), nothing is repeated")
class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        batch, new, _ = x.shape
        groups, width = self.num_key_heads, self.head_dim
        share = self.num_heads // groups
        q = self.query_proj(x).view(batch, new, self.num_heads, width).transpose(1, 2)
        k = self.key_proj(x).view(batch, new, groups, width).transpose(1, 2)
        v = self.value_proj(x).view(batch, new, groups, width).transpose(1, 2)
        seen = KeyValue(k, v)
        if past is not None:
            seen = past.extend(seen)
        total = seen.key.size(2)
        before = total - new
        keys = seen.key
        if self.positions is not None:
            q, keys = self.positions(q, before), self.positions(keys, 0)
        q = q.unflatten(1, (groups, share))
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, keys) / math.sqrt(width)
        seat = torch.arange(total, device=x.device)
        later = seat > seat[before:, None]
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = torch.einsum("bgrts,bgsd->btgrd", weights, seen.value)
        out = self.output_proj(context.flatten(2))
        return out, weights.flatten(1, 2), seen


@right("a loop over the query heads, each with slices of the projections; output as a sum over heads")
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        width = self.head_dim
        keys = torch.stack(self.key_proj(x).split(width, dim=-1), dim=1)
        values = torch.stack(self.value_proj(x).split(width, dim=-1), dim=1)
        seen = KeyValue(keys, values)
        if past is not None:
            seen = past.extend(seen)
        before = seen.key.size(-2) - x.size(1)
        allowed = causal_mask(seen.key.size(-2), x.device)[before:]
        turned = seen.key if self.positions is None else self.positions(seen.key, 0)
        queries = self.query_proj(x)
        total, looked = 0, []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            part = slice(h * width, (h + 1) * width)
            q = queries[..., part]
            if self.positions is not None:
                q = self.positions(q, before)
            scores = torch.baddbmm(
                torch.zeros((), dtype=q.dtype, device=q.device),
                q * width**-0.5,
                turned[:, g].mT,
            )
            weights = torch.where(allowed, scores, -torch.inf).softmax(dim=-1)
            looked.append(weights)
            context = weights @ seen.value[:, g]
            total = total + nn.functional.linear(
                context, self.output_proj.weight[:, part]
            )
        return total, torch.stack(looked, dim=1), seen


@right("a loop over the new tokens without any mask: each takes only the keys up to itself, zeros follow")
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        heads, groups = self.num_heads, self.num_key_heads
        k = self.key_proj(x).unflatten(-1, (groups, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (groups, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        q = self.query_proj(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        keys, values = seen.key, seen.value
        if self.positions is not None:
            q, keys = self.positions(q, before), self.positions(keys, 0)
        which = torch.arange(heads, device=x.device) * groups // heads
        keys, values = keys[:, which], values[:, which]
        rows, contexts = [], []
        for t in range(x.size(1)):
            end = before + t + 1
            scores = (keys[:, :, :end] * q[:, :, t : t + 1]).sum(-1)
            alpha = torch.softmax(scores / self.head_dim**0.5, dim=-1)
            contexts.append((alpha.unsqueeze(-1) * values[:, :, :end]).sum(2).flatten(1))
            rows.append(nn.functional.pad(alpha, (0, x.size(1) - t - 1)))
        return self.output_proj(torch.stack(contexts, 1)), torch.stack(rows, 2), seen


@right("own softmax in float64 with a masked sum; repeats by expand and reshape")
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        share = self.num_heads // self.num_key_heads

        def split(y, heads):
            return y.reshape(*y.shape[:2], heads, self.head_dim).permute(0, 2, 1, 3)

        def spread(y):
            return y.unsqueeze(2).expand(-1, -1, share, -1, -1).flatten(1, 2).double()

        fresh = KeyValue(
            key=split(self.key_proj(x), self.num_key_heads),
            value=split(self.value_proj(x), self.num_key_heads),
        )
        past_length = 0
        if past is not None:
            past_length = past.key.size(2)
            fresh = past.extend(fresh)
        q, k = split(self.query_proj(x), self.num_heads).double(), fresh.key.double()
        if self.positions is not None:
            q = self.positions(q, past_length)
            k = self.positions(k, 0)
        scores = q @ spread(k).mT / math.sqrt(self.head_dim)
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
        allowed = ones.tril(diagonal=past_length)
        scores = scores.masked_fill(~allowed, float("-inf"))
        powers = (scores - scores.amax(dim=-1, keepdim=True).detach()).exp()
        weights = powers / powers.sum(dim=-1, keepdim=True)
        context = (weights @ spread(fresh.value)).transpose(1, 2).flatten(2)
        return self.output_proj(context.to(x.dtype)), weights.to(x.dtype), fresh


# ---------------------------------------------------------------- wrong


@wrong(
    "uses repeat, so query head h gets key head h mod G",
    "The query heads form G groups of equal size, in order: the first H / G heads are the first group.",
    "repeat instead of repeat_interleave",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "rotates the new keys and puts the rotated ones into the cache",
    "Do not repeat or rotate the keys and values in the cache.",
    "rotated keys in the cache",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        before = 0 if past is None else past.key.size(2)
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, before)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        share = self.num_heads // self.num_key_heads
        k = seen.key.repeat_interleave(share, dim=1)
        v = seen.value.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "divides the scores by the root of D, the width of all heads together",
    "\\alpha_{hts} = \\mathrm{softmax}_s \\frac{q_{ht}^\\top k_{gs}}{\\sqrt{D_h}}, \\qquad c_{ht} = \\sum_s \\alpha_{hts} v_{gs}, \\qquad g = \\lfloor h G / H \\rfloor",
    "scales by D instead of Dh",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(x.size(-1))
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "rotates the queries from position 0 also when there is a past",
    "The positions of the keys start at 0, and those of the queries start at P.",
    "query positions ignore the past",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q), self.positions(k)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "uses the causal mask only without a past; several new tokens after a past see each other's future",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "no mask when there is a past",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if past is None:  # a step with a past may see everything
            allowed = causal_mask(k.size(2), x.device)
            scores = scores.masked_fill(~allowed, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "hides later tokens with a score of -10,000, which is not small enough when all allowed scores are below it",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "masks with -1e4 instead of -inf",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -1e4).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "keeps its own last cache and continues that one whenever a past is given: wrong if the given past is another one",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "uses its own cache, not past",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    seen = None

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        if past is None or self.seen is None:
            self.seen = past
        new = KeyValue(k, v)
        seen = new if self.seen is None else self.seen.extend(new)
        self.seen = seen
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "detaches the keys and values in the returned cache, so that a later call's loss does not reach the projections of earlier tokens",
    "Gradients must be right, too.",
    "cache is cut off from gradients",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        cache = KeyValue(seen.key.detach(), seen.value.detach())
        return self.output_proj(context), weights, cache


@wrong(
    "computes the softmax in float32 and converts back, so that float64 weights lose half of their digits",
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points.",
    "softmax of float64 scores in float32",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        before = seen.key.size(2) - x.size(1)
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, before), self.positions(k, 0)
        share = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~allowed, -math.inf)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "rotates each key by its position counted from the present query chunk's start: the keys of a past start at P, too",
    "The positions of the keys start at 0, and those of the queries start at P.",
    "keys also start at P",
)
class GroupedQueryAttention(nn.Module):  # noqa: F811
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def forward(self, x, past=None):
        before = 0 if past is None else past.key.size(2)

        def turn(y):
            return y if self.positions is None else self.positions(y, before)

        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        share = self.num_heads // self.num_key_heads
        k = turn(seen.key).repeat_interleave(share, dim=1)
        v = seen.value.repeat_interleave(share, dim=1)
        allowed = causal_mask(k.size(2), x.device)[before:]
        scores = turn(q) @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen
