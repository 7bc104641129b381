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


class DecoderBlock(nn.Module):
    """The block of section 3."""

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
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


# ---------------------------------------------------------------- right


@right("one token after the other, also where many come at once")
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
            past = 0 if cache[0] is None else cache[0].key.size(2)
            mask = causal_mask(past + 1, token.device)[-1:]
            x, entries = self.embedding(one, past), []
            for block, source, before in zip(self.blocks, memory.layers, cache):
                x, _, entry = block(x, source, mask, memory.mask, before)
                entries.append(entry)
            cache = tuple(entries)
            logits.append(self.head(self.norm(x)))
        return torch.cat(logits, dim=1), None, cache


@right("recursion over the blocks, and the mask cut by index_select")
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
        T = token.shape[1]
        P = cache[-1].value.shape[-2] if cache[-1] is not None else 0
        new = torch.arange(P, P + T, device=token.device)
        mask = causal_mask(P + T, token.device).index_select(0, new)

        def climb(x, level):
            if level == len(self.blocks):
                return x, ()
            x, _, entry = self.blocks[level](
                x, memory.layers[level], mask, memory.mask, past=cache[level]
            )
            top, entries = climb(x, level + 1)
            return top, (entry, *entries)

        states, entries = climb(self.embedding(token, P), 0)
        return self.head(self.norm(states)), None, entries


@right("a mask with an axis for sentences, [-T:], and a dictionary of entries")
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
        first = cache[0]
        past = first.key.size(2) if first is not None else 0
        mask = causal_mask(past + T, token.device)[-T:].expand(B, T, past + T)
        x = self.embedding(token, past)
        entries = {}
        for i in range(len(self.blocks)):
            x, weights, entries[i] = self.blocks[i](
                x, memory.layers[i], mask, memory.mask, cache[i], True
            )
        return self.head(self.norm(x)), None, tuple(entries[i] for i in sorted(entries))


@right("no mask for a single token, which may see all before it; otherwise split by halves of the mask")
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
        past = max((entry.key.size(2) for entry in cache if entry is not None), default=0)
        mask = None
        if T > 1:
            _, mask = causal_mask(past + T, token.device).split([past, T], dim=0)
        x, later = self.embedding(token, past), list(cache)
        for i, block in enumerate(self.blocks):
            x, _, later[i] = block(
                x, source=memory.layers[i], mask=mask, source_mask=memory.mask, past=later[i]
            )
        return self.head(self.norm(x)), None, tuple(later)


# ---------------------------------------------------------------- wrong


@wrong(
    "embeds the new tokens at the positions from 0 on",
    breaks="`self.embedding(token, past)` embeds tokens and adds the positions from `past` on.",
    name="every step stands at position 0",
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
        T = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[past:]
        x, later = self.embedding(token), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "needs no mask once there is a past: right for one token, a leak for several",
    breaks="The new positions are the last T of P + T: which rows of the causal mask are theirs? (T, P + T)",
    name="no mask with a cache",
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
            past, mask = 0, causal_mask(token.size(1), token.device)
        else:
            past, mask = cache[0].key.size(2), None
        x, later = self.embedding(token, past), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "takes the first T rows of the mask: right at the beginning",
    breaks="The new positions are the last T of P + T",
    name="first rows instead of the last",
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
        T = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[:T]
        x, later = self.embedding(token, past), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "hands every block the past of the first: right for one block or without a past",
    breaks="What later positions need of it are its keys and values, in every layer.",
    name="all blocks share the first one's cache",
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
        T = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[past:]
        x, later = self.embedding(token, past), []
        for block, source in zip(self.blocks, memory.layers):
            x, _, entry = block(x, source, mask, memory.mask, cache[0])
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "hands every block the source of the last one",
    breaks="`memory.layers` has a source for each block",
    name="one source for all blocks",
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
        T = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[past:]
        x, later = self.embedding(token, past), []
        for block, before in zip(self.blocks, cache):
            x, _, entry = block(x, memory.layers[-1], mask, memory.mask, before)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "keeps the cache in the module as well, and goes on from there: two texts in turn get mixed",
    breaks="cache: a tuple with one entry per block: None, or what it remembered of the P positions before.",
    name="cache kept in the module",
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
        T = token.size(1)
        if cache[0] is not None and getattr(self, "kept", (None,))[0] is not None:
            if self.kept[0].key.shape[0] == token.size(0):
                cache = self.kept
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[past:]
        x, later = self.embedding(token, past), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            later.append(entry)
        self.kept = tuple(later)
        return self.head(self.norm(x)), None, self.kept


@wrong(
    "counts steps instead of tokens, beginning anew when the cache is empty: right for one token a step",
    breaks="How many tokens came before? The keys in the cache know: (B, H, P, Dh).",
    name="steps counted instead of tokens",
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
        T = token.size(1)
        self.steps = 0 if cache[0] is None else getattr(self, "steps", 0) + 1
        before = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(before + T, token.device)[before:]
        x, later = self.embedding(token, self.steps), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "predicts only from the last position",
    breaks="Predict the token after each of T tokens.",
    name="logits of the last token only",
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[past:]
        x, later = self.embedding(token, past), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            later.append(entry)
        return self.head(self.norm(x[:, -1:])), None, tuple(later)


@wrong(
    "forgets the source's mask: harmless if all sources are equally long",
    breaks="`memory.mask` is the source's mask",
    name="padding of the source is seen",
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
        T = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T, token.device)[past:]
        x, later = self.embedding(token, past), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, past=before)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)


@wrong(
    "makes the mask on the CPU",
    breaks="the dtype and the device are kept",
    name="mask without a device",
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
        T = token.size(1)
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(past + T)[past:]
        x, later = self.embedding(token, past), []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            later.append(entry)
        return self.head(self.norm(x)), None, tuple(later)
