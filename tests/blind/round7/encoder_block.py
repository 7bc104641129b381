import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


@right('a helper wraps a sub-layer, the sub-layers are local functions')
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def _around(self, residual, x, f):
        return residual.after(x, f(residual.before(x)))

    def forward(self, x, mask=None):
        kept = []

        def look(read):
            kept.append(self.self_attention.remember(read, read))
            return self.self_attention.ask(read, kept[0], mask)[0]

        y = self._around(self.around_self, x, look)
        return self._around(self.around_feed_forward, y, self.feed_forward), kept[0]


@right('asks and thinks position by position')
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if mask is not None:
            mask = mask.broadcast_to(batch, length, length)
        contexts = []
        for t in range(length):
            row = None if mask is None else mask[:, t : t + 1]
            contexts.append(self.self_attention.ask(read[:, t : t + 1], memory, row)[0])
        x = self.around_self.after(x, torch.cat(contexts, dim=1))
        read = self.around_feed_forward.before(x)
        thoughts = [self.feed_forward(read[:, t : t + 1]) for t in range(length)]
        return self.around_feed_forward.after(x, torch.cat(thoughts, dim=1)), memory


@right('all in one expression per sub-layer, weights not computed')
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        attention, outer = self.self_attention, self.around_feed_forward
        inner = self.around_self.before(x)
        seen = attention.remember(key=inner, value=inner)
        x = self.around_self.after(
            x, attention.ask(inner, seen, mask, need_weights=False)[0]
        )
        return outer.after(x, self.feed_forward(outer.before(x))), seen


class AttentionHalf(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def look(self, x, mask):
        states = self.around_self.before(x)
        memory = self.self_attention.remember(states, states)
        context, _ = self.self_attention.ask(states, memory, mask)
        return self.around_self.after(x, context), memory


@right('subclass with one method for each sub-layer, and an extra argument that switches the network off')
class EncoderBlock(AttentionHalf):
    def forward(self, x, mask=None, think=True):
        x, memory = self.look(x, mask)
        if think:
            added = self.feed_forward(self.around_feed_forward.before(x))
            x = self.around_feed_forward.after(x, added)
        return x, memory


@wrong(
    'the skip connection starts at the normed sequence: wrong in every pre-norm block',
    'Around each sub-layer f there is a skip connection, and each sub-layer has a norm.',
    'skip connection after the norm',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        x = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(x, memory, mask)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong(
    "the second skip connection adds to the block's input: what the attention found is lost from it",
    "The course's `Residual` can do both. With `around = Residual(...)`, a sub-layer reads `around.before(x)`, and `around.after(x, added)` adds the sub-layer's output to the skip connection: `after(x, f(before(x)))`.",
    "second skip starts at the block's input",
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, memory, mask)
        y = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(x, thought), memory


@wrong(
    'the mask is not handed on: padding is attended to',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'mask forgotten',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, memory, None)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), memory


@wrong(
    'the network reads x without `before`: right in a post-norm block, wrong in a pre-norm block',
    '\\text{pre-norm: } y = x + f(\\mathrm{LN}(x)), \\qquad \\text{post-norm: } y = \\mathrm{LN}(x + f(x))',
    'second norm left out for pre-norm',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong(
    'adds by hand instead of calling `after`: a post-norm block has no norms, and dropout does nothing in training',
    "The course's `Residual` can do both. With `around = Residual(...)`, a sub-layer reads `around.before(x)`, and `around.after(x, added)` adds the sub-layer's output to the skip connection: `after(x, f(before(x)))`.",
    'adds by hand, without `after`',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        x = x + self.self_attention.ask(read, memory, mask)[0]
        return x + self.feed_forward(self.around_feed_forward.before(x)), memory


@wrong(
    "if nothing may be attended to at all, the block returns x as it came: the attention's bias and the network are left out",
    'In the second, a small network works on every position by itself (feed-forward).',
    'block skipped if everything is masked',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if mask is not None and not mask.any():
            return x, memory
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), memory


@wrong(
    "the sums are made in place: the caller's x changes in a pre-norm block",
    'What comes in stays as it is, and what goes out has its dtype and its device.',
    'changes its input in place',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, memory, mask)
        x.data.copy_(self.around_self.after(x, context))
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), memory


@wrong(
    'one `Residual` for both sub-layers: right as long as both norms have the same numbers, as they have before training',
    'Around each sub-layer f there is a skip connection, and each sub-layer has a norm.',
    'same norm around both sub-layers',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        around = self.around_self
        read = around.before(x)
        memory = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = around.after(x, context)
        return around.after(x, self.feed_forward(around.before(x))), memory


@wrong(
    "what is returned was remembered once more from the block's result, not from what the attention read",
    'Return the states, and what the self-attention remembered.',
    'remembers the output instead of the input',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, thought)
        return x, self.self_attention.remember(x, x)


@wrong(
    'keys and values are made from x and only the queries from the normed x: right in a post-norm block',
    '\\text{pre-norm: } y = x + f(\\mathrm{LN}(x)), \\qquad \\text{post-norm: } y = \\mathrm{LN}(x + f(x))',
    'keys and values without the norm',
)
class EncoderBlock(nn.Module):
    """Every position looks at the others, then thinks for itself."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        memory = self.self_attention.remember(x, x)
        read = self.around_self.before(x)
        context, _ = self.self_attention.ask(read, memory, mask)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), memory
