import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual

from blind import right, wrong


@right('three (Residual, function) pairs in one loop, with a dict for what is returned')
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
        found = {}

        def look_back(states):
            new = self.self_attention.remember(states, states)
            found["all"] = new if past is None else past.extend(new)
            return self.self_attention.ask(states, found["all"], mask, need_weights=False)

        def look_over(states):
            contexts, found["weights"] = self.cross_attention.ask(
                states, source, source_mask, need_weights
            )
            return contexts, None

        def think(states):
            return self.feed_forward(states), None

        for around, f in zip(
            (self.around_self, self.around_cross, self.around_feed_forward),
            (look_back, look_over, think),
        ):
            x = around.after(x, f(around.before(x))[0])
        return x, found["weights"], found["all"]


@right('always asks for the weights and always returns them; keywords throughout')
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
        first = self.around_self.before(x)
        memory = self.self_attention.remember(key=first, value=first)
        memory = memory if past is None else past.extend(memory)
        attended = self.self_attention.ask(query=first, memory=memory, mask=mask)[0]
        y = self.around_self.after(x, attended)
        attended, weights = self.cross_attention.ask(
            query=self.around_cross.before(y),
            memory=source,
            mask=source_mask,
            need_weights=True,
        )
        z = self.around_cross.after(y, attended)
        fed = self.feed_forward(self.around_feed_forward.before(z))
        return self.around_feed_forward.after(z, fed), weights, memory


@right('cross-attention one query at a time, feed-forward network one position at a time')
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)

        rows = [None] * x.shape[1]
        if source_mask is not None:
            shape = (x.shape[0], x.shape[1], source.key.shape[2])
            rows = torch.broadcast_to(source_mask, shape).split(1, dim=1)
        answers = [
            self.cross_attention.ask(query, source, row, need_weights)
            for query, row in zip(self.around_cross.before(x).split(1, dim=1), rows)
        ]
        x = self.around_cross.after(x, torch.cat([context for context, _ in answers], dim=1))
        weights = None
        if need_weights:
            weights = torch.cat([weight for _, weight in answers], dim=2)
        columns = self.around_feed_forward.before(x).unbind(dim=1)
        fed = torch.stack([self.feed_forward(column) for column in columns], dim=1)
        return self.around_feed_forward.after(x, fed), weights, memory


@right('writes both masks out in full before it asks')
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

    @staticmethod
    def _full(mask, queries, memory):
        """Expand a mask, or make one, to (B, queries, keys)."""
        if mask is None:
            mask = torch.tensor(True, device=queries.device)
        return mask.expand(queries.shape[0], queries.shape[1], memory.key.shape[2])

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        allowed = self._full(mask, x, memory)
        x = self.around_self.after(x, self.self_attention.ask(inner, memory, allowed)[0])
        inner = self.around_cross.before(x)
        allowed = self._full(source_mask, x, source)
        out, weights = self.cross_attention.ask(inner, source, allowed, need_weights)
        x = self.around_cross.after(x, out)
        inner = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(inner))
        return x, (weights if need_weights else None), memory


@wrong(
    "makes the queries of the cross-attention from the block's input",
    'Compute the queries of the cross-attention from the states *after* the self-attention.',
    "cross-attention's queries from before the self-attention",
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
        query = self.around_cross.before(x)
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(query, source, source_mask, need_weights)
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    "forgets the source's mask",
    'Use `mask` for the self-attention and `source_mask` for the cross-attention.',
    'source mask forgotten',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, need_weights=need_weights, mask=None
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'extends the past only after the self-attention, which therefore sees only the new positions',
    'If there is one, x must attend to the old positions *and* to the new ones.',
    'self-attention ignores the past',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if mask is not None and mask.shape[-1] > 1:
            mask = mask[..., -x.shape[1] :]
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        if past is not None:
            memory = past.extend(memory)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'puts the new keys and values in front of the old ones',
    '`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order.',
    'old and new positions in the wrong order',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = memory.extend(past)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'returns the KeyValue of the new positions only',
    'The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.',
    'old positions missing in the returned KeyValue',
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
        inner = self.around_self.before(x)
        new = self.self_attention.remember(inner, inner)
        everything = new if past is None else past.extend(new)
        contexts, _ = self.self_attention.ask(inner, everything, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, new


@wrong(
    "returns weights that are averaged over the heads, as torch's nn.MultiheadAttention does",
    'The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.',
    'weights averaged over the heads',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        if need_weights:
            weights = weights.mean(dim=1)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'asks the cross-attention without the norm (the same in a post-norm block)',
    'For the sub-layer in the middle, call `self.cross_attention.ask(query, source, source_mask, need_weights)` between `before` and `after` of `self.around_cross`.',
    'no `before` around the cross-attention',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(x, source, source_mask, need_weights)
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'makes a causal mask of its own if it gets none, so that PeekingBlock cannot peek',
    'The class below is your decoder block without the causal mask, so its positions can look ahead.',
    'causal although the mask is None',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        if mask is None:
            new, total = x.shape[1], memory.key.shape[2]
            mask = torch.ones(new, total, dtype=torch.bool, device=x.device)
            mask = mask.tril(total - new)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'drops the mask for a single new position with a past, because such a position may see all earlier ones under a causal mask',
    '`mask` says which target positions may be attended to, and `source_mask` says the same for the source positions.',
    'mask ignored for a single new position',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
            if x.shape[1] == 1:
                mask = None  # the last position may look at all the others
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory


@wrong(
    'extends the KeyValue that it has kept itself, if it has the shape of the past that it gets',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'past of an earlier call',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            kept = getattr(self, "kept", None)
            if kept is None or kept.key.shape != past.key.shape:
                kept = past
            memory = kept.extend(memory)
        self.kept = memory
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, weights, memory
