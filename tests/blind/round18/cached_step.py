import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.tasks.core import PAD
from attention_course.transformer import (
    FeedForward,
    Residual,
    TokenEmbedding,
    TransformerMemory,
)
from blind import right, wrong


def good_causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


class GoodDecoderBlock(nn.Module):
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
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@right("recursion over the blocks, and the mask cut off by split")
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        past = cache[0].key.size(2) if cache[0] is not None else 0
        new = token.size(1)
        mask = good_causal_mask(past + new, token.device).split([past, new])[1]

        def through(x, i):
            if i == len(self.blocks):
                return self.head(self.norm(x)), ()
            x, _, entry = self.blocks[i](
                x, memory.layers[i], mask, memory.mask, cache[i]
            )
            logits, entries = through(x, i + 1)
            return logits, (entry, *entries)

        logits, entries = through(self.embedding(token, past), 0)
        return logits, None, entries


@right("one token after the other through all blocks, each with the cache so far")
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        entries, logits = list(cache), []
        for one in token.unbind(dim=1):
            past = 0 if entries[0] is None else entries[0].key.shape[2]
            row = good_causal_mask(past + 1, token.device)[past:]
            x = self.embedding(one[:, None], past)
            for i, block in enumerate(self.blocks):
                x, _, entries[i] = block(
                    x, memory.layers[i], row, memory.mask, past=entries[i]
                )
            logits.append(self.head(self.norm(x)))
        return torch.cat(logits, dim=1), None, tuple(entries)


@right("joins the mask from an open part for the past and a triangle for the new tokens")
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        past = 0
        if cache[0] is not None:
            past = cache[0].key.shape[2]
        size, new = token.shape
        triangle = good_causal_mask(new, device=token.device)
        opened = triangle.new_ones(new, past)
        mask = torch.cat([opened, triangle], dim=1).expand(size, new, past + new)
        states = [self.embedding(token, past)]
        entries = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            found = block(
                states[-1],
                source=source,
                mask=mask,
                source_mask=memory.mask,
                past=old,
                need_weights=True,
            )
            states.append(found[0])
            entries.append(found[2])
        return self.head(self.norm(states.pop())), None, tuple(entries)


@right("sentence after sentence, and puts logits and caches together again")
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        total = past + token.shape[1]
        mask = good_causal_mask(total, token.device)[-token.shape[1] :]

        def share(entry, b):
            if entry is None:
                return None
            return entry._replace(key=entry.key[b : b + 1], value=entry.value[b : b + 1])

        logits, parts = [], [[] for _ in self.blocks]
        for b in range(token.shape[0]):
            x = self.embedding(token[b : b + 1], past)
            for i, block in enumerate(self.blocks):
                x, _, entry = block(
                    x,
                    share(memory.layers[i], b),
                    mask,
                    memory.mask[b : b + 1],
                    share(cache[i], b),
                )
                parts[i].append(entry)
            logits.append(self.head(self.norm(x)))
        entries = tuple(
            part[0]._replace(
                key=torch.cat([entry.key for entry in part]),
                value=torch.cat([entry.value for entry in part]),
            )
            for part in parts
        )
        return torch.cat(logits), None, entries


@wrong(
    "lets the positions count from 0 in every step",
    breaks="Use P as `past`.",
    name="positions start again at 0",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        x, entries = self.embedding(token), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "gives the blocks the first T rows of the causal mask",
    breaks="The new tokens are the last T of P + T tokens.",
    name="the first rows of the mask",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + new, token.device)[:new]
        x, entries = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "gives the first block's source to all blocks",
    breaks="`memory.layers` holds the `KeyValue` of the source for each block, and"
    " `memory.mask` is the mask of the source.",
    name="one source for all blocks",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        x, entries = self.embedding(token, past), []
        for block, old in zip(self.blocks, cache):
            x, _, entry = block(x, memory.layers[0], mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "reads P off the second axis of the keys, which is the number of heads",
    breaks="You can read P off the shape of the keys in the cache, (B, H, P, Dh).",
    name="the number of heads is taken for P",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        past = 0 if cache[0] is None else cache[0].key.shape[1]
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        x, entries = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "applies the head to the states of the last block, without the norm",
    breaks="Now you write the decoder, too: embed the tokens, apply all blocks, then apply"
    " the norm and the head.",
    name="the last norm is forgotten",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        x, entries = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(x), None, tuple(entries)


@wrong(
    "counts the tokens in an attribute, which starts again only with an empty cache: two"
    " targets that are written in turns get each other's positions",
    breaks="The result of a call must not depend on earlier calls or on other objects of"
    " the same class.",
    name="P is counted from call to call",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab_size)
        self.past = 0

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
            self.past = 0
        x, entries = self.embedding(token, self.past), []
        old_length = 0 if cache[0] is None else cache[0].key.shape[2]
        mask = good_causal_mask(old_length + token.shape[1], token.device)[old_length:]
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        self.past += token.shape[1]
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "makes one mask for 256 positions and cuts all others out of it",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up,"
    " for large and for small numbers, in train mode and in eval mode.",
    name="a mask of fixed size",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        total = past + token.shape[1]
        mask = good_causal_mask(256, token.device)[past:total, :total]
        x, entries = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "computes no gradients for a single token, as if that were always generation",
    breaks="Gradients must be right, too.",
    name="no gradients for a single token",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        with torch.set_grad_enabled(torch.is_grad_enabled() and token.shape[1] > 1):
            x, entries = self.embedding(token, past), []
            for block, source, old in zip(self.blocks, memory.layers, cache):
                x, _, entry = block(x, source, mask, memory.mask, old)
                entries.append(entry)
            return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "embeds the tokens one by one, all of them at position P",
    breaks="`self.embedding(token, past)` embeds the tokens and adds positions that count"
    " from `past`.",
    name="all new tokens have the same position",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        embedded = [self.embedding(one, past) for one in token.split(1, dim=1)]
        x, entries = torch.cat(embedded, dim=1), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@wrong(
    "also hides new tokens that are PAD",
    breaks="Give the blocks only these rows, (T, P + T).",
    name="a padding mask for the target",
)
class TransformerDecoder(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(
            GoodDecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)
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
        mask = good_causal_mask(past + token.shape[1], token.device)[past:]
        real = torch.cat([token.new_ones(token.shape[0], past), token], dim=1) != PAD
        mask = mask & real[:, None, :]
        x, entries = self.embedding(token, past), []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, old)
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)
