import math

import torch
from attention_course.attention import KeyValue
from blind import right, wrong
from torch import nn


@right("an axis for the heads of a group, keys broadcast and never repeated")
class R1(nn.Module):
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
        H, G, Dh, T = self.num_heads, self.num_key_heads, self.head_dim, x.shape[1]
        key, value = (
            proj(x).unflatten(-1, (G, Dh)).transpose(1, 2)
            for proj in (self.key_proj, self.value_proj)
        )
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        S = cache.key.shape[-2]
        query = self.query_proj(x).unflatten(-1, (H, Dh)).transpose(1, 2)
        key = cache.key
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        scores = query.unflatten(1, (G, H // G)) @ key.unsqueeze(2).mT / math.sqrt(Dh)
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ cache.value.unsqueeze(2)).flatten(1, 2)
        context = context.transpose(1, 2).flatten(2)
        return self.output_proj(context), weights.flatten(1, 2), cache


@right("heads picked by a list, the softmax by hand")
class R2(nn.Module):
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
        B, T, _ = x.shape
        H, G, Dh = self.num_heads, self.num_key_heads, self.head_dim
        new = KeyValue(
            self.key_proj(x).view(B, T, G, Dh).permute(0, 2, 1, 3),
            self.value_proj(x).view(B, T, G, Dh).permute(0, 2, 1, 3),
        )
        P = 0 if past is None else past.key.shape[2]
        cache = new if past is None else past.extend(new)
        turn = self.positions
        if turn is None:

            def turn(vectors, _):
                return vectors

        query = self.query_proj(x).view(B, T, H, Dh).permute(0, 2, 1, 3)
        asked = [h * G // H for h in range(H)]
        key, value = turn(cache.key, 0)[:, asked], cache.value[:, asked]
        scores = (turn(query, P) * Dh**-0.5) @ key.transpose(2, 3)
        where = torch.arange(P + T, device=x.device)
        scores = scores.masked_fill(where > where[P:, None], float("-inf"))
        raised = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        weights = raised / raised.sum(dim=-1, keepdim=True)
        context = (weights @ value).permute(0, 2, 1, 3).reshape(B, T, H * Dh)
        return self.output_proj(context), weights, cache


@right("a loop over the heads, with a mask that is added")
class R3(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = torch.stack(self.query_proj(x).chunk(H, dim=-1), dim=1)
        cache = KeyValue(
            torch.stack(self.key_proj(x).chunk(G, dim=-1), dim=1),
            torch.stack(self.value_proj(x).chunk(G, dim=-1), dim=1),
        )
        if past is not None:
            cache = past.extend(cache)
        key, S = cache.key, cache.key.shape[2]
        if self.positions is not None:
            query = self.positions(query, S - T)
            key = self.positions(key, 0)
        bias = torch.full((T, S), -math.inf, dtype=query.dtype, device=x.device)
        bias = bias.triu(S - T + 1)
        contexts, weights = [], []
        for h in range(H):
            g = h // (H // G)
            scores = (query[:, h] / math.sqrt(self.head_dim)) @ key[:, g].mT + bias
            weights.append(scores.softmax(dim=-1))
            contexts.append(weights[-1] @ cache.value[:, g])
        context = self.output_proj(torch.cat(contexts, dim=-1))
        return context, torch.stack(weights, dim=1), cache


@right("the queries of a group as more rows of one product with its key head")
class R4(nn.Module):
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
        H, G, Dh = self.num_heads, self.num_key_heads, self.head_dim
        rows = H // G * T
        cache = KeyValue(
            self.key_proj(x).reshape(B, T, G, Dh).transpose(1, 2),
            self.value_proj(x).reshape(B, T, G, Dh).transpose(1, 2),
        )
        P = 0
        if past is not None:
            P, cache = past.key.size(2), past.extend(cache)
        query = self.query_proj(x).reshape(B, T, H, Dh).transpose(1, 2)
        key = cache.key
        if self.positions is not None:
            query = self.positions(query, P)
            key = self.positions(key, 0)
        query = query.reshape(B, G, rows, Dh) / math.sqrt(Dh)
        scores = torch.einsum("bgrd,bgsd->bgrs", query, key)
        seen = torch.ones(P + T, P + T, dtype=torch.bool, device=x.device).tril()[P:]
        scores = scores.reshape(B, H, T, P + T).masked_fill(~seen, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        grouped = weights.reshape(B, G, rows, P + T)
        context = torch.einsum("bgrs,bgsd->bgrd", grouped, cache.value)
        context = context.reshape(B, H, T, Dh).transpose(1, 2).reshape(B, T, D)
        return self.output_proj(context), weights, cache


@wrong(
    "repeats the whole row of key heads, so head h asks h modulo G",
    breaks="The heads form G groups of equal size, and the heads of a group stand side"
    " by side: with H = 4 and G = 2, heads 0 and 1 ask key head 0, and heads 2 and 3"
    " ask key head 1.",
    name="repeat instead of repeat_interleave",
    subtle=False,
)
class W1(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key, value = key.repeat(1, H // G, 1, 1), value.repeat(1, H // G, 1, 1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "takes the softmax over all keys, then removes the later ones and divides anew:"
    " 0 / 0 if a later key has a far larger score",
    breaks="Your code works for every length from one on, for large numbers as for"
    " small ones, in train mode and in eval mode.",
    name="masked after the softmax",
    subtle=True,
)
class W2(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        seen = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        weights = scores.softmax(dim=-1) * seen
        weights = weights / weights.sum(dim=-1, keepdim=True)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "uses no mask when there is a past, as if one token came at a time",
    breaks="It may attend to nothing after it.",
    name="no mask with a past",
    subtle=True,
)
class W3(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        if past is None:
            later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "turns the queries as if nothing had come before",
    breaks="Keys stand at the positions from 0 on, and queries at the positions from P"
    " on.",
    name="queries from position 0",
    subtle=False,
)
class W4(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, 0), self.positions(key, 0)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "hides later keys by a score of -1e9, and a visible score may be below it",
    breaks="It may attend to nothing after it.",
    name="a finite mask",
    subtle=True,
)
class W5(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        weights = torch.where(later, -1e9, scores).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "scales the keys in place, and so those in the returned cache",
    breaks="The cache holds G heads of keys and values, as the projections make them:"
    " not repeated, and not turned.",
    name="scaled keys in the cache",
    subtle=True,
)
class W6(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        key /= math.sqrt(self.head_dim)
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "repeats each key head G times instead of H / G times: right for H = 4, G = 2",
    breaks="The heads form G groups of equal size, and the heads of a group stand side"
    " by side: with H = 4 and G = 2, heads 0 and 1 ask key head 0, and heads 2 and 3"
    " ask key head 1.",
    name="repeated G times",
    subtle=True,
)
class W7(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key = key.repeat_interleave(G, dim=1)
        value = value.repeat_interleave(G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "takes the softmax in float32 and returns these weights as they are",
    breaks="What comes in stays as it is, and what goes out has its dtype and its"
    " device.",
    name="weights in float32",
    subtle=True,
)
class W8(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key, value, S = cache.key, cache.value, cache.key.shape[2]
        if self.positions is not None:
            query, key = self.positions(query, S - T), self.positions(key, 0)
        key = key.repeat_interleave(H // G, dim=1)
        value = value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        scores = scores.masked_fill(later, -math.inf)
        weights = scores.softmax(dim=-1, dtype=torch.float32)
        context = (weights.to(value.dtype) @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "turns the new keys before it caches them, and takes those of the past as turned",
    breaks="The cache holds G heads of keys and values, as the projections make them:"
    " not repeated, and not turned.",
    name="turned keys in the cache",
    subtle=False,
)
class W9(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        P = 0 if past is None else past.key.shape[2]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key, P)
        cache = KeyValue(key, value)
        if past is not None:
            cache = past.extend(cache)
        key = cache.key.repeat_interleave(H // G, dim=1)
        value = cache.value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache


@wrong(
    "turns the keys of the past in their own place; all it returns is right",
    breaks="It stays as it is.",
    name="past turned in place",
    subtle=True,
)
class W10(nn.Module):
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
        H, G, T = self.num_heads, self.num_key_heads, x.shape[1]
        P = 0 if past is None else past.key.shape[2]
        query = self.query_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
        key = self.key_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        value = self.value_proj(x).unflatten(-1, (G, -1)).transpose(1, 2)
        new = KeyValue(key, value)
        cache = new if past is None else past.extend(new)
        if self.positions is not None:
            query, key = self.positions(query, P), self.positions(key, P)
            if past is not None:
                past.key.copy_(self.positions(past.key, 0))
                key = torch.cat((past.key, key), dim=2)
        else:
            key = cache.key
        key = key.repeat_interleave(H // G, dim=1)
        value = cache.value.repeat_interleave(H // G, dim=1)
        scores = query @ key.mT / math.sqrt(self.head_dim)
        later = torch.ones(T, P + T, dtype=torch.bool, device=x.device).triu(P + 1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(2)
        return self.output_proj(context), weights, cache
