import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)
from blind import right, wrong


def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


class DecoderBlock(nn.Module):
    """The student's block of section 3."""

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
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            DecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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


@right("mask from comparing positions, blocks counted by index")
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        queries = torch.arange(past, past + token.shape[1], device=token.device)
        keys = torch.arange(past + token.shape[1], device=token.device)
        mask = keys <= queries[:, None]
        x, grown = self.embedding(token, past), ()
        for i in range(len(self.blocks)):
            x, _, seen = self.blocks[i](
                x, memory.layers[i], mask, memory.mask, past=cache[i]
            )
            grown += (seen,)
        return self.head(self.norm(x)), None, grown


@right("a list for the next cache, the last T rows by a negative slice")
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        T, first = token.size(1), cache[0]
        P = first.value.size(-2) if first is not None else 0
        mask = causal_mask(P + T, token.device)[-T:]
        x = self.embedding(token, P)
        following = list(cache)
        layers = zip(self.blocks, memory.layers, cache, strict=True)
        for i, (block, source, old) in enumerate(layers):
            x, _, following[i] = block(x, source, mask, memory.mask, old, False)
        logits = self.head(self.norm(x))
        return logits, None, tuple(following)


@right("the new tokens one after the other, so that no mask is needed at all")
class TransformerDecoder(Given):
    def one(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, None, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), tuple(after)

    def step(self, token, memory, cache):
        logits = []
        for t in range(token.size(1)):
            row, cache = self.one(token[:, t : t + 1], memory, cache)
            logits.append(row)
        return torch.cat(logits, dim=1), None, cache


@right("recursion over the layers")
class TransformerDecoder(Given):
    def climb(self, x, mask, memory, cache, layer=0):
        if layer == len(self.blocks):
            return x, ()
        x, _, seen = self.blocks[layer](
            x, memory.layers[layer], mask, memory.mask, cache[layer]
        )
        x, above = self.climb(x, mask, memory, cache, layer + 1)
        return x, (seen, *above)

    def step(self, token, memory, cache):
        past = cache[0].key.size(2) if cache[0] else 0
        size = past + token.size(1)
        mask = causal_mask(size, token.device).narrow(0, past, token.size(1))
        x = self.embedding(token, past)
        x, cache = self.climb(x, mask, memory, cache)
        return self.head(self.norm(x)), None, cache


@wrong(
    "the new tokens get the positions from 0 on, whatever came before",
    "`self.embedding(token, past)` embeds tokens and adds the positions from `past` on.",
    "positions ignore the past",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "takes the first T rows of the mask, which belong to the oldest positions; wrong with a past",
    "The new positions are the last T of P + T positions. Which T rows of the causal mask belong to them?",
    "wrong rows of the causal mask",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[: token.size(1)]
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "the last norm is left out",
    "The last piece is this stack: embed, go through all blocks, norm, head.",
    "last norm forgotten",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(x), None, tuple(after)


@wrong(
    "uses the mask only at the beginning: several tokens after a past see each other's future",
    "Your stack has to work for one token and for many, at the beginning of a target and later: `step` takes T tokens that come after P others.",
    "no mask for several tokens after a past",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(token.size(1), token.device) if past == 0 else None
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "returns the logits of the last position only: right for one token, wrong for T > 1",
    "Logits (B, T, V), None, and the next cache.",
    "only the last logits returned",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x[:, -1:])), None, tuple(after)


@wrong(
    "the mask of the source is not passed on: padded sources are read to the end of the rectangle",
    "`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source.",
    "source mask forgotten",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, past=old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "every block asks the first block's source: right for one layer, wrong for more",
    "`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source.",
    "source of the first layer for all",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token, past), []
        for block, old in zip(self.blocks, cache):
            x, _, new = block(x, memory.layers[0], mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "counts the tokens itself instead of reading the cache: right for one target from start to end, wrong when an older cache is used again or two targets take turns",
    "How many tokens came before? You can read it off the keys in the cache, (B, H, P, Dh).",
    "counts the past in the module",
)
class TransformerDecoder(Given):
    count = 0

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else self.count
        self.count = past + token.size(1)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "the past is the size of the keys' axis 1, which is H: right only where as many tokens came before as there are heads",
    "How many tokens came before? You can read it off the keys in the cache, (B, H, P, Dh).",
    "heads counted as the past",
)
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(1)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, after = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            after.append(new)
        return self.head(self.norm(x)), None, tuple(after)


@wrong(
    "keeps the cache in one list that it writes into and returns: the cache of an earlier step, kept by the caller, changes with the next step",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "cache changed in place",
)
class TransformerDecoder(Given):
    def start(self, memory):
        return [None] * len(self.blocks)

    def step(self, token, memory, cache):
        if isinstance(cache, tuple):
            cache = list(cache)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        for i, block in enumerate(self.blocks):
            x, _, cache[i] = block(x, memory.layers[i], mask, memory.mask, cache[i])
        return self.head(self.norm(x)), None, cache
