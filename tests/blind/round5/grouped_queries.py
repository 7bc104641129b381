import torch
from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from blind import right, wrong
from torch import nn


class Base(nn.Module):
    def __init__(self, dim, num_heads, num_key_heads, positions=None):
        super().__init__()
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_dim = dim // num_heads
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.value_proj = nn.Linear(dim, num_key_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)
        self.positions = positions

    def split(self, x, heads):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def turned(self, query, key, before):
        if self.positions is None:
            return query, key
        return self.positions(query, before), self.positions(key, 0)

    def repeated(self, x):
        return x.repeat_interleave(self.num_heads // self.num_key_heads, dim=1)

    def allowed(self, before, length, device):
        return causal_mask(before + length, device)[before:]

    def scale(self):
        return self.head_dim**-0.5

    def cache(self, new, past):
        return new if past is None else past.extend(new)

    def projected(self, x):
        return KeyValue(
            self.split(self.key_proj(x), self.num_key_heads),
            self.split(self.value_proj(x), self.num_key_heads),
        )

    def before(self, past):
        return 0 if past is None else past.key.size(2)

    def weigh(self, scores, mask):
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)

    def join(self, context):
        return self.output_proj(context.transpose(1, 2).flatten(2))

    def forward(self, x, past=None):
        query = self.split(self.query_proj(x), self.num_heads)
        seen = self.cache(self.projected(x), past)
        before = self.before(past)
        query, key = self.turned(query, seen.key, before)
        scores = query @ self.repeated(key).mT * self.scale()
        weights = self.weigh(scores, self.allowed(before, x.size(1), x.device))
        return self.join(weights @ self.repeated(seen.value)), weights, seen


@right("step by step")
class R1(Base):
    pass


@right("groups as an axis of their own, nothing repeated")
class R2(Base):
    def forward(self, x, past=None):
        B, T, _ = x.shape
        G, Dh = self.num_key_heads, self.head_dim
        new = KeyValue(
            self.key_proj(x).view(B, T, G, Dh).transpose(1, 2),
            self.value_proj(x).view(B, T, G, Dh).transpose(1, 2),
        )
        seen = new if past is None else past.extend(new)
        P = seen.key.size(2) - T
        q = self.query_proj(x).view(B, T, self.num_heads, Dh).transpose(1, 2)
        k = seen.key
        if self.positions is not None:
            q, k = self.positions(q, P), self.positions(k, 0)
        q = q.reshape(B, G, -1, T, Dh)
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, k) / Dh**0.5
        s = torch.arange(P + T, device=x.device)
        weights = scores.masked_fill(s > s[P:, None], float("-inf")).softmax(-1)
        c = torch.einsum("bgrts,bgsd->bgrtd", weights, seen.value).flatten(1, 2)
        return (
            self.output_proj(c.transpose(1, 2).reshape(B, T, -1)),
            weights.flatten(1, 2),
            seen,
        )


@right("a loop over the heads")
class R3(Base):
    def forward(self, x, past=None):
        seen = self.cache(self.projected(x), past)
        before = self.before(past)
        query = self.split(self.query_proj(x), self.num_heads)
        query, key = self.turned(query, seen.key, before)
        mask = self.allowed(before, x.size(1), x.device)
        contexts, maps = [], []
        for h in range(self.num_heads):
            g = h * self.num_key_heads // self.num_heads
            scores = query[:, h] @ key[:, g].mT / self.head_dim**0.5
            maps.append(scores.masked_fill(~mask, -torch.inf).softmax(-1))
            contexts.append(maps[-1] @ seen.value[:, g])
        return (
            self.output_proj(torch.cat(contexts, -1)),
            torch.stack(maps, 1),
            seen,
        )


@wrong("repeats the row of heads", "g = floor(h G / H)", "repeat for repeat_interleave")
class W1(Base):
    def repeated(self, x):
        return x.repeat(1, self.num_heads // self.num_key_heads, 1, 1)


@wrong(
    "caches turned keys",
    "The cache holds G heads of keys and values, as the projections make them: not repeated, and not turned.",
    "turned keys in the cache",
)
class W2(Base):
    def forward(self, x, past=None):
        query = self.split(self.query_proj(x), self.num_heads)
        new, before = self.projected(x), self.before(past)
        if self.positions is not None:
            query = self.positions(query, before)
            new = KeyValue(self.positions(new.key, before), new.value)
        seen = self.cache(new, past)
        scores = query @ self.repeated(seen.key).mT * self.scale()
        weights = self.weigh(scores, self.allowed(before, x.size(1), x.device))
        return self.join(weights @ self.repeated(seen.value)), weights, seen


@wrong(
    "caches repeated heads",
    "The cache holds G heads of keys and values",
    "repeated heads in the cache",
)
class W3(Base):
    def forward(self, x, past=None):
        context, weights, seen = super().forward(x, past)
        if past is None:
            return context, weights, seen
        return context, weights, KeyValue(*map(self.repeated, (seen.key, seen.value)))


@wrong("no causal mask", "It may attend to nothing after it.", "mask missing")
class W4(Base):
    def weigh(self, scores, mask):
        return scores.softmax(-1)


@wrong(
    "the first rows of the mask",
    "A token may attend to itself and to all tokens before it, those of the past included.",
    "first rows of the mask",
)
class W5(Base):
    def allowed(self, before, length, device):
        return causal_mask(before + length, device)[:length]


@wrong("scale of the whole width", "sqrt(Dh)", "scale of D")
class W6(Base):
    def scale(self):
        return (self.head_dim * self.num_heads) ** -0.5


@wrong(
    "queries always from position 0",
    "queries at the positions from P on",
    "past of the queries ignored",
)
class W7(Base):
    def turned(self, query, key, before):
        return super().turned(query, key, 0)


@wrong(
    "turns values as well",
    "Values are not turned.",
    "values turned",
)
class W8(Base):
    def forward(self, x, past=None):
        query = self.split(self.query_proj(x), self.num_heads)
        seen = self.cache(self.projected(x), past)
        before = self.before(past)
        value = seen.value
        if self.positions is not None:
            value = self.positions(value, 0)
        query, key = self.turned(query, seen.key, before)
        scores = query @ self.repeated(key).mT * self.scale()
        weights = self.weigh(scores, self.allowed(before, x.size(1), x.device))
        return self.join(weights @ self.repeated(value)), weights, seen


@wrong(
    "view without bringing the heads back",
    "The contexts of all heads are concatenated",
    "heads mixed with tokens",
)
class W9(Base):
    def join(self, context):
        b, h, t, d = context.shape
        return self.output_proj(context.reshape(b, t, h * d))


@wrong(
    "splits the projection by tokens",
    "whose outputs hold the heads side by side",
    "view for split",
)
class W10(Base):
    def split(self, x, heads):
        return x.reshape(x.size(0), heads, x.size(1), -1)


@wrong(
    "masks by zeroing the weights",
    "softmax over the allowed keys",
    "mask after the softmax",
)
class W11(Base):
    def weigh(self, scores, mask):
        return scores.softmax(-1) * mask


@wrong(
    "fills with -1e4",
    "It may attend to nothing after it. ... for large numbers as for small ones",
    "finite fill",
)
class W12(Base):
    def weigh(self, scores, mask):
        return scores.masked_fill(~mask, -1e4).softmax(-1)


@wrong(
    "returns only the new keys and values",
    "the KeyValue of all P + T tokens",
    "cache of the new tokens",
)
class W13(Base):
    def forward(self, x, past=None):
        context, weights, seen = super().forward(x, past)
        return context, weights, KeyValue(*(c[:, :, -x.size(1) :] for c in seen))


@wrong(
    "weights of the key heads alone",
    "weights (B, H, T, P + T)",
    "weights averaged in groups",
)
class W14(Base):
    def forward(self, x, past=None):
        context, weights, seen = super().forward(x, past)
        grouped = weights.unflatten(1, (self.num_key_heads, -1)).mean(2)
        return context, grouped, seen


@wrong(
    "may not attend to itself from the second token on",
    "A token may attend to itself and to all tokens before it",
    "itself forbidden",
)
class W15(Base):
    def allowed(self, before, length, device):
        mask = causal_mask(before + length, device).clone()
        mask[1:] &= ~torch.eye(before + length, dtype=torch.bool, device=device)[1:]
        return mask[before:]


@wrong(
    "keys and values exchanged in the cache",
    "The cache holds ... keys and values",
    "key and value exchanged",
)
class W16(Base):
    def forward(self, x, past=None):
        past = None if past is None else KeyValue(past.value, past.key)
        context, weights, seen = super().forward(x, past)
        return context, weights, KeyValue(seen.value, seen.key)


@wrong(
    "keeps the cache in itself",
    "past is the cache that was returned for the P tokens before x",
    "cache as an attribute",
)
class W17(Base):
    kept = None

    def forward(self, x, past=None):
        past = self.kept if past is not None and self.kept is not None else past
        context, weights, self.kept = super().forward(x, past)
        return context, weights, self.kept


@wrong(
    "turns before the heads are split, with the wide vector",
    "Queries and keys are turned by self.positions ... of width Dh",
    "only head 0 turned",
)
class W18(Base):
    def turned(self, query, key, before):
        if self.positions is None:
            return query, key
        query, key = query.clone(), key.clone()
        query[:, :1] = self.positions(query[:, :1], before)
        key[:, :1] = self.positions(key[:, :1], 0)
        return query, key
