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
QUERIES = "Compute the queries of the cross-attention from the states *after* the self-attention."
MASKS = "Use `mask` for the self-attention and `source_mask` for the cross-attention."
BOTH = "If there is one, x must attend to the old positions *and* to the new ones."
EXTEND = "`past.extend(new)` concatenates the old `KeyValue` and the new one, in this order."
WEIGHTS = "If `need_weights` is true, return the weights of the cross-attention."
THREE = (
    "The decoder's block therefore has three sub-layers: first self-attention among the"
    " target positions, then cross-attention, in which each target position attends to"
    " the source, and last a feed-forward network, which works on each position"
    " separately."
)
OWN_NORM = "Each sub-layer f has a skip connection around it and a layer norm, LN."


@right("both attentions ask with one query at a time; weights always")
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
        batch, length, _ = x.shape

        def ask(attention, query, memory, mask):
            if mask is not None:
                mask = mask.expand(batch, length, memory.key.size(2))
            parts = []
            for t in range(length):
                row = None if mask is None else mask[:, t : t + 1]
                parts.append(attention.ask(query[:, t : t + 1], memory, row, True))
            contexts, weights = zip(*parts)
            return torch.cat(contexts, dim=1), torch.cat(weights, dim=2)

        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        memory = memory if past is None else past.extend(memory)
        x = self.around_self.after(x, ask(self.self_attention, seen, memory, mask)[0])
        contexts, weights = ask(
            self.cross_attention, self.around_cross.before(x), source, source_mask
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@right("concatenates keys and values by hand, in new tensors")
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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            kind = type(memory)
            key = torch.cat([past.key, memory.key], dim=-2)
            memory = kind(key, torch.cat([past.value, memory.value], dim=-2))
        x = self.around_self.after(x, self.self_attention.ask(seen, memory, mask)[0])
        weights = []

        def look_at_source(query):
            contexts, found = self.cross_attention.ask(query, source, source_mask)
            weights.append(found)
            return contexts

        x = self.around_cross.after(x, look_at_source(self.around_cross.before(x)))
        flat = self.around_feed_forward.before(x).flatten(0, 1)
        inner = self.feed_forward(flat).view_as(x)
        x = self.around_feed_forward.after(x, inner)
        return x, weights[0] if need_weights else None, memory


@right("one sentence after the other in both attentions")
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
        def ask(attention, query, memory, mask):
            size = (query.size(0), query.size(1), memory.key.size(2))
            if mask is None:
                mask = torch.ones((), dtype=torch.bool, device=query.device)
            mask = mask.expand(size)
            parts = []
            for b in range(len(query)):
                one = slice(b, b + 1)
                pair = memory._replace(key=memory.key[one], value=memory.value[one])
                parts.append(attention.ask(query[one], pair, mask[one], need_weights=True))
            return [torch.cat(part) for part in zip(*parts)]

        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        states = self.around_self.after(
            x, ask(self.self_attention, seen, memory, mask)[0]
        )
        contexts, weights = ask(
            self.cross_attention, self.around_cross.before(states), source, source_mask
        )
        states = self.around_cross.after(states, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(states))
        if not need_weights:
            weights = None
        return self.around_feed_forward.after(states, inner), weights, memory


@right("remembers the new positions one by one and extends the past by each of them")
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
        seen = self.around_self.before(x)
        memory = past
        for token in seen.split(1, dim=1):
            new = self.self_attention.remember(token, token)
            memory = new if memory is None else memory.extend(new)
        contexts = self.self_attention.ask(seen, memory, mask, need_weights=False)[0]
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.around_feed_forward.before(x)
        inner = torch.stack([self.feed_forward(row) for row in inner])
        return self.around_feed_forward.after(x, inner), weights, memory


@wrong(
    "computes the queries of the cross-attention from x before the self-attention",
    QUERIES,
    "cross queries before self-attention",
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
        query = self.around_cross.before(x)
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "gives the source mask to the self-attention and the target's mask to the"
    " cross-attention",
    MASKS,
    "the two masks are swapped",
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
        mask, source_mask = source_mask, mask
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "puts the new keys and values before the old ones",
    EXTEND,
    "past and new in wrong order",
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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = memory.extend(past)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "returns the weights of the self-attention",
    WEIGHTS,
    "weights of the wrong attention",
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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, weights = self.self_attention.ask(seen, memory, mask, need_weights)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, _ = self.cross_attention.ask(query, source, source_mask, False)
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "uses the mask only without a past, because a single new token may look at all old"
    " ones: several new tokens see each other",
    MASKS,
    "mask dropped with a past",
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
        if past is not None:
            mask = None
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "uses the residual of the self-attention for the cross-attention too: the norms"
    " differ only after training",
    OWN_NORM,
    "norm of the wrong sub-layer",
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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_self.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_self.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "detaches the past, so no gradient reaches the earlier positions",
    GRAD,
    "past cut off from the gradient",
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
        if past is not None:
            past = type(past)(past.key.detach(), past.value.detach())
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "forgets the source mask in the branch that returns weights",
    MASKS,
    "source mask forgotten with weights",
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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        if need_weights:
            contexts, weights = self.cross_attention.ask(query, source, need_weights=True)
        else:
            contexts, weights = self.cross_attention.ask(
                query, source, source_mask, need_weights=False
            )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "extends the past only if x is a single token, so a longer piece after a past"
    " does not see it",
    BOTH,
    "past ignored for several tokens",
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
        seen = self.around_self.before(x)
        new = self.self_attention.remember(seen, seen)
        memory = new if past is None else past.extend(new)
        if past is not None and x.size(1) > 1:
            own = mask if mask is None or mask.size(-1) == 1 else mask[..., -x.size(1) :]
            contexts, _ = self.self_attention.ask(seen, new, own)
        else:
            contexts, _ = self.self_attention.ask(seen, memory, mask)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights, memory


@wrong(
    "returns detached weights, so a loss on the weights gives no gradients",
    GRAD,
    "weights cut off from the gradient",
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
        seen = self.around_self.before(x)
        memory = self.self_attention.remember(seen, seen)
        if past is not None:
            memory = past.extend(memory)
        contexts, _ = self.self_attention.ask(seen, memory, mask, need_weights=False)
        x = self.around_self.after(x, contexts)
        query = self.around_cross.before(x)
        contexts, weights = self.cross_attention.ask(
            query, source, source_mask, need_weights
        )
        x = self.around_cross.after(x, contexts)
        inner = self.feed_forward(self.around_feed_forward.before(x))
        x = self.around_feed_forward.after(x, inner)
        return x, weights.detach() if need_weights else None, memory
