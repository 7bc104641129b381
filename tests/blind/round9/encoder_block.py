import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual


@right("one loop over both sub-layers, the attention a local function")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        kept = []

        def attend(h):
            kept.append(self.self_attention.remember(h, h))
            return self.self_attention.ask(h, kept[0], mask, need_weights=False)[0]

        for around, f in (
            (self.around_self, attend),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, kept[0]


@right("asks one query position at a time, with the mask expanded first")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        batch, length = x.shape[:2]
        if mask is not None:
            mask = mask.expand(batch, length, length)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        contexts = []
        for t in range(length):
            row = None if mask is None else mask[:, t : t + 1]
            context, _ = self.self_attention.ask(h[:, t : t + 1], memory, row)
            contexts.append(context)
        x = self.around_self.after(x, torch.cat(contexts, dim=1))
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory


@right("two methods of its own, and a mask that is always there")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def look(self, x, mask):
        if mask is None:
            mask = torch.ones(1, 1, x.size(1), dtype=torch.bool, device=x.device)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(key=h, value=h)
        return self.self_attention.ask(h, memory, mask)[0], memory

    def think(self, x):
        return self.feed_forward(self.around_feed_forward.before(x))

    def forward(self, x, mask=None):
        context, memory = self.look(x, mask)
        states = self.around_self.after(x, context)
        return self.around_feed_forward.after(states, self.think(states)), memory


@right("feed-forward network on each position by itself, extra argument with a default")
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None, need_weights=False):
        attention, around = self.self_attention, self.around_self
        h = around.before(x)
        memory = attention.remember(h, h)
        x = around.after(x, attention.ask(h, memory, mask, need_weights)[0])
        h = self.around_feed_forward.before(x)
        pieces = [self.feed_forward(piece) for piece in h.split(1, dim=1)]
        return self.around_feed_forward.after(x, torch.cat(pieces, 1)), memory


@wrong(
    "adds the output of f to the normed x, so a pre-norm block loses its skip connection",
    "With `around = Residual(...)`, compute a sub-layer as `around.after(x, f(around.before(x)))`.",
    "skip connection starts after the norm",
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
        context, _ = self.self_attention.ask(x, memory, mask)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(x))
        return x, memory


@wrong(
    "norms only the queries; keys and values of a pre-norm block come from x itself",
    "Queries, keys and values all come from the result of `self.around_self.before(x)`.",
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
        query = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(query, memory, mask)
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory


@wrong(
    "does not hand the mask on, so every mask but None is ignored",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "mask not used",
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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, None, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory


@wrong(
    "adds f's output itself: right for pre-norm without dropout, but no dropout in training and no norm in a post-norm block",
    "Here `before` prepares the input of f, and `after` applies dropout to the output of f and adds it to x.",
    "after() left out: no dropout, no post-norm",
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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        x = x + self.self_attention.ask(h, memory, mask, need_weights=False)[0]
        x = x + self.feed_forward(self.around_feed_forward.before(x))
        return x, memory


@wrong(
    "takes every mask with two axes for a padding mask (B, T); a mask (T, T) is then wrong or does not fit",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "two-dimensional masks misread as padding masks",
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
            mask = mask.unsqueeze(1)  # (B, 1, T)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory


@wrong(
    "leaves the attention out when there is only one position (its value still has to be added)",
    "The first is self-attention, in which every position attends to all positions.",
    "attention skipped for a single position",
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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        if x.size(1) > 1:
            context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        else:
            context = torch.zeros_like(x)  # nobody else to look at
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory


@wrong(
    "returns float32 states for a block and inputs in bfloat16 or float64",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result always float32",
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
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)).float(), memory


@wrong(
    "uses the first sub-layer's Residual for both: the same until the two norms have different parameters (or one is trained)",
    "Each sub-layer f has a skip connection around it and a norm LN.",
    "both sub-layers share the first one's norm",
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
        around = self.around_self
        h = around.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = around.after(x, context)
        h = around.before(x)
        return around.after(x, self.feed_forward(h)), memory


@wrong(
    "lets every position attend to itself although the mask forbids it (padding, a mask without its diagonal)",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "diagonal of the mask always allowed",
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
        if mask is not None:  # no row without a True
            mask = mask | torch.eye(x.size(1), dtype=torch.bool, device=x.device)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory


@wrong(
    "in eval mode keeps the keys of the last input and takes them again if the same tensor comes: stale after it or the weights were changed in place",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "keys remembered from an earlier call",
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.last = None

    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        if self.training or self.last is None or self.last[0] is not x:
            self.last = (x, self.self_attention.remember(h, h))
        memory = self.last[1]
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        h = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(h)), memory
