import torch
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

SKIP = "In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`."
AROUND = "With `around = Residual(...)`, compute a sub-layer as `around.after(x, f(around.before(x)))`."
EACH = "Each sub-layer f has a skip connection around it and a layer norm, LN."
SAME = "Queries, keys and values all come from the result of `self.around_self.before(x)`."
DROPOUT = "dropout: the share of a sub-layer's output that is dropped in training."
MASK = "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
RETURN = "Return the states, and the `KeyValue` that `self_attention.remember` returned."
GRADIENTS = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


class Base(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def second(self, x):
        around = self.around_feed_forward
        return around.after(x, self.feed_forward(around.before(x)))


# ---------------------------------------------------------------- right answers


@right("always asks for the weights and drops them")
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        inside = self.around_self.before(x)
        memory = self.self_attention.remember(inside, inside)
        contexts, weights = self.self_attention.ask(inside, memory, mask)
        del weights
        return self.second(self.around_self.after(x, contexts)), memory


@right("a loop over pairs of a residual and a function that notes its memory")
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        kept = []

        def attend_to_all(h):
            kept.append(self.self_attention.remember(h, h))
            return self.self_attention.ask(h, kept[-1], mask, need_weights=False)[0]

        for around, f in (
            (self.around_self, attend_to_all),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, kept[0]


@right("asks for one query after the other")
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        B, T, _ = x.shape
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if mask is not None:
            mask = mask.expand(B, T, T)
        contexts = []
        for t in range(T):
            row = None if mask is None else mask[:, t : t + 1]
            contexts.append(self.self_attention.ask(h[:, t : t + 1], memory, row)[0])
        return self.second(self.around_self.after(x, torch.cat(contexts, 1))), memory


@right("writes both formulas out, with the parts of the residuals")
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        first, second = self.around_self, self.around_feed_forward
        h = first.norm(x) if first.pre_norm else x
        memory = self.self_attention.remember(key=h, value=h)
        added = self.self_attention.ask(h, memory, mask, need_weights=False)[0]
        x = first.dropout(added) + x
        if not first.pre_norm:
            x = first.norm(x)
        h = second.norm(x) if second.pre_norm else x
        x = second.dropout(self.feed_forward(h)) + x
        return (x if second.pre_norm else second.norm(x)), memory


# ---------------------------------------------------------------- wrong answers


@wrong(
    "adds to the result of before instead of to x",
    breaks=SKIP,
    name="skip connection starts behind the norm",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        x = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        contexts, _ = self.self_attention.ask(x, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong(
    "no residual around the feed-forward network",
    breaks=EACH,
    name="second skip connection is missing",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        return self.feed_forward(self.around_feed_forward.before(x)), memory


@wrong(
    "the feed-forward network reads the input of the block",
    breaks=AROUND,
    name="sub-layers side by side",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_self.after(x, contexts)
        return self.around_feed_forward.after(x, hidden), memory


@wrong(
    "keys and values come from x, only the queries are normalized",
    breaks=SAME,
    name="remember gets x",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        memory = self.self_attention.remember(x, x)
        contexts, _ = self.self_attention.ask(
            self.around_self.before(x), memory, mask, need_weights=False
        )
        return self.second(self.around_self.after(x, contexts)), memory


@wrong(
    "uses around_self for both sub-layers",
    breaks="For the second sub-layer, call `self.feed_forward` between `before` and `after` of `self.around_feed_forward`.",
    name="one norm twice, which shows only after training",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        around = self.around_self
        h = around.before(x)
        memory = self.self_attention.remember(h, h)
        x = around.after(x, self.self_attention.ask(h, memory, mask)[0])
        return around.after(x, self.feed_forward(around.before(x))), memory


@wrong(
    "writes both residuals by hand and forgets the dropout",
    breaks=DROPOUT,
    name="no dropout in training",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        first, second = self.around_self, self.around_feed_forward
        h = first.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = x + contexts if first.pre_norm else first.norm(x + contexts)
        hidden = self.feed_forward(second.before(x))
        return x + hidden if second.pre_norm else second.norm(x + hidden), memory


@wrong(
    "without a mask, uses the one of the call before",
    breaks=CALLS,
    name="a mask that stays",
)
class EncoderBlock(Base):
    last_mask = None

    def forward(self, x, mask=None):
        if mask is not None:
            self.last_mask = mask
        elif self.last_mask is not None and self.last_mask.size(-1) == x.size(1):
            mask = self.last_mask
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        return self.second(self.around_self.after(x, contexts)), memory


@wrong(
    "returns the keys and values detached, like a cache for inference",
    breaks=GRADIENTS,
    name="no gradient through the KeyValue",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.second(self.around_self.after(x, contexts))
        return x, KeyValue(memory.key.detach(), memory.value.detach())


@wrong(
    "sets the returned keys and values of padding to 0",
    breaks=RETURN,
    name="cleans the KeyValue",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.second(self.around_self.after(x, contexts))
        if mask is not None and mask.dim() == 3 and mask.size(1) == 1:
            unused = ~mask[..., None]  # (B, 1, T, 1)
            memory = KeyValue(*(part.masked_fill(unused, 0) for part in memory))
        return x, memory


@wrong(
    "passes on padding masks only, which have three axes",
    breaks=MASK,
    name="ignores a mask with two axes",
)
class EncoderBlock(Base):
    def forward(self, x, mask=None):
        padding = mask if mask is not None and mask.dim() == 3 else None
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts, _ = self.self_attention.ask(h, memory, padding, need_weights=False)
        return self.second(self.around_self.after(x, contexts)), memory
