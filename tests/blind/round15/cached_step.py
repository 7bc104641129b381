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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


ROWS = "The new tokens are the last T of P + T tokens."
GIVE = "Give the blocks only these rows, (T, P + T)."


@right("last T rows with a negative slice, blocks by index, a tuple that grows")
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
        past = 0 if cache[0] is None else cache[0].key.shape[-2]
        mask = causal_mask(past + T, device=token.device)[-T:]
        x, grown = self.embedding(token, past), ()
        for i, block in enumerate(self.blocks):
            x, _, entry = block(x, memory.layers[i], mask, memory.mask, cache[i])
            grown += (entry,)
        return self.head(self.norm(x)), None, grown


@right("one token after the other within a step")
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
        cache, logits = list(cache), []
        for t in range(token.size(1)):
            past = 0 if cache[0] is None else cache[0].key.size(2)
            x = self.embedding(token[:, t : t + 1], past)
            row = causal_mask(past + 1, token.device)[past:]
            for i, block in enumerate(self.blocks):
                x, _, cache[i] = block(
                    x,
                    memory.layers[i],
                    mask=row,
                    source_mask=memory.mask,
                    past=cache[i],
                )
            logits.append(self.head(self.norm(x)))
        return torch.cat(logits, dim=1), None, tuple(cache)


@right("the last T rows selected by their indices")
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
        first = cache[0]
        past = first.key.size(2) if first is not None else 0
        new = torch.arange(past, past + token.size(1), device=token.device)
        rows = causal_mask(past + token.size(1), token.device).index_select(0, new)
        x = self.embedding(token, past)
        entries = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(
                x, source, mask=rows, source_mask=memory.mask, past=entry
            )
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@right("recursion over the blocks")
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
        mask = causal_mask(past + token.size(1), token.device)
        _, mask = mask.split([past, token.size(1)])

        def climb(x, i):
            if i == len(self.blocks):
                return x, ()
            x, _, mine = self.blocks[i](
                x, memory.layers[i], mask, memory.mask, cache[i]
            )
            top, others = climb(x, i + 1)
            return top, (mine, *others)

        states, entries = climb(self.embedding(token, past), 0)
        return self.head(self.norm(states)), None, entries


@wrong(
    "positions of every step begin at 0",
    breaks="Use P as `past`.",
    name="positions start again at every step",
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
        x, entries = self.embedding(token, 0), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "the first T rows of the mask; right for P = 0",
    breaks=ROWS,
    name="wrong rows of the mask",
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
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "a mask (T, T): fits P = 0 and, by broadcasting, T = 1",
    breaks=GIVE,
    name="mask without the columns of the past",
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
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "no mask once there is a past; right for T = 1",
    breaks="It must work for one token and for many, at the beginning of a target and later.",
    name="several later tokens look ahead",
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
        past, mask = 0, causal_mask(token.size(1), token.device)
        if cache[0] is not None:
            past, mask = cache[0].key.size(2), None
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "counts the tokens in the module, not in the cache",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="P counted in the module",
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
        self.written += token.size(1)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "every block gets the past of the first one; right for one block",
    breaks="It is a tuple with one entry per block.",
    name="first cache for all blocks",
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
        x, entries = self.embedding(token, past), []
        for block, source in zip(self.blocks, memory.layers):
            x, _, entry = block(x, source, mask, memory.mask, cache[0])
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "the head reads the states of the last block directly",
    breaks="Now you write the decoder, too: embed the tokens, apply all blocks, then apply the norm and the head.",
    name="last norm forgotten",
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
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(x), None, tuple(entries)


@wrong(
    "writes the new entries into the list it was given, or into a list at the start",
    breaks="It is a tuple with one entry per block.",
    name="cache is a list that is changed in place",
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
        if isinstance(cache, tuple):
            cache = list(cache)
        for i, (block, source) in enumerate(zip(self.blocks, memory.layers)):
            x, _, cache[i] = block(x, source, mask, memory.mask, cache[i])
        return self.head(self.norm(x)), None, cache


@wrong(
    "logits of the last token only; right for T = 1",
    breaks="Logits (B, T, V), None, and the next cache.",
    name="logits of the last position only",
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
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(entry)
        return self.head(self.norm(x[:, -1:])), None, tuple(entries)


@wrong(
    "cuts the cache from the graph after each step",
    breaks="Gradients must be right, too.",
    name="no gradient through the cache",
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
        x, entries = self.embedding(token, past), []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            entries.append(type(entry)(entry.key.detach(), entry.value.detach()))
        return self.head(self.norm(x)), None, tuple(entries)
