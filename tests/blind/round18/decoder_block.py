import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong


@right("three closures in a loop, and weights even where nobody asks for them")
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        kept = {}

        def look_back(normed):
            memory = self.self_attention.remember(normed, normed)
            kept["memory"] = memory if past is None else past.extend(memory)
            return self.self_attention.ask(normed, kept["memory"], mask)[0]

        def look_across(normed):
            context, kept["weights"] = self.cross_attention.ask(
                normed, source, source_mask, need_weights=True
            )
            return context

        for around, sub_layer in (
            (self.around_self, look_back),
            (self.around_cross, look_across),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, sub_layer(around.before(x)))
        return x, kept["weights"], kept["memory"]


@right("both attentions ask for one target position at a time")
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        def one_by_one(attention, query, memory, allowed, weighted):
            shape = (query.shape[0], query.shape[1], memory.key.shape[2])
            contexts, weights = [], []
            for t in range(query.shape[1]):
                row = None if allowed is None else allowed.expand(shape)[:, t : t + 1]
                found = attention.ask(query[:, t : t + 1], memory, row, weighted)
                contexts.append(found[0])
                weights.append(found[1])
            weights = torch.cat(weights, dim=2) if weighted else None
            return torch.cat(contexts, dim=1), weights

        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = one_by_one(self.self_attention, normed, memory, mask, False)
        x = self.around_self.after(x, context)
        context, weights = one_by_one(
            self.cross_attention,
            self.around_cross.before(x),
            source,
            source_mask,
            need_weights,
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@right("sentence by sentence, and joins the past by hand with torch.cat")
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        def apart(attention, query, memory, allowed):
            if allowed is not None:
                allowed = allowed.expand(
                    query.shape[0], query.shape[1], memory.key.shape[-2]
                )
            answers = []
            for b in range(query.shape[0]):
                one = slice(b, b + 1)
                own = type(memory)(memory.key[one], memory.value[one])
                own_mask = None if allowed is None else allowed[one]
                answers.append(attention.ask(query[one], own, own_mask, True))
            contexts, weights = zip(*answers)
            return torch.cat(contexts), torch.cat(weights)

        inside = self.around_self.before(x)
        memory = self.self_attention.remember(inside, inside)
        if past is not None:
            memory = type(memory)(
                torch.cat([past.key, memory.key], dim=2),
                torch.cat([past.value, memory.value], dim=2),
            )
        context, _ = apart(self.self_attention, inside, memory, mask)
        first = self.around_self.after(x, context)
        inside = self.around_cross.before(first)
        context, weights = apart(self.cross_attention, inside, source, source_mask)
        second = self.around_cross.after(first, context)
        inside = self.around_feed_forward.before(second)
        third = self.around_feed_forward.after(second, self.feed_forward(inside))
        return third, weights if need_weights else None, memory


def _in_float64(module, x):
    parameters = {name: value.double() for name, value in module.named_parameters()}
    return torch.func.functional_call(module, parameters, (x.double(),)).to(x.dtype)


class _Stage:
    """A sub-layer as an object that keeps what else it has computed."""

    def __init__(self, around, layer):
        self.around, self.layer, self.extra = around, layer, None

    def __call__(self, x):
        found = self.layer(self.around.before(x))
        if isinstance(found, tuple):
            found, self.extra = found
        return self.around.after(x, found)


@right("stages as objects, masks made explicit, and a feed-forward in float64")
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        (size, length, _), device = x.shape, x.device
        before = 0 if past is None else past.key.shape[2]
        allow_all = torch.ones(1, 1, 1, dtype=torch.bool, device=device)
        mask = allow_all if mask is None else mask
        source_mask = allow_all if source_mask is None else source_mask
        mask = mask.expand(size, length, before + length)
        source_mask = source_mask.expand(size, length, source.key.shape[2])

        def attend(normed):
            new = self.self_attention.remember(normed, normed)
            total = new if past is None else past.extend(new)
            return self.self_attention.ask(normed, total, mask, False)[0], total

        first = _Stage(self.around_self, attend)
        second = _Stage(
            self.around_cross,
            lambda normed: self.cross_attention.ask(
                normed, source, source_mask, need_weights
            ),
        )
        third = _Stage(
            self.around_feed_forward,
            lambda normed: _in_float64(self.feed_forward, normed),
        )
        states = third(second(first(x)))
        return states, second.extra, first.extra


@wrong(
    "appends the past to the new keys and values instead of the other way round",
    breaks="`past.extend(new)` returns a new `KeyValue`: the old one, followed by the new"
    " one.",
    name="new positions come before old ones",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = memory.extend(past)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "makes the queries of the cross-attention from the block's input",
    breaks="Compute the queries of the cross-attention from the states *after* the"
    " self-attention.",
    name="cross-attention asks with the old states",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        query = self.around_cross.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "asks the source without its mask",
    breaks="Use `mask` for the self-attention and `source_mask` for the cross-attention.",
    name="the padding of the source is not masked",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, need_weights=need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "attends to the past, but returns the new keys and values only",
    breaks="the `KeyValue` of all P + T target positions.",
    name="the returned cache has lost the past",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        new = self.self_attention.remember(normed, normed)
        memory = new if past is None else past.extend(new)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, new


@wrong(
    "makes a causal mask of its own where it gets none",
    breaks="mask: which target positions may be attended to, broadcastable to (B, T, P +"
    " T); None allows all.",
    name="no mask is taken for a causal mask",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        if mask is None:
            total = memory.key.shape[2]
            mask = torch.ones(total, total, dtype=torch.bool, device=x.device).tril()
            mask = mask[total - x.shape[1] :]
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "asks a second time to get the weights, with the states after the cross-attention;"
    " the states are right, only the weights are not",
    breaks="If `need_weights` is true, return the weights of the cross-attention.",
    name="weights of other queries",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        ask = self.cross_attention.ask
        context, weights = ask(self.around_cross.before(x), source, source_mask, False)
        x = self.around_cross.after(x, context)
        if need_weights:
            _, weights = ask(self.around_cross.before(x), source, source_mask, True)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "drops the mask as soon as there is a past, as if x were then a single position",
    breaks="Use `mask` for the self-attention and `source_mask` for the cross-attention.",
    name="no mask after the first step",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory, mask = past.extend(memory), None
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "keeps the source of its first call and goes on asking that one",
    breaks="The result of a call must not depend on earlier calls or on other objects of"
    " the same class.",
    name="the source of an earlier call",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.source = None

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        if self.source is None:
            self.source = source
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, self.source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "allows every old position, even where the mask forbids one (padding on the left)",
    breaks="`mask` says which target positions may be attended to, and `source_mask` says"
    " the same for the source positions.",
    name="the mask does not reach the past",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
            if mask is not None:
                old = past.key.shape[2]
                mask = mask.expand(x.shape[0], x.shape[1], memory.key.shape[2]).clone()
                mask[:, :, :old] = True
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, context)
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory


@wrong(
    "drops out the context of the source before `after` does, and in eval mode, too",
    breaks="Here `before` prepares the input of f, and `after` applies dropout to the"
    " output of f and adds it to x.",
    name="dropout twice, and in eval mode",
)
class DecoderBlock(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_cross = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.rate = dropout

    def forward(
        self, x, source, mask=None, source_mask=None, past=None, need_weights=False
    ):
        normed = self.around_self.before(x)
        memory = self.self_attention.remember(normed, normed)
        if past is not None:
            memory = past.extend(memory)
        context, _ = self.self_attention.ask(normed, memory, mask, need_weights=False)
        x = self.around_self.after(x, context)
        query = self.around_cross.before(x)
        context, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, F.dropout(context, self.rate))
        mapped = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, mapped), weights, memory
