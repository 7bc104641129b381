import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


@right('one helper for all three sub-layers, each a function that returns what it adds and something to keep')
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        def look_back(read):
            new = self.self_attention.remember(read, read)
            joined = new if past is None else past.extend(new)
            return self.self_attention.ask(read, joined, mask)[0], joined

        def look_over(read):
            return self.cross_attention.ask(read, source, source_mask, need_weights)

        def think(read):
            return self.feed_forward(read), None

        kept = []
        steps = (
            (self.around_self, look_back),
            (self.around_cross, look_over),
            (self.around_feed_forward, think),
        )
        for around, f in steps:
            added, extra = f(around.before(x))
            x = around.after(x, added)
            kept.append(extra)
        return x, kept[1], kept[0]


@right('the weights are always computed and always returned')
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        a = self.around_self.before(x)
        seen = self.self_attention.remember(a, a)
        seen = seen if past is None else past.extend(seen)
        y = self.around_self.after(x, self.self_attention.ask(a, seen, mask)[0])
        b = self.around_cross.before(y)
        found, weights = self.cross_attention.ask(b, source, source_mask)
        z = self.around_cross.after(y, found)
        c = self.around_feed_forward.before(z)
        return self.around_feed_forward.after(z, self.feed_forward(c)), weights, seen


@right('joins old and new keys by hand with torch.cat, into a KeyValue of the same class')
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        new = self.self_attention.remember(read, read)
        if past is None:
            memory = new
        else:
            memory = type(new)(
                torch.cat([past.key, new.key], dim=2),
                torch.cat([past.value, new.value], dim=2),
            )
        context = self.self_attention.ask(read, memory, mask, need_weights=False)[0]
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights=need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return (
            self.around_feed_forward.after(x, thought),
            weights if need_weights else None,
            memory,
        )


@right('new positions ask one after the other, each with its row of the masks')
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        batch, length, _ = x.shape
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)

        def ask_by_rows(attention, read, asked, allowed):
            if allowed is not None:
                allowed = allowed.broadcast_to(batch, length, asked.key.size(2))
            parts = []
            for t in range(length):
                row = None if allowed is None else allowed[:, t : t + 1]
                parts.append(attention.ask(read[:, t : t + 1], asked, row))
            contexts, weights = zip(*parts)
            return torch.cat(contexts, dim=1), torch.cat(weights, dim=2)

        context, _ = ask_by_rows(self.self_attention, read, memory, mask)
        x = self.around_self.after(x, context)
        read = self.around_cross.before(x)
        context, weights = ask_by_rows(self.cross_attention, read, source, source_mask)
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    "the cross-attention's queries are made from the block's input, not from the states after the self-attention",
    'Queries are made from the states *after* the self-attention.',
    'cross-attention asks with the states before self-attention',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        before, x = x, self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(before), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'the two masks are exchanged: an error if T and S differ, otherwise positions look ahead',
    'There are two masks. `mask` says which target positions may be seen, `source_mask` which source positions.',
    'the two masks exchanged',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        context, _ = self.self_attention.ask(read, memory, source_mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'new keys stand before the old ones: with a mask, the wrong positions are hidden, and the cache is in the wrong order',
    'Then x asks the old *and* the new: `past.extend(new)` joins two `KeyValue`, the old first.',
    'new before old in the cache',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
            memory = memory.extend(past)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'returns the new keys and values alone, the old ones are lost for the next step',
    'The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.',
    'cache holds the new positions only',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
            context, _ = self.self_attention.ask(read, past.extend(memory), mask)
        else:
            context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'need_weights is not handed on: the weights are always None',
    'The weights of the cross-attention are returned if `need_weights` is true; otherwise you may return None in their place.',
    'need_weights ignored',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
            self.around_cross.before(x), source, source_mask, need_weights=False
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'the past counts only if one token comes: with several new tokens after a past, the past is left out',
    '`past` is what this block returned for the positions before x, if there were any.',
    'past ignored for several new tokens',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        if past is not None and x.size(1) == 1:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'the weights are averaged over the heads: (B, T, S)',
    'The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.',
    'weights averaged over heads',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        if weights is not None:
            weights = weights.mean(dim=1)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'the norms of self-attention and cross-attention are exchanged: right as long as both have their first numbers',
    'The sub-layer in the middle is `self.cross_attention.ask(query, source, source_mask, need_weights)`, with `self.around_cross` before and after it.',
    'norms of two sub-layers exchanged',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        read = self.around_cross.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_cross.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_self.before(x), source, source_mask, need_weights
        )
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    'the block extends what it remembered itself in its last call, not the past that was given: wrong if two texts are written in turns or sentences are reordered',
    '`past` is what this block returned for the positions before x, if there were any.',
    'own state instead of the given past',
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
            memory = getattr(self, "last", past).extend(memory)
        self.last = memory
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory


@wrong(
    "the first sentence's part of the source mask is used for all sentences: wrong as soon as sources differ in length",
    'There are two masks. `mask` says which target positions may be seen, `source_mask` which source positions.',
    "first sentence's source mask used for all",
)
class DecoderBlock(nn.Module):
    """Every position looks at those before it, then at the source, then thinks for
    itself. Arguments as above."""

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
        if source_mask is not None and source_mask.dim() == 3:
            source_mask = source_mask[:1]
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, memory
