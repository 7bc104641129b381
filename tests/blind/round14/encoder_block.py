import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
PRE_POST = (
    r"\text{pre-norm: } y = x + f(\mathrm{LN}(x)), \qquad \text{post-norm: } y ="
    r" \mathrm{LN}(x + f(x))"
)
AROUND = (
    "With `around = Residual(...)`, compute a sub-layer as `around.after(x,"
    " f(around.before(x)))`."
)
AFTER = (
    "Here `before` prepares the input of f, and `after` applies dropout to the output of"
    " f and adds it to x."
)
OWN_NORM = "Each sub-layer f has a skip connection around it and a layer norm, LN."
KEYS = "Return the states, and the `KeyValue` that `self_attention.remember` returned."


@right("asks with one query at a time; feed-forward on a flat list of positions")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        if mask is not None:
            mask = mask.expand(batch, length, length)
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts = []
        for t in range(length):
            here = slice(t, t + 1)
            allowed = None if mask is None else mask[:, here]
            contexts.append(self.self_attention.ask(seen[:, here], memory, allowed)[0])
        x = self.around_self.after(x, torch.cat(contexts, dim=1))
        flat = self.around_feed_forward.before(x).reshape(batch * length, -1)
        inner = self.feed_forward(flat).view(batch, length, -1)
        return self.around_feed_forward.after(x, inner), memory


@right("a helper for both sub-layers; the memory leaves the inner function in a list")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        kept = []

        def attend_to_all(states):
            kept.append(self.self_attention.remember(states, states))
            return self.self_attention.ask(states, kept[0], mask)[0]

        for around, sublayer in (
            (self.around_self, attend_to_all),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, sublayer(around.before(x)))
        return x, kept.pop()


@right("one sentence after the other, with its part of the memory")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device)
        mask = mask.broadcast_to(x.size(0), x.size(1), x.size(1))
        contexts = torch.cat(
            [
                self.self_attention.ask(
                    seen[b : b + 1],
                    type(memory)(memory.key[b : b + 1], memory.value[b : b + 1]),
                    mask[b : b + 1],
                )[0]
                for b in range(x.size(0))
            ]
        )
        between = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(between))
        return self.around_feed_forward.after(between, inner), memory


@right("asks with the queries in reverse order and turns the result around again")
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        memory = self.self_attention.remember(*[self.around_self.before(x)] * 2)
        if mask is not None:
            mask = mask.expand(x.size(0), x.size(1), x.size(1)).flip(1)
        backwards = self.around_self.before(x.flip(1))
        contexts, _ = self.self_attention.ask(backwards, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts.flip(1))
        tokens = self.around_feed_forward.before(x).unbind(1)
        inner = torch.stack([self.feed_forward(token) for token in tokens], dim=1)
        return self.around_feed_forward.after(x, inner), memory


@wrong(
    "adds the attention to the normed states instead of to x",
    PRE_POST,
    "skip connection from normed states",
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
    "makes keys and values from x itself, and only the queries from `before(x)`",
    AROUND,
    "keys and values not normed",
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
        x = self.around_self.after(x, self.self_attention.ask(query, memory, mask)[0])
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, memory


@wrong(
    "adds the feed-forward network to the block's input, so the attention is lost on"
    " the skip path",
    OWN_NORM,
    "second skip starts at block input",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        between = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(between))
        return self.around_feed_forward.after(x, inner), memory


@wrong(
    "returns keys and values of the block's output, not those that the attention used",
    KEYS,
    "returned memory made from output states",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, self.self_attention.remember(x, x)


@wrong(
    "uses the norm of the attention for the feed-forward network as well, which shows"
    " only once the two norms have learned different parameters",
    OWN_NORM,
    "one residual used for both sub-layers",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_self.before(x))
        return self.around_self.after(x, inner), memory


@wrong(
    "writes the residual by hand and forgets dropout, which shows only in train mode"
    " with dropout above 0",
    AFTER,
    "no dropout in train mode",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        def add(around, x, result):
            return x + result if around.pre_norm else around.norm(x + result)

        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = add(self.around_self, x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        return add(self.around_feed_forward, x, inner), memory


@wrong(
    "returns a detached KeyValue, so a loss on keys and values gives no gradients",
    GRAD,
    "memory cut off from the gradient",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, type(memory)(memory.key.detach(), memory.value.detach())


@wrong(
    "sets the states of padding to 0 at the end if the mask is a padding mask (B, 1, T)",
    PRE_POST,
    "states of padding set to zero",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        if mask is not None and mask.dim() == 3 and mask.size(1) == 1:
            x = x.masked_fill(~mask.mT, 0.0)
        return x, memory


@wrong(
    "adds the attention to x in place in eval mode to save memory",
    CHANGE,
    "adds to the input in place",
)
class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        if self.around_self.pre_norm and not self.training:
            x += contexts
        else:
            x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, memory


@wrong(
    "in eval mode, keeps the KeyValue of the last call and uses it again for any x of"
    " the same shape",
    STATE,
    "memory kept from an earlier call",
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
        seen = self.around_self.before(x)
        if self.training or self.kept is None or self.kept[0] != x.shape:
            self.kept = (x.shape, self.self_attention.remember(seen, seen))
        memory = self.kept[1]
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, memory
