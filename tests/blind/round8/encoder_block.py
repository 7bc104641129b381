import torch
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention, attend
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)


@right("a helper wraps any sub-layer that is a function")
class EncoderBlock(Given):
    @staticmethod
    def wrapped(around, function, x):
        return around.after(x, function(around.before(x)))

    def forward(self, x, mask=None):
        kept = []

        def look(read):
            kept.append(self.self_attention.remember(read, read))
            return self.self_attention.ask(read, kept[0], mask, need_weights=False)[0]

        x = self.wrapped(self.around_self, look, x)
        return self.wrapped(self.around_feed_forward, self.feed_forward, x), kept[0]


@right("norm, dropout and skip connection by hand, both places of the norm")
class EncoderBlock(Given):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__(dim, num_heads, hidden_dim, dropout, pre_norm)
        self.first = pre_norm

    def forward(self, x, mask=None):
        one, two = self.around_self, self.around_feed_forward
        read = one.norm(x) if self.first else x
        seen = self.self_attention.remember(read, read)
        added, _ = self.self_attention.ask(read, seen, mask)
        x = x + one.dropout(added)
        x = x if self.first else one.norm(x)
        added = self.feed_forward(two.norm(x) if self.first else x)
        x = x + two.dropout(added)
        return (x if self.first else two.norm(x)), seen


@right("attention from its projections and attend, without remember and ask")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        look, read = self.self_attention, self.around_self.before(x)
        heads = look.num_heads
        q, k, v = (
            p(read).unflatten(-1, (heads, -1)).transpose(1, 2)
            for p in (look.query_proj, look.key_proj, look.value_proj)
        )
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, _ = attend(q @ k.mT / q.size(-1) ** 0.5, v, mask)
        context = look.output_proj(context.transpose(1, 2).flatten(2))
        x = self.around_self.after(x, context)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), KeyValue(k, v)


@right("feed-forward position by position, the mask expanded to full size first")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        B, T, _ = x.shape
        if mask is not None:
            mask = mask.expand(B, T, T)
        read = self.around_self.before(x)
        memory = self.self_attention.remember(key=read, value=read)
        contexts, _ = self.self_attention.ask(read, memory, mask)
        y = self.around_self.after(x, contexts)
        read = self.around_feed_forward.before(y)
        each = [self.feed_forward(read[:, t : t + 1]) for t in range(T)]
        return self.around_feed_forward.after(y, torch.cat(each, dim=1)), memory


@wrong(
    "keys and values are made from x, only the queries from the normed x; wrong for pre-norm",
    "Queries, keys and values come from the same sequence: what `self.around_self.before(x)` returned.",
    "keys from the sequence before the norm",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        seen = self.self_attention.remember(x, x)
        added, _ = self.self_attention.ask(self.around_self.before(x), seen, mask)
        x = self.around_self.after(x, added)
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), seen


@wrong(
    "x is overwritten by what before returned, so the skip connection carries the normed x; wrong for pre-norm",
    "The `x` in `after(x, ...)` is the sequence as it came to this sub-layer, not what `before` returned.",
    "skip connection starts after the norm",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        x = self.around_self.before(x)
        seen = self.self_attention.remember(x, x)
        x = self.around_self.after(x, self.self_attention.ask(x, seen, mask)[0])
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), seen


@wrong(
    "the mask is not passed on: padding is looked at",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "mask forgotten",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, None)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), seen


@wrong(
    "puts the norm before the sub-layer whatever pre_norm says, by calling norm and dropout itself; wrong for pre_norm=False",
    r"\text{pre-norm: } y = x + f(\mathrm{LN}(x)), \qquad \text{post-norm: } y = \mathrm{LN}(x + f(x))",
    "always pre-norm",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        read = self.around_self.norm(x)
        seen = self.self_attention.remember(read, read)
        added, _ = self.self_attention.ask(read, seen, mask)
        x = x + self.around_self.dropout(added)
        added = self.feed_forward(self.around_feed_forward.norm(x))
        return x + self.around_feed_forward.dropout(added), seen


@wrong(
    "adds without `after` for pre-norm, so in training mode nothing is dropped; wrong for dropout > 0 in training",
    "`around.after(x, added)` adds the sub-layer's output to the skip connection: `after(x, f(before(x)))`.",
    "dropout bypassed",
)
class EncoderBlock(Given):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__(dim, num_heads, hidden_dim, dropout, pre_norm)
        self.pre_norm = pre_norm

    def add(self, around, x, added):
        return x + added if self.pre_norm else around.norm(x + added)

    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        x = self.add(self.around_self, x, self.self_attention.ask(read, seen, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.add(self.around_feed_forward, x, added), seen


@wrong(
    "takes the first row of the mask for all queries: right for a padding mask (B, 1, T), wrong for a causal mask or any mask whose rows differ",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "only the mask's first row is used",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask[..., :1, :]
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), seen


@wrong(
    "adds in place (post-norm and without dropout it would be the same sum): the caller's x is changed",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "input changed by an addition in place",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        added, _ = self.self_attention.ask(read, seen, mask)
        y = self.around_self.after(x, added)
        with torch.no_grad():
            x.copy_(y)
        out = self.feed_forward(self.around_feed_forward.before(y))
        return self.around_feed_forward.after(y, out), seen


@wrong(
    "uses around_self for both sub-layers: the same as long as both norms have their first weights (1 and 0), wrong after training",
    "Around each sub-layer f there is a skip connection, and each sub-layer has a norm.",
    "one norm used for both sub-layers",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        around = self.around_self
        read = around.before(x)
        seen = self.self_attention.remember(read, read)
        x = around.after(x, self.self_attention.ask(read, seen, mask)[0])
        return around.after(x, self.feed_forward(around.before(x))), seen


@wrong(
    "returns a fresh `remember` of the block's result in place of what the self-attention used: shapes are right, keys and values are not",
    "Return the states, and what the self-attention remembered.",
    "wrong keys and values returned",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, added)
        return x, self.self_attention.remember(x, x)


@wrong(
    "without a mask it allows only the past: right for T = 1 and whenever a mask is given, wrong for mask=None and T > 1",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "no mask is taken for causal",
)
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        if mask is None:
            T = x.size(1)
            mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        read = self.around_self.before(x)
        seen = self.self_attention.remember(read, read)
        x = self.around_self.after(x, self.self_attention.ask(read, seen, mask)[0])
        added = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, added), seen
