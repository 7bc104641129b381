import functools

import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

# ---------------------------------------------------------------- right


@right("two sub-layers as functions, folded over the sequence")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        remembered = []

        def look(read):
            remembered.append(self.self_attention.remember(read, read))
            return self.self_attention.ask(read, remembered[-1], mask)[0]

        def layer(x, part):
            around, f = part
            return around.after(x, f(around.before(x)))

        parts = [(self.around_self, look), (self.around_feed_forward, self.feed_forward)]
        return functools.reduce(layer, parts, x), remembered[0]


@right("remembers the first token and the rest apart, and joins them by extend")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read[:, :1], read[:, :1])
        if read.size(1) > 1:
            rest = read[:, 1:]
            memory = memory.extend(self.self_attention.remember(rest, rest))
        context, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        y = self.around_self.after(x, context)
        think = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(y, think), memory


@right("one query after the other, each with its row of the mask")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        B, T, _ = x.shape
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        if mask is not None:
            mask = mask.expand(B, T, T)
        said = []
        for t in range(T):
            row = None if mask is None else mask[:, t : t + 1]
            said.append(self.self_attention.ask(read[:, t : t + 1], memory, row)[0])
        x = self.around_self.after(x, torch.cat(said, dim=1))
        said = [self.feed_forward(one) for one in self.around_feed_forward.before(x).split(1, 1)]
        return self.around_feed_forward.after(x, torch.cat(said, dim=1)), memory


@right("one expression with := in it, without weights, and a mask written out in full")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        full = mask
        if mask is not None:
            full = mask.expand(len(x), x.size(1), x.size(1)).clone()
        attention = self.self_attention
        y = self.around_self.after(
            x,
            attention.ask(
                (read := self.around_self.before(x)),
                (memory := attention.remember(key=read, value=read)),
                full,
                False,
            )[0],
        )
        f = self.around_feed_forward
        return f.after(y, self.feed_forward(f.before(y))), memory


# ---------------------------------------------------------------- wrong


@wrong(
    "goes on from what `before` made of x: the way past leads through the norm",
    breaks=r"`after(x, f(before(x)))`",
    name="way around begins behind the norm",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        x = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        x = self.around_self.after(x, self.self_attention.ask(x, memory, mask)[0])
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong(
    "keys and values come from x, only the queries from what was read: right for post-norm",
    breaks="a sub-layer reads `around.before(x)`",
    name="keys and values from before the norm",
    subtle=True,
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        memory = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(self.around_self.before(x), memory, mask)
        x = self.around_self.after(x, context)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    "does not hand the mask on",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="mask forgotten",
    subtle=True,
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, memory)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    "adds by hand instead of `after`: right for pre-norm without dropout",
    breaks=r"\text{post-norm: } y = \mathrm{LN}(x + f(x))",
    name="x + f(before(x)) by hand",
    subtle=True,
)
class EncoderBlock(nn.Module):
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
    "returns what the self-attention would remember of the finished states",
    breaks="Return the states, and what the self-attention remembered.",
    name="remembers the states instead of what was read",
    subtle=True,
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, added)
        return x, self.self_attention.remember(x, x)


@wrong(
    "writes the sum over x where no gradient is needed, to save memory",
    breaks="what it was handed is unchanged",
    name="the states below are changed in place",
    subtle=True,
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        y = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        if not torch.is_grad_enabled():
            y = x.copy_(y)
        added = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(y, added), memory


@wrong(
    "uses the norm around the self-attention for the feed-forward network, too: fresh norms are alike",
    breaks="Around each sub-layer f there is a way past it, and a norm.",
    name="one norm for two sub-layers",
    subtle=True,
)
class EncoderBlock(nn.Module):
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
        x = around.after(x, self.self_attention.ask(read, memory, mask)[0])
        return around.after(x, self.feed_forward(around.before(x))), memory


@wrong(
    "remembers in the first call only, while the shape stays",
    breaks="Queries, keys and values come from the same sequence",
    name="keys of an earlier call",
    subtle=True,
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        if getattr(self, "kept_for", None) != (x.shape, x.dtype, x.device):
            self.kept_for = (x.shape, x.dtype, x.device)
            self.kept = self.self_attention.remember(read, read)
        context, _ = self.self_attention.ask(read, self.kept, mask)
        x = self.around_self.after(x, context)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), self.kept


@wrong(
    "both sub-layers read x, side by side",
    breaks="every position looks at the others (self-attention), then it thinks for itself (feed-forward)",
    name="sub-layers side by side",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        y = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(y, added), memory


@wrong(
    "takes every mask with two axes for padding, (B, T): a mask (T, T) goes wrong",
    breaks="mask: True = may attend, broadcastable to (B, T, T)",
    name="mask of two axes taken for padding",
    subtle=True,
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        if mask is not None and mask.dim() == 2:
            mask = mask[:, None, :]
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory
