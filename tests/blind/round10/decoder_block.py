import torch
from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong
from torch import nn


@right(
    'a list of (around, function) pairs that is worked off in one loop'
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
        kept = {}

        def to_itself(h):
            new = self.self_attention.remember(h, h)
            kept["memory"] = new if past is None else past.extend(new)
            return self.self_attention.ask(h, kept["memory"], mask, False)[0]

        def to_source(h):
            context, kept["weights"] = self.cross_attention.ask(
                h, source, source_mask, need_weights
            )
            return context

        for around, f in (
            (self.around_self, to_itself),
            (self.around_cross, to_source),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, kept["weights"], kept["memory"]


@right(
    'concatenates the keys and the values by hand, and always returns the weights, which the text allows'
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = type(memory)(
                torch.cat((past.key, memory.key), dim=2),
                torch.cat((past.value, memory.value), dim=2),
            )
        x = self.around_self.after(x, self.self_attention.ask(h, memory, mask)[0])
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@right(
    'both attentions ask for one target position after the other'
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

    @staticmethod
    def one_by_one(attention, queries, memory, mask):
        B, T, _ = queries.shape
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=queries.device)
        mask = mask.expand(B, T, memory.key.size(2))
        answers = [
            attention.ask(queries[:, t : t + 1], memory, mask[:, t : t + 1])
            for t in range(T)
        ]
        contexts, weights = zip(*answers)
        return torch.cat(contexts, dim=1), torch.cat(weights, dim=2)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        memory = memory if past is None else past.extend(memory)
        context, _ = self.one_by_one(self.self_attention, h, memory, mask)
        x = self.around_self.after(x, context)
        context, weights = self.one_by_one(
            self.cross_attention, self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, context)
        y = self.feed_forward(self.around_feed_forward.before(x))
        y = self.around_feed_forward.after(x, y)
        return y, (weights if need_weights else None), memory


@right(
    'methods of their own for the two attentions, keyword arguments, and no variable that is assigned twice'
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

    def look_back(self, x, past, mask):
        normed = self.around_self.before(x)
        new = self.self_attention.remember(key=normed, value=normed)
        everything = new
        if past is not None:
            everything = past.extend(new)
        found = self.self_attention.ask(query=normed, memory=everything, mask=mask)
        return self.around_self.after(x, found[0]), everything

    def look_at(self, x, source, mask, need_weights):
        found, weights = self.cross_attention.ask(
            query=self.around_cross.before(x),
            memory=source,
            mask=mask,
            need_weights=need_weights,
        )
        return self.around_cross.after(x, found), weights

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        after_self, memory = self.look_back(x, past, mask)
        after_cross, weights = self.look_at(after_self, source, source_mask, need_weights)
        around = self.around_feed_forward
        change = self.feed_forward(around.before(after_cross))
        return around.after(after_cross, change), weights, memory


@wrong(
    'the queries of the cross-attention are made from x as it came in, before the self-attention changed it; wrong for nearly every input',
    'Make the queries of the cross-attention from the states *after* the self-attention.',
    'Cross-attention asks with the old states',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        y = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(y, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'ignores `past`: with a past, x attends only to itself, and the returned KeyValue lacks the earlier positions (and a mask with P + T columns does not fit)',
    'If there is one, x must attend to the old positions *and* to the new ones.',
    'Past ignored',
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
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'returns the weights of the self-attention, (B, H, T, P + T), where those of the cross-attention are asked for',
    'If `need_weights` is true, return the weights of the cross-attention.',
    'Weights of the wrong attention',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, weights = self.self_attention.ask(h, memory, mask, need_weights)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, _ = self.cross_attention.ask(
            h, source, source_mask, False
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'attends to old and new positions, but returns only the KeyValue of the new ones: wrong with a past',
    'The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.',
    'Returned memory lacks the past',
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
        memory = self.self_attention.remember(h, h)
        seen = memory if past is None else past.extend(memory)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'with a past, the mask is left away ("everything old may be seen"): right for one new token that may see all, wrong for two or more new tokens and for masks that hide old positions',
    'mask: which target positions may be attended to, broadcastable to (B, T, P + T).',
    'No mask when there is a past',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory, mask = past.extend(memory), None
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'adds the contexts of the cross-attention by hand: right for pre-norm blocks without dropout; in a post-norm block, the middle norm is missing, and with dropout nothing is dropped there',
    "dropout: the share of a sub-layer's output that is dropped in training.",
    'Middle sub-layer without its after',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = x + context
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'collects the contexts of the sentences in a tensor of zeros of the default dtype: right in float32; bfloat16 or float64 vectors give another dtype or an error',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'Contexts collected in float32',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        found, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        contexts = torch.zeros(x.shape)
        for b in range(len(x)):
            contexts[b] = found[b]
        x = self.around_cross.after(x, contexts)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'puts the new keys before the old ones and moves the columns of the mask along, so all states are right; only the order in the returned KeyValue is wrong, with a past',
    '`past.extend(new)` concatenates two `KeyValue`, with the old one first.',
    'Returned memory in the wrong order',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = memory.extend(past)
            if mask is not None and mask.size(-1) > 1:
                mask = mask.roll(x.size(1), dims=-1)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'uses around_self for the cross-attention as well: right while the norms hold their first weights, wrong once they were trained or loaded',
    'For the sub-layer in the middle, call `self.cross_attention.ask(query, source, source_mask, need_weights)` between `before` and `after` of `self.around_cross`.',
    'Cross-attention uses the wrong norm',
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_self.before(x)
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_self.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory


@wrong(
    'takes the first row of the source mask for all target positions: right for a padding mask (B, 1, S), wrong for a mask (B, T, S) whose rows differ',
    'source_mask: which source positions may be attended to, broadcastable to (B, T, S).',
    "One row of the source's mask for all queries",
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
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_cross.before(x)
        if source_mask is not None:
            source_mask = source_mask[..., :1, :]
        context, weights = self.cross_attention.ask(
            h, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, h), weights, memory
