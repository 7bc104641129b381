import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual

from blind import right, wrong


@right('a general helper for any sub-layer, and a closure that notes the KeyValue')
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    @staticmethod
    def _around(around, x, f):
        return around.after(x, f(around.before(x)))

    def forward(self, x, mask=None):
        noted = []

        def attend(inner):
            noted.append(self.self_attention.remember(inner, inner))
            return self.self_attention.ask(inner, noted[-1], mask)[0]

        for around, f in (
            (self.around_self, attend),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = self._around(around, x, f)
        return x, noted.pop()


@right('keywords throughout, without weights')
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        prepared = self.around_self.before(x)
        memory = self.self_attention.remember(key=prepared, value=prepared)
        contexts, _ = self.self_attention.ask(
            query=prepared, memory=memory, mask=mask, need_weights=False
        )
        middle = self.around_self.after(x, contexts)
        thought = self.feed_forward(self.around_feed_forward.before(middle))
        return self.around_feed_forward.after(middle, thought), memory


@right('writes the mask out in full, also where it is None')
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        count, length, _ = x.shape
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        mask = torch.broadcast_to(mask, (count, length, length))
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        x = self.around_self.after(x, self.self_attention.ask(inner, memory, mask)[0])
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner)), memory


@right('asks for one query at a time, and feeds one position at a time')
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        count, length, _ = x.shape
        if mask is not None:
            mask = mask.expand(count, length, length)
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts = []
        for t in range(length):
            row = None if mask is None else mask[:, t : t + 1]
            contexts.append(self.self_attention.ask(inner[:, t : t + 1], memory, row)[0])
        x = self.around_self.after(x, torch.cat(contexts, dim=1))
        pieces = self.around_feed_forward.before(x).split(1, dim=1)
        fed = torch.cat([self.feed_forward(piece) for piece in pieces], dim=1)
        return self.around_feed_forward.after(x, fed), memory


@wrong(
    'adds the sub-layers to the normed states',
    'In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`.',
    'skip connection starts after the norm',
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
        x = self.around_self.after(x, self.self_attention.ask(x, memory, mask)[0])
        x = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(x))
        return x, memory


@wrong(
    'makes a causal mask if there is none',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'encoder with a causal mask',
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
        if mask is None:
            length = x.shape[1]
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory


@wrong(
    "adds the feed-forward network's output to the block's input, so the attention's sum is lost",
    'In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`.',
    "second skip connection starts at the block's input",
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        attended = self.around_self.after(x, contexts)
        fed = self.feed_forward(self.around_feed_forward.before(attended))
        return self.around_feed_forward.after(x, fed), memory


@wrong(
    "puts the first sub-layer's Residual around both sub-layers (the same as long as both norms are untrained)",
    'For the second sub-layer, call `self.feed_forward` between `before` and `after` of `self.around_feed_forward`.',
    'one norm for both sub-layers',
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
        inner = around.before(x)
        memory = self.self_attention.remember(inner, inner)
        x = around.after(x, self.self_attention.ask(inner, memory, mask)[0])
        x = around.after(x, self.feed_forward(around.before(x)))
        return x, memory


@wrong(
    'makes keys and values from x before the norm (the same in a post-norm block)',
    'Queries, keys and values all come from the result of `self.around_self.before(x)`.',
    'keys and values without the norm',
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
        contexts, _ = self.self_attention.ask(self.around_self.before(x), memory, mask)
        x = self.around_self.after(x, contexts)
        inner = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(inner))
        return x, memory


@wrong(
    'adds by hand instead of with after: no dropout, and no norm in a post-norm block',
    'Here `before` prepares the input of f, and `after` applies dropout to the output of f and adds it to x.',
    '`after` is not called',
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
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        x = x + self.self_attention.ask(inner, memory, mask)[0]
        x = x + self.feed_forward(self.around_feed_forward.before(x))
        return x, memory


@wrong(
    'takes every mask with two axes for a padding mask (B, T), also one of (T, T)',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'a mask (T, T) is taken for (B, T)',
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
            mask = mask.unsqueeze(1)
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner)), memory


@wrong(
    "gives a mask with two axes a third one in place, so the caller's mask changes its shape",
    'Do not change the inputs.',
    'mask changed in place',
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
        if mask is not None:
            while mask.dim() < 3:
                mask.unsqueeze_(0)
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner)), memory


@wrong(
    "returns a KeyValue that it makes anew from the block's output",
    'The states (B, T, D), and the `KeyValue` of the self-attention.',
    'KeyValue of other states',
)
class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def attend(self, x, mask):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask, need_weights=False)
        return self.around_self.after(x, contexts)

    def forward(self, x, mask=None):
        x = self.attend(x, mask)
        inner = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(inner))
        inner = self.around_self.before(x)
        return x, self.self_attention.remember(inner, inner)


@wrong(
    'in eval mode, keeps the KeyValue of the first input of a shape and uses it for later ones',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'KeyValue of an earlier call',
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
        inner = self.around_self.before(x)
        memory = getattr(self, "memory", None)
        if self.training or memory is None or memory.key.shape[::2] != x.shape[:2]:
            memory = self.self_attention.remember(inner, inner)
        self.memory = None if self.training else memory
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        x = self.around_self.after(x, contexts)
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner)), memory
