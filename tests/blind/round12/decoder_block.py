import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual

from blind import right, wrong

MASKS = "Use `mask` for the self-attention and `source_mask` for the cross-attention."
QUERIES = "Compute the queries of the cross-attention from the states *after* the self-attention."
PAST = "If there is one, x must attend to the old positions *and* to the new ones."
WEIGHTS = "If `need_weights` is true, return the weights of the cross-attention."
ORDER = "`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order."
RETURNS = "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions."
BROADCAST = "mask: which target positions may be attended to, broadcastable to (B, T, P + T)."
MIDDLE = "For the sub-layer in the middle, call `self.cross_attention.ask(query, source, source_mask, need_weights)` between `before` and `after` of `self.around_cross`."
GRAD = "Gradients must be right, too."


# wrong, plain


@wrong(
    "each attention gets the mask of the other one",
    MASKS,
    "masks exchanged",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(query, seen, source_mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(query, source, mask, need_weights)
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "the cross-attention asks with the queries of the self-attention",
    QUERIES,
    "cross-attention asks with the states before the self-attention",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "attends to the new positions only, and extends the past afterwards",
    PAST,
    "past not attended to",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        own = None if mask is None else mask[..., -x.size(1) :]
        context, _ = self.self_attention.ask(query, seen, own, False)
        if past is not None:
            seen = past.extend(seen)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "returns the mean of the heads' weights",
    RETURNS,
    "weights without the axis of the heads",
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        if weights is not None:
            weights = weights.mean(dim=1)
        return self.around_feed_forward.after(x, hidden), weights, seen


# wrong, subtle


@wrong(
    "puts the new positions before the old ones",
    ORDER,
    "past extended in the wrong order",
    subtle=True,
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = seen.extend(past)
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "attends to all, but returns the KeyValue of the new positions only",
    RETURNS,
    "returned KeyValue lacks the past",
    subtle=True,
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        new = self.self_attention.remember(query, query)
        seen = new if past is None else past.extend(new)
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, new


@wrong(
    "drops the mask as soon as there is a past, as if only one token could be new",
    MASKS,
    "no mask after the first step",
    subtle=True,
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = past.extend(seen)
            mask = None  # a new token may look at everything
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "takes the last T entries of the mask's first axis, which may be the batch",
    BROADCAST,
    "mask of three axes cut along the batch",
    subtle=True,
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = past.extend(seen)
        if mask is not None:
            mask = mask[-x.size(1) :]  # the rows of the new positions
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "uses around_self for the cross-attention as well, whose norm may differ",
    MIDDLE,
    "norm of the self-attention used for the cross-attention",
    subtle=True,
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_self.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_self.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@wrong(
    "detaches the past, so that no gradient reaches the earlier positions",
    GRAD,
    "gradient cut off at the past",
    subtle=True,
)
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        if past is not None:
            seen = KeyValue(past.key.detach(), past.value.detach()).extend(seen)
        context, _ = self.self_attention.ask(query, seen, mask, False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


# right


@right("starts from an empty past where there is none")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        new = self.self_attention.remember(query, query)
        if past is None:
            past = KeyValue(new.key[:, :, :0], new.value[:, :, :0])
        seen = past.extend(new)
        context = self.self_attention.ask(query, seen, mask)[0]
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), weights, seen


@right("concatenates by hand, and returns the weights even if nobody needs them")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        query = self.around_self.before(x)
        key, value = self.self_attention.remember(query, query)
        if past is not None:
            key = torch.cat((past.key, key), dim=-2)
            value = torch.cat((past.value, value), dim=-2)
        seen = KeyValue(key=key, value=value)
        context, _ = self.self_attention.ask(query, seen, mask)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, seen


@right("three closures in a loop over the sub-layers")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

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
        found = {"weights": None, "seen": past}

        def look_around(z):
            new = self.self_attention.remember(z, z)
            old = found["seen"]
            found["seen"] = new if old is None else old.extend(new)
            return self.self_attention.ask(z, found["seen"], mask, need_weights=False)[0]

        def look_at_source(z):
            context, found["weights"] = self.cross_attention.ask(
                z, source, source_mask, need_weights
            )
            return context

        for around, f in (
            (self.around_self, look_around),
            (self.around_cross, look_at_source),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, found["weights"], found["seen"]


@right("both attentions are asked position by position, the last one first")
class DecoderBlock(nn.Module):
    """Self-attention, cross-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def one_by_one(self, attention, query, memory, mask):
        batch, size, _ = query.shape
        if mask is not None:
            mask = mask.expand(batch, size, memory.key.size(2))
        answers = []
        for t in reversed(range(size)):
            row = None if mask is None else mask[:, t : t + 1]
            answers.insert(0, attention.ask(query[:, t : t + 1], memory, row, True))
        contexts, weights = zip(*answers)
        return torch.cat(contexts, dim=1), torch.cat(weights, dim=2)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        query = self.around_self.before(x)
        seen = self.self_attention.remember(query, query)
        seen = seen if past is None else past.extend(seen)
        context, _ = self.one_by_one(self.self_attention, query, seen, mask)
        x = self.around_self.after(x, context)
        context, weights = self.one_by_one(
            self.cross_attention, self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, hidden)
        return x, weights if need_weights else None, seen
