import torch
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

AFTER = "Compute the queries of the cross-attention from the states *after* the self-attention."
MASKS = "Use `mask` for the self-attention and `source_mask` for the cross-attention."
SOURCE_MASK = "source_mask: which source positions may be attended to, broadcastable to (B, T, S); None allows all."
TARGET_MASK = "mask: which target positions may be attended to, broadcastable to (B, T, P + T); None allows all."
PAST = "If there is one, x must attend to the old positions *and* to the new ones."
ORDER = "`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order."
WEIGHTS = "If `need_weights` is true, return the weights of the cross-attention."
AROUND = "call `self.cross_attention.ask(query, source, source_mask, need_weights)` between `before` and `after` of `self.around_cross`."
GRADIENTS = "Gradients must be right, too."


class Base(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def first(self, x, mask, past):
        """The sub-layer of the self-attention, done right."""
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        added, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        return self.around_self.after(x, added), memory

    def second(self, x, source, source_mask, need_weights):
        """The sub-layer of the cross-attention, done right."""
        h = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        return self.around_cross.after(x, added), weights

    def third(self, x):
        """The sub-layer of the feed-forward network, done right."""
        around = self.around_feed_forward
        return around.after(x, self.feed_forward(around.before(x)))


# ---------------------------------------------------------------- right answers


@right("always computes and returns the weights")
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        memory = new if past is None else past.extend(new)
        x = self.around_self.after(x, self.self_attention.ask(h, memory, mask)[0])
        h = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(h, source, source_mask)
        x = self.around_cross.after(x, added)
        h = self.around_feed_forward.before(x)
        return (
            self.around_feed_forward.after(x, self.feed_forward(h)),
            weights,
            memory,
        )


@right("starts from an empty past and concatenates by hand")
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        if past is None:
            past = KeyValue(*(part[:, :, :0] for part in new))
        both = KeyValue(*(torch.cat(pair, dim=-2) for pair in zip(past, new)))
        added = self.self_attention.ask(h, both, mask)[0]
        x, weights = self.second(
            self.around_self.after(x, added), source, source_mask, need_weights
        )
        return self.third(x), weights, both


@right("residuals written out, with their norms and dropouts")
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        found = {}

        def look_at_target(h):
            new = self.self_attention.remember(h, h)
            found["memory"] = past.extend(new) if past is not None else new
            return self.self_attention.ask(h, found["memory"], mask, False)[0]

        def look_at_source(h):
            added, found["weights"] = self.cross_attention.ask(
                h, source, source_mask, need_weights
            )
            return added

        for part, f in (
            (self.around_self, look_at_target),
            (self.around_cross, look_at_source),
            (self.around_feed_forward, self.feed_forward),
        ):
            if part.pre_norm:
                x = x + part.dropout(f(part.norm(x)))
            else:
                x = part.norm(x + part.dropout(f(x)))
        return x, found["weights"], found["memory"]


@right("one query at a time in both attentions, weights put together again")
class DecoderBlock(Base):
    @staticmethod
    def one_by_one(attention, h, memory, mask):
        B, T, S = h.size(0), h.size(1), memory.key.size(2)
        if mask is not None:
            mask = mask.expand(B, T, S)
        answers = [
            attention.ask(
                h[:, t : t + 1], memory, None if mask is None else mask[:, t : t + 1]
            )
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
        added, _ = self.one_by_one(self.self_attention, h, memory, mask)
        x = self.around_self.after(x, added)
        h = self.around_cross.before(x)
        added, weights = self.one_by_one(self.cross_attention, h, source, source_mask)
        x = self.around_cross.after(x, added)
        return self.third(x), weights if need_weights else None, memory


# ---------------------------------------------------------------- wrong answers


@wrong(
    "the cross-attention asks with the input of the block",
    breaks=AFTER,
    name="queries from before the self-attention",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        y, memory = self.first(x, mask, past)
        query = self.around_cross.before(x)
        added, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        return self.third(self.around_cross.after(y, added)), weights, memory


@wrong("extends the new KeyValue by the old one", breaks=ORDER, name="new before old")
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = memory.extend(past)
        added, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, added)
        x, weights = self.second(x, source, source_mask, need_weights)
        return self.third(x), weights, memory


@wrong(
    "attends to everything, but returns the new KeyValue only",
    breaks="the `KeyValue` of all P + T target positions.",
    name="the returned cache does not grow",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        new = self.self_attention.remember(h, h)
        memory = new if past is None else past.extend(new)
        added, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, added)
        x, weights = self.second(x, source, source_mask, need_weights)
        return self.third(x), weights, new


@wrong(
    "returns the weights of the self-attention",
    breaks=WEIGHTS,
    name="weights of the wrong attention",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if past is not None:
            memory = past.extend(memory)
        added, weights = self.self_attention.ask(h, memory, mask, need_weights)
        x = self.around_self.after(x, added)
        x, _ = self.second(x, source, source_mask, False)
        return self.third(x), weights, memory


@wrong(
    "swaps the residuals of the second and the third sub-layer",
    breaks=AROUND,
    name="norms swapped, which shows only after training",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        x, memory = self.first(x, mask, past)
        h = self.around_feed_forward.before(x)
        added, weights = self.cross_attention.ask(h, source, source_mask, need_weights)
        x = self.around_feed_forward.after(x, added)
        h = self.around_cross.before(x)
        return self.around_cross.after(x, self.feed_forward(h)), weights, memory


@wrong(
    "passes source_mask on only where weights are needed",
    breaks=MASKS,
    name="the fast path has no source mask",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        x, memory = self.first(x, mask, past)
        h = self.around_cross.before(x)
        if need_weights:
            added, weights = self.cross_attention.ask(h, source, source_mask)
        else:
            added, weights = self.cross_attention.ask(h, source, need_weights=False)
        return self.third(self.around_cross.after(x, added)), weights, memory


@wrong(
    "detaches the past, as if it were a cache for inference only",
    breaks=GRADIENTS,
    name="no gradient to the past",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        if past is not None:
            past = KeyValue(past.key.detach(), past.value.detach())
        x, memory = self.first(x, mask, past)
        x, weights = self.second(x, source, source_mask, need_weights)
        return self.third(x), weights, memory


@wrong(
    "drops the mask for a single new token, which 'may see everything before it'",
    breaks=TARGET_MASK,
    name="no mask when T = 1",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        x, memory = self.first(x, mask if x.size(1) > 1 else None, past)
        x, weights = self.second(x, source, source_mask, need_weights)
        return self.third(x), weights, memory


@wrong(
    "lets a row of source_mask without True see everything, for fear of NaN",
    breaks=SOURCE_MASK,
    name="opens an empty source",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        x, memory = self.first(x, mask, past)
        if source_mask is not None:
            source_mask = source_mask | ~source_mask.any(dim=-1, keepdim=True)
        x, weights = self.second(x, source, source_mask, need_weights)
        return self.third(x), weights, memory


@wrong(
    "uses the past in eval mode only, because training has no cache",
    breaks=PAST,
    name="past ignored in train mode",
)
class DecoderBlock(Base):
    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        if self.training and past is not None:
            past = None
            if mask is not None:
                mask = mask[..., -x.size(1) :]
        x, memory = self.first(x, mask, past)
        x, weights = self.second(x, source, source_mask, need_weights)
        return self.third(x), weights, memory
