import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual, TokenEmbedding, TransformerMemory
from blind import right, wrong

ANY = "It must work for one token and for many, at the beginning of a target and later."
LATER = "No position attends to a later one, so nothing that was computed for a position ever changes."
TUPLE = "It is a tuple with one entry per block."
PAST = "Use P as `past`."
ROWS = "Give the blocks only these rows, (T, P + T)."
NEW = "The new tokens are the last T of P + T tokens."
LAYERS = "`memory.layers` holds the `KeyValue` of the source for each block, and `memory.mask` is the mask of the source."
NORM = "embed the tokens, apply all blocks, then apply the norm and the head."
RESULT = "Logits (B, T, V), None, and the next cache."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16)"
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


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

    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(inner, memory, mask, need_weights=False)[0])
        inner = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(inner, source, source_mask, need_weights)
        x = self.around_cross.after(x, contexts)
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner)), weights, memory


class Given(nn.Module):
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


def earlier(cache):
    return 0 if cache[0] is None else cache[0].key.size(2)


@right("compares the numbers of the new positions with those of all positions, as a mask (1, T, P + T)")
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past = earlier(cache)
        total = torch.arange(past + token.size(1), device=token.device)
        mask = (total[None, :] <= total[past:, None])[None]
        x, entries = self.embedding(token, past), []
        for i, block in enumerate(self.blocks):
            x, _, entry = block(x, memory.layers[i], mask, memory.mask, cache[i])
            entries.append(entry)
        return self.head(self.norm(x)), None, tuple(entries)


@right("several tokens are as many steps of one token, which needs no mask at all")
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        if token.size(1) > 1:
            logits = []
            for one in token.split(1, dim=1):
                answer, _, cache = self.step(one, memory, cache)
                logits.append(answer)
            return torch.cat(logits, dim=1), None, cache
        x = self.embedding(token, earlier(cache))
        nexts = ()
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, None, memory.mask, past)
            nexts += (entry,)
        return self.head(self.norm(x)), None, nexts


@right("lower triangle moved to the right by P; no mask for a single token; recursion over the blocks")
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        t = token.shape[1]
        p = next((entry.key.shape[-2] for entry in cache if entry is not None), 0)
        mask = None
        if t > 1:
            mask = torch.ones(t, p + t, dtype=torch.bool, device=token.device).tril(diagonal=p)

        def climb(x, i):
            if i == len(self.blocks):
                return self.head(self.norm(x)), ()
            x, _, entry = self.blocks[i](
                x, memory.layers[i], mask=mask, source_mask=memory.mask, past=cache[i]
            )
            logits, above = climb(x, i + 1)
            return logits, (entry, *above)

        logits, nexts = climb(self.embedding(token, p), 0)
        return logits, None, nexts


@right("an old part that is all True next to a new part that is causal; the head position by position")
class TransformerDecoder(Given):
    def step(self, token, memory, cache):
        past, new = earlier(cache), token.size(1)
        mask = torch.hstack([
            torch.ones(new, past, dtype=torch.bool, device=token.device),
            causal_mask(new, token.device),
        ])
        states, nexts = [self.embedding(token, past)], []
        for block, source, entry in zip(self.blocks, memory.layers, cache, strict=True):
            state, _, entry = block(states[-1], source, mask, memory.mask, entry)
            states.append(state)
            nexts.append(entry)
        logits = [self.head(self.norm(state)) for state in states[-1].unbind(dim=1)]
        return torch.stack(logits, dim=1), None, tuple(nexts)


class Usual(Given):
    """The usual answer, in parts that the wrong answers below replace."""

    def mask(self, past, new, device):
        return causal_mask(past + new, device)[past:]

    def climb(self, x, memory, mask, cache):
        nexts = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, memory.mask, entry)
            nexts.append(entry)
        return x, tuple(nexts)

    def step(self, token, memory, cache):
        past = earlier(cache)
        mask = self.mask(past, token.size(1), token.device)
        x, nexts = self.climb(self.embedding(token, past), memory, mask, cache)
        return self.head(self.norm(x)), None, nexts


@wrong("embeds the new tokens as if they were the first ones", breaks=PAST, name="positions count from 0 again")
class TransformerDecoder(Usual):
    def step(self, token, memory, cache):
        mask = self.mask(earlier(cache), token.size(1), token.device)
        x, nexts = self.climb(self.embedding(token, 0), memory, mask, cache)
        return self.head(self.norm(x)), None, nexts


@wrong("leaves out the last norm", breaks=NORM, name="last norm forgotten")
class TransformerDecoder(Usual):
    def step(self, token, memory, cache):
        past = earlier(cache)
        mask = self.mask(past, token.size(1), token.device)
        x, nexts = self.climb(self.embedding(token, past), memory, mask, cache)
        return self.head(x), None, nexts


@wrong("a causal mask (T, T) of the new tokens only: right at the beginning and for single tokens, fails for "
       "several tokens later", breaks=ROWS, name="mask without the earlier positions")
class TransformerDecoder(Usual):
    def mask(self, past, new, device):
        return causal_mask(new, device)


@wrong("a mask only at the beginning of a target: later, several tokens look ahead", breaks=LATER,
       name="no mask when there is a cache")
class TransformerDecoder(Usual):
    def mask(self, past, new, device):
        return causal_mask(new, device) if past == 0 else None


@wrong("the first T rows of the mask instead of the last T", breaks=NEW, name="first rows of the mask")
class TransformerDecoder(Usual):
    def mask(self, past, new, device):
        return causal_mask(past + new, device)[:new]


@wrong("gives every block the source's KeyValue of the first block: right for a single block", breaks=LAYERS,
       name="source of the first block for all blocks")
class TransformerDecoder(Usual):
    def climb(self, x, memory, mask, cache):
        return super().climb(x, memory._replace(layers=(memory.layers[0],) * len(self.blocks))
                             if hasattr(memory, "_replace")
                             else type(memory)((memory.layers[0],) * len(self.blocks), memory.mask), mask, cache)


@wrong("does not use memory.mask: right as long as no source is padded", breaks=LAYERS, name="mask of the source forgotten")
class TransformerDecoder(Usual):
    def climb(self, x, memory, mask, cache):
        nexts = []
        for block, source, entry in zip(self.blocks, memory.layers, cache):
            x, _, entry = block(x, source, mask, None, entry)
            nexts.append(entry)
        return x, tuple(nexts)


@wrong("returns the logits of the last token only: right for one token, wrong for many", breaks=RESULT,
       name="last logits only")
class TransformerDecoder(Usual):
    def step(self, token, memory, cache):
        logits, weights, nexts = super().step(token, memory, cache)
        return logits[:, -1:], weights, nexts


@wrong("keeps the cache in the decoder and ignores the one that it is given, except an empty one: an older "
       "cache cannot be continued a second time", breaks=CALLS, name="cache kept in the decoder")
class TransformerDecoder(Usual):
    def step(self, token, memory, cache):
        if cache[0] is not None:
            cache = self.__dict__.get("kept", cache)
        logits, weights, nexts = super().step(token, memory, cache)
        self.__dict__["kept"] = nexts
        return logits, weights, nexts


@wrong("returns the logits in float32, so that float64 and bfloat16 models give float32", breaks=DTYPE,
       name="logits always float32")
class TransformerDecoder(Usual):
    def step(self, token, memory, cache):
        logits, weights, nexts = super().step(token, memory, cache)
        return logits.float(), weights, nexts
