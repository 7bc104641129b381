import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong


@right("never repeats: the queries get an axis for the groups, einsum does the sharing")
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
        B, T, D = x.shape
        G, R, Dh = self.num_key_heads, self.num_heads // self.num_key_heads, self.head_dim
        q = self.query_proj(x).view(B, T, G, R, Dh).permute(0, 2, 3, 1, 4)
        seen = KeyValue(
            self.key_proj(x).view(B, T, G, Dh).transpose(1, 2),
            self.value_proj(x).view(B, T, G, Dh).transpose(1, 2),
        )
        if past is not None:
            seen = past.extend(seen)
        k, v = seen.key, seen.value
        P = k.size(2) - T
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, k) / math.sqrt(Dh)
        later = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        contexts = torch.einsum("bgrts,bgsd->btgrd", weights, v).reshape(B, T, D)
        return self.output_proj(contexts), weights.flatten(1, 2), seen


@right("looks up the key head of each query head with an index, cache concatenated by hand")
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
        H, G = self.num_heads, self.num_key_heads
        q, k, v = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        P = 0
        if past is not None:
            P = past.key.shape[2]
            k, v = torch.cat([past.key, k], dim=2), torch.cat([past.value, v], dim=2)
        seen = KeyValue(k, v)
        turn = self.positions or (lambda z, past=0: z)
        group = torch.arange(H, device=x.device) * G // H
        scores = turn(q, past=P) @ turn(k)[:, group].mT * self.head_dim**-0.5
        t = torch.arange(P, P + x.size(1), device=x.device)
        s = torch.arange(P + x.size(1), device=x.device)
        scores = torch.where(t[:, None] >= s, scores, -torch.inf)
        weights = F.softmax(scores, dim=-1)
        contexts = (weights @ v[:, group]).transpose(1, 2).flatten(2)
        return self.output_proj(contexts), weights, seen


@right("loops over the query heads, softmax by hand, sum of the heads' parts of the output map")
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
        T = x.size(1)
        keys = self.key_proj(x).chunk(self.num_key_heads, dim=-1)
        values = self.value_proj(x).chunk(self.num_key_heads, dim=-1)
        seen = KeyValue(torch.stack(keys, dim=1), torch.stack(values, dim=1))
        if past is not None:
            seen = past.extend(seen)
        S = seen.key.size(2)
        allowed = causal_mask(S, x.device)[S - T :]
        rows, contexts = [], []
        for h, q in enumerate(self.query_proj(x).chunk(self.num_heads, dim=-1)):
            g = h * self.num_key_heads // self.num_heads
            k, v = seen.key[:, g], seen.value[:, g]
            if self.positions is not None:
                q, k = self.positions(q, S - T), self.positions(k, 0)
            scores = torch.bmm(q, k.transpose(1, 2)) / self.head_dim**0.5
            scores = scores.masked_fill(~allowed, -math.inf)
            e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
            rows.append(e / e.sum(dim=-1, keepdim=True))
            contexts.append(torch.bmm(rows[-1], v))
        return self.output_proj(torch.cat(contexts, dim=-1)), torch.stack(rows, dim=1), seen


@right("one token after the other: each new token attends to a prefix, weights padded with zeros")
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

    def heads(self, proj, x):
        return proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x, past=None):
        R = self.num_heads // self.num_key_heads
        new = KeyValue(self.heads(self.key_proj, x), self.heads(self.value_proj, x))
        seen = new if past is None else past.extend(new)
        S, T = seen.key.size(2), x.size(1)
        q, k = self.heads(self.query_proj, x), seen.key
        if self.positions is not None:
            q, k = self.positions(q, S - T), self.positions(k)
        k = k.repeat_interleave(R, dim=1)
        v = seen.value.repeat_interleave(R, dim=1)
        contexts, rows = [], []
        for t in range(T):
            stop = S - T + t + 1
            row = q[:, :, t : t + 1] @ k[:, :, :stop].mT / math.sqrt(self.head_dim)
            row = row.softmax(dim=-1)
            contexts.append(row @ v[:, :, :stop])
            rows.append(F.pad(row, (0, S - stop)))
        context = torch.cat(contexts, dim=2).transpose(1, 2).flatten(2)
        return self.output_proj(context), torch.cat(rows, dim=2), seen


@wrong(
    "repeat instead of repeat_interleave: head h uses key head h % G; wrong for 1 < G < H",
    "The query heads form G groups of equal size, in order: the first H / G heads are the first group.",
    "repeat instead of repeat_interleave",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen.key, seen.value
        P = k.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat(1, R, 1, 1), v.repeat(1, R, 1, 1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "rotates the queries from position 0 on; wrong with a past and positions",
    "The keys have the positions from 0 on, and the queries have the positions from P on.",
    "queries rotated from position 0",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen.key, seen.value
        P = k.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "rotates (B, T, heads, Dh) before the axes are swapped: head h is turned as position h, all tokens alike; wrong with positions",
    "Before you compare queries and keys, rotate both with `self.positions`.",
    "rotates along heads instead of tokens",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1))
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen.key.transpose(1, 2), seen.value
        P = k.size(1) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "uses a mask only if there is no past: with a past and T > 1, new tokens attend to later new tokens",
    "Let each token attend to itself and to all earlier tokens, including those of the past, but not to any later token.",
    "no mask once there is a past",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen.key, seen.value
        P = k.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if past is None:  # a new token may see everything that came before
            scores = scores.masked_fill(~causal_mask(x.size(1), x.device), -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "rotates each key once and keeps it rotated: contexts and weights are right, but the cache holds rotated keys",
    "Do not repeat or rotate the keys and values in the cache.",
    "rotated keys in the cache",
)
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
        P = 0 if past is None else past.key.size(2)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k, P)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        R = self.num_heads // self.num_key_heads
        k, v = (z.repeat_interleave(R, dim=1) for z in (seen.key, seen.value))
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "takes the softmax in float32 and brings only the contexts back: bfloat16 tokens get float32 weights",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "weights stay float32 for bfloat16 tokens",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen.key, seen.value
        P = k.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1, dtype=torch.float32)
        context = (weights.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, seen


@wrong(
    "calls self.positions without asking whether there is one: with positions=None a TypeError",
    "If `self.positions` is None, do not rotate anything.",
    "fails without positions",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v)
        if past is not None:
            seen = past.extend(seen)
        S, T = seen.key.size(2), x.size(1)
        R = self.num_heads // self.num_key_heads
        k = self.positions(seen.key).repeat_interleave(R, dim=1)
        v = seen.value.repeat_interleave(R, dim=1)
        scores = self.positions(q, S - T) @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(S, x.device)[S - T :], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "keeps the last cache itself and extends that one, whatever past holds: wrong if two texts take turns, or if one past is continued twice",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "extends its own last cache, not past",
)
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
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        if past is None:
            self.cache = KeyValue(k, v)
        else:
            self.cache = getattr(self, "cache", past).extend(KeyValue(k, v))
        seen = self.cache
        k, v = seen.key, seen.value
        P = k.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "without gradients, writes new keys into spare room behind the past: a second continuation of the same past overwrites the cache that the first one returned",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "two continuations share one buffer",
)
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

    def grow(self, old, new):
        """Write behind the old tokens if there is room, else move to a larger place."""
        if torch.is_grad_enabled():
            return torch.cat([old, new], dim=2)
        B, G, P, Dh = old.shape
        S = P + new.size(2)
        room = getattr(old, "room", None)
        if room is None or room.size(2) < S:
            room = old.new_empty(B, G, 2 * S, Dh)
            room[:, :, :P] = old
        room[:, :, P:S] = new
        grown = room[:, :, :S]
        grown.room = room
        return grown

    def forward(self, x, past=None):
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        if past is not None:
            k, v = self.grow(past.key, k), self.grow(past.value, v)
        seen = KeyValue(k, v)
        P = k.size(2) - x.size(1)
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~causal_mask(k.size(2), x.device)[P:], -torch.inf)
        weights = scores.softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen


@wrong(
    "takes the number of key heads for the length of the past when it rotates: right without a past and where P = G",
    "The keys have the positions from 0 on, and the queries have the positions from P on.",
    "reads the past's length from the wrong axis",
)
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
        P = 0 if past is None else past.key.size(1)
        q = self.query_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.key_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        v = self.value_proj(x).unflatten(-1, (self.num_key_heads, -1)).transpose(1, 2)
        seen = KeyValue(k, v) if past is None else past.extend(KeyValue(k, v))
        k, v = seen.key, seen.value
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k)
        R = self.num_heads // self.num_key_heads
        k, v = k.repeat_interleave(R, dim=1), v.repeat_interleave(R, dim=1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        allowed = causal_mask(k.size(2), x.device)[-x.size(1) :]
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        return self.output_proj((weights @ v).transpose(1, 2).flatten(2)), weights, seen
