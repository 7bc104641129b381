import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

# ---------------------------------------------------------------- right


@right("always asks for the weights, and a small function for each sub-layer")
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
        kept = {}

        def look(read):
            new = self.self_attention.remember(read, read)
            kept["memory"] = past.extend(new) if past is not None else new
            return self.self_attention.ask(read, kept["memory"], mask)[0]

        def cross(read):
            said, kept["weights"] = self.cross_attention.ask(read, source, source_mask)
            return said

        for around, f in (
            (self.around_self, look),
            (self.around_cross, cross),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, kept["weights"], kept["memory"]


@right("joins old and new keys by torch.cat and makes a KeyValue of them by hand")
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
            memory = type(memory)(
                *(torch.cat([old, new], dim=-2) for old, new in zip(past, memory))
            )
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@right("one position after the other through all three sub-layers, keys remembered beforehand")
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
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if past is not None:
            memory = past.extend(memory)
        if mask is not None:
            mask = mask.expand(B, T, memory.key.size(2))
        if source_mask is not None:
            source_mask = source_mask.expand(B, T, source.key.size(2))
        states, weights = [], []
        for t in range(T):
            at = slice(t, t + 1)
            row = None if mask is None else mask[:, at]
            y = self.around_self.after(
                x[:, at], self.self_attention.ask(read[:, at], memory, row)[0]
            )
            row = None if source_mask is None else source_mask[:, at]
            said, weight = self.cross_attention.ask(self.around_cross.before(y), source, row)
            y = self.around_cross.after(y, said)
            f = self.around_feed_forward
            states.append(f.after(y, self.feed_forward(f.before(y))))
            weights.append(weight)
        return torch.cat(states, dim=1), torch.cat(weights, dim=2), memory


@right("an empty past is made if there is none, so that there is one way only")
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
        if past is None:
            past = type(memory)(memory.key[:, :, :0], memory.value[:, :, :0])
        memory = past.extend(memory)
        y = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        answer = self.cross_attention.ask(self.around_cross.before(y), source, source_mask)
        z = self.around_cross.after(y, answer[0])
        out = self.around_feed_forward.after(
            z, self.feed_forward(self.around_feed_forward.before(z))
        )
        return out, (answer[1] if need_weights else None), memory


# ---------------------------------------------------------------- wrong


@wrong(
    "gives the source's mask to the self-attention and the other to the cross-attention",
    breaks="`mask` says which target positions may be seen, `source_mask` which source positions.",
    name="masks exchanged",
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
        x = self.around_self.after(
            x, self.self_attention.ask(read, memory, source_mask)[0]
        )
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "makes the queries of the cross-attention from x as it came",
    breaks="Queries are made from the states *after* the self-attention.",
    name="cross-attention asks before it has looked",
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
        y = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        y = self.around_cross.after(y, said)
        said = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(y, said), weights, memory


@wrong(
    "extends the new by the old: the states are the same as long as the mask allows everything",
    breaks="`past.extend(new)` joins two `KeyValue`, the old first",
    name="the new before the old",
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
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "asks the old and the new, and returns the new alone",
    breaks="the `KeyValue` of all P + T target positions",
    name="only the new keys are returned",
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
        new = self.self_attention.remember(read, read)
        memory = new if past is None else past.extend(new)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, new


@wrong(
    "forgets the mask of the source: harmless if all sources are equally long",
    breaks="There are two masks. `mask` says which target positions may be seen, `source_mask` which source positions.",
    name="padding of the source is seen",
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
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, need_weights=need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "makes a causal mask of its own if none is given",
    breaks="`mask` says which target positions may be seen",
    name="a decoder is always causal",
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
        if mask is None:
            T, total = x.size(1), memory.key.size(2)
            mask = torch.ones(T, total, dtype=torch.bool, device=x.device)
            mask = mask.tril(total - T)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "keeps what it returned last, and goes on from that instead of the past it is handed, if the shapes agree",
    breaks="past: `KeyValue` of the P positions before x; None: there are none.",
    name="the block remembers the last call",
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
            own = getattr(self, "own", None)
            if own is not None and own.key.shape == past.key.shape:
                past = own
            memory = past.extend(memory)
        self.own = memory
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "uses the norm around the self-attention for the cross-attention, too: fresh norms are alike",
    breaks="The middle one: `self.cross_attention.ask(query, source, source_mask, need_weights)`, with `self.around_cross` before and after.",
    name="one norm for two sub-layers",
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
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_self.before(x), source, source_mask, need_weights
        )
        x = self.around_self.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "returns the weights of the self-attention",
    breaks="The weights of the cross-attention are returned if `need_weights` is true",
    name="weights of the wrong attention",
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
        said, weights = self.self_attention.ask(read, memory, mask, need_weights)
        x = self.around_self.after(x, said)
        said, _ = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory


@wrong(
    "asks only the old if there is a past: a new token does not see itself",
    breaks="Then x asks the old *and* the new",
    name="new tokens do not see themselves",
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
        asked = memory
        if past is not None:
            asked, memory = past, past.extend(memory)
            if mask is not None and mask.size(-1) > 1:
                mask = mask[..., : past.key.size(2)]
        x = self.around_self.after(x, self.self_attention.ask(read, asked, mask)[0])
        said, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, said)
        said = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, said), weights, memory
