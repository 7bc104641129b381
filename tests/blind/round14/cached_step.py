import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.masks import causal_mask
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)
from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
MANY = (
    "It must work for one token and for many, at the beginning of a target and later."
)
PAST = "Use P as `past`."
ROWS = "Give the blocks only these rows, (T, P + T)."
MEMORY = (
    "`memory.layers` holds the `KeyValue` of the source for each block, and"
    " `memory.mask` is the mask of the source."
)
NORM = (
    "Now you write the decoder, too: embed the tokens, apply all blocks, then apply the"
    " norm and the head."
)
TUPLE = "It is a tuple with one entry per block."
NO_LATER = (
    "No position attends to a later one, so nothing that was computed for a position"
    " ever changes."
)

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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, inner), weights, memory



@right("one token after the other, and the logits concatenated")
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
            past = cache[0].key.shape[2] if cache[0] is not None else 0
            mask = causal_mask(past + 1, token.device)[past:]
            x, entries = self.embedding(one, past), ()
            for i, block in enumerate(self.blocks):
                x, _, entry = block(
                    x, memory.layers[i], mask, memory.mask, past=cache[i]
                )
                entries += (entry,)
            cache = entries
            logits.append(self.head(self.norm(x)))
        return torch.cat(logits, dim=1), None, cache


@right("splits a long piece into two halves and calls itself")
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
        length = token.size(1)
        if length > 4:
            first, _, cache = self.step(token[:, : length // 2], memory, cache)
            second, _, cache = self.step(token[:, length // 2 :], memory, cache)
            return torch.cat([first, second], dim=1), None, cache
        past = 0 if cache[0] is None else cache[0].key.size(2)
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@right("rows of the mask by their numbers, with an axis for the batch; asks for weights")
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
        total = past + token.size(1)
        rows = torch.arange(past, total, device=token.device)
        mask = causal_mask(total, device=token.device).index_select(0, rows)[None]
        states = [self.embedding(token, past)]
        following = {}
        for i in range(len(self.blocks)):
            state, _, following[i] = self.blocks[i](
                x=states.pop(),
                source=memory.layers[i],
                mask=mask,
                source_mask=memory.mask,
                past=cache[i],
                need_weights=True,
            )
            states.append(state)
        logits = [self.head(self.norm(row)) for row in states[0].unbind(1)]
        return torch.stack(logits, dim=1), None, tuple(following.values())


@right("embeds token by token; goes through the blocks by recursion")
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
        past = next((entry.key.size(-2) for entry in cache if entry is not None), 0)
        parts = token.unbind(1)
        x = torch.cat(
            [self.embedding(part[:, None], past + t) for t, part in enumerate(parts)], 1
        )
        rows = causal_mask(past + len(parts), token.device).split([past, len(parts)])[1]

        def climb(x, i):
            if i == len(self.blocks):
                return x, ()
            x, _, entry = self.blocks[i](x, memory.layers[i], rows, memory.mask, cache[i])
            x, rest = climb(x, i + 1)
            return x, (entry, *rest)

        x, following = climb(x, 0)
        return self.head(self.norm(x)), None, following


@wrong(
    "takes the first T rows of the causal mask instead of the last T",
    ROWS,
    "wrong rows of the mask",
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[: token.size(1)]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "counts the positions from 0 in every step",
    PAST,
    "positions start again in each step",
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong("forgets the norm after the blocks", NORM, "last norm is missing")
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(x), None, tuple(entries)


@wrong(
    "does not give the source mask to the blocks, so they attend to padding",
    MEMORY,
    "source mask is missing",
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, past=entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "uses no mask if there is a cache, because it expects a single token then: several"
    " new tokens see each other",
    NO_LATER,
    "no mask with a cache",
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
        total = past + token.size(1)
        mask = None if past else causal_mask(total, token.device)
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "counts the tokens that it has read in an attribute, which is wrong if a cache is"
    " used twice or if two targets take turns",
    STATE,
    "counts positions in an attribute",
)
class TransformerDecoder(nn.Module):
    seen = 0

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
            self.seen = 0
        past, total = self.seen, self.seen + token.size(1)
        self.seen = total
        length = token.size(1) + (0 if cache[0] is None else cache[0].key.size(2))
        mask = causal_mask(length, token.device)[-token.size(1) :]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong("returns the next cache as a list", TUPLE, "cache is a list")
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, entries


@wrong(
    "detaches the entries of the next cache, so a loss on later tokens gives wrong"
    " gradients",
    GRAD,
    "cache cut off from the gradient",
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(type(entry)(entry.key.detach(), entry.value.detach()))
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "casts the logits to float32, whatever the dtype of the model",
    DTYPE,
    "logits always in float32",
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)).float(), None, tuple(entries)


@wrong(
    "counts a piece's positions from past only if it is a single token, so a longer"
    " piece after a cache starts from 0",
    MANY,
    "positions wrong for later long pieces",
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
        total = past + token.size(1)
        mask = causal_mask(total, token.device)[past:]
        x = self.embedding(token, past if token.size(1) == 1 else 0)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)
