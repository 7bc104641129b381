import functools

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import (
    FeedForward,
    Residual,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerMemory,
)
from blind import right, wrong


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
        y = self.around_self.before(x)
        seen = self.self_attention.remember(y, y)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(y, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@right("the mask by comparing positions; an index loop over the blocks")
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
        every = torch.arange(P + T, device=token.device)
        mask = every <= every[P:, None]
        x, later = self.embedding(token, P), ()
        for i in range(len(self.blocks)):
            x, _, seen = self.blocks[i](
                x, memory.layers[i], mask=mask, source_mask=memory.mask, past=cache[i]
            )
            later = later + (seen,)
        logits = F.linear(self.norm(x), self.head.weight, self.head.bias)
        return logits, None, later


@right("functools.reduce over the blocks; a mask from triu with a shifted diagonal")
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
        P = next((entry.key.shape[-2] for entry in cache if entry is not None), 0)
        T = token.shape[-1]
        ahead = torch.ones(T, P + T, dtype=torch.bool, device=token.device).triu(P + 1)

        def through(state, layer):
            x, seen = state
            block, source, past = layer
            x, _, entry = block(x, source, ~ahead, memory.mask, past, need_weights=False)
            return x, (*seen, entry)

        layers = zip(self.blocks, memory.layers, cache, strict=True)
        x, seen = functools.reduce(through, layers, (self.embedding(token, P), ()))
        return self.head(self.norm(x)), None, seen


@right("a causal mask of the new tokens with columns of True in front; recursion over the blocks")
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
        old = torch.ones(T, P, dtype=torch.bool, device=token.device)
        mask = torch.cat([old, causal_mask(T, token.device)], dim=1)

        def rise(x, level):
            if level == len(self.blocks):
                return x, ()
            x, _, entry = self.blocks[level](
                x, memory.layers[level], mask, memory.mask, cache[level]
            )
            x, above = rise(x, level + 1)
            return x, (entry, *above)

        x, entries = rise(self.embedding(token, P), 0)
        return self.head(self.norm(x)), None, entries


@right("a mask made by tril(diagonal=P) of integers; the results of the blocks in a list filled in place")
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
        B, T = token.shape
        P = cache[-1].key.size(2) if cache[-1] is not None else 0
        mask = token.new_ones((T, P + T)).tril(diagonal=P).bool()
        entries = [None] * len(cache)
        states = self.embedding(token, P)
        for level, block in enumerate(self.blocks):
            states, unused, entries[level] = block(
                states,
                memory.layers[level],
                mask,
                memory.mask,
                past=cache[level],
            )
        return self.head(self.norm(states)), None, tuple(entries)


@wrong(
    'embeds the new tokens without past, so a later step counts its positions from 0 again',
    '`self.embedding(token, past)` embeds the tokens and adds positions that count from `past`.',
    'positions start at 0 in every step',
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
        x = self.embedding(token)
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'applies the head to the output of the last block and forgets the last norm',
    'Now you write the decoder, too: embed the tokens, apply all blocks, then apply the norm and the head.',
    'the last norm is missing',
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
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(x), None, tuple(new_cache)


@wrong(
    'takes the first T rows of the causal mask: right for P = 0, but later the new tokens see only the beginning of the target',
    'The new tokens are the last T of P + T tokens.',
    'takes the wrong rows of the mask',
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
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'makes the mask for the T new tokens only, (T, T); right for P = 0, and for T = 1, where (1, 1) is broadcast, but several tokens after a past raise',
    'It must work for one token and for many, at the beginning of a target and later.',
    'the mask has no columns for the past',
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
        mask = causal_mask(T, token.device)
        x = self.embedding(token, P)
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'drops the mask as soon as there is a past, because one token may see everything before it; several tokens after a past look ahead',
    'No position attends to a later one, so nothing that was computed for a position ever changes.',
    'no mask after the first step',
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
        mask = causal_mask(T, token.device) if P == 0 else None
        x = self.embedding(token, P)
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'makes the mask on the CPU; tokens on a GPU then raise or meet a mask on another device',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'the mask is on the wrong device',
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
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'does not pass the mask of the source to the blocks; sentences with padding in their source attend to it',
    '`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source.',
    'the source mask is not passed',
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
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, past=past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    "gives the first block's keys and values of the source to all blocks; right for one block",
    '`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source.',
    'all blocks read layer 0 of the memory',
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
        new_cache = []
        for block, past in zip(self.blocks, cache):
            x, _, seen = block(x, memory.layers[0], mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'counts the earlier tokens in the object instead of reading P off the cache; steps with another cache in between (two targets by turns, or a return to an older cache) get wrong positions and masks',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'P is counted in the object',
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
        self.seen = 0

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
            self.seen = 0
        P, self.seen = self.seen, self.seen + token.size(1)
        T = token.size(1)
        mask = causal_mask(P + T, token.device)[P:]
        x = self.embedding(token, P)
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)


@wrong(
    'keeps the mask for each T and slices it for a shorter past: after a call with T tokens and a long past, a call with the same T and a shorter past gets rows that allow later tokens',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'a mask kept from an earlier call',
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
        self.kept = {}

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
        if T not in self.kept or self.kept[T].size(1) < P + T:
            self.kept[T] = causal_mask(P + T, token.device)[P:]
        mask = self.kept[T][:, : P + T]
        x = self.embedding(token, P)
        new_cache = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, past)
            new_cache.append(seen)
        return self.head(self.norm(x)), None, tuple(new_cache)
