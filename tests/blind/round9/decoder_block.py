import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual


@right("sub-layers as local functions that are called in a loop")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        out = {"weights": None}

        def look_back(h):
            new = self.self_attention.remember(h, h)
            out["memory"] = new if past is None else past.extend(new)
            return self.self_attention.ask(h, out["memory"], mask, False)[0]

        def look_across(h):
            context, out["weights"] = self.cross_attention.ask(
                h, source, source_mask, need_weights
            )
            return context

        for around, f in [
            (self.around_self, look_back),
            (self.around_cross, look_across),
            (self.around_feed_forward, self.feed_forward),
        ]:
            x = around.after(x, f(around.before(x)))
        return x, out["weights"], out["memory"]


@right("weights are always computed and always returned")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(
            x, self.self_attention.ask(h, memory, mask, need_weights=False)[0]
        )
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights=True
        )
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@right("joins past and new keys with torch.cat, and asks the source position by position")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        batch, length = x.shape[:2]
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            joined = [torch.cat([old, new], dim=2) for old, new in zip(past, memory)]
            memory = type(memory)(*joined)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)

        if source_mask is not None:
            source_mask = source_mask.expand(batch, length, source.key.size(2))
        h = self.around_cross.before(x)
        pieces, weights = [], []
        for t in range(length):
            row = None if source_mask is None else source_mask[:, t : t + 1]
            found = self.cross_attention.ask(h[:, t : t + 1], source, row, need_weights)
            pieces.append(found[0])
            weights.append(found[1])
        x = self.around_cross.after(x, torch.cat(pieces, dim=1))

        h = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(h))
        return x, torch.cat(weights, dim=2) if need_weights else None, memory


@right("three methods, one per sub-layer, and explicit masks of True where there is none")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def target(self, x, mask, past):
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        every = past.extend(new) if past is not None else new
        if mask is None:
            mask = torch.ones(1, 1, every.key.shape[2], dtype=torch.bool).to(x.device)
        return self.around_self.after(x, self.self_attention.ask(h, every, mask)[0]), every

    def source(self, x, memory, mask, need_weights):
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), memory, mask, need_weights=need_weights
        )
        return self.around_cross.after(x, context), weights

    def position(self, x):
        f = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, f)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        x, every = self.target(x, mask, past)
        x, weights = self.source(x, source, source_mask, need_weights)
        return self.position(x), weights, every


@wrong(
    "makes the queries of the cross-attention from the block's input",
    "Make the queries of the cross-attention from the states *after* the self-attention.",
    "cross-attention asks with the block's input",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        query = self.around_cross.before(x)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "attends to the past, but returns only the new keys and values: wrong from the second step on",
    "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.",
    "returned KeyValue lacks the past",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        memory = new if past is None else past.extend(new)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, new


@wrong(
    "returns the weights of the self-attention, (B, H, T, P + T)",
    "If `need_weights` is true, return the weights of the cross-attention.",
    "weights of the wrong attention returned",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, weights = self.self_attention.ask(h, memory, mask, need_weights)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, _ = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "puts the new positions before the old ones: without a mask the states are right, with one (or in the returned KeyValue) they are not",
    "`past.extend(new)` concatenates two `KeyValue`, with the old one first.",
    "new positions placed before the past",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = memory.extend(past)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "drops the mask when x is one position, although the mask may hide some of the past",
    "Use `mask` for the self-attention and `source_mask` for the cross-attention.",
    "mask ignored for a single new position",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
            mask = None  # the newest position may attend to everything
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "reads a source_mask with two axes as (B, S); one of (T, S) is then wrong or does not fit",
    "source_mask: which source positions may be attended to, broadcastable to (B, T, S).",
    "two-dimensional source mask misread",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        if source_mask is not None and source_mask.dim() == 2:
            source_mask = source_mask[:, None, :]
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "uses the past in eval mode only; in train mode it is ignored",
    "If there is one, x must attend to the old positions *and* to the new ones.",
    "past ignored in train mode",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None and not self.training:  # only for generating
            memory = past.extend(memory)
        if mask is not None:
            mask = mask[..., -memory.key.size(2) :]
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "exchanges the norms of the cross-attention and of the feed-forward network: the same only while both have their first parameters",
    "For the sub-layer in the middle, call `self.cross_attention.ask(query, source, source_mask, need_weights)` between `before` and `after` of `self.around_cross`.",
    "two sub-layers use each other's norm",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        first, third, second = (
            self.around_self, self.around_cross, self.around_feed_forward,
        )
        h = first.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        x = first.after(x, self.self_attention.ask(h, memory, mask)[0])
        context, weights = self.cross_attention.ask(
            second.before(x), source, source_mask, need_weights
        )
        x = second.after(x, context)
        x = third.after(x, self.feed_forward(third.before(x)))
        return x, weights, memory


@wrong(
    "cuts the source's keys and values off from the graph: the outputs are right, but no gradient reaches the encoder",
    "`source` is a `KeyValue` that `cross_attention.remember` has made of the source. Use it as it is.",
    "source detached: encoder gets no gradient",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        source = type(source)(*(tensor.detach() for tensor in source))
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "adds the causal mask to every mask: right for causal masks, wrong for one that allows a later position",
    "`mask` says which target positions may be attended to, and `source_mask` says the same for the source positions.",
    "own causal mask on top of the given one",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network. The arguments are
    those of `EncoderBlock`."""

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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        length, total = x.size(1), memory.key.size(2)
        if mask is not None:
            shape = (length, total)
            causal = torch.ones(shape, dtype=torch.bool, device=x.device)
            mask = mask & causal.tril(total - length)
        context, _ = self.self_attention.ask(h, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), weights, memory
