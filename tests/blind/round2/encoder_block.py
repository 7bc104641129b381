import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

NONE = "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
HINT3 = "`x` in `after(x, ...)` is the sequence as it came to this sub-layer, not what `before` made of it: keep both."
SAME = "Queries, keys and values come from the same sequence: what `self.around_self.before(x)` returned."


@right("four steps, twice")
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
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@right("a helper that goes around a sub-layer")
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
            kept.append(self.self_attention.remember(read, read))
            return self.self_attention.ask(read, kept[0], mask)[0]

        def around(way, x, sub_layer):
            return way.after(x, sub_layer(way.before(x)))

        x = around(self.around_self, x, look)
        return around(self.around_feed_forward, x, self.feed_forward), kept[0]


@right("asks for one position after the other")
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
        memory = self.self_attention.remember(key=read, value=read)
        rows = None if mask is None else mask.expand(B, T, T)
        said = [
            self.self_attention.ask(
                read[:, t : t + 1], memory, None if rows is None else rows[:, t : t + 1], False
            )[0]
            for t in range(T)
        ]
        x = self.around_self.after(x, torch.cat(said, dim=1))
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), memory


@right("None becomes a mask of True, the feed-forward takes all positions in one row, a buffer beside")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.register_buffer("yes", torch.ones(1, 1, 1, dtype=torch.bool), persistent=False)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        if mask is None:
            mask = self.yes.expand(1, T, T)
        one, two = self.around_self, self.around_feed_forward
        read = one.before(x)
        memory = self.self_attention.remember(read, read)
        y = one.after(x, self.self_attention.ask(read, memory, mask)[0])
        z = self.feed_forward(two.before(y).reshape(1, B * T, D)).reshape(B, T, D)
        return two.after(y, z), memory


@wrong("the way past begins after the norm", breaks=HINT3, name="the residual carries the normed sequence", subtle=False)
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
        said, _ = self.self_attention.ask(x, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong("the mask is not passed on", breaks=NONE, name="mask forgotten", subtle=False)
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
        said, _ = self.self_attention.ask(read, memory, None, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("no way past the feed-forward", breaks="Around each sub-layer f there is a way past it, and a norm.", name="residual of the feed-forward forgotten", subtle=False)
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
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        return self.feed_forward(self.around_feed_forward.before(x)), memory


@wrong("without a mask, a causal one", breaks=NONE, name="None hides what comes after", subtle=True)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        if mask is None:
            mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()

        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("takes the shape of the mask for (B, T, T)", breaks=NONE, name="masks that would have to be broadcast fail", subtle=True)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask.reshape(x.size(0), x.size(1), x.size(1))

        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("adds by hand behind the attention", breaks="Where the norm stands makes two kinds of blocks:", name="right for pre-norm without dropout only", subtle=True)
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
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = x + said

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("keys and values without a gradient", breaks=SAME, name="keys and values send no gradient back to the states", subtle=True)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        memory = self.self_attention.remember(read.detach(), read.detach())
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("remembers once for each shape", breaks="Return the states, and what the self-attention remembered.", name="the memory of an earlier call", subtle=True)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.kept = None

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        if self.kept is None or self.kept[0] != x.shape:
            self.kept = (x.shape, self.self_attention.remember(read, read))
        memory = self.kept[1]
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("the mask of the first position for all", breaks=NONE, name="only masks that are the same for every query", subtle=True)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask[..., :1, :]

        read = self.around_self.before(x)
        memory = self.self_attention.remember(read, read)
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_self.after(x, said)

        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, memory


@wrong("the two norms changed places", breaks="Then the same for `self.feed_forward`, which takes (B, T, D) and returns (B, T, D), with `self.around_feed_forward`.", name="around_self and around_feed_forward swapped", subtle=True)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        read = self.around_feed_forward.before(x)
        memory = self.self_attention.remember(read, read)
        said, _ = self.self_attention.ask(read, memory, mask, need_weights=False)
        x = self.around_feed_forward.after(x, said)

        x = self.around_self.after(x, self.feed_forward(self.around_self.before(x)))
        return x, memory
