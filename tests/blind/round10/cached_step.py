import functools

import torch
from attention_course.attention import MultiHeadAttention
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)
from blind import right, wrong
from torch import nn


def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


class DecoderBlock(nn.Module):
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
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@right(
    'takes the T tokens one after the other, each with the cache that the one before left'
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
        columns = []
        for column in token.split(1, dim=1):
            past = 0 if cache[0] is None else cache[0].key.shape[2]
            row = causal_mask(past + 1, token.device)[past:]
            x = self.embedding(column, past)
            entries = []
            for block, source, entry in zip(self.blocks, memory.layers, cache):
                x, _, entry = block(x, source, row, memory.mask, entry)
                entries.append(entry)
            cache = tuple(entries)
            columns.append(self.head(self.norm(x)))
        return torch.cat(columns, dim=1), None, cache


@right(
    'glues the rows of the mask together: T x P times True on the left, causal_mask(T) on the right'
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
        T = token.size(1)
        P = cache[0].value.size(-2) if cache[0] is not None else 0
        now = causal_mask(T, token.device)
        mask = torch.cat([now.new_ones(T, P), now], dim=1)
        states = self.embedding(token, P)
        following = [None] * len(self.blocks)
        for i, block in enumerate(self.blocks):
            states, _, following[i] = block(
                x=states,
                source=memory.layers[i],
                mask=mask,
                source_mask=memory.mask,
                past=cache[i],
                need_weights=False,
            )
        return self.head(self.norm(states)), None, tuple(following)


@right(
    'functools.reduce over the blocks, with the states and the entries so far as the running value'
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
        P = next((kv.key.size(2) for kv in cache if kv is not None), 0)
        mask = causal_mask(P + token.size(1), token.device)[P:, :]

        def through(so_far, layer):
            x, entries = so_far
            block, source, past = layer
            x, _, entry = block(x, source, mask, memory.mask, past)
            return x, (*entries, entry)

        layers = zip(self.blocks, memory.layers, cache)
        x, entries = functools.reduce(through, layers, (self.embedding(token, P), ()))
        return self.head(self.norm(x)), None, entries


@right(
    'extra default argument, recursion over the layers, and the last T rows of the mask by a negative index'
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

    def step(self, token, memory, cache=None):
        if cache is None:
            cache = self.start(memory)
        B, T = token.shape
        P = 0 if cache[0] is None else cache[0].key.size(2)
        rows = causal_mask(P + T, device=token.device)[-T:]

        def climb(layer, x):
            if layer == len(self.blocks):
                return x, ()
            x, _, mine = self.blocks[layer](
                x, memory.layers[layer], rows, memory.mask, cache[layer]
            )
            top, others = climb(layer + 1, x)
            return top, (mine,) + others

        states, cache = climb(0, self.embedding(token, P))
        return self.head(self.norm(states)), None, cache


@wrong(
    'the positions of the new tokens always count from 0: wrong in every step that has a past',
    '`self.embedding(token, past)` embeds the tokens and adds positions that count from `past`. Use P as `past`.',
    'Positions start again at 0',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, 0)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'takes the first T rows of the causal mask instead of the last T: right without a past, wrong with one',
    'The new tokens are the last T of P + T tokens. Which T rows of the causal mask belong to them?',
    'First rows of the mask instead of the last',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[:T]
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'forgets the last norm before the head; wrong for nearly every input',
    'Now you write the decoder, too: embed the tokens, apply all blocks, then apply the norm and the head.',
    'Last norm forgotten',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(x), None, tuple(entries)


@wrong(
    'uses no mask as soon as there is a past: right for one new token, but if two or more come after a past, they see later ones',
    'It must work for one token and for many, at the beginning of a target and later.',
    'No mask when there is a past',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = None
        if P == 0:
            mask = causal_mask(T, token.device)
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'returns the next cache as a list, not as a tuple, in every call',
    'It is a tuple with one entry per block: None at the start, and later the `KeyValue` that the block returned.',
    'Cache is a list',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, entries


@wrong(
    'does not pass the mask of the source on, so the padding of shorter sources is attended to',
    'memory: has `layers`, a `KeyValue` of the source for each block, and `mask` (B, 1, S).',
    'Mask of the source forgotten',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, past=past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'makes the mask on the default device: right on the CPU, an error or a wrong device on a GPU',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    "Mask not on the tokens' device",
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T)[P:]
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "gives all blocks the first block's keys and values of the source: right for one layer, wrong for more",
    '`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source.',
    "All blocks read the first block's source",
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        entries = []
        source = memory.layers[0]
        for block, past in zip(self.blocks, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'counts the earlier tokens in an attribute that `start` sets to 0: wrong when two targets are written in turns, when an old cache is used again, or for a cache from another decoder',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'P counted in the object, not read from the cache',
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
        self.written = 0
        return (None,) * len(self.blocks)

    def decode(self, target, memory):
        # one long step
        logits, weights, _ = self.step(target, memory, self.start(memory))
        return logits, weights

    def step(self, token, memory, cache):
        P, T = self.written, token.size(1)
        self.written += T
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        entries = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'keeps the entries of the cache in the reverse order of the blocks, and reads them so, too: consistent with itself, but entry i is not that of block i; wrong with two or more layers for a cache of the right order',
    "cache: a tuple with one entry per block: None, or the block's `KeyValue` of the P earlier tokens.",
    'Entries of the cache in reverse order',
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
        P = 0 if cache[0] is None else cache[0].key.size(2)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        entries = []
        layers = zip(self.blocks, memory.layers, reversed(cache))
        for block, source, past in layers:
            x, _, entry = block(x, source, mask, memory.mask, past)
            entries.insert(0, entry)
        return self.head(self.norm(x)), None, tuple(entries)
