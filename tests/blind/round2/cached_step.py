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
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        found, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


def causal_mask(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


ROWS = "The new positions are the last T of P + T: which rows of the causal mask are theirs?"
KNOW = "How many tokens came before? The keys in the cache know: (B, H, P, Dh)."
LAST = "Logits (B, T, V), None, and the next cache."


@right("as the hints have it")
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
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@right("one token after the other, even where many are given")
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
        for t in range(token.size(1)):
            past = 0 if cache[0] is None else cache[0].key.shape[2]
            x, following = self.embedding(token[:, t : t + 1], past), ()
            for i, block in enumerate(self.blocks):
                x, _, entry = block(x, memory.layers[i], None, memory.mask, cache[i])
                following += (entry,)
            cache = following
            logits.append(self.head(self.norm(x)))
        return torch.cat(logits, dim=1), None, cache


@right("compares positions, the last block's cache counts the past")
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
        past = 0
        if cache[-1] is not None:
            past = cache[-1].key.size(-2)
        B, T = token.shape
        at = torch.arange(past + T, device=token.device)
        mask = (at[past:].view(1, T, 1) >= at.view(1, 1, -1)).expand(B, -1, -1)
        x = self.embedding(token, past)
        cache = list(cache)
        for i, block in enumerate(self.blocks):
            x, _, cache[i] = block(
                x, source=memory.layers[i], mask=mask, source_mask=memory.mask, past=cache[i]
            )
        return F.linear(self.norm(x), self.head.weight, self.head.bias), None, tuple(cache)


@right("recursive through the blocks, mask glued from old and new")
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
        old = cache[0]
        past = old.key.size(2) if old is not None else 0
        T = token.size(1)
        seen = torch.ones(T, past, dtype=torch.bool, device=token.device)
        mask = torch.cat([seen, causal_mask(T, token.device)], dim=1)

        def up(i, x):
            if i == len(self.blocks):
                return self.head(self.norm(x)), ()
            x, _, mine = self.blocks[i](x, memory.layers[i], mask, memory.mask, cache[i])
            logits, above = up(i + 1, x)
            return logits, (mine, *above)

        logits, following = up(0, self.embedding(token, past))
        return logits, None, following


@wrong("positions always from 0 on", breaks="`self.embedding(token, past)` embeds tokens and adds the positions from `past` on.", name="every step is the first position", subtle=False)
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
        x = self.embedding(token, 0)
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@wrong("no norm before the head", breaks="After the blocks `self.head(self.norm(x))`.", name="last norm forgotten", subtle=False)
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
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(x), None, tuple(following)


@wrong("hands back the cache it was given", breaks="These are the **cache**: a tuple with one entry per\nblock, None at the start, and then what the block returned.", name="the cache never grows", subtle=False)
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
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, cache


@wrong("no mask once there is a past", breaks="No position looks at what comes after it, so what was computed for a position never changes.", name="several new tokens see each other", subtle=True)
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
        mask = mask if past == 0 else None
        x = self.embedding(token, past)
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@wrong("the first T rows", breaks=ROWS, name="rows of the old positions", subtle=True)
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
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@wrong("a list of entries", breaks="cache: a tuple with one entry per block: None, or what it remembered of the\n                P positions before.", name="the cache is a list", subtle=True)
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
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, following


@wrong("all blocks read the first block's source", breaks="`memory.layers` has a source for each block, `memory.mask` is the source's mask.", name="one source for all blocks", subtle=True)
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
        following = []
        for block, source, before in zip(self.blocks, memory.layers[:1] * len(self.blocks), cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@wrong("counts for itself how many came before", breaks=KNOW, name="a count kept in the model", subtle=True)
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
        past = self.seen
        full = 0 if cache[0] is None else cache[0].key.size(2)
        self.seen += token.size(1)
        mask = causal_mask(full + token.size(1), token.device)[full:]
        x = self.embedding(token, past)
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@wrong("a mask for 64 positions at most", breaks="It has to do for one token and for many, at the beginning and later: `step` takes T tokens that come after P others.", name="a largest length nobody asked for", subtle=True)
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
        mask = causal_mask(64, token.device)[past : past + token.size(1), : past + token.size(1)]
        x = self.embedding(token, past)
        following = []
        for block, source, before in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, before)
            following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)


@wrong("the blocks run without gradients, as if there were only writing", breaks="Training is one long step, writing many short ones, and they compute the same numbers.", name="nothing can be trained", subtle=True)
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
        with torch.no_grad():
            past = 0 if cache[0] is None else cache[0].key.size(2)
            mask = causal_mask(past + token.size(1), token.device)[past:]
            x = self.embedding(token, past)
            following = []
            for block, source, before in zip(self.blocks, memory.layers, cache):
                x, _, entry = block(x, source, mask, memory.mask, before)
                following.append(entry)
        return self.head(self.norm(x)), None, tuple(following)
