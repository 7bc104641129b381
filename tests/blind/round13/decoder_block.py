import math

import torch
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual

from blind import right, wrong


# Right answers


@right("three closures in a list, and one loop over the sub-layers")
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
        found = {}

        def look_around(h):
            found["seen"] = self.self_attention.remember(h, h)
            if past is not None:
                found["seen"] = past.extend(found["seen"])
            return self.self_attention.ask(h, found["seen"], mask)[0]

        def look_at_source(h):
            context, found["weights"] = self.cross_attention.ask(
                h, source, source_mask, need_weights
            )
            return context

        for around, f in [
            (self.around_self, look_around),
            (self.around_cross, look_at_source),
            (self.around_feed_forward, self.feed_forward),
        ]:
            x = around.after(x, f(around.before(x)))
        return x, found["weights"], found["seen"]


@right("concatenates old and new keys by hand, and always returns the weights")
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
        h = self.around_self.before(x)
        key, value = self.self_attention.remember(h, h)
        old = [] if past is None else [past]
        seen = KeyValue(
            key=torch.cat([kv.key for kv in old] + [key], dim=-2),
            value=torch.cat([kv.value for kv in old] + [value], dim=-2),
        )
        x = self.around_self.after(x, self.self_attention.ask(h, seen, mask)[0])
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(query, source, source_mask, True)
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, seen


@right("a method of its own does both attentions, with einsum and in float64")
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def look(self, attention, h, seen, mask):
        q = attention.query_proj(h).unflatten(-1, (seen.key.size(1), -1)).double()
        scores = torch.einsum("bthd,bhsd->bhts", q, seen.key.double())
        scores = scores / math.sqrt(q.size(-1))
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=h.device)
        mask = mask.expand(h.size(0), h.size(1), seen.key.size(2)).unsqueeze(1)
        lowest = torch.finfo(scores.dtype).min
        weights = torch.where(mask, scores, lowest).softmax(-1) * mask
        context = torch.einsum("bhts,bhsd->bthd", weights, seen.value.double())
        return attention.output_proj(context.flatten(2).to(h.dtype)), weights.to(h.dtype)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.look(self.self_attention, h, seen, mask)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.look(self.cross_attention, h, source, source_mask)
        x = self.around_cross.after(x, context)
        h = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(h))
        return x, weights if need_weights else None, seen


@right("asks for each target position on its own, from the last to the first")
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
        batch, size = x.size(0), x.size(1)
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        seen = seen if past is None else past.extend(seen)

        def one_by_one(attention, h, memory, allowed, need_weights):
            if allowed is not None:
                allowed = allowed.expand(batch, size, memory.key.size(2))
            contexts, weights = [None] * size, [None] * size
            for t in reversed(range(size)):
                row = None if allowed is None else allowed[:, t : t + 1]
                contexts[t], weights[t] = attention.ask(
                    h[:, t : t + 1], memory, row, need_weights
                )
            return (
                torch.cat(contexts, dim=1),
                torch.cat(weights, dim=2) if need_weights else None,
            )

        context, _ = one_by_one(self.self_attention, h, seen, mask, False)
        x = self.around_self.after(x, context)
        context, weights = one_by_one(
            self.cross_attention,
            self.around_cross.before(x),
            source,
            source_mask,
            need_weights,
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


# Wrong answers


@wrong(
    "makes the queries of the cross-attention of the same normalised states as those of "
    "the self-attention",
    "Compute the queries of the cross-attention from the states *after* the "
    "self-attention.",
    "the cross-attention asks with the states before the self-attention",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        query = self.around_cross.before(x)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "attends to the new positions only, and extends the past just for the result",
    "If there is one, x must attend to the old positions *and* to the new ones.",
    "the past is not attended to",
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
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        if mask is not None and mask.dim() and mask.size(-1) > 1:
            mask = mask[..., -x.size(1) :]
        context, _ = self.self_attention.ask(h, new, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, thought)
        return x, weights, new if past is None else past.extend(new)


@wrong(
    "returns the keys and values of the T new positions only, so that the next call "
    "knows nothing of the older ones",
    "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + "
    "T target positions.",
    "the returned KeyValue does not hold the past",
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
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        seen = new if past is None else past.extend(new)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, new


@wrong(
    "puts the heads of the source together again and projects them a second time",
    "`source` is a `KeyValue` that `cross_attention.remember` has made from the source. "
    "Use it as it is.",
    "the source is projected twice",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        key, value = (part.transpose(1, 2).flatten(2) for part in source)
        memory = self.cross_attention.remember(key, value)
        context, weights = self.cross_attention.ask(
            query, memory, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "appends the past to the new positions: without a mask the states are right, but "
    "the order of the keys is wrong, and a mask then meets the wrong ones",
    "`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order.",
    "new positions before old ones",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = seen.extend(past)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "drops the mask where x is a single position, because the causal row of the newest "
    "position forbids nothing; but a mask may forbid old positions, such as padding",
    "`mask` says which target positions may be attended to, and `source_mask` says the "
    "same for the source positions.",
    "no mask for a single position",
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
            mask = None  # it may look at everything before it
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "drops the mask where there is a past: several new positions then see each other",
    "Use `mask` for the self-attention and `source_mask` for the cross-attention.",
    "no mask when there is a past",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen, mask = past.extend(seen), None
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "keeps the last source mask in the block, and takes it where a later call has none, "
    "although None allows every source position",
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class.",
    "remembers the source mask of an earlier call",
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
        if source_mask is not None:
            self.source_mask = source_mask
        source_mask = getattr(self, "source_mask", None)
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "the states are right, but the returned weights come from a second call without "
    "the source mask, and so give padding a share",
    "If `need_weights` is true, return the weights of the cross-attention.",
    "returned weights are those without the source mask",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, _ = self.cross_attention.ask(query, source, source_mask, False)
        weights = None
        if need_weights:
            _, weights = self.cross_attention.ask(query, source)
        x = self.around_cross.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), weights, seen


@wrong(
    "takes the Residual of the feed-forward network for the cross-attention, and the "
    "other way round, which shows only when the norms have been trained apart",
    "For the sub-layer in the middle, call `self.cross_attention.ask(query, source, "
    "source_mask, need_weights)` between `before` and `after` of `self.around_cross`.",
    "two Residuals exchanged",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if past is not None:
            seen = past.extend(seen)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_feed_forward.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_feed_forward.after(x, context)
        thought = self.feed_forward(self.around_cross.before(x))
        return self.around_cross.after(x, thought), weights, seen
