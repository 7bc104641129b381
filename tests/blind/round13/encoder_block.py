import math

import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual

from blind import right, wrong


# Right answers


@right("a helper runs any sub-layer, and a closure hands the KeyValue out")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    @staticmethod
    def sub_layer(around, f, x):
        return around.after(x, f(around.before(x)))

    def forward(self, x, mask=None):
        kept = []

        def look(h):
            kept.append(self.self_attention.remember(key=h, value=h))
            context, _ = self.self_attention.ask(h, kept[-1], mask)
            return context

        for around, f in (
            (self.around_self, look),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = self.sub_layer(around, f, x)
        return x, kept[0]


@right("writes both formulas out, with the norm and the dropout of the Residual")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.is_pre_norm = pre_norm

    def forward(self, x, mask=None):
        one, two = self.around_self, self.around_feed_forward
        if self.is_pre_norm:
            h = one.norm(x)
            seen = self.self_attention.remember(h, h)
            x = x + one.dropout(self.self_attention.ask(h, seen, mask, False)[0])
            return x + two.dropout(self.feed_forward(two.norm(x))), seen
        seen = self.self_attention.remember(x, x)
        context = self.self_attention.ask(x, seen, mask, need_weights=False)[0]
        x = one.norm(x + one.dropout(context))
        return two.norm(x + two.dropout(self.feed_forward(x))), seen


@right("does the attention by itself, with einsum and in float64")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        attention = self.self_attention
        h = self.around_self.before(x)
        seen = attention.remember(h, h)
        heads = attention.query_proj(h).unflatten(-1, (seen.key.size(1), -1))
        scores = torch.einsum("bthd,bhsd->bhts", heads.double(), seen.key.double())
        scores = scores / math.sqrt(seen.key.size(-1))
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            batch, size = x.size(0), x.size(1)
            allowed = mask.expand(batch, size, size)[:, None]  # (B, 1, T, T)
            lowest = torch.finfo(scores.dtype).min
            weights = torch.where(allowed, scores, lowest).softmax(dim=-1) * allowed
        context = torch.einsum("bhts,bhsd->bthd", weights, seen.value.double())
        context = attention.output_proj(context.flatten(2).to(h.dtype))
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


@right("remembers the whole batch, and asks sentence by sentence")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        if mask is not None:
            mask = mask.expand(x.size(0), x.size(1), x.size(1))
        contexts = []
        for b in range(x.size(0)):
            one = slice(b, b + 1)
            part = type(seen)(seen.key[one], seen.value[one])
            allowed = None if mask is None else mask[one]
            contexts.append(self.self_attention.ask(h[one], part, allowed)[0])
        x = self.around_self.after(x, torch.cat(contexts))
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


# Wrong answers


@wrong(
    "overwrites x by the normalised x, so that the skip connection of a pre-norm block "
    "goes around nothing",
    "In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`.",
    "the skip connection starts after the norm",
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
        seen = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(x, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), seen


@wrong(
    "does not hand the mask on, so that padding is attended to",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "the mask is forgotten",
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
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, need_weights=False)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


@wrong(
    "makes only the queries of the normalised states, and keys and values of x itself",
    "Queries, keys and values all come from the result of "
    "`self.around_self.before(x)`.",
    "keys and values are not normalised",
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
        seen = self.self_attention.remember(x, x)
        context, _ = self.self_attention.ask(query, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


@wrong(
    "gives the feed-forward network the states without `before`: no norm in a pre-norm "
    "block's second sub-layer",
    "For the second sub-layer, call `self.feed_forward` between `before` and `after` "
    "of `self.around_feed_forward`.",
    "`before` is missing around the feed-forward network",
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
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        return self.around_feed_forward.after(x, self.feed_forward(x)), seen


@wrong(
    "adds the contexts to x in place, which changes the caller's states and spoils the "
    "backward pass",
    "Do not change the inputs.",
    "x += changes the input",
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
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x += self.around_self.dropout(context)
        if not self.around_self.pre_norm:
            x = self.around_self.norm(x)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


@wrong(
    "takes the norm of the first sub-layer for the second one too, which shows only "
    "when the two norms have been trained apart",
    "Each sub-layer f has a skip connection around it and a layer norm, LN.",
    "one norm for both sub-layers",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_self.before(x))
        return self.around_self.after(x, thought), seen


@wrong(
    "takes a mask of two axes for a padding mask (B, T), although it is (T, T): a "
    "causal mask fails, or is read by sentence where B = T",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "a mask (T, T) is read as (B, T)",
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
            mask = mask[:, None, :]  # the same for every query
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


@wrong(
    "writes norms and sums out by hand, and leaves out the dropout: wrong in train mode "
    "with dropout above 0",
    "Here `before` prepares the input of f, and `after` applies dropout to the output "
    "of f and adds it to x.",
    "no dropout in train mode",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        x = x + self.self_attention.ask(h, seen, mask, need_weights=False)[0]
        if not self.around_self.pre_norm:
            x = self.around_self.norm(x)
        x = x + self.feed_forward(self.around_feed_forward.before(x))
        if not self.around_feed_forward.pre_norm:
            x = self.around_feed_forward.norm(x)
        return x, seen


@wrong(
    "lets every position attend to itself even where the mask forbids it, so that the "
    "states of padding (and of tokens that may not see themselves) are others",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "opens the diagonal of the mask",
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
        if mask is not None:
            # no row may be empty
            mask = mask | torch.eye(x.size(1), dtype=torch.bool, device=x.device)
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, thought), seen


@wrong(
    "returns detached keys and values: right numbers, but no gradient flows back "
    "through the returned KeyValue",
    "Gradients must be right, too.",
    "the returned KeyValue is detached",
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
        h = self.around_self.before(x)
        seen = self.self_attention.remember(h, h)
        context, _ = self.self_attention.ask(h, seen, mask, need_weights=False)
        x = self.around_self.after(x, context)
        thought = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, thought)
        return x, type(seen)(seen.key.detach(), seen.value.detach())
