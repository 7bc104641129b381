import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


@right('the plain four steps, twice')
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
        added, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@right('sub-layers as closures in a loop')
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        kept = []

        def look(read):
            kept.append(self.self_attention.remember(key=read, value=read))
            return self.self_attention.ask(read, kept[0], mask)[0]

        for around, f in (
            (self.around_self, look),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, kept.pop()


@right('every position asks in a call of its own')
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
        rows = None if mask is None else mask.expand(B, T, T)
        contexts = [
            self.self_attention.ask(
                read[:, t : t + 1], memory, None if rows is None else rows[:, t : t + 1]
            )[0]
            for t in range(T)
        ]
        seen = self.around_self.after(x, torch.cat(contexts, dim=1))
        thought = self.feed_forward(self.around_feed_forward.before(seen))
        return self.around_feed_forward.after(seen, thought), memory


@right('feed-forward over one long row of all sentences; None made an open mask')
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device).expand(B, T, T)
        normed = self.around_self.before(x)
        remembered = self.self_attention.remember(normed, normed)
        x = self.around_self.after(
            x, self.self_attention.ask(normed, remembered, mask)[0]
        )
        long = self.around_feed_forward.before(x).reshape(1, B * T, D)
        x = self.around_feed_forward.after(x, self.feed_forward(long).reshape(B, T, D))
        return x, remembered


@wrong(
    'the mask is not passed on',
    breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    name='mask ignored',
    subtle=False,
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
        x = self.around_self.after(x, self.self_attention.ask(read, memory, None)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    'the way past begins behind the norm',
    breaks='`x` in `after(x, ...)` is the sequence as it came to this sub-layer, not what `before` made of it: keep both.',
    name='residual from the normed states',
    subtle=False,
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
    'queries from the states that were not normed',
    breaks='Queries, keys and values come from the same sequence: what `self.around_self.before(x)` returned.',
    name='queries not normed',
    subtle=False,
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
        x = self.around_self.after(x, self.self_attention.ask(x, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    'the first norm serves both sub-layers (the same at initialization)',
    breaks='Then the same for `self.feed_forward`, which takes (B, T, D) and returns (B, T, D), with `self.around_feed_forward`.',
    name='one norm for two sub-layers',
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
    "only the mask's first row is used: a padding mask is fine, a causal one is not",
    breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    name='one mask row for all queries',
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
        if mask is not None and mask.dim() > 1:
            mask = mask[..., :1, :]
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    'without a mask it becomes causal',
    breaks='mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    name='None taken for causal',
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
        if mask is None:
            T = x.size(1)
            mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    'adds by hand instead of `after`: right for pre-norm without dropout only',
    breaks='dropout: share of what a sub-layer adds that training drops.',
    name='`after` left out: no dropout, no post-norm',
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
    'returns what it would remember of x before the norm (the same for post-norm)',
    breaks='Return the states, and what the self-attention remembered.',
    name='returned memory is not the one that was asked',
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
        returned = self.self_attention.remember(x, x)
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), returned


@wrong(
    'a sentence of one word skips self-attention',
    breaks='Around each sub-layer f there is a way past it, and a norm.',
    name='T = 1 skips a sub-layer',
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
        if x.size(1) > 1:  # alone, there is nobody to look at
            x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory


@wrong(
    'keys and values of an earlier call are used again while the shape stays',
    breaks='Queries, keys and values come from the same sequence: what `self.around_self.before(x)` returned.',
    name='stale memory between calls',
    subtle=True,
)
class EncoderBlock(nn.Module):
    kept = None

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        if self.kept is None or self.training or self.kept[0] != x.shape:
            self.kept = (x.shape, self.self_attention.remember(read, read))
        memory = self.kept[1]
        x = self.around_self.after(x, self.self_attention.ask(read, memory, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), memory
