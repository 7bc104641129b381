import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


@right("a list of sub-layers, run by one loop")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        kept = []

        def attend(normed):
            kept.append(self.self_attention.remember(normed, normed))
            return self.self_attention.ask(normed, kept[0], mask, need_weights=False)[0]

        for around, sub_layer in (
            (self.around_self, attend),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, sub_layer(around.before(x)))
        return x, kept.pop()


@right("asks and feeds forward one position at a time")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        size, length, _ = x.shape
        states = self.around_self.before(x)
        memory = self.self_attention.remember(states, states)
        rows = None if mask is None else mask.expand(size, length, length)
        contexts = []
        for t in range(length):
            row = None if rows is None else rows[:, t : t + 1]
            context, _ = self.self_attention.ask(states[:, t : t + 1], memory, row)
            contexts.append(context)
        x = self.around_self.after(x, torch.cat(contexts, dim=1))
        states = self.around_feed_forward.before(x)
        mapped = [self.feed_forward(part) for part in states.split(1, dim=1)]
        return self.around_feed_forward.after(x, torch.cat(mapped, dim=1)), memory


@right("asks for each sentence separately, with its share of the keys and values")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        queries = self.around_self.before(x)
        memory = self.self_attention.remember(queries, queries)
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        masks = mask.expand(x.shape[0], x.shape[1], x.shape[1])
        contexts = torch.empty_like(queries)
        for b in range(x.shape[0]):
            own = memory._replace(
                key=memory.key[b : b + 1], value=memory.value[b : b + 1]
            )
            found = self.self_attention.ask(queries[b : b + 1], own, masks[b : b + 1])
            contexts[b] = found[0][0]
        between = self.around_self.after(x, contexts)
        mapped = self.feed_forward(self.around_feed_forward.before(between))
        return self.around_feed_forward.after(between, mapped), memory


def _in_float64(module, x):
    parameters = {name: value.double() for name, value in module.named_parameters()}
    return torch.func.functional_call(module, parameters, (x.double(),)).to(x.dtype)


@right("asks backwards (last query first), and feeds forward flattened in float64")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(key=normed, value=normed)
        if mask is not None:
            mask = mask.expand(-1 if mask.dim() > 2 else 1, x.shape[1], x.shape[1])
            mask = mask.flip(1)
        context, _ = self.self_attention.ask(normed.flip(1), memory, mask, False)
        middle = self.around_self.after(x, context.flip(1))
        flat = self.around_feed_forward.before(middle).reshape(-1, x.shape[2])
        # the feed-forward network wants (B, T, D)
        mapped = _in_float64(self.feed_forward, flat[None])[0].view(middle.shape)
        return self.around_feed_forward.after(middle, mapped), memory


@wrong(
    "overwrites x by its norm, so that the skip connection carries the norm",
    breaks="In `after(x, ...)`, x is the input of the sub-layer, not the result of"
    " `before`.",
    name="the skip connection starts after the norm",
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
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong(
    "remembers and asks, but does not pass the mask on",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="the mask is forgotten",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, need_weights=False)
        x = self.around_self.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), memory


@wrong(
    "normalizes the queries, but makes keys and values from x itself",
    breaks="Queries, keys and values all come from the result of"
    " `self.around_self.before(x)`.",
    name="keys and values are not normalized",
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
        query = self.around_self.before(x)
        context, _ = self.self_attention.ask(query, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), memory


@wrong(
    "feeds the layer's input forward, parallel to the attention",
    breaks="Self-attention, then a feed-forward network.",
    name="the sub-layers are parallel",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        attended = self.around_self.after(x, context)
        return self.around_feed_forward.after(attended, mapped), memory


@wrong(
    "takes any mask with two axes for a padding mask (B, T)",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="a mask (T, T) is taken for a padding mask",
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
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), memory


@wrong(
    "writes the states of the first sub-layer into x",
    breaks="Do not change the inputs.",
    name="the input is overwritten",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x[:] = self.around_self.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), memory


@wrong(
    "uses the first Residual for both sub-layers: the same as long as both norms have"
    " their first weights",
    breaks="For the second sub-layer, call `self.feed_forward` between `before` and"
    " `after` of `self.around_feed_forward`.",
    name="one norm for both sub-layers",
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
        normed = around.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = around.after(x, context)
        return around.after(x, self.feed_forward(around.before(x))), memory


@wrong(
    "also keeps padding from attending, by making the mask symmetric",
    breaks="mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    name="the mask is applied to the queries, too",
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
            mask = mask & mask.transpose(-2, -1)
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), memory


@wrong(
    "detaches the keys and values that it returns, so a loss on them has no gradient",
    breaks="Gradients must be right, too.",
    name="the returned keys and values have lost their gradients",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        kept = type(memory)(memory.key.detach(), memory.value.detach())
        return self.around_feed_forward.after(x, mapped), kept


@wrong(
    "writes the two formulas out and forgets dropout: wrong in train mode only",
    breaks="Here `before` prepares the input of f, and `after` applies dropout to the"
    " output of f and adds it to x.",
    name="no dropout in training",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.pre_norm = pre_norm

    def forward(self, x, mask=None):
        first, second = self.around_self.norm, self.around_feed_forward.norm
        normed = first(x) if self.pre_norm else x
        memory = self.self_attention.remember(normed, normed)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        if self.pre_norm:
            x = x + context
            return x + self.feed_forward(second(x)), memory
        x = first(x + context)
        return second(x + self.feed_forward(x)), memory
