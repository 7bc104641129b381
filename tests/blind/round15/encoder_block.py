import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

FORMULA = r"\text{pre-norm: } y = x + f(\mathrm{LN}(x)), \qquad \text{post-norm: } y = \mathrm{LN}(x + f(x))"
EACH = "Each sub-layer f has a skip connection around it and a layer norm, LN."
RULE = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."


@right("a loop over pairs of residual and function")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        remembered = []

        def attend_to_all(z):
            remembered.append(self.self_attention.remember(z, z))
            return self.self_attention.ask(z, remembered[0], mask)[0]

        for around, f in (
            (self.around_self, attend_to_all),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, remembered[0]


@right("no weights, and the feed-forward network one position at a time")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        contexts, _ = self.self_attention.ask(z, memory, mask, need_weights=False)
        y = self.around_self.after(x, contexts)
        z = self.around_feed_forward.before(y)
        pieces = [self.feed_forward(piece) for piece in z.split(1, dim=1)]
        return self.around_feed_forward.after(y, torch.cat(pieces, dim=1)), memory


@right("a full mask in place of None and of a smaller mask")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        B, T = x.shape[:2]
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device)
        mask = torch.broadcast_to(mask, (B, T, T))
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        asked = self.self_attention.ask(normed, memory, mask)
        between = self.around_self.after(x, asked[0])
        inner = self.feed_forward(self.around_feed_forward.before(between))
        return self.around_feed_forward.after(between, inner), memory


@right("one query after the other, with its row of the mask")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        B, T = x.shape[:2]
        if mask is not None:
            mask = torch.broadcast_to(mask, (B, T, T))
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        rows = []
        for t in range(T):
            row = None if mask is None else mask[:, t : t + 1]
            rows.append(self.self_attention.ask(normed[:, t : t + 1], memory, row)[0])
        x = self.around_self.after(x, torch.cat(rows, dim=1))
        return (
            self.around_feed_forward.after(
                x, self.feed_forward(self.around_feed_forward.before(x))
            ),
            memory,
        )


@wrong(
    "adds the contexts to the normed input; right for post-norm",
    breaks=FORMULA,
    name="skip connection starts after the norm",
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
        z = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(z)), memory


@wrong(
    "asks with the input before the norm; right for post-norm",
    breaks=FORMULA,
    name="queries not normed",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        x = self.around_self.after(x, self.self_attention.ask(x, memory, mask)[0])
        z = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(z)), memory


@wrong(
    "gives the mask with rows for keys; right where it is symmetric",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="mask transposed",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if mask is not None:
            mask = mask.mT
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        z = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(z)), memory


@wrong(
    "one norm for both sub-layers; the same numbers until the norms are trained",
    breaks=EACH,
    name="first norm used twice",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        z = self.around_self.before(x)
        return self.around_self.after(x, self.feed_forward(z)), memory


@wrong(
    "both sub-layers read the block's input, in parallel",
    breaks="The block has two sub-layers: self-attention, in which every position attends to all positions, and a feed-forward network, which works on each position separately.",
    name="feed-forward network does not read the contexts",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        y = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        z = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(y, self.feed_forward(z)), memory


@wrong(
    "remembers once more at the end, from the block's own states",
    breaks="Return the states, and the `KeyValue` that `self_attention.remember` returned.",
    name="keys and values of the output",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, self.self_attention.remember(x, x)


@wrong(
    "a plain sum instead of after: no dropout, no norm after the sub-layer",
    breaks="Here `before` prepares the input of f, and `after` applies dropout to the output of f and adds it to x.",
    name="after left out",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        x = x + self.self_attention.ask(z, memory, mask)[0]
        return x + self.feed_forward(self.around_feed_forward.before(x)), memory


@wrong(
    "lets every position attend to itself, whatever the mask says",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="diagonal always allowed",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if mask is not None:
            mask = mask | torch.eye(x.size(1), dtype=torch.bool, device=x.device)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        z = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(z)), memory


@wrong(
    "a single position gets its own vector as its context, without any projection",
    breaks=RULE,
    name="attention skipped for one position",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        contexts = z
        if x.size(1) > 1:
            contexts, _ = self.self_attention.ask(z, memory, mask)
        x = self.around_self.after(x, contexts)
        z = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(z)), memory


@wrong(
    "no graph in eval mode",
    breaks="Gradients must be right, too.",
    name="no gradients in eval mode",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            z = self.around_self.before(x)
            memory = self.self_attention.remember(z, z)
            x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
            z = self.around_feed_forward.before(x)
            return self.around_feed_forward.after(x, self.feed_forward(z)), memory
