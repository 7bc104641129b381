import functools

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.masks import causal_mask
from attention_course.models import decoder_block as DecoderBlock
from attention_course.transformer import (
    FeedForward,
    Residual,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerMemory,
)

from blind import right, wrong

POSITIONS = "Use P as `past`."
NORM = "Now you write the decoder, too: embed the tokens, apply all blocks, then apply the norm and the head."
SOURCE = "`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source."
ROWS = "Give the blocks only these rows, (T, P + T)."
LAST = "The new tokens are the last T of P + T tokens."
MANY = "It must work for one token and for many, at the beginning of a target and later."
DEVICE = "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU."
EARLIER = "The result of a call must not depend on earlier calls or on other objects of the same class."
LOGITS = "Logits (B, T, V), None, and the next cache."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
GRAD = "Gradients must be right, too."


# wrong, plain


@wrong(
    "does not tell the embedding how many tokens came before",
    POSITIONS,
    "positions count from 0 in every step",
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(self.norm(x)), None, tuple(seen)


@wrong(
    "leaves out the norm after the blocks",
    NORM,
    "last norm forgotten",
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(x), None, tuple(seen)


@wrong(
    "does not hand on the mask of the source",
    SOURCE,
    "padding of the source attended to",
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask=mask, past=old)
            seen.append(new)
        return self.head(self.norm(x)), None, tuple(seen)


@wrong(
    "takes the first T rows of the causal mask in place of the last ones",
    LAST,
    "wrong rows of the mask",
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[: token.size(1)]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(self.norm(x)), None, tuple(seen)


# wrong, subtle


@wrong(
    "no mask once there is a past, as if only one token could come then",
    MANY,
    "several tokens after a past see each other's future",
    subtle=True,
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
            past, mask = 0, causal_mask(token.size(1), token.device)
        else:
            past, mask = cache[0].key.size(2), None
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(self.norm(x)), None, tuple(seen)


@wrong(
    "makes the causal mask on the CPU, wherever the tokens are",
    DEVICE,
    "mask on the wrong device",
    subtle=True,
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1))[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(self.norm(x)), None, tuple(seen)


@wrong(
    "counts the tokens in the decoder itself: two texts written in turns disturb each other",
    EARLIER,
    "P counted from earlier calls",
    subtle=True,
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
        past = self.written
        self.written += token.size(1)
        mask = causal_mask(self.written, token.device)[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(self.norm(x)), None, tuple(seen)


@wrong(
    "returns the logits of the last token only once there is a past",
    LOGITS,
    "logits of the last token only",
    subtle=True,
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        if past:
            x = x[:, -1:]  # only the next token is of interest
        return self.head(self.norm(x)), None, tuple(seen)


@wrong(
    "returns the logits in float32, whatever the dtype of the decoder",
    DTYPE,
    "logits always float32",
    subtle=True,
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(new)
        return self.head(self.norm(x)).float(), None, tuple(seen)


@wrong(
    "detaches the next cache, so that no gradient reaches the earlier tokens",
    GRAD,
    "cache detached",
    subtle=True,
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x = self.embedding(token, past)
        seen = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            seen.append(KeyValue(new.key.detach(), new.value.detach()))
        return self.head(self.norm(x)), None, tuple(seen)


# right


@right("takes the new tokens one at a time, each with the cache of the one before")
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        all_logits = []
        for t in range(token.size(1)):
            mask = causal_mask(past + t + 1, token.device)[past + t :]
            x = self.embedding(token[:, t : t + 1], past + t)
            entries = ()
            for i, block in enumerate(self.blocks):
                x, _, entry = block(x, memory.layers[i], mask, memory.mask, cache[i])
                entries += (entry,)
            cache = entries
            all_logits.append(self.head(self.norm(x)))
        return torch.cat(all_logits, dim=1), None, cache


@right("a mask for each sentence, narrow, and blocks chained by reduce")
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
        batch, size = token.shape
        past = next((entry.key.shape[-2] for entry in cache if entry is not None), 0)
        mask = causal_mask(past + size, token.device).narrow(0, past, size)
        mask = mask.expand(batch, size, past + size)

        def one(done, parts):
            x, entries = done
            block, source, old = parts
            x, _, entry = block(
                x, source, past=old, source_mask=memory.mask, mask=mask
            )
            return x, (*entries, entry)

        x, entries = functools.reduce(
            one, zip(self.blocks, memory.layers, cache), (self.embedding(token, past), ())
        )
        return self.head(self.norm(x)), None, entries


@right("the last rows by negative index, the head as a product in float64")
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
        size = token.size(1)
        before = 0
        if cache[0] is not None:
            before = cache[0].value.size(2)
        mask = causal_mask(before + size, device=token.device)[-size:]
        x = self.embedding(token, before)
        new_cache = [None] * len(self.blocks)
        for i in range(len(self.blocks)):
            x, _, new_cache[i] = self.blocks[i](
                x, memory.layers[i], mask, memory.mask, cache[i], need_weights=False
            )
        states = self.norm(x).double()
        logits = torch.einsum("btd,vd->btv", states, self.head.weight.double())
        logits = (logits + self.head.bias.double()).to(x.dtype)
        return logits, None, tuple(new_cache)


@right("a recursion over the blocks, which asks for weights and throws them away")
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

    def climb(self, level, x, memory, cache, mask):
        if level == len(self.blocks):
            return self.head(self.norm(x)), ()
        x, _, entry = self.blocks[level](
            x, memory.layers[level], mask, memory.mask, cache[level], True
        )
        logits, above = self.climb(level + 1, x, memory, cache, mask)
        return logits, (entry, *above)

    def step(self, token, memory, cache):
        old = cache[-1]
        past = old.key.size(2) if old is not None else 0
        rows = torch.arange(past, past + token.size(1), device=token.device)
        mask = causal_mask(past + token.size(1), token.device).index_select(0, rows)
        logits, entries = self.climb(0, self.embedding(token, past), memory, cache, mask)
        return logits, None, entries
