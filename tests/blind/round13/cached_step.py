import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.masks import causal_mask
from attention_course.transformer import DecoderBlock as CourseDecoderBlock
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)

from blind import right, wrong


class DecoderBlock(CourseDecoderBlock):
    """The course's own block, made as the notebook makes it."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__(
            MultiHeadAttention(dim, num_heads),
            MultiHeadAttention(dim, num_heads),
            FeedForward(dim, hidden_dim),
            Residual(nn.LayerNorm(dim), dropout, pre_norm),
            Residual(nn.LayerNorm(dim), dropout, pre_norm),
            Residual(nn.LayerNorm(dim), dropout, pre_norm),
        )


# Right answers


@right("reads the T tokens one after the other, even in a long step")
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        logits = []
        for one in token.split(1, dim=1):
            past = 0 if cache[0] is None else cache[0].key.shape[2]
            newest_row = causal_mask(past + 1, token.device)[past:]
            x, later = self.embedding(one, past), []
            for block, source, seen in zip(self.blocks, memory.layers, cache):
                x, _, seen = block(x, source, newest_row, memory.mask, seen)
                later.append(seen)
            logits.append(self.head(self.norm(x)))
            cache = tuple(later)
        return torch.cat(logits, dim=1), None, cache


@right("goes through the blocks by recursion, and asks for weights that it drops")
class TransformerDecoder(nn.Module):
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

    def climb(self, x, mask, memory, cache):
        level = len(self.blocks) - len(cache)
        if not cache:
            return x, ()
        x, _, seen = self.blocks[level](
            x,
            memory.layers[level],
            mask=mask,
            source_mask=memory.mask,
            past=cache[0],
            need_weights=True,
        )
        x, above = self.climb(x, mask, memory, cache[1:])
        return x, (seen, *above)

    def step(self, token, memory, cache):
        new = token.size(1)
        past = max(0 if seen is None else seen.value.size(-2) for seen in cache)
        mask = causal_mask(past + new, token.device)[-new:]
        x, cache = self.climb(self.embedding(token, past), mask, memory, cache)
        return self.head(self.norm(x)), None, cache


@right("cuts the rows of the mask with narrow, one mask for each sentence of the batch")
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        batch, new = token.shape
        past = sum(seen.key.size(2) for seen in cache[:1] if seen is not None)
        mask = causal_mask(past + new, token.device).narrow(0, past, new)
        mask = mask.unsqueeze(0).repeat(batch, 1, 1)  # (B, T, P + T)
        source_mask = memory.mask.expand(-1, new, -1)
        x, cache = self.embedding(token, past), list(cache)
        for layer in range(len(cache)):
            block, source = self.blocks[layer], memory.layers[layer]
            x, _, cache[layer] = block(x, source, mask, source_mask, cache[layer])
        logits = nn.functional.linear(self.norm(x), self.head.weight, self.head.bias)
        return logits, None, tuple(cache)


@right("halves long inputs again and again, and each piece extends the cache")
class TransformerDecoder(nn.Module):
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

    longest = 3

    def step(self, token, memory, cache):
        if token.size(1) > self.longest:
            first, rest = token.tensor_split(2, dim=1)
            one, _, cache = self.step(first, memory, cache)
            other, _, cache = self.step(rest, memory, cache)
            return torch.cat([one, other], dim=1), None, cache
        past = cache[0].key.size(2) if cache[0] is not None else 0
        rows = torch.arange(past, past + token.size(1), device=token.device)
        mask = causal_mask(past + token.size(1), token.device).index_select(0, rows)
        x = self.embedding(token, past)
        after = ()
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen, False)
            after += (seen,)
        return self.head(self.norm(x)), None, after


# Wrong answers


@wrong(
    "embeds the new tokens as if they were the first: their positions count from 0",
    "`self.embedding(token, past)` embeds the tokens and adds positions that count from "
    "`past`. Use P as `past`.",
    "positions do not count the past",
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "takes the first T rows of the mask instead of the last: new tokens do not see the "
    "newest tokens, nor themselves",
    "The new tokens are the last T of P + T tokens.",
    "the wrong rows of the mask",
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[: token.size(1)]
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "gives all blocks the source of the first block",
    "`memory.layers` holds the `KeyValue` of the source for each block, and "
    "`memory.mask` is the mask of the source.",
    "all blocks look at the first block's source",
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        next_cache = []
        for block, seen in zip(self.blocks, cache):
            x, _, seen = block(x, memory.layers[0], mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "gives the states of the last block to the head without the norm",
    "Now you write the decoder, too: embed the tokens, apply all blocks, then apply the "
    "norm and the head.",
    "the last norm is missing",
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(x), None, tuple(next_cache)


@wrong(
    "makes the mask (T, T) of the new tokens alone: right for one token, and for many at "
    "the beginning, but several tokens after a past do not fit",
    "It must work for one token and for many, at the beginning of a target and later.",
    "the mask knows nothing of the past",
    subtle=True,
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(token.size(1), token.device)
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "drops the mask as soon as there is a cache, so that several new tokens see each "
    "other's future",
    "Give the blocks only these rows, (T, P + T).",
    "no mask after a past",
    subtle=True,
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = None
        if past == 0:
            mask = causal_mask(token.size(1), token.device)
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "returns the next cache as a list",
    "It is a tuple with one entry per block.",
    "the cache is a list",
    subtle=True,
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, next_cache


@wrong(
    "counts the past in the decoder: wrong where two texts are written by turns, or "
    "where an older cache is used again",
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class.",
    "a counter in the decoder instead of the length of the cache",
    subtle=True,
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        if cache[0] is None:
            self.written = 0
        past = self.written
        self.written = past + token.size(1)
        # row i belongs to the i-th of the new tokens
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "detaches what it puts into the cache: a later step sends no gradient back to the "
    "tokens before it",
    "Gradients must be right, too.",
    "the cache is detached",
    subtle=True,
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(type(seen)(seen.key.detach(), seen.value.detach()))
        return self.head(self.norm(x)), None, tuple(next_cache)


@wrong(
    "with a cache, reads only the last of the tokens that it is given, as if it were "
    "called for one token at a time",
    "The decoder's method `step` takes T tokens that come after P earlier tokens.",
    "only the last token is read when there is a cache",
    subtle=True,
)
class TransformerDecoder(nn.Module):
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

    def step(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.size(2)
        if past > 0:
            token = token[:, -1:]
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        next_cache = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            next_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(next_cache)
