import torch
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)


@right("one method per sub-layer")
class DecoderBlock(Given):
    def look_back(self, x, mask, past):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        seen = seen if past is None else past.extend(seen)
        context, _ = self.self_attention.ask(read, seen, mask, False)
        return self.around_self.after(x, context), seen

    def look_across(self, x, source, mask, need_weights):
        read = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(read, source, mask, need_weights)
        return self.around_cross.after(x, context), weights

    def think(self, x):
        around = self.around_feed_forward
        return around.after(x, self.feed_forward(around.before(x)))

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        x, seen = self.look_back(x, mask, past)
        x, weights = self.look_across(x, source, source_mask, need_weights)
        return self.think(x), weights, seen


@right("concatenates keys and values itself, always asks for the weights")
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = KeyValue(
                torch.cat([past.key, seen.key], dim=2),
                torch.cat([past.value, seen.value], dim=2),
            )
        y = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        added, weights = self.cross_attention.ask(
            self.around_cross.before(y), source, source_mask, need_weights=True
        )
        z = self.around_cross.after(y, added)
        added = self.feed_forward(self.around_feed_forward.before(z))
        return self.around_feed_forward.after(z, added), weights, seen


@right("starts from an empty past of zero positions, so there is one path only")
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        new = self.self_attention.remember(read, read)
        if past is None:
            past = KeyValue(new.key[:, :, :0], new.value[:, :, :0])
        seen = past.extend(new)
        steps = (
            (self.around_self, self.self_attention, seen, mask),
            (self.around_cross, self.cross_attention, source, source_mask),
        )
        for around, attention, memory, allowed in steps:
            added, weights = attention.ask(
                around.before(x), memory, allowed, need_weights
            )
            x = around.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, added)
        return x, weights if need_weights else None, seen


@right("norm, dropout and skip by hand, masks expanded to full size")
class DecoderBlock(Given):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__(dim, num_heads, hidden_dim, dropout, pre_norm)
        self.norm_first = pre_norm

    def sublayer(self, around, x, function):
        if self.norm_first:
            return x + around.dropout(function(around.norm(x)))
        return around.norm(x + around.dropout(function(x)))

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        kept = {}

        def own(read):
            kept["seen"] = self.self_attention.remember(read, read)
            if past is not None:
                kept["seen"] = past.extend(kept["seen"])
            return self.self_attention.ask(read, kept["seen"], mask)[0]

        def other(read):
            context, kept["weights"] = self.cross_attention.ask(
                read, source, source_mask, need_weights
            )
            return context

        x = self.sublayer(self.around_self, x, own)
        x = self.sublayer(self.around_cross, x, other)
        x = self.sublayer(self.around_feed_forward, x, self.feed_forward)
        return x, kept["weights"], kept["seen"]


@wrong(
    "the queries of the cross-attention are made from x as it came into the block",
    "Queries are made from the states *after* the self-attention.",
    "cross-attention asks with the old states",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        y = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        added, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        y = self.around_cross.after(y, added)
        added = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(y, added), weights, seen


@wrong(
    "the source mask is not passed to the cross-attention: the source's padding is looked at",
    "`mask` says which target positions may be seen, `source_mask` which source positions.",
    "source mask forgotten",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, need_weights=need_weights, mask=None
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "extends the new keys by the old ones: with a past the order is wrong, and the mask hides the wrong keys",
    "`past.extend(new)` concatenates two `KeyValue`, the old one first.",
    "past is appended behind the new positions",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = seen.extend(past)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "returns the keys of the new positions only: the next step has lost all but the last ones when there is a past",
    "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of",
    "cache holds only the new positions",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        new = self.self_attention.remember(read, read)
        seen = new if past is None else past.extend(new)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, new


@wrong(
    "with a past the mask is dropped because one token may see everything: several new tokens see each other's future",
    "`mask` says which target positions may be seen, `source_mask` which source positions.",
    "mask ignored when there is a past",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen, mask = past.extend(seen), None
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "returns the weights averaged over the heads: (B, T, S) in place of (B, H, T, S)",
    "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of",
    "weights averaged over heads",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        if weights is not None:
            weights = weights.mean(dim=1)
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "uses the first row of the source mask for all queries: right for a padding mask (B, 1, S), wrong for a (B, T, S) whose rows differ",
    "source_mask: which source positions may be attended to, broadcastable to (B,",
    "only the first row of the source mask",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        if source_mask is not None:
            source_mask = source_mask[..., :1, :]
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "the cross-attention goes through around_self: equal while all norms have their first weights, wrong after training",
    "Around each sub-layer f there is a skip connection, and each sub-layer has a norm.",
    "norm of another sub-layer",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        around = self.around_self
        read = around.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        x = around.after(x, self.self_attention.ask(read, seen, mask)[0])
        added, weights = self.cross_attention.ask(
            around.before(x), source, source_mask, need_weights
        )
        x = around.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "keeps its own past and ignores the argument's contents: right when one target is written step by step, wrong when two targets take turns or a past is used twice",
    "`past` is what this block returned for the positions before x, if there were any.",
    "past kept inside the block",
)
class DecoderBlock(Given):
    kept = None

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = (self.kept or past).extend(seen)
        self.kept = seen
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), weights, seen


@wrong(
    "the feed-forward's result is added to the states before the cross-attention, which itself adds nothing to them: with weights asked for everything looks right, but the source reaches the states only through the feed-forward",
    "Around each sub-layer f there is a skip connection, and each sub-layer has a norm.",
    "skip connection around two sub-layers",
)
class DecoderBlock(Given):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        if past is not None:
            seen = past.extend(seen)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        read = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            read, source, source_mask, need_weights
        )
        y = self.around_cross.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(x, added), weights, seen
