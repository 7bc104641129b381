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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])
        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@right('past from the cache, the last rows of the mask, a loop')
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
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@right('one token after the other, each through all blocks')
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
        logits, kept = [], list(cache)
        for t in range(token.size(1)):
            past = 0 if kept[0] is None else kept[0].key.shape[-2]
            x = self.embedding(token[:, t : t + 1], past)
            mask = causal_mask(past + 1, token.device)[-1:]
            for i, block in enumerate(self.blocks):
                x, _, kept[i] = block(x, memory.layers[i], mask, memory.mask, kept[i])
            logits.append(self.head(self.norm(x)))
        return torch.cat(logits, dim=1), None, tuple(kept)


@right('recursion over the blocks; rows picked by index')
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
        P = next((c.key.size(2) for c in cache if c is not None), 0)
        T = token.size(1)
        rows = torch.arange(P, P + T, device=token.device)
        mask = causal_mask(P + T, token.device).index_select(0, rows)

        def climb(x, floor):
            if floor == len(self.blocks):
                return x, ()
            x, _, new = self.blocks[floor](
                x=x,
                source=memory.layers[floor],
                mask=mask,
                source_mask=memory.mask,
                past=cache[floor],
            )
            top, rest = climb(x, floor + 1)
            return top, (new, *rest)

        states, following = climb(self.embedding(token, P), 0)
        return self.head(self.norm(states)), None, following


@right('a batched mask with an axis for sentences, blocks by pop')
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
        past = 0
        if first is not None:
            _, _, past, _ = first.key.shape
        mask = causal_mask(past + T, device=token.device)
        mask = mask.narrow(0, past, T).unsqueeze(0).expand(B, T, past + T)
        x = self.embedding(token, past)
        todo = list(zip(self.blocks, memory.layers, cache))
        following = ()
        while todo:
            block, source, old = todo.pop(0)
            x, _, new = block(x, source, mask, memory.mask, past=old)
            following += (new,)
        return self.head(self.norm(x)), None, following


@wrong(
    'positions always begin at 0',
    breaks='`self.embedding(token, past)` embeds tokens and adds the positions from `past` on.',
    name='position 0 in every step',
    subtle=False,
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
        x = self.embedding(token, 0)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    'the first rows of the mask instead of the last',
    breaks='The new positions are the last T of P + T: which rows of the causal mask are theirs? (T, P + T)',
    name='wrong rows of the mask',
    subtle=False,
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
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[: token.size(1)]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    'no norm before the head',
    breaks='After the blocks `self.head(self.norm(x))`.',
    name='last norm forgotten',
    subtle=False,
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
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(x), None, tuple(following)


@wrong(
    'with a past no mask: right for one token, several new ones see ahead',
    breaks='It has to do for one token and for many, at the beginning and later: `step` takes T tokens that come after P others.',
    name='several new tokens see ahead',
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, past)
        mask = None if past else causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    'counts the past itself: two sentences written in turns mix it up',
    breaks='How many tokens came before? The keys in the cache know: (B, H, P, Dh).',
    name='past counted in the module',
    subtle=True,
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
        past = self.seen
        self.seen += token.size(1)
        x = self.embedding(token, past)

        P = 0 if cache[0] is None else cache[0].key.size(2)
        mask = causal_mask(P + token.size(1), token.device)[P:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    "every block asks the first block's source",
    breaks="`memory.layers` has a source for each block, `memory.mask` is the source's mask.",
    name='one source for all blocks',
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, old in zip(self.blocks, cache):
            x, _, new = block(x, memory.layers[0], mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    'the next cache is a list',
    breaks='These are the **cache**: a tuple with one entry per block, None at the start, and then what the block returned.',
    name='cache is no tuple',
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, following


@wrong(
    "after the start, only the last token's logits",
    breaks='Logits (B, T, V), None, and the next cache.',
    name='only the last position predicted',
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)

        if past:
            x = x[:, -1:]
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    "the source's padding is seen once there is a past",
    breaks='memory: has `layers`, a `KeyValue` of the source for each block, and `mask` (B, 1, S).',
    name='source mask dropped in later steps',
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1), token.device)[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, None if past else memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)


@wrong(
    'the mask is made on the CPU, wherever the tokens are',
    breaks='The mask is `causal_mask(past + T, device)`, without its first `past` rows.',
    name='device of the mask forgotten',
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
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, past)
        mask = causal_mask(past + token.size(1))[past:]
        following = []
        for block, source, old in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, old)
            following.append(new)
        return self.head(self.norm(x)), None, tuple(following)
