import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)


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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory
from blind import right, wrong


@right('token by token inside of a step, each with the cache of the one before')
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

    def _one(self, token, memory, cache):
        past = 0 if cache[0] is None else cache[0].key.shape[2]
        x, grown = self.embedding(token, past), ()
        for i, block in enumerate(self.blocks):
            x, _, seen = block(
                x, memory.layers[i], source_mask=memory.mask, past=cache[i]
            )
            grown += (seen,)
        return self.head(self.norm(x)), grown

    def step(self, token, memory, cache):
        logits = []
        for t in range(token.shape[1]):
            row, cache = self._one(token[:, t : t + 1], memory, cache)
            logits.append(row)
        return torch.cat(logits, dim=1), None, cache


@right('the mask is made by comparing positions, loop over indices')
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
        before = cache[0].key.size(-2) if cache[0] is not None else 0
        key_place = torch.arange(before + token.size(1), device=token.device)
        allowed = key_place <= key_place[before:, None]
        x = self.embedding(token, before)
        new = list(cache)
        for i in range(len(self.blocks)):
            x, _, new[i] = self.blocks[i](
                x, memory.layers[i], allowed, memory.mask, cache[i], need_weights=False
            )
        return self.head(self.norm(x)), None, tuple(new)


@right('recursion over the layers')
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

    def _climb(self, i, x, mask, memory, cache):
        if i == len(self.blocks):
            return x, ()
        y, _, seen = self.blocks[i](x, memory.layers[i], mask, memory.mask, cache[i])
        top, above = self._climb(i + 1, y, mask, memory, cache)
        return top, (seen, *above)

    def step(self, token, memory, cache):
        past = max((c.key.size(2) for c in cache if c is not None), default=0)
        size = past + token.size(1)
        mask = causal_mask(size, token.device).narrow(0, past, token.size(1))
        x = self.embedding(token, past)
        x, grown = self._climb(0, x, mask, memory, cache)
        return self.head(self.norm(x)), None, grown


@right('rectangular mask from tril with a shifted diagonal, shaped (1, T, P + T)')
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
        new = token.shape[1]
        first = cache[0]
        old = first.value.shape[-2] if first is not None else 0
        mask = torch.ones(1, new, old + new, dtype=torch.bool, device=token.device)
        mask = mask.tril(diagonal=old)
        x, seen = self.embedding(token, old), []
        layers = iter(memory.layers)
        for past, block in zip(cache, self.blocks):
            result = block(x, next(layers), mask, memory.mask, past=past)
            x = result[0]
            seen.append(result[-1])
        return self.head(self.norm(x)), None, (*seen,)


@wrong(
    'the positions begin at 0 in every step: the second token is embedded as if it were the first',
    '`self.embedding(token, past)` embeds tokens and adds the positions from `past` on.',
    'positions begin anew in each step',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[past:]
        x = self.embedding(token)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    'the last norm is left out',
    'The last piece is this stack: embed, go through all blocks, norm, head.',
    'last norm forgotten',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[past:]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(x), None, tuple(states)


@wrong(
    'no mask at all: right for steps of one token, but in one long step each position sees the later ones',
    'No position attends to anything after it, so what was computed for a position never changes.',
    'causal mask forgotten',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = None
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    'the first T rows of the causal mask instead of the last: the new positions see only the beginning of the past',
    'The new positions are the last T of P + T: which rows of the causal mask are theirs?',
    'first rows of the mask taken',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[:length]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    'the mask is made for the new tokens alone: right without a past and for one token, an error for several tokens after a past',
    'It has to work for one token and for many, at the beginning and later: `step` takes T tokens that come after P others.',
    'mask leaves out the past',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(length, token.device)
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    "the source's mask is not handed on: padding of the source is attended to",
    "`memory.layers` has a source for each block, `memory.mask` is the source's mask.",
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[past:]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, None, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    'returns the logits of the last token only: right for one token',
    'Logits (B, T, V), None, and the next cache.',
    'logits of the last token only',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[past:]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x[:, -1:])), None, tuple(states)


@wrong(
    "every block asks the first block's source: right with one layer",
    "`memory.layers` has a source for each block, `memory.mask` is the source's mask.",
    "first layer's source for all blocks",
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[past:]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers[:1] * len(self.blocks), cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    'the past is counted in the decoder and set back when a text begins: two texts that are written in turns disturb each other, and a step from an older cache gets wrong positions',
    'How many tokens came before? You can read it off the keys in the cache, (B, H, P, Dh).',
    'counts the past in the module',
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
        length = token.size(1)
        if cache[0] is None:
            self.count = 0
        past = self.count
        self.count += length
        size = length + (0 if cache[0] is None else cache[0].key.size(2))
        mask = causal_mask(size, token.device)[-length:]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(seen)
        return self.head(self.norm(x)), None, tuple(states)


@wrong(
    'only the last 64 positions stay in the cache: later tokens do not see the beginning of a long text, and the past is counted too short',
    'a tuple with one entry per block, None at the start, and then what the block returned.',
    'cache cut off after 64 positions',
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
        length = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + length, token.device)[past:]
        x = self.embedding(token, past)
        states = []
        for block, source, seen in zip(self.blocks, memory.layers, cache):
            x, _, seen = block(x, source, mask, memory.mask, seen)
            states.append(type(seen)(seen.key[:, :, -64:], seen.value[:, :, -64:]))
        return self.head(self.norm(x)), None, tuple(states)
