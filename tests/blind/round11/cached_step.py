import functools

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)

from blind import right, wrong


# The answers of sections 1 and 3, which this section uses.
def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@right('functools.reduce over the blocks, which carries states and cache along')
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = sum(entry.key.shape[2] for entry in cache[:1] if entry is not None)
        mask = causal_mask(past + token.shape[1], token.device)[-token.shape[1] :]

        def through(carried, layer):
            states, entries = carried
            block, source, entry = layer
            states, _, entry = block(states, source, mask, memory.mask, entry)
            return states, (*entries, entry)

        layers = zip(self.blocks, memory.layers, cache)
        begin = (self.embedding(token, past), ())
        states, entries = functools.reduce(through, layers, begin)
        return self.head(self.norm(states)), None, entries


@right('own helpers for the past and for the mask; index loop; keywords')
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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

    @staticmethod
    def _past(cache):
        first = cache[0]
        return first.key.size(-2) if first is not None else 0

    def _rows(self, past, new, device):
        return causal_mask(past + new, device=device).narrow(0, past, new)

    def step(self, token, memory, cache):
        past = self._past(cache)
        x = self.embedding(token, past)
        rows = self._rows(past, token.shape[1], x.device)
        following = list(cache)
        for i in range(len(self.blocks)):
            x, _, following[i] = self.blocks[i](
                x=x,
                source=memory.layers[i],
                mask=rows,
                source_mask=memory.mask,
                past=cache[i],
                need_weights=False,
            )
        return self.head(self.norm(x)), None, tuple(following)


@right('a mask for every sentence, weights that are computed and dropped, functional norm and head')
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        count, new = token.shape
        past = 0
        if cache[-1] is not None:
            past = cache[-1].key.shape[2]
        _, mask = causal_mask(past + new, token.device).split([past, new])
        mask = mask.unsqueeze(0).expand(count, new, past + new)
        x = self.embedding(token, past)
        entries = ()
        for number, block in enumerate(self.blocks):
            x, weights, entry = block(
                x, memory.layers[number], mask, memory.mask, cache[number], True
            )
            entries += (entry,)
        x = F.layer_norm(
            x, self.norm.normalized_shape, self.norm.weight, self.norm.bias, self.norm.eps
        )
        return F.linear(x, self.head.weight, self.head.bias), None, entries


@right('recursion over the blocks')
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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

    def _from(self, number, x, memory, mask, cache):
        if number == len(self.blocks):
            return x, ()
        x, _, entry = self.blocks[number](
            x, memory.layers[number], mask, memory.mask, past=cache[number]
        )
        x, rest = self._from(number + 1, x, memory, mask, cache)
        return x, (entry, *rest)

    def step(self, token, memory, cache):
        new = token.shape[1]
        total = new if cache[0] is None else new + cache[0].key.shape[2]
        mask = causal_mask(total, token.device)
        mask = mask.index_select(0, torch.arange(total - new, total, device=mask.device))
        embedded = self.embedding(token, total - new)
        x, entries = self._from(0, embedded, memory, mask, cache)
        return self.head(self.norm(x)), None, entries


@wrong(
    'counts the positions of each step from 0',
    'Use P as `past`.',
    'positions start again at 0 in every step',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[past:]
        x = self.embedding(token, 0)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'takes the first T rows of the causal mask instead of the last T',
    'The new tokens are the last T of P + T tokens.',
    'wrong rows of the causal mask',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[:new]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'forgets the mask of the source',
    '`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source.',
    'source mask forgotten',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, past=entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "gives all blocks the first block's KeyValue of the source",
    'A loop over `zip(self.blocks, memory.layers, cache)` gives every block its own source and its own entry of the cache.',
    'one source KeyValue for all blocks',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        source = memory.layers[0]
        for block, entry in zip(self.blocks, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'returns the logits of the last position only, which is all that greedy decoding needs',
    'Logits (B, T, V), None, and the next cache.',
    'logits of the last position only',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x[:, -1:])), None, tuple(entries)


@wrong(
    'returns float32 logits whatever the dtype of the parameters',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'logits cast to float32',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        logits = self.head(self.norm(x)).float()
        return logits, None, tuple(entries)


@wrong(
    'makes the causal mask on the default device',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'mask on the wrong device',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'gives the blocks a mask (T, T) of the new positions: right without a past, and by broadcasting for a single token, but not for several tokens after a past',
    'Give the blocks only these rows, (T, P + T).',
    'mask without the columns of the past',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(new, token.device)
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "counts the past in an attribute instead of reading it off the cache, so two targets that are written in turns get each other's positions",
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'number of past positions kept in the decoder',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past, new = self.written, token.shape[1]
        x = self.embedding(token, past)
        self.written += new
        total = new if cache[0] is None else cache[0].key.shape[2] + new
        mask = causal_mask(total, token.device)[-new:]
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    'returns the next cache as a list',
    'It is a tuple with one entry per block.',
    'cache is a list',
)
class TransformerDecoder(nn.Module):
    """Predict each token from all tokens before it and from the source."""

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
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        new = token.shape[1]
        mask = causal_mask(past + new, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, entries
