import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

ASIS = "Use it as it is."
QUERY = "Compute the queries of the cross-attention from the states *after* the self-attention."
MASKS = "Use `mask` for the self-attention and `source_mask` for the cross-attention."
PAST = "If there is one, x must attend to the old positions *and* to the new ones."
EXTEND = "`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order."
WEIGHTS = "If `need_weights` is true, return the weights of the cross-attention."
MIDDLE = "call `self.cross_attention.ask(query, source, source_mask, need_weights)` between `before` and `after` of `self.around_cross`."
SHAPE = "The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of"
KEEP = "In `after(x, ...)`, x is the input of the sub-layer, not the result of `before`."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
GRADS = "Gradients must be right, too."


class Given(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    # The three right sub-layers
    def look_back(self, x, mask, past):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = past.extend(memory)
        contexts, weights = self.self_attention.ask(inner, memory, mask)
        return self.around_self.after(x, contexts), weights, memory

    def look_over(self, x, source, source_mask, need_weights):
        inner = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(inner, source, source_mask, need_weights)
        return self.around_cross.after(x, contexts), weights

    def feed(self, x):
        inner = self.around_feed_forward.before(x)
        return self.around_feed_forward.after(x, self.feed_forward(inner))


@right("a loop over (residual, function); the functions leave the weights and the KeyValue in a dict")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        found = {}

        def back(inner):
            new = self.self_attention.remember(inner, inner)
            found["memory"] = new if past is None else past.extend(new)
            return self.self_attention.ask(inner, found["memory"], mask, need_weights=False)[0]

        def over(inner):
            contexts, found["weights"] = self.cross_attention.ask(inner, source, source_mask, need_weights)
            return contexts

        layers = (self.around_self, back), (self.around_cross, over), (self.around_feed_forward, self.feed_forward)
        for around, f in layers:
            x = around.after(x, f(around.before(x)))
        return x, found["weights"], found["memory"]


@right("always computes and returns the weights, wanted or not")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        x, _, memory = self.look_back(x, mask, past)
        x, weights = self.look_over(x, source, source_mask, True)
        return self.feed(x), weights, memory


@right("full masks (B, T, P + T) and (B, T, S) instead of None and of broadcasting")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        b, t, _ = x.shape
        before = 0 if past is None else past.key.shape[2]
        yes = torch.ones((), dtype=torch.bool, device=x.device)
        mask = (yes if mask is None else mask).expand(b, t, before + t)
        source_mask = (yes if source_mask is None else source_mask).expand(b, t, source.key.shape[2])
        x, _, memory = self.look_back(x, mask, past)
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights if need_weights else None, memory


@right("asks for one query at a time in both attentions and concatenates contexts and weights")
class DecoderBlock(Given):
    def one_by_one(self, attention, inner, memory, mask):
        b, t, _ = inner.shape
        masks = [None] * t if mask is None else mask.expand(b, t, memory.key.size(2)).split(1, dim=1)
        answers = [attention.ask(q, memory, m) for q, m in zip(inner.split(1, dim=1), masks)]
        return torch.cat([c for c, _ in answers], dim=1), torch.cat([w for _, w in answers], dim=2)

    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        memory = memory if past is None else past.extend(memory)
        x = self.around_self.after(x, self.one_by_one(self.self_attention, inner, memory, mask)[0])
        inner = self.around_cross.before(x)
        contexts, weights = self.one_by_one(self.cross_attention, inner, source, source_mask)
        return self.feed(self.around_cross.after(x, contexts)), weights, memory


@wrong("computes the cross-attention's queries from x as it was before the self-attention", breaks=QUERY,
       name="queries from before the self-attention")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        y, _, memory = self.look_back(x, mask, past)
        inner = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(inner, source, source_mask, need_weights)
        return self.feed(self.around_cross.after(y, contexts)), weights, memory


@wrong("returns the weights of the self-attention", breaks=WEIGHTS, name="weights of the self-attention")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        x, weights, memory = self.look_back(x, mask, past)
        x, _ = self.look_over(x, source, source_mask, False)
        return self.feed(x), weights if need_weights else None, memory


@wrong("uses no source_mask: right as long as no source is padded", breaks=MASKS, name="source_mask forgotten")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        x, _, memory = self.look_back(x, mask, past)
        x, weights = self.look_over(x, source, None, need_weights)
        return self.feed(x), weights, memory


@wrong("takes a past for a sign of single steps and drops the mask: a later chunk of several tokens looks ahead",
       breaks=MASKS, name="no mask when there is a past")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        x, _, memory = self.look_back(x, mask if past is None else None, past)
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights, memory


@wrong("puts the new keys before the old ones: without a mask the states stay the same, the KeyValue does not",
       breaks=EXTEND, name="new keys before the old ones")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        inner = self.around_self.before(x)
        memory = self.self_attention.remember(inner, inner)
        if past is not None:
            memory = memory.extend(past)
        x = self.around_self.after(x, self.self_attention.ask(inner, memory, mask)[0])
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights, memory


@wrong("attends to old and new positions, but returns the KeyValue of the new ones only", breaks="all P + T target positions.",
       name="past missing from the returned KeyValue")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        inner = self.around_self.before(x)
        new = self.self_attention.remember(inner, inner)
        memory = new if past is None else past.extend(new)
        x = self.around_self.after(x, self.self_attention.ask(inner, memory, mask)[0])
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights, new


@wrong("extends the past only when a single token comes in: a chunk of several tokens forgets its past", breaks=PAST,
       name="past used for single tokens only")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        if past is not None and x.size(1) > 1:
            mask = None if mask is None else mask[..., -x.size(1):]
            past = None
        x, _, memory = self.look_back(x, mask, past)
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights, memory


@wrong("uses the self-attention's residual and norm for the cross-attention, too: equal until the norms have been "
       "trained", breaks=MIDDLE, name="norm of the self-attention used for the cross-attention")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        x, _, memory = self.look_back(x, mask, past)
        inner = self.around_self.before(x)
        contexts, weights = self.cross_attention.ask(inner, source, source_mask, need_weights)
        return self.feed(self.around_self.after(x, contexts)), weights, memory


@wrong("returns the weights averaged over the heads", breaks=SHAPE, name="weights averaged over the heads")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        x, _, memory = self.look_back(x, mask, past)
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights.mean(1) if need_weights else None, memory


@wrong("keeps the last KeyValue itself and uses it in eval mode when no past is given and a single token comes in",
       breaks=CALLS, name="past kept in the block")
class DecoderBlock(Given):
    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        kept = self.__dict__.get("kept")
        if past is None and kept is not None and x.size(1) == 1 and not self.training:
            if kept.key.size(0) == x.size(0):
                past, mask = kept, None
        x, _, memory = self.look_back(x, mask, past)
        self.__dict__["kept"] = memory
        x, weights = self.look_over(x, source, source_mask, need_weights)
        return self.feed(x), weights, memory
