import torch
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.masks import causal_mask
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)
from blind import right, wrong

POSITIONS = "`self.embedding(token, past)` embeds the tokens and adds positions that count from `past`. Use P as `past`."
ROWS = "The new tokens are the last T of P + T tokens."
ONE_OR_MANY = "It must work for one token and for many, at the beginning of a target and later."
MEMORY_MASK = "`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source."
CACHE = "It is a tuple with one entry per block."
ENTRY = "Each entry is None at the start, and later it is the `KeyValue` that the block returned."
RETURNS = "Logits (B, T, V), None, and the next cache."
GRADIENTS = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


class Block(nn.Module):
    """My DecoderBlock of section 3."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        added, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, added)
        h = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, added)
        h = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(h))
        return x, weights, memory


class Base(nn.Module):
    """All of the decoder that the notebook gives."""

    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            Block(dim, num_heads, hidden_dim) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab_size)

    def remember(self, encoded):
        layers = [
            block.cross_attention.remember(encoded.states, encoded.states)
            for block in self.blocks
        ]
        return TransformerMemory(tuple(layers), encoded.mask)

    def start(self, memory):
        return (None,) * len(self.blocks)

    def decode(self, target, memory):
        # one long step
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights


def earlier(cache):
    return 0 if cache[0] is None else cache[0].key.size(2)


# ---------------------------------------------------------------- right answers


@right("a rectangle of ones whose lower triangle starts P columns later")
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        allowed = torch.ones(T, P + T, dtype=torch.bool, device=token.device).tril(P)
        x, entries = self.embedding(token, P), ()
        for i, block in enumerate(self.blocks):
            x, _, entry = block(x, memory.layers[i], allowed, memory.mask, cache[i])
            entries += (entry,)
        return self.head(self.norm(x)), None, entries


@right("compares positions, reads P off the last value, calls with keywords")
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P = 0 if cache[-1] is None else cache[-1].value.shape[-2]
        here = torch.arange(token.shape[1], device=token.device) + P
        there = torch.arange(P + token.shape[1], device=token.device)
        x = self.embedding(token, past=P)
        following = list(cache)
        for i, (block, source) in enumerate(zip(self.blocks, memory.layers)):
            x, _, following[i] = block(
                x=x,
                source=source,
                past=cache[i],
                source_mask=memory.mask,
                mask=there <= here[:, None],
            )
        return self.head(self.norm(x)), None, tuple(following)


@right("goes through the blocks by recursion")
class TransformerDecoder(Base):
    def climb(self, x, floor, mask, memory, cache):
        if floor == len(self.blocks):
            return x, ()
        x, _, entry = self.blocks[floor](
            x, memory.layers[floor], mask, memory.mask, cache[floor]
        )
        x, above = self.climb(x, floor + 1, mask, memory, cache)
        return x, (entry, *above)

    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        rows = causal_mask(P + T, token.device).narrow(0, P, T)
        x, entries = self.climb(self.embedding(token, P), 0, rows, memory, cache)
        return self.head(self.norm(x)), None, entries


@right("puts an old part and a new part of the mask side by side")
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        old = torch.ones(T, P, dtype=torch.bool, device=token.device)
        mask = torch.cat([old, causal_mask(T, token.device)], dim=1)
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past, False)
            entries.append(entry)
        logits = nn.functional.linear(
            self.norm(x), self.head.weight, self.head.bias
        )
        return logits, None, tuple(entries)


# ---------------------------------------------------------------- wrong answers


@wrong(
    "always embeds with positions from 0",
    breaks=POSITIONS,
    name="past is not passed to the embedding",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong("takes the first T rows of the mask", breaks=ROWS, name="wrong rows")
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[:T]
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "gives every block the source of the first one",
    breaks="A loop over `zip(self.blocks, memory.layers, cache)` gives every block its own source and its own entry of the cache.",
    name="memory.layers[0] everywhere",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token, P), []
        for block, past in zip(self.blocks, cache):
            x, _, entry = block(x, memory.layers[0], mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "returns the logits after the last token only",
    breaks=RETURNS,
    name="(B, 1, V) for every T",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x[:, -1:])), None, tuple(entries)


@wrong(
    "uses the causal mask at the start only, because later 'there is one token'",
    breaks=ONE_OR_MANY,
    name="no mask when P > 0",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P = earlier(cache)
        mask = causal_mask(token.size(1), token.device) if P == 0 else None
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "counts the tokens in the object instead of reading P off the cache",
    breaks=CALLS,
    name="two sentences that take turns disturb each other",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        if cache[0] is None:
            self.read = 0
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token, self.read), []
        self.read += T
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "passes the mask of the source only to the first step",
    breaks=MEMORY_MASK,
    name="later steps attend to padding",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        source_mask = memory.mask if P == 0 else None
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, source_mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "detaches the entries of the next cache",
    breaks=GRADIENTS,
    name="later logits have no gradient to earlier tokens",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(KeyValue(entry.key.detach(), entry.value.detach()))
        return self.head(self.norm(x)), None, tuple(entries)


@wrong("returns the next cache as a list", breaks=CACHE, name="list, not tuple")
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, entries


@wrong(
    "keeps the keys and values of the last 256 tokens only",
    breaks=ENTRY,
    name="a cache that forgets, and with it the position",
)
class TransformerDecoder(Base):
    def step(self, token, memory, cache):
        P, T = earlier(cache), token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x, entries = self.embedding(token, P), []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(KeyValue(*(part[:, :, -256:] for part in entry)))
        return self.head(self.norm(x)), None, tuple(entries)
