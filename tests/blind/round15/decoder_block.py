import torch
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from blind import right, wrong

ORDER = "The decoder's block therefore has three sub-layers: first self-attention among the target positions, then cross-attention, in which each target position attends to the source, and last a feed-forward network, which works on each position separately."


@right("a helper for a sub-layer, in a loop")
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

        def among_targets(z):
            new = self.self_attention.remember(z, z)
            kept["target"] = new if past is None else past.extend(new)
            return self.self_attention.ask(z, kept["target"], mask)[0]

        def to_source(z):
            contexts, kept["weights"] = self.cross_attention.ask(
                z, source, source_mask, need_weights
            )
            return contexts

        for around, f in (
            (self.around_self, among_targets),
            (self.around_cross, to_source),
            (self.around_feed_forward, self.feed_forward),
        ):
            x = around.after(x, f(around.before(x)))
        return x, kept["weights"], kept["target"]


@right("one query after the other, with its rows of both masks")
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
        B, T = x.shape[:2]
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)

        def ask(attention, queries, known, allowed):
            if allowed is not None:
                shape = (B, T, known.key.size(2))
                allowed = torch.broadcast_to(allowed, shape)
            contexts, weights = [], []
            for t in range(T):
                row = None if allowed is None else allowed[:, t : t + 1]
                context, weight = attention.ask(queries[:, t : t + 1], known, row)
                contexts.append(context)
                weights.append(weight)
            return torch.cat(contexts, dim=1), torch.cat(weights, dim=2)

        x = self.around_self.after(x, ask(self.self_attention, z, memory, mask)[0])
        contexts, weights = ask(
            self.cross_attention, self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights if need_weights else None, memory


@right("returns the weights whether or not they are needed")
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
        one = self.around_self.before(x)
        memory = self.self_attention.remember(one, one)
        memory = memory if past is None else past.extend(memory)
        after_self = self.around_self.after(
            x, self.self_attention.ask(one, memory, mask, need_weights=False)[0]
        )
        two = self.around_cross.before(after_self)
        contexts, weights = self.cross_attention.ask(two, source, source_mask)
        after_cross = self.around_cross.after(after_self, contexts)
        three = self.around_feed_forward.before(after_cross)
        states = self.around_feed_forward.after(after_cross, self.feed_forward(three))
        return states, weights, memory


@right("full masks in place of None; feed-forward network position by position")
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
        def full(allowed, known):
            if allowed is None:
                allowed = torch.ones((), dtype=torch.bool, device=x.device)
            shape = (x.size(0), x.size(1), known.key.size(2))
            return torch.broadcast_to(allowed, shape)

        z = self.around_self.before(x)
        known = self.self_attention.remember(z, z)
        if past is not None:
            known = past.extend(known)
        contexts, _ = self.self_attention.ask(z, known, full(mask, known))
        y = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(y), source, full(source_mask, source)
        )
        y = self.around_cross.after(y, contexts)
        z = self.around_feed_forward.before(y)
        inner = torch.cat([self.feed_forward(p) for p in z.split(1, dim=1)], dim=1)
        y = self.around_feed_forward.after(y, inner)
        return y, (weights if need_weights else None), known


@wrong(
    "the new positions before the old ones; the same contexts without a mask",
    breaks="`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order.",
    name="past appended to the new positions",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = memory.extend(past)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


@wrong(
    "attends to old and new positions, but returns the new ones only",
    breaks="The states (B, T, D); the weights (B, H, T, S) or None; the `KeyValue` of all P + T target positions.",
    name="past missing in the returned cache",
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
        z = self.around_self.before(x)
        new = self.self_attention.remember(z, z)
        memory = new if past is None else past.extend(new)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, new


@wrong(
    "asks the source with the states of the layer below",
    breaks="Compute the queries of the cross-attention from the states *after* the self-attention.",
    name="queries from before the self-attention",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)
        y = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        y = self.around_cross.after(y, contexts)
        z = self.around_feed_forward.before(y)
        y = self.around_feed_forward.after(y, self.feed_forward(z))
        return y, weights, memory


@wrong(
    "attends to the padding of the source",
    breaks="Use `mask` for the self-attention and `source_mask` for the cross-attention.",
    name="source mask forgotten",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, None, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


@wrong(
    "returns the weights of the self-attention",
    breaks="If `need_weights` is true, return the weights of the cross-attention.",
    name="weights of the wrong attention",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)
        contexts, weights = self.self_attention.ask(z, memory, mask, need_weights)
        x = self.around_self.after(x, contexts)
        contexts, _ = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


@wrong(
    "with a past, every new position attends to all; right for one new token",
    breaks="`mask` says which target positions may be attended to, and `source_mask` says the same for the source positions.",
    name="mask ignored when there is a past",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory, mask = past.extend(memory), None
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


@wrong(
    "cuts the old keys and values from the graph",
    breaks="Gradients must be right, too.",
    name="no gradient through the past",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            old = type(past)(past.key.detach(), past.value.detach())
            memory = old.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


@wrong(
    "adds the contexts of the source to the block's input, not to the states after the self-attention",
    breaks="Each sub-layer f has a skip connection around it and a layer norm, LN.",
    name="skip connection from the wrong states",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)
        y = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(y), source, source_mask, need_weights
        )
        y = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(y)
        y = self.around_feed_forward.after(y, self.feed_forward(z))
        return y, weights, memory


@wrong(
    "in eval mode, the block keeps its cache itself and goes on from there",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="cache kept in the module",
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
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is None and not self.training:
            past = getattr(self, "earlier", None)
        if past is not None:
            memory = past.extend(memory)
        self.earlier = memory
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory


@wrong(
    "the cross-attention goes first",
    breaks=ORDER,
    name="sub-layers in the wrong order",
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
        contexts, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        z = self.around_self.before(x)
        memory = self.self_attention.remember(z, z)
        if past is not None:
            memory = past.extend(memory)
        x = self.around_self.after(x, self.self_attention.ask(z, memory, mask)[0])
        z = self.around_feed_forward.before(x)
        x = self.around_feed_forward.after(x, self.feed_forward(z))
        return x, weights, memory
