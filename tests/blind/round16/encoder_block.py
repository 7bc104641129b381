import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

FORMULA = r"\text{pre-norm: } y = x + f(\mathrm{LN}(x)), \qquad \text{post-norm: } y = \mathrm{LN}(x + f(x))"
SKIP = "Each sub-layer f has a skip connection around it and a layer norm, LN."
AFTER = "`after` applies dropout to the output of f and adds it to x."
KEEP = "In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`."
QKV = "Queries, keys and values all come from the result of `self.around_self.before(x)`."
MASK = "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
RETURN = "Return the states, and the `KeyValue` that `self_attention.remember` returned."
SECOND = "For the second sub-layer, call `self.feed_forward` between `before` and `after` of `self.around_feed_forward`."
THEN = "Self-attention, then a feed-forward network."
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
GRADS = "Gradients must be right, too."


class Given(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def attend_first(self, x, mask):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask, need_weights=False)
        return self.around_self.after(x, contexts), memory

    def feed(self, x):
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner))


@right("a loop over pairs (residual, function); the function of the attention leaves its KeyValue in a list")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        memories = []

        def look(inner):
            memories.append(self.self_attention.remember(inner, inner))
            return self.self_attention.ask(inner, memories[0], mask)[0]

        for around, f in ((self.around_self, look), (self.around_feed_forward, self.feed_forward)):
            x = around.after(x, f(around.before(x)))
        return x, memories.pop()


@right("makes an explicit mask (B, T, T), all True where there was none")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        b, t, _ = x.shape
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        x, memory = self.attend_first(x, mask.expand(b, t, t).contiguous())
        return self.feed(x), memory


@right("asks for three queries at a time and concatenates the contexts")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(key=inner, value=inner)
        queries = inner.split(3, dim=1)
        masks = [None] * len(queries)
        if mask is not None:
            masks = mask.expand(x.size(0), x.size(1), x.size(1)).split(3, dim=1)
        contexts = [self.self_attention.ask(q, memory, m)[0] for q, m in zip(queries, masks)]
        return self.feed(self.around_self.after(x, torch.cat(contexts, dim=1))), memory


@right("one nested expression, with the feed-forward network position by position (all positions as one batch)")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        y, memory = self.attend_first(x, mask)
        flat = self.around_feed_forward.before(y).flatten(0, 1)[:, None]
        return self.around_feed_forward.after(y, self.feed_forward(flat).reshape(y.shape)), memory


@wrong("ignores the mask", breaks=MASK, name="mask ignored")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        x, memory = self.attend_first(x, None)
        return self.feed(x), memory


@wrong("runs both sub-layers on x side by side and adds both", breaks=THEN, name="sub-layers side by side")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        y, memory = self.attend_first(x, mask)
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(y, self.feed_forward(inner)), memory


@wrong("adds the output of f to the normed input: right for post-norm only", breaks=KEEP,
       name="skip connection starts after the norm")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        x = self.around_self.before(x)
        memory = self.self_attention.remember(x, x)
        x = self.around_self.after(x, self.self_attention.ask(x, memory, mask)[0])
        x = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(x)), memory


@wrong("only the queries are normed, keys and values come from x itself: wrong for pre-norm", breaks=QKV,
       name="keys and values not normed")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        memory = self.self_attention.remember(x, x)
        contexts, _ = self.self_attention.ask(self.around_self.before(x), memory, mask)
        return self.feed(self.around_self.after(x, contexts)), memory


@wrong("adds f's output by hand instead of calling after: no dropout in train mode, no norm in a post-norm block",
       breaks=AFTER, name="after replaced by a plain sum")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        x = x + self.self_attention.ask(inner, memory, mask)[0]
        return x + self.feed_forward(self.around_feed_forward.before(x)), memory


@wrong("uses the first sub-layer's residual and norm for both: equal until the norms have been trained",
       breaks=SECOND, name="one norm for both sub-layers")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        x, memory = self.attend_first(x, mask)
        return self.around_self.after(x, self.feed_forward(self.around_self.before(x))), memory


@wrong("returns the keys and values of the finished states", breaks=RETURN, name="KeyValue of the output")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        x, _ = self.attend_first(x, mask)
        x = self.feed(x)
        return x, self.self_attention.remember(x, x)


@wrong("keeps a KeyValue for inputs of the same shape in eval mode: a second call attends to the first sequence",
       breaks=CALLS, name="KeyValue kept from an earlier call")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        inner = self.around_self.before(x)
        kept = self.__dict__.setdefault("kept", {})
        if self.training or x.shape not in kept:
            kept[x.shape] = self.self_attention.remember(inner, inner)
        memory = kept[x.shape]
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        return self.feed(self.around_self.after(x, contexts)), memory


@wrong("computes keys and values under no_grad: key_proj and value_proj get no gradient", breaks=GRADS,
       name="keys and values without gradients")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        inner = self.around_self.before(x)
        with torch.no_grad():
            memory = self.self_attention.remember(inner, inner)
        contexts, _ = self.self_attention.ask(inner, memory, mask)
        return self.feed(self.around_self.after(x, contexts)), memory


@wrong("sets the states of padded positions to 0, as read off a mask (B, 1, T)", breaks=FORMULA,
       name="states of padding zeroed")
class EncoderBlock(Given):
    def forward(self, x, mask=None):
        x, memory = self.attend_first(x, mask)
        x = self.feed(x)
        if mask is not None and mask.dim() == 3 and mask.size(1) == 1:
            x = x.masked_fill(~mask.mT, 0)
        return x, memory
