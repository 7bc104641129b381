import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual

from blind import right, wrong

SKIP = "In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`."
MASK = "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
SUB = "Each sub-layer f has a skip connection around it and a layer norm, LN."
QKV = "Queries, keys and values all come from the result of `self.around_self.before(x)`."
KINDS = "Pre-norm blocks and post-norm blocks differ in where they apply the norm:"
AFTER = "Here `before` prepares the input of f, and `after` applies dropout to the output of f and adds it to x."
SECOND = "For the second sub-layer, call `self.feed_forward` between `before` and `after` of `self.around_feed_forward`."
KV = "Return the states, and the `KeyValue` that `self_attention.remember` returned."
KEEP = "Do not change the inputs."
GRAD = "Gradients must be right, too."


# wrong, plain


@wrong(
    "the skip connections start from the normed states, not from x",
    SKIP,
    "skip connection from the result of before",
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        x = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(x, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong(
    "does not hand the mask on",
    MASK,
    "mask forgotten",
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory)
        x = self.around_self.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), memory


@wrong(
    "the feed-forward network has no skip connection",
    SUB,
    "second skip connection missing",
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.around_self.after(x, context)
        return self.feed_forward(self.around_feed_forward.before(x)), memory


@wrong(
    "keys and values come from x, only the queries from before(x)",
    QKV,
    "keys and values not normed",
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        memory = self.self_attention.remember(x, x)
        query = self.around_self.before(x)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.around_self.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), memory


@wrong(
    "adds the dropped-out context to x in place, so the caller's x changes",
    KEEP,
    "input changed in place",
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x += self.around_self.dropout(context)
        if not self.around_self.pre_norm:
            x = self.around_self.norm(x)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), memory


# wrong, subtle


@wrong(
    "always computes a pre-norm block",
    KINDS,
    "post-norm ignored",
    subtle=True,
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.norm(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = x + self.around_self.dropout(context)
        hidden = self.feed_forward(self.around_feed_forward.norm(x))
        return x + self.around_feed_forward.dropout(hidden), memory


@wrong(
    "adds and norms by hand, and forgets the dropout",
    AFTER,
    "no dropout in training",
    subtle=True,
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def add(self, around, x, added):
        y = x + added
        return y if around.pre_norm else around.norm(y)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.add(self.around_self, x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.add(self.around_feed_forward, x, hidden), memory


@wrong(
    "uses around_self for both sub-layers, whose norms differ once they are trained",
    SECOND,
    "the first norm used twice",
    subtle=True,
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.around_self.after(x, context)
        hidden = self.feed_forward(self.around_self.before(x))
        return self.around_self.after(x, hidden), memory


@wrong(
    "returns detached keys and values, through which no gradient flows",
    KV,
    "KeyValue detached",
    subtle=True,
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.around_self.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        kept = KeyValue(memory.key.detach(), memory.value.detach())
        return self.around_feed_forward.after(x, hidden), kept


@wrong(
    "takes a mask of two axes for a padding mask (B, T), although it is (T, T)",
    MASK,
    "mask of two axes misread",
    subtle=True,
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 2:
            mask = mask[:, None, :]  # (B, 1, T)
        query = self.around_self.before(x)
        memory = self.self_attention.remember(query, query)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.around_self.after(x, context)
        hidden = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, hidden), memory


# right


@right("a helper takes each sub-layer as a function, and a closure keeps the KeyValue")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    @staticmethod
    def around(residual, f, x):
        return residual.after(x, f(residual.before(x)))

    def forward(self, x, mask=None):
        kept = []

        def look(z):
            kept.append(self.self_attention.remember(key=z, value=z))
            return self.self_attention.ask(z, kept[0], mask=mask, need_weights=False)[0]

        for residual, f in (
            (self.around_self, look),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = self.around(residual, f, x)
        return x, kept.pop()


@right("asks position by position, each with its own row of the mask")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        batch, size, _ = x.shape
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        whole = None if mask is None else mask.expand(batch, size, size)
        contexts = []
        for t in range(size):
            row = None if whole is None else whole[:, t : t + 1]
            contexts.append(self.self_attention.ask(normed[:, t : t + 1], memory, row)[0])
        between = self.around_self.after(x, torch.cat(contexts, dim=1))
        f = self.feed_forward(self.around_feed_forward.before(between))
        return self.around_feed_forward.after(between, f), memory


@right("the feed-forward network reads all positions as sentences of one position")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        context, weights = self.self_attention.ask(z, memory, mask, True)
        y = self.around_self.after(x, context)
        flat = self.around_feed_forward.before(y).flatten(0, 1)[:, None]  # (B T, 1, D)
        hidden = self.feed_forward(flat)[:, 0].unflatten(0, (x.size(0), x.size(1)))
        return self.around_feed_forward.after(y, hidden), memory


@right("calls the attention as a whole, and remembers once more for the KeyValue")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        before = self.around_self.before(x)
        context, _ = self.self_attention(before, before, before, mask, need_weights=False)
        memory = self.self_attention.remember(before, before)
        x = self.around_self.after(x, context)
        before = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(before))
        return (x, memory)
