import torch
from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong
from torch import nn


@right(
    'one helper that runs any sub-layer, given as a function; the KeyValue is caught on the way'
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def sublayer(self, around, x, f):
        return around.after(x, f(around.before(x)))

    def forward(self, x, mask=None):
        kept = []

        def attend(h):
            kept.append(self.self_attention.remember(h, h))
            return self.self_attention.ask(h, kept[0], mask, need_weights=False)[0]

        x = self.sublayer(self.around_self, x, attend)
        x = self.sublayer(self.around_feed_forward, x, self.feed_forward)
        return x, kept[0]


@right(
    'asks for one query position after the other, and glues the contexts together'
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        B, T, _ = x.shape
        if mask is not None:
            mask = mask.expand(B, T, T)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(key=h, value=h)
        contexts = []
        for t in range(T):
            row = None if mask is None else mask[:, t : t + 1]
            context, _ = self.self_attention.ask(h[:, t : t + 1], memory, row)
            contexts.append(context)
        x = self.around_self.after(x, torch.cat(contexts, dim=1))
        return (
            self.around_feed_forward.after(
                x, self.feed_forward(self.around_feed_forward.before(x))
            ),
            memory,
        )


@right(
    'replaces the missing mask by one that allows everything, and asks for the weights, which it throws away'
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None, keep_weights=True):
        if mask is None:
            mask = torch.ones(1, 1, x.size(1), dtype=torch.bool, device=x.device)
        norm_x = self.around_self.before(x)
        kv = self.self_attention.remember(norm_x, norm_x)
        answer = self.self_attention.ask(norm_x, kv, mask, keep_weights)
        y = self.around_self.after(x, answer[0])
        z = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(y, z), kv


@right(
    'each sentence asks for itself, and the feed-forward network sees one flat list of positions'
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        allowed = [None] * B if mask is None else list(mask.expand(B, T, T))
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        pieces = []
        for b in range(B):
            own = type(memory)(memory.key[b : b + 1], memory.value[b : b + 1])
            rows = None if allowed[b] is None else allowed[b].unsqueeze(0)
            pieces.append(self.self_attention.ask(h[b : b + 1], own, rows, False)[0])
        x = self.around_self.after(x, torch.cat(pieces))
        flat = self.around_feed_forward.before(x).reshape(B * T, D)
        return self.around_feed_forward.after(
            x, self.feed_forward(flat).reshape(B, T, D)
        ), memory


@wrong(
    'overwrites x with its norm, so a pre-norm block adds the sub-layer to LN(x) instead of x; a post-norm block is right',
    '\\text{pre-norm: } y = x + f(\\mathrm{LN}(x)), \\qquad \\text{post-norm: } y = \\mathrm{LN}(x + f(x))',
    'Skip connection starts after the norm',
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
        context, _ = self.self_attention.ask(x, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(x))
        return x, memory


@wrong(
    'never passes the mask on: padding is attended to whenever a mask forbids something',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'Mask forgotten',
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory


@wrong(
    'keys and values are made from x itself, only the queries from the norm: a pre-norm block is wrong, a post-norm block right',
    '\\text{pre-norm: } y = x + f(\\mathrm{LN}(x)), \\qquad \\text{post-norm: } y = \\mathrm{LN}(x + f(x))',
    'Keys and values skip the norm',
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(query, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory


@wrong(
    'adds the sub-layers to x by hand: right for a pre-norm block without dropout; a post-norm block has no norm at all, and dropout is never applied',
    'Here `before` prepares the input of f, and `after` applies dropout to the output of f and adds it to x.',
    'Uses a plain sum instead of after',
)
class EncoderBlock(nn.Module):
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
    'takes a mask with two axes for a padding mask (B, T): a mask (T, T), which broadcasts to (B, T, T), is read wrongly where T = B or B = 1 and raises elsewhere',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'Mask with two axes read as padding mask',
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
            mask = mask.unsqueeze(1)
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory


@wrong(
    'returns detached keys and values: the numbers are right, but a loss computed from the KeyValue gives no gradient',
    'Return the states, and the `KeyValue` that `self_attention.remember` returned.',
    'Returned keys and values are detached',
)
class EncoderBlock(nn.Module):
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
        memory = type(memory)(memory.key.detach(), memory.value.detach())
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory


@wrong(
    'keeps the KeyValue of the first call and uses it again for every x of the same shape: the second call with other numbers is wrong',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'Keys and values kept from an earlier call',
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    memory, shape = None, None

    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        if self.memory is None or self.shape != x.shape:
            self.memory, self.shape = self.self_attention.remember(h, h), x.shape
        memory = self.memory
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory


@wrong(
    'uses around_self for the feed-forward network, too: right as long as both norms hold their first weights, wrong once they were trained or loaded',
    'For the second sub-layer, call `self.feed_forward` between `before` and `after` of `self.around_feed_forward`.',
    'Both sub-layers share one norm',
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
        h = around.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = around.after(x, context)
        x = around.after(x, self.feed_forward(around.before(x)))
        return x, memory


@wrong(
    'applies the dropout to each output of a sub-layer before `after` applies it again: in train mode with dropout p, the share 1 - (1 - p)^2 is dropped',
    "dropout: the share of a sub-layer's output that is dropped in training.",
    'Dropout applied twice',
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, self.drop(context))
        h = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, self.drop(h)), memory


@wrong(
    'uses the last row of the mask for all queries: right for None and for a padding mask (B, 1, T), wrong for a mask whose rows differ, such as a causal one',
    'mask: True = may attend, broadcastable to (B, T, T); None allows everything.',
    'One row of the mask for all queries',
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask[..., -1:, :]  # padding is the same for every query
        h = self.around_self.before(x)
        memory = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )
        return x, memory
