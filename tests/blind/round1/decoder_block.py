import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


@right('three sub-layers, one after the other')
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


@right('closures in a loop')
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
        found = {"weights": None}

        def look_back(read):
            new = self.self_attention.remember(read, read)
            found["memory"] = new if past is None else past.extend(new)
            return self.self_attention.ask(read, found["memory"], mask)[0]

        def look_over(read):
            context, found["weights"] = self.cross_attention.ask(
                read, source, source_mask, need_weights
            )
            return context

        for around, f in (
            (self.around_self, look_back),
            (self.around_cross, look_over),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, found["weights"], found["memory"]


@right('weights are always computed and returned')
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
            self.around_cross.before(x), source, source_mask, need_weights=True
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@right('position by position in both attentions, masks cut into rows')
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
        B, T, _ = x.shape

        def ask(attention, read, memory, allowed, need):
            if allowed is not None:
                allowed = allowed.expand(B, T, memory.key.size(2))
            parts = [
                attention.ask(
                    read[:, t : t + 1],
                    memory,
                    None if allowed is None else allowed[:, t : t + 1],
                    need,
                )
                for t in range(T)
            ]
            contexts, weights = zip(*parts)
            return torch.cat(contexts, 1), torch.cat(weights, 2) if need else None

        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        memory = memory if past is None else past.extend(memory)
        x = self.around_self.after(x, ask(self.self_attention, read, memory, mask, False)[0])
        added, weights = ask(
            self.cross_attention, self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'the source is asked by the states before self-attention',
    breaks='Queries are made from the states *after* the self-attention.',
    name="cross-attention asks with the layer's input",
    subtle=False,
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
        below = x

        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(below), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    'the past is forgotten',
    breaks='Then x asks the old *and* the new: `past.extend(new)` joins two `KeyValue`, the old first.',
    name='past ignored',
    subtle=False,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if mask is not None:
            mask = mask[..., -x.size(1) :]
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    'no mask for the source',
    breaks='`mask` says which target positions may be seen, `source_mask` which source positions.',
    name='source mask forgotten',
    subtle=False,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, None, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    'joins the new first and the old last',
    breaks='Then x asks the old *and* the new: `past.extend(new)` joins two `KeyValue`, the old first.',
    name='past and new joined the wrong way round',
    subtle=True,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = memory.extend(past)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    "when there is a past, the source's mask is dropped",
    breaks='source_mask: which source positions may be attended to, broadcastable to (B, T, S).',
    name='padding of the source seen in later steps',
    subtle=True,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask if past is None else None, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    'asks old and new, but returns the new alone',
    breaks='the `KeyValue` of all P + T target positions.',
    name='cache does not grow',
    subtle=True,
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
        read = self.around_self.before(x)
        memory = new = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, new


@wrong(
    'one new position may see everything: the mask is dropped for T = 1',
    breaks='mask: which target positions may be attended to, broadcastable to (B, T, P + T).',
    name='mask ignored for a single position',
    subtle=True,
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
        if x.size(1) == 1:
            mask = None

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


@wrong(
    'weights in eval mode only',
    breaks='The weights of the cross-attention are returned if `need_weights` is true; otherwise None will do.',
    name='no weights while training',
    subtle=True,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights and not self.training
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    'the past that was handed in grows, too',
    breaks='past: `KeyValue` of the P positions before x; None: there are none.',
    name="the caller's cache is changed",
    subtle=True,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
            past.key.data, past.value.data = memory.key.data, memory.value.data
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory


@wrong(
    'the norm of the first sub-layer serves the second, too (the same at initialization)',
    breaks='The middle one: `self.cross_attention.ask(query, source, source_mask, need_weights)`, with `self.around_cross` before and after.',
    name='one norm for two sub-layers',
    subtle=True,
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask, False)[0])

        added, weights = self.cross_attention.ask(
            self.around_self.before(x), source, source_mask, need_weights
        )
        x = self.around_self.after(x, added)

        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, memory
