import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

TWO = "There are two masks. `mask` says which target positions may be seen, `source_mask` which source positions."
PAST = "Then x asks the old *and* the new: `past.extend(new)` joins two `KeyValue`, the old first."
ALL = "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of\n            all P + T target positions."


@right("three sub-layers in a row")
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


@right("asks for one position after the other, in both attentions")
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

        def one_by_one(attention, read, memory, mask, need):
            rows = None if mask is None else mask.expand(B, T, memory.key.size(2))
            said, weights = zip(*(
                attention.ask(read[:, t : t + 1], memory, None if rows is None else rows[:, t : t + 1], need)
                for t in range(T)
            ))
            return torch.cat(said, 1), torch.cat(weights, 2) if need else None

        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        memory = memory if past is None else past.extend(memory)
        x = self.around_self.after(x, one_by_one(self.self_attention, read, memory, mask, False)[0])
        found, weights = one_by_one(
            self.cross_attention, self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, found)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@right("weights are computed and returned in any case")
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
        everything = new if past is None else past.extend(new)
        a = self.around_self.after(x, self.self_attention.ask(read, everything, mask)[0])
        found, weights = self.cross_attention.ask(
            self.around_cross.before(a), source, source_mask, need_weights=True
        )
        b = self.around_cross.after(a, found)
        c = self.feed_forward(self.around_feed_forward.before(b))
        return self.around_feed_forward.after(b, c), weights, everything


@right("a table of sub-layers")
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
            return self.self_attention.ask(read, kept["memory"], mask, False)[0]

        def read_source(read):
            said, kept["weights"] = self.cross_attention.ask(read, source, source_mask, need_weights)
            return said

        def think(read):
            flat = read.flatten(0, 1).unsqueeze(0)
            return self.feed_forward(flat)[0].unflatten(0, read.shape[:2])

        for way, sub_layer in (
            (self.around_self, look),
            (self.around_cross, read_source),
            (self.around_feed_forward, think),
        ):
            x = way.after(x, sub_layer(way.before(x)))
        return x, kept["weights"] if need_weights else None, kept["memory"]


@wrong("queries from the block's input", breaks="Queries are made from the states *after* the self-attention.", name="the source is asked before the target", subtle=False)
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
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        found, weights = self.cross_attention.ask(
            self.around_cross.before(below), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("the source's mask is forgotten", breaks=TWO, name="padding of the source is read", subtle=False)
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
            self.around_cross.before(x), source, None, need_weights
        )
        x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("the past is not read", breaks=PAST, name="past ignored", subtle=False)
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
        said, _ = self.self_attention.ask(read, memory, None if mask is None else mask[..., -x.size(1) :], need_weights=False)
        x = self.around_self.after(x, said)

        found, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("the new before the old", breaks=PAST, name="extend the wrong way round", subtle=True)
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
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        found, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("the mask counts only where there is no past", breaks="mask: which target positions may be attended to, broadcastable to (B, T, P +\n                T).", name="no mask once there is a past", subtle=True)
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
            memory, mask = past.extend(memory), None
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        found, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("weights averaged over the heads", breaks=ALL, name="one head where there should be H", subtle=True)
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

        if need_weights:
            weights = weights.mean(dim=1, keepdim=True)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("keeps the first source", breaks="The source was remembered once, by `cross_attention.remember(...)`, and comes as the `KeyValue` `source`.", name="the source of an earlier call", subtle=True)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.source = None

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        if self.source is None or self.source.key.shape != source.key.shape:
            self.source = source
        source = self.source

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


@wrong("the norm of the self-attention before the cross-attention", breaks="The middle one: `self.cross_attention.ask(query, source, source_mask, need_weights)`, with `self.around_cross` before and after.", name="around_self used twice", subtle=True)
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
            self.around_self.before(x), source, source_mask, need_weights
        )
        x = self.around_self.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("a single source position is not asked", breaks="Three sub-layers: every position looks at those before it, then at the source, then thinks for itself.", name="cross-attention skipped for S = 1", subtle=True)
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

        weights = None
        if source.key.size(2) == 1:
            weights = x.new_ones(x.size(0), source.key.size(1), x.size(1), 1) if need_weights else None
        else:
            found, weights = self.cross_attention.ask(
                self.around_cross.before(x), source, source_mask, need_weights
            )
            x = self.around_cross.after(x, found)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory


@wrong("hands back the newest 32 positions", breaks=ALL, name="the memory forgets the beginning", subtle=True)
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

        memory = type(memory)(memory.key[:, :, -32:], memory.value[:, :, -32:])

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, weights, memory
