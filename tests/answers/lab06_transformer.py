"""Answers to lab06_transformer, written as in the lab: with its imports, and with the earlier answers as globals."""

import math

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.signs import CUT, FITS, NO_NAME, NONE, NOTHING, ONE_AXIS, ORDER, REQUIRED, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention, masked_softmax
from attention_course.masks import causal_mask
from attention_course.questions.core import Request
from attention_course.tasks.core import PAD
from attention_course.transformer import DecoderBlock, FeedForward, Residual, TokenEmbedding

NORM = "the norm at another place"
JOINED = "the sub-layers are joined in another way"


# --- what equivalent answers agree on ---------------------------------------------------------------------------------


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def sizes(g):
    for b, t, s in ((1, 1, 1), (1, 4, 2), (3, 1, 5), (2, 6, 3), (3, 2, 4)):
        yield b, t, s, *torch.randint(1, 5, (4,), generator=g).tolist()


def attention_weights(g, name, dim):
    weights = {f"{name}.{part}_proj.weight": draw(g, dim, dim) for part in ("query", "key", "value", "output")}
    return weights | {f"{name}.{part}_proj.bias": draw(g, dim) for part in ("query", "key", "value", "output")}


def norm_weights(g, *names, dim):
    return {f"{name}.{part}": draw(g, dim) for name in names for part in ("weight", "bias")}


def block_weights(g, dim, hidden, attentions, prefix=""):
    weights = {
        "feed_forward.inner.weight": draw(g, hidden, dim),
        "feed_forward.inner.bias": draw(g, hidden),
        "feed_forward.outer.weight": draw(g, dim, hidden),
        "feed_forward.outer.bias": draw(g, dim),
    }
    for name in attentions:
        weights |= attention_weights(g, f"{name}_attention", dim) | norm_weights(g, f"around_{name}.norm", dim=dim)
    weights |= norm_weights(g, "around_feed_forward.norm", dim=dim)
    return {prefix + name: weight for name, weight in weights.items()}


def masks_of(g, b, t, s):
    yield None
    for shape in ((t, s), (b, t, s), (b, 1, s)):
        mask = torch.rand(*shape, generator=g) < 0.6
        mask[..., 0] = True
        yield mask


@wide("causal_mask")
def any_size(g):
    for size in range(1, 12):
        yield Request((torch.empty(size, 0),))
        yield Request((torch.empty(size, 0),), device="meta")


@wide("encoder_block")
def any_reading(g):
    for b, t, _, h, width, hidden, _ in sizes(g):
        dim = 2 * h * width
        for number, mask in enumerate(masks_of(g, b, t, t)):
            weights = block_weights(g, dim, hidden, ["self"])
            yield Request((draw(g, b, t, dim), mask), (dim, h, hidden, 0, number % 2), weights, gradients=True)


@wide("decoder_block")
def any_writing(g):
    for b, t, s, h, width, hidden, past in sizes(g):
        dim = 2 * h * width
        pasts = [(None, None), (draw(g, b, h, past, 2 * width), draw(g, b, h, past, 2 * width))]
        for number, source_mask in enumerate(masks_of(g, b, t, s)):
            for key, value in pasts:
                seen = t if key is None else past + t
                mask = torch.ones(t, seen, dtype=torch.bool).tril(seen - t)
                for look in (None, torch.empty(1, 0)):
                    source = draw(g, b, h, s, 2 * width), draw(g, b, h, s, 2 * width)
                    inputs = (draw(g, b, t, dim), *source, mask, source_mask, key, value, look)
                    weights = block_weights(g, dim, hidden, ["self", "cross"])
                    yield Request(inputs, (dim, h, hidden, 0, number % 2), weights, gradients=True)


@wide("train_step")
def any_batches(g):
    for b, t, s, v, n, _, _ in sizes(g):
        v, n = v + 4, n
        for clip in (1, 30, 5000):
            tokens = torch.randint(v, (2, n, b, t), generator=g)
            tokens[:, :, 0, 0] = v - 1
            source = torch.randint(v, (n, b, s), generator=g)
            yield Request((draw(g, v, v), draw(g, v, v), source, *tokens, torch.empty(clip, 0)))


@wide("greedy")
def any_script(g):
    for b, _, s, v, *_ in sizes(g):
        v += 4
        for longest in (1, 3, 8):
            ends = torch.randint(10, (b,), generator=g)
            source = torch.randint(v, (b, s), generator=g)
            bos, eos = torch.randperm(v, generator=g)[:2].tolist()
            numbers = (torch.empty(number, 0) for number in (bos, eos, longest))
            yield Request((draw(g, v, v), draw(g, v, v), source, ends, *numbers))


@wide("cached_step")
def any_pieces(g):
    for b, t, s, h, width, hidden, layers in sizes(g):
        dim, v = 2 * h * width, 7
        weights = {"embedding.table.weight": draw(g, v, dim), "head.weight": draw(g, v, dim), "head.bias": draw(g, v)}
        weights |= norm_weights(g, "norm", dim=dim)
        for layer in range(layers):
            weights |= block_weights(g, dim, hidden, ["self", "cross"], f"blocks.{layer}.")
        for pieces in ((t,), (1,) * (t + 1), (t, 2), (1, t, 3)):
            memory = draw(g, layers, b, h, s, 2 * width), draw(g, layers, b, h, s, 2 * width)
            mask = torch.rand(b, 1, s, generator=g) < 0.6
            mask[..., 0] = True
            inputs = (torch.randint(v, (b, sum(pieces)), generator=g), *memory, mask, torch.empty(pieces))
            yield Request(inputs, (v, dim, h, hidden, layers), weights, gradients=True)


# --- causal_mask ------------------------------------------------------------------------------------------------------


@right("causal_mask")
def ones_below(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@right("causal_mask")
def compared_positions(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] >= t[None, :]


@right("causal_mask")
def compared_with_less(size, device=None):
    t = torch.arange(size, device=device)
    return t.unsqueeze(0) <= t.unsqueeze(1)


@right("causal_mask")
def not_above(size, device=None):
    return ~torch.ones(size, size, device=device).bool().triu(1)


@right("causal_mask")
def not_above_in_words(size, device=None):
    return torch.triu(torch.ones((size, size), device=device), diagonal=1) == 0


@right("causal_mask")
def numbers_made_true(size, device=None):
    return torch.tril(torch.ones(size, size, device=device)).bool()


@right("causal_mask")
def numbers_compared(size, device=None):
    return torch.tril(torch.ones(size, size, device=device)) > 0.5


@right("causal_mask")
def filled_by_indices(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    rows, columns = torch.tril_indices(size, size, device=device)
    mask[rows, columns] = True
    return mask


@right("causal_mask")
def filled_row_by_row(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


@right("causal_mask")
def counted_from_the_diagonal(size, device=None):
    return torch.eye(size, device=device).cumsum(dim=0).bool()


@right("causal_mask")
def stacked_rows(size, device=None):
    t = torch.arange(size, device=device)
    return torch.stack([t <= row for row in range(size)])


@right("causal_mask")
def differences(size, device=None):
    t = torch.arange(size, device=device)
    return (t[:, None] - t).ge(0)


@wrong("causal_mask", "the upper triangle")
def upper(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] <= t


@wrong("causal_mask", "a position does not see itself")
def strictly_before(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] > t


@wrong("causal_mask", "a mask of numbers")
def of_ones_and_zeros(size, device=None):
    return torch.ones(size, size, device=device).tril()


@wrong("causal_mask", "a mask of numbers")
def of_integers(size, device=None):
    return torch.ones(size, size, dtype=torch.long, device=device).tril()


@wrong("causal_mask", "a mask of numbers")
def to_be_added(size, device=None):
    return torch.full((size, size), float("-inf"), device=device).triu(1)


@wrong("causal_mask", "the mask inside out")
def forbidden_is_true(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(diagonal=1)


@wrong("causal_mask", ONE_AXIS)
def with_a_batch(size, device=None):
    return torch.ones(1, size, size, dtype=torch.bool, device=device).tril()


@wrong("causal_mask", "a tensor made on the default device")
def on_the_cpu(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong("causal_mask", REQUIRED)
def device_required(size, device):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("causal_mask", NOTHING)
def forgets_to_return(size, device=None):
    torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("causal_mask", "another triangle")
def a_window(size, device=None):
    t = torch.arange(size, device=device)
    return ((t[:, None] - t) >= 0) & ((t[:, None] - t) <= 2)


@wrong("causal_mask", "another triangle")
def only_itself(size, device=None):
    return torch.eye(size, dtype=torch.bool, device=device)


@wrong("causal_mask")
def one_too_many(size, device=None):
    return torch.ones(size + 1, size + 1, dtype=torch.bool, device=device).tril()


# --- blocks -----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    # A student writes these lines one below the other; here they are apart, so that each can be written otherwise.
    def enter(self, around, x):
        return around.before(x)

    def leave(self, around, x, added):
        return around.after(x, added)

    def remember(self, attention, query):
        return attention.remember(query, query)

    def look(self, attention, query, seen, mask):
        return attention.ask(query, seen, mask, need_weights=False)[0]

    def think(self, x):
        query = self.enter(self.around_feed_forward, x)
        return self.leave(self.around_feed_forward, x, self.feed_forward(query))


def normalised(norm, x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + norm.eps) * norm.weight + norm.bias


def enter_by_hand(self, around, x):
    return normalised(around.norm, x) if around.pre_norm else x


def leave_by_hand(self, around, x, added):
    x = torch.stack([x, around.dropout(added)]).sum(0)
    return x if around.pre_norm else around.norm(x)


def leave_with_two_cases(self, around, x, added):
    if around.pre_norm:
        return x.clone() + around.dropout(added)
    return around.norm(x + around.dropout(added))


def remember_by_hand(self, attention, query):
    key, value = attention.key_proj(query), attention.value_proj(query)
    b, t, d = query.shape
    shape = (b, t, attention.num_heads, d // attention.num_heads)
    return KeyValue(key.view(shape).permute(0, 2, 1, 3), value.view(shape).permute(0, 2, 1, 3))


def remember_in_chunks(self, attention, query):
    parts = (p(query).chunk(attention.num_heads, dim=-1) for p in (attention.key_proj, attention.value_proj))
    return KeyValue(*(torch.stack(part, dim=1) for part in parts))


def look_with_weights(self, attention, query, seen, mask):
    context, _ = attention.ask(query, seen, mask)
    return context


def look_with_einsum(self, attention, query, seen, mask):
    q = attention.query_proj(query).unflatten(-1, (attention.num_heads, -1))
    scores = torch.einsum("bthd,bhsd->bhts", q, seen.key) / math.sqrt(q.size(-1))
    if mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    context = torch.einsum("bhts,bhsd->bthd", masked_softmax(scores, mask), seen.value)
    return attention.output_proj(context.flatten(2))


def look_head_by_head(self, attention, query, seen, mask):
    contexts = []
    for q, k, v in zip(
        attention.query_proj(query).chunk(attention.num_heads, -1), seen.key.unbind(1), seen.value.unbind(1)
    ):
        weights = masked_softmax(q @ k.mT / k.size(-1) ** 0.5, mask)
        contexts.append(weights @ v)
    return attention.output_proj(torch.cat(contexts, dim=-1))


def thinking(network):
    def think(self, x):
        around, layers = self.around_feed_forward, self.feed_forward
        return around.after(x, network(around.before(x), layers.inner, layers.outer))

    return think


def think_with_clamp(x, inner, outer):
    return outer(inner(x).clamp(min=0))


def think_with_where(x, inner, outer):
    hidden = inner(x)
    return outer(torch.where(hidden > 0, hidden, 0.0))


def think_by_matrices(x, inner, outer):
    hidden = F.relu(x @ inner.weight.T + inner.bias)
    return hidden @ outer.weight.T + outer.bias


def think_by_position(x, inner, outer):
    return torch.stack([outer(F.relu(inner(position))) for position in x.unbind(1)], dim=1)


PARTS = {
    "enter": (enter_by_hand,),
    "leave": (leave_by_hand, leave_with_two_cases),
    "remember": (remember_by_hand, remember_in_chunks),
    "look": (look_with_weights, look_with_einsum, look_head_by_head),
}
THINKING = (think_with_clamp, think_with_where, think_by_matrices, think_by_position)


def variations(question, base):
    """Enter a block, and the same with each of its parts written otherwise."""
    right(question)(base)
    for part, others in PARTS.items():
        for other in others:
            right(question)(type(other.__name__, (base,), {part: other}))
    for other in THINKING:
        right(question)(type(other.__name__, (base,), {"think": thinking(other)}))


# --- encoder_block ----------------------------------------------------------------------------------------------------


class EncoderBlock(Block):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(dim, dropout, pre_norm)
        self.around_feed_forward = Residual(dim, dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.enter(self.around_self, x)
        seen = self.remember(self.self_attention, query)
        x = self.leave(self.around_self, x, self.look(self.self_attention, query, seen, mask))
        return self.think(x), seen


variations("encoder_block", EncoderBlock)


def encoder(forward):
    return type(forward.__name__, (EncoderBlock,), {"forward": forward})


@wrong("encoder_block", "no way around the attention", JOINED)
@encoder
def attention_alone(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x, _ = self.self_attention.ask(query, seen, mask)
    return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), seen


@wrong("encoder_block", "the way around begins behind the norm", JOINED)
@encoder
def x_overwritten_by_the_norm(self, x, mask=None):
    x = self.around_self.before(x)
    seen = self.self_attention.remember(x, x)
    x = self.around_self.after(x, self.self_attention.ask(x, seen, mask)[0])
    x = self.around_feed_forward.before(x)
    return self.around_feed_forward.after(x, self.feed_forward(x)), seen


@wrong("encoder_block", JOINED)
@encoder
def written_as_post_norm(self, x, mask=None):
    seen = self.self_attention.remember(x, x)
    x = self.around_self.norm(x + self.self_attention.ask(x, seen, mask)[0])
    return self.around_feed_forward.norm(x + self.feed_forward(x)), seen


@wrong("encoder_block", NORM)
@encoder
def written_as_pre_norm(self, x, mask=None):
    query = self.around_self.norm(x)
    seen = self.self_attention.remember(query, query)
    x = x + self.self_attention.ask(query, seen, mask)[0]
    return x + self.feed_forward(self.around_feed_forward.norm(x)), seen


@wrong("encoder_block", JOINED)
@encoder
def normed_twice(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = self.around_self.norm(self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]))
    return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), seen


@wrong("encoder_block", JOINED)
@encoder
def added_twice(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = x + self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), seen


@wrong("encoder_block", "both sub-layers read what came in", JOINED)
@encoder
def in_parallel(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    added = self.self_attention.ask(query, seen, mask)[0] + self.feed_forward(self.around_feed_forward.before(x))
    return self.around_self.after(x, added), seen


@wrong("encoder_block", "the feed-forward network left out", JOINED)
@encoder
def never_thinks(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    return self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]), seen


@wrong("encoder_block", JOINED)
@encoder
def thinks_first(self, x, mask=None):
    x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    return self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]), seen


@wrong("encoder_block", "the mask reaches nothing", "another mask")
@encoder
def mask_forgotten(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = self.around_self.after(x, self.self_attention.ask(query, seen)[0])
    return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), seen


@wrong("encoder_block", "another mask")
@encoder
def always_causal(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    causal = None if mask is None else mask & causal_mask(x.size(1), x.device)
    x = self.around_self.after(x, self.self_attention.ask(query, seen, causal)[0])
    return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), seen


@wrong("encoder_block", TOO_MUCH)
@encoder
def states_alone(self, x, mask=None):
    return EncoderBlock.forward(self, x, mask)[0]


@wrong("encoder_block", FITS, TOO_MUCH, "something else is remembered")
@encoder
def weights_returned(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    context, weights = self.self_attention.ask(query, seen, mask)
    x = self.around_self.after(x, context)
    return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), weights


@wrong("encoder_block", "something else is remembered")
@encoder
def remembers_the_states(self, x, mask=None):
    x, _ = EncoderBlock.forward(self, x, mask)
    return x, self.self_attention.remember(x, x)


@wrong("encoder_block", "dropout at another place")
@encoder
def dropout_left_out(self, x, mask=None):
    query = self.enter(self.around_self, x)
    seen = self.self_attention.remember(query, query)
    x = x + self.self_attention.ask(query, seen, mask)[0]
    x = x if self.around_self.pre_norm else self.around_self.norm(x)
    return self.think(x), seen


@wrong("encoder_block", "dropout at another place", "the sub-layers are joined in another way")
@encoder
def added_the_wrong_way_around(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = self.around_self.after(self.self_attention.ask(query, seen, mask)[0], x)
    return self.think(x), seen


@wrong("encoder_block", NONE)
@encoder
def mask_needed(self, x, mask=None):
    return EncoderBlock.forward(self, x, mask.bool())


@wrong("encoder_block", NO_NAME)
@encoder
def name_misspelt(self, x, mask=None):
    query = self.around_attention.before(x)
    seen = self.self_attention.remember(query, query)
    return self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]), seen


@wrong("encoder_block", FITS)
@encoder
def asks_without_remembering(self, x, mask=None):
    query = self.around_self.before(x)
    context, _ = self.self_attention.ask(query, query, mask)
    return self.around_self.after(x, context), query


# --- decoder_block ----------------------------------------------------------------------------------------------------


class Decoder(Block):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.cross_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(dim, dropout, pre_norm)
        self.around_cross = Residual(dim, dropout, pre_norm)
        self.around_feed_forward = Residual(dim, dropout, pre_norm)

    def forward(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
        query = self.enter(self.around_self, x)
        seen = self.join(past, self.remember(self.self_attention, query))
        x = self.leave(self.around_self, x, self.look(self.self_attention, query, seen, mask))
        query = self.enter(self.around_cross, x)
        context, weights = self.look_up(query, source, source_mask, need_weights)
        return self.think(self.leave(self.around_cross, x, context)), weights, seen

    def join(self, past, new):
        return new if past is None else past.extend(new)

    def look_up(self, query, source, source_mask, need_weights):
        return self.cross_attention.ask(query, source, source_mask, need_weights)


variations("decoder_block", Decoder)


@right("decoder_block")
class WithWeightsAlways(Decoder):
    def look_up(self, query, source, source_mask, need_weights):
        return self.cross_attention.ask(query, source, source_mask)


@right("decoder_block")
class Joined(Decoder):
    def join(self, past, new):
        key, value = ([] if past is None else [old] for old in past or (None, None))
        return KeyValue(torch.cat([*key, new.key], dim=2), torch.cat([*value, new.value], dim=2))


def decoder(**parts):
    return type(next(iter(parts.values())).__name__, (Decoder,), parts)


def decoding(part):
    return lambda function: decoder(**{part: function})


@wrong("decoder_block", "the source is asked first", JOINED)
@decoding("forward")
def cross_before_self(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    context, weights = self.cross_attention.ask(self.around_cross.before(x), source, source_mask)
    x = self.around_cross.after(x, context)
    query = self.around_self.before(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    return self.think(x), weights, seen


@wrong("decoder_block", JOINED)
@decoding("forward")
def source_asked_by_the_old_query(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    query = self.around_self.before(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(query, source, source_mask, need_weights)
    return self.think(self.around_cross.after(x, context)), weights, seen


@wrong("decoder_block", JOINED)
@decoding("forward")
def one_norm_for_both(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    query = self.around_self.before(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(self.around_self.before(x), source, source_mask, need_weights)
    return self.think(self.around_self.after(x, context)), weights, seen


@wrong("decoder_block", JOINED)
@decoding("think")
def decoder_never_thinks(self, x):
    return x


@wrong("decoder_block", JOINED)
@decoding("think")
def thinks_without_a_norm(self, x):
    return x + self.feed_forward(x)


@wrong("decoder_block", NORM)
@decoding("forward")
def pre_norm_only(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    query = self.around_self.norm(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = x + self.self_attention.ask(query, seen, mask)[0]
    context, weights = self.cross_attention.ask(self.around_cross.norm(x), source, source_mask, need_weights)
    x = x + context
    return x + self.feed_forward(self.around_feed_forward.norm(x)), weights, seen


@wrong("decoder_block", WEIGHT)
@decoding("look_up")
def source_mask_forgotten(self, query, source, source_mask, need_weights):
    return self.cross_attention.ask(query, source, None, need_weights)


@wrong("decoder_block", "something is wrong with a mask")
@decoding("look")
def looks_ahead(self, attention, query, seen, mask):
    return attention.ask(query, seen, None)[0]


@wrong("decoder_block", TOO_MUCH)
@decoding("look_up")
def weights_never(self, query, source, source_mask, need_weights):
    return self.cross_attention.ask(query, source, source_mask, need_weights=False)


@wrong("decoder_block", "the past is ignored", "something is wrong with the past", FITS, TOO_MUCH)
@decoding("join")
def no_past(self, past, new):
    return new


@wrong("decoder_block", FITS, "something is wrong with the past")
@decoding("join")
def joined_along_the_heads(self, past, new):
    return new if past is None else KeyValue(*(torch.cat(pair, dim=1) for pair in zip(past, new)))


@wrong("decoder_block", "something is wrong with the past")
@decoding("forward")
def queries_of_the_past(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    query = self.around_self.before(x)
    new = self.self_attention.remember(query, query)
    seen = new if past is None else KeyValue(past.extend(new).key, past.extend(new).value.flip(2))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(self.around_cross.before(x), source, source_mask, need_weights)
    return self.think(self.around_cross.after(x, context)), weights, seen


@wrong("decoder_block", "something else is remembered", FITS)
@decoding("forward")
def hands_on_the_new_alone(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    query = self.around_self.before(x)
    new = self.self_attention.remember(query, query)
    seen = new if past is None else past.extend(new)
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(self.around_cross.before(x), source, source_mask, need_weights)
    return self.think(self.around_cross.after(x, context)), weights, new


@wrong("decoder_block", ORDER, TOO_MUCH)
@decoding("forward")
def weights_last(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    x, weights, seen = Decoder.forward(self, x, source, mask, source_mask, past, need_weights)
    return x, seen, weights


@wrong("decoder_block", TOO_MUCH)
@decoding("forward")
def two_returned(self, x, source, mask=None, source_mask=None, past=None, need_weights=False):
    x, weights, _ = Decoder.forward(self, x, source, mask, source_mask, past, need_weights)
    return x, weights


@wrong("decoder_block", "the source is not asked", JOINED)
@decoding("look_up")
def asks_itself_twice(self, query, source, source_mask, need_weights):
    seen = self.cross_attention.remember(query, query)
    return self.cross_attention.ask(query, seen)


@wrong("decoder_block", NONE)
@decoding("join")
def past_needed(self, past, new):
    return past.extend(new)


@wrong("decoder_block", CUT)
@decoding("join")
def past_detached(self, past, new):
    return new if past is None else KeyValue(past.key.detach(), past.value.detach()).extend(new)


# --- train_step -------------------------------------------------------------------------------------------------------


def steps_with(loss=None, update=None, returned=None):
    """Make a step of training of the lines that are given, and the usual ones for the rest."""

    def usual_loss(logits, target):
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    def usual_update(model, optimizer, loss, clip_norm):
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()

    def train_step(model, optimizer, batch, clip_norm):
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        value = (loss or usual_loss)(logits, batch.target_out)
        (update or usual_update)(model, optimizer, value, clip_norm)
        return value.detach() if returned is None else returned(value)

    return train_step


right("train_step", "usual_step")(steps_with())


def right_loss(loss):
    right("train_step", loss.__name__)(steps_with(loss=loss))


def right_update(update):
    right("train_step", update.__name__)(steps_with(update=update))


@right_loss
def classes_second(logits, target):
    return F.cross_entropy(logits.mT, target, ignore_index=PAD)


@right_loss
def sum_over_count(logits, target):
    total = F.cross_entropy(logits.reshape(-1, logits.size(-1)), target.reshape(-1), ignore_index=PAD, reduction="sum")
    return total / (target != PAD).sum()


@right_loss
def gathered(logits, target):
    said = logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    return -(said * (target != PAD)).sum() / (target != PAD).sum()


@right_loss
def selected(logits, target):
    real = target != PAD
    return F.cross_entropy(logits[real], target[real])


@right_loss
def masked_mean(logits, target):
    each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return each.masked_select(target.flatten() != PAD).mean()


@right_loss
def by_nll(logits, target):
    return F.nll_loss(F.log_softmax(logits, dim=-1).flatten(0, 1), target.flatten(), ignore_index=PAD)


@right_loss
def by_logsumexp(logits, target):
    real = (target != PAD).to(logits.dtype)
    right_ones = (logits * F.one_hot(target, logits.size(-1))).sum(-1)
    return ((logits.logsumexp(-1) - right_ones) * real).sum() / real.sum()


@right_loss
def sentence_after_sentence(logits, target):
    sums = [F.cross_entropy(x, y, ignore_index=PAD, reduction="sum") for x, y in zip(logits, target)]
    return sum(sums) / (target != PAD).sum()


@right_loss
def with_a_module(logits, target):
    weight = torch.ones_like(logits[0, 0])
    weight[PAD] = 0
    return nn.CrossEntropyLoss(weight=weight)(logits.transpose(1, 2), target)


@right_update
def clipped_by_hand(model, optimizer, loss, clip_norm):
    model.zero_grad()
    loss.backward()
    length = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
    for p in model.parameters():
        p.grad.mul_((clip_norm / (length + 1e-6)).clamp(max=1))
    optimizer.step()


@right_update
def gradients_asked_for(model, optimizer, loss, clip_norm):
    parameters = list(model.parameters())
    for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        p.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, clip_norm)
    optimizer.step()


@right_update
def cleared_at_the_end(model, optimizer, loss, clip_norm):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip_norm, foreach=False)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


right("train_step", "a_plain_number")(steps_with(returned=lambda loss: loss.item()))


def wrong_loss(*names):
    return lambda loss: wrong("train_step", *names)(named(steps_with(loss=loss), loss))


def wrong_update(*names):
    return lambda update: wrong("train_step", *names)(named(steps_with(update=update), update))


def named(thing, like):
    thing.__name__ = like.__name__
    return thing


@wrong_loss("loss on padding", "something is wrong with the padding")
def padding_counted(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


@wrong_loss("divided by padding, too", "something is wrong with the padding")
def zeros_averaged(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="none").mean()


@wrong_loss("mean of the sentences' means", "something is wrong with the padding")
def sentence_means(logits, target):
    each = F.cross_entropy(logits.mT, target, ignore_index=PAD, reduction="none")
    return (each.sum(1) / (target != PAD).sum(1)).mean()


@wrong_loss("the sum of the losses, not their mean")
def summed(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum")


@wrong_loss("another loss")
def per_sentence(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum") / len(target)


@wrong_loss("softmax before cross-entropy")
def softmax_twice(logits, target):
    return F.cross_entropy(torch.softmax(logits, dim=-1).flatten(0, 1), target.flatten(), ignore_index=PAD)


@wrong_loss("shapes that do not fit", "written for one number of axes")
def classes_last(logits, target):
    return F.cross_entropy(logits, target, ignore_index=PAD)


@wrong_loss("another loss")
def viewed_not_turned(logits, target):
    return F.cross_entropy(logits.reshape(len(target), -1, target.size(1)), target, ignore_index=PAD)


@wrong_update("gradients of earlier steps added", "something is wrong from the second step on")
def never_cleared(model, optimizer, loss, clip_norm):
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()


@wrong_update("nothing is learned")
def cleared_too_late(model, optimizer, loss, clip_norm):
    loss.backward()
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()


@wrong_update("nothing is learned")
def no_step(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)


@wrong_update("nothing is learned")
def no_backward(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()


@wrong_update("the gradient is not cut", "something is wrong with the length of the gradient")
def cut_after_the_step(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)


@wrong_update("each number of the gradient is cut", "something is wrong with the length of the gradient")
def cut_number_by_number(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad.clamp_(-clip_norm, clip_norm)
    optimizer.step()


@wrong_update("something is wrong with the length of the gradient")
def cut_parameter_by_parameter(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        nn.utils.clip_grad_norm_([p], clip_norm)
    optimizer.step()


@wrong_update("something is wrong with the length of the gradient", "the loss is right, the step is not")
def always_of_that_length(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    length = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))
    for p in model.parameters():
        p.grad.mul_(clip_norm / length)
    optimizer.step()


@wrong_update("the loss is right, the step is not")
def two_steps(model, optimizer, loss, clip_norm):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.step()


@wrong("train_step", "the token that was given is asked for")
def asks_what_it_gives(model, optimizer, batch, clip_norm):
    return steps_with()(model, optimizer, batch._replace(target_out=batch.target_in), clip_norm)


@wrong("train_step", "another loss")
def gives_what_it_asks(model, optimizer, batch, clip_norm):
    return steps_with()(model, optimizer, batch._replace(target_in=batch.target_out), clip_norm)


@wrong("train_step", NOTHING)
def nothing_said(model, optimizer, batch, clip_norm):
    steps_with()(model, optimizer, batch, clip_norm)


wrong("train_step", "another loss is returned")(
    named(steps_with(returned=lambda loss: loss.detach().exp()), type("perplexity", (), {}))
)


@wrong("train_step", "the model is switched to evaluation")
def evaluated(model, optimizer, batch, clip_norm):
    model.eval()
    return steps_with()(model, optimizer, batch, clip_norm)


# --- greedy -----------------------------------------------------------------------------------------------------------


class Writer:
    """Greedy decoding in pieces that a student might write otherwise."""

    def __call__(self, model, source, lengths, bos, eos, max_length):
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = self.begin(source, bos)
        ended = token == -1
        tokens = []
        for _ in range(max_length):
            logits, _, cache = model.step(token, memory, cache)
            token = self.after_the_end(self.choose(logits), ended, eos)
            tokens.append(token)
            ended = ended | (token == eos)
            if self.done(ended):
                break
        return self.join(tokens)

    def begin(self, source, bos):
        return torch.full((source.size(0), 1), bos, dtype=torch.long, device=source.device)

    def choose(self, logits):
        return logits.argmax(dim=-1)

    def after_the_end(self, token, ended, eos):
        return token.masked_fill(ended, eos)

    def done(self, ended):
        return ended.all()

    def join(self, tokens):
        return torch.cat(tokens, dim=1)


def greedy_with(**parts):
    writer = type("Writer", (Writer,), parts)()

    def greedy(model, source, lengths, bos, eos, max_length):
        return writer(model, source, lengths, bos, eos, max_length)

    return greedy


def right_writing(part):
    return lambda function: right("greedy", function.__name__)(greedy_with(**{part: function}))


def wrong_writing(part, *names):
    return lambda function: wrong("greedy", *names)(named(greedy_with(**{part: function}), function))


right("greedy", "step_by_step")(greedy_with())


@right_writing("begin")
def begun_with_new_full(self, source, bos):
    return source.new_ones(len(source), 1).mul(bos)


@right_writing("begin")
def begun_from_a_list(self, source, bos):
    return torch.tensor([[bos]] * source.size(0), device=source.device)


@right_writing("choose")
def by_max(self, logits):
    return logits.max(-1).indices


@right_writing("choose")
def by_topk(self, logits):
    return logits[:, -1].topk(1).indices


@right_writing("choose")
def by_sorting(self, logits):
    return logits.argsort(dim=-1, descending=True)[..., 0]


@right_writing("choose")
def by_probability(self, logits):
    return logits.softmax(dim=-1).argmax(dim=-1)


@right_writing("choose")
def by_log_probability(self, logits):
    return logits[:, 0].log_softmax(-1).argmax(-1, keepdim=True)


@right_writing("after_the_end")
def with_where(self, token, ended, eos):
    return torch.where(ended, eos, token)


@right_writing("after_the_end")
def with_arithmetic(self, token, ended, eos):
    return token * ~ended + eos * ended


@right_writing("after_the_end")
def with_assignment(self, token, ended, eos):
    token = token.clone()
    token[ended] = eos
    return token


@right_writing("done")
def counted(self, ended):
    return int(ended.sum()) == len(ended)


@right_writing("join")
def stacked(self, tokens):
    return torch.stack(tokens, dim=1).squeeze(-1)


@right("greedy")
def filled_in(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache = model.start(memory)
    tokens = torch.full((source.size(0), max_length), eos, device=source.device)
    token, going = torch.full_like(tokens[:, :1], bos), torch.ones_like(tokens[:, 0], dtype=torch.bool)
    for t in range(max_length):
        logits, _, cache = model.step(token, memory, cache)
        token = logits.argmax(-1)
        tokens[going, t] = token[going, 0]
        going = going & (token[:, 0] != eos)
        if not going.any():
            return tokens[:, : t + 1]
    return tokens


@wrong_writing("begin", "other tokens are fed or chosen", "BOS at every step")
def begun_with_zeros(self, source, bos):
    return torch.zeros(source.size(0), 1, dtype=torch.long)


@wrong_writing("begin", "written for one number of axes", FITS)
def begun_without_time(self, source, bos):
    return torch.full((source.size(0),), bos)


@wrong_writing("choose", "other tokens are fed or chosen", "axes exchanged")
def over_the_batch(self, logits):
    return logits.argmax(dim=0)[..., : logits.size(0)].T


@wrong_writing("choose", FITS, "other tokens are fed or chosen", "written for one number of axes", ONE_AXIS)
def over_the_time(self, logits):
    return logits.argmax(dim=1)


@wrong_writing("choose", "other tokens are fed or chosen", "the least likely token")
def the_second_best(self, logits):
    return logits.topk(2).indices[..., 1]


@wrong_writing("choose", "a number chosen, not its place")
def values_not_places(self, logits):
    return logits.max(dim=-1).values


@wrong_writing("after_the_end", "a sentence goes on after its end")
def never_ended(self, token, ended, eos):
    return token


@wrong_writing("after_the_end", "a sentence goes on after its end")
def ended_with_padding(self, token, ended, eos):
    return token.masked_fill(ended, PAD)


@wrong_writing("done", "the first sentence to end ends all", "another number of steps")
def any_ended(self, ended):
    return ended.any()


@wrong_writing("done", "written to max_length always", "another number of steps")
def never_done(self, ended):
    return False


@wrong_writing("join", "BOS is written down", "another number of steps")
def begins_with_bos(self, tokens):
    return torch.cat([torch.full_like(tokens[0], 1), *tokens], dim=1)


@wrong_writing("join", "another number of steps")
def eos_cut_off(self, tokens):
    return torch.cat(tokens[:-1], dim=1)


@wrong_writing("join", ONE_AXIS)
def one_axis_more(self, tokens):
    return torch.stack(tokens, dim=1)


@wrong_writing("join", "axes exchanged")
def time_first(self, tokens):
    return torch.cat(tokens, dim=1).T


@wrong("greedy", "the cache is not handed on")
def cache_dropped(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    start = model.start(memory)
    tokens = [torch.full((source.size(0), 1), bos)]
    for _ in range(max_length):
        logits, _, _ = model.step(tokens[-1], memory, start)
        tokens.append(logits.argmax(-1))
    return torch.cat(tokens[1:], dim=1)


@wrong("greedy", "the whole beginning is fed at every step")
def feeds_everything(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), torch.full((source.size(0), 1), bos)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens, memory, cache)
        tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
    return tokens[:, 1:]


@wrong("greedy", "more work than needed")
def encodes_at_every_step(model, source, lengths, bos, eos, max_length):
    cache, token = model.start(model.encode(source, lengths)), torch.full((source.size(0), 1), bos)
    tokens, ended = [], token == -1
    for _ in range(max_length):
        logits, _, cache = model.step(token, model.encode(source, lengths), cache)
        token = logits.argmax(-1).masked_fill(ended, eos)
        tokens, ended = [*tokens, token], ended | (token == eos)
        if ended.all():
            break
    return torch.cat(tokens, dim=1)


@wrong("greedy", "more work than needed")
def computes_everything_again(model, source, lengths, bos, eos, max_length):
    memory = model.encode(source, lengths)
    tokens = torch.full((source.size(0), 1), bos)
    ended = tokens == -1
    for _ in range(max_length):
        logits, _, _ = model.step(tokens, memory, model.start(memory))
        token = logits[:, -1:].argmax(-1).masked_fill(ended, eos)
        tokens, ended = torch.cat([tokens, token], dim=1), ended | (token == eos)
        if ended.all():
            break
    return tokens[:, 1:]


# --- cached_step ------------------------------------------------------------------------------------------------------


class Stack(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers, positions):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, dim, positions)
        self.blocks = nn.ModuleList(DecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab_size)

    def start(self, memory):
        return (None,) * len(self.blocks)

    def step(self, token, memory, cache):
        past = self.count(cache)
        x, seen = self.through(self.embed(token, past), memory, self.allow(past, token), cache)
        return self.say(x), None, seen

    def count(self, cache):
        return 0 if cache[0] is None else cache[0].key.size(2)

    def embed(self, token, past):
        return self.embedding(token, past)

    def allow(self, past, token):
        return causal_mask(past + token.size(1), token.device)[past:]

    def through(self, x, memory, mask, cache):
        seen = []
        for block, source, past in zip(self.blocks, memory.layers, cache):
            x, _, new = block(x, source, mask, memory.mask, past)
            seen.append(new)
        return x, tuple(seen)

    def say(self, x):
        return self.head(self.norm(x))


right("cached_step")(Stack)


def stack(part):
    return lambda function: type(function.__name__, (Stack,), {part: function})


def right_stack(part):
    return lambda function: right("cached_step")(stack(part)(function))


@right_stack("allow")
def mask_compared(self, past, token):
    t = torch.arange(past + token.size(1), device=token.device)
    return t[past:, None] >= t


@right_stack("allow")
def mask_with_an_offset(self, past, token):
    size = token.size(1)
    return torch.ones(size, past + size, dtype=torch.bool, device=token.device).tril(past)


@right_stack("allow")
def mask_in_two_parts(self, past, token):
    size = token.size(1)
    before = torch.ones(size, past, dtype=torch.bool, device=token.device)
    return torch.cat([before, causal_mask(size, token.device)], dim=1)


@right_stack("allow")
def mask_with_a_batch(self, past, token):
    return causal_mask(past + token.size(1), token.device)[None, past:].expand(token.size(0), -1, -1)


@right_stack("embed")
def embedded_by_hand(self, token, past):
    embedded = self.embedding.weight[token] * math.sqrt(self.embedding.weight.size(1))
    return self.embedding.positions(embedded, past)


@right_stack("embed")
def embedded_one_by_one(self, token, past):
    return torch.cat([self.embedding(one, past + t) for t, one in enumerate(token.split(1, dim=1))], dim=1)


@right_stack("through")
def through_by_index(self, x, memory, mask, cache):
    seen = [None] * len(self.blocks)
    for i in range(len(self.blocks)):
        x, _, seen[i] = self.blocks[i](x, memory.layers[i], mask=mask, source_mask=memory.mask, past=cache[i])
    return x.contiguous().clone(), seen


@right_stack("through")
def through_with_weights(self, x, memory, mask, cache):
    seen = ()
    for block, source, past in zip(self.blocks, memory.layers, cache):
        x, _, new = block(x, source, mask, memory.mask, past, need_weights=True)
        seen = (*seen, new)
    return x, seen


@right_stack("through")
def through_with_wide_masks(self, x, memory, mask, cache):
    source_mask, seen = memory.mask.expand(-1, x.size(1), -1), []
    for block, source, past in zip(self.blocks, memory.layers, cache):
        x, _, new = block(x, source, mask.clone(), source_mask, past)
        seen += [new]
    return x, tuple(seen)


@right_stack("say")
def said_by_matrices(self, x):
    return normalised(self.norm, x) @ self.head.weight.T + self.head.bias


@right_stack("say")
def said_with_einsum(self, x):
    return torch.einsum("btd,vd->btv", self.norm(x), self.head.weight) + self.head.bias


def wrong_stack(part, *names):
    return lambda function: wrong("cached_step", *names)(stack(part)(function))


SECOND = "wrong from the second piece on"
PUT_TOGETHER = "the stack is put together in another way"


@wrong_stack("embed", "every step stands at position 0", SECOND)
def positions_from_zero(self, token, past):
    return self.embedding(token)


@wrong_stack("embed", PUT_TOGETHER)
def positions_from_one(self, token, past):
    return self.embedding(token, past + 1)


@wrong_stack("embed", PUT_TOGETHER)
def no_positions(self, token, past):
    return self.embedding.table(token)


@wrong_stack("count", SECOND)
def heads_counted(self, cache):
    return 0 if cache[0] is None else cache[0].key.size(1)


@wrong_stack("count", SECOND, FITS)
def batch_counted(self, cache):
    return 0 if cache[0] is None else len(cache[0].key)


@wrong_stack("count", SECOND)
def layers_counted(self, cache):
    return 0 if cache[0] is None else len(cache)


@wrong_stack("count", NONE)
def cache_taken_for_granted(self, cache):
    return cache[0].key.size(2)


@wrong_stack("allow", "no causal mask", "right at the last token alone")
def everything_allowed(self, past, token):
    return None


@wrong_stack("allow", FITS, SECOND)
def the_whole_square(self, past, token):
    return causal_mask(past + token.size(1), token.device)


@wrong_stack("allow", FITS, "a mask for the new positions alone")
def square_of_the_new(self, past, token):
    return None if token.size(1) == 1 else causal_mask(token.size(1), token.device)


@wrong_stack("allow", SECOND)
def each_new_token_sees_the_past_and_itself(self, past, token):
    size = token.size(1)
    if not past:
        return causal_mask(size, token.device)
    before = torch.ones(size, past, dtype=torch.bool, device=token.device)
    return torch.cat([before, torch.eye(size, dtype=torch.bool, device=token.device)], dim=1)


@wrong_stack("through", "the past is ignored", SECOND, FITS)
def past_left_out(self, x, memory, mask, cache):
    seen = []
    for block, source in zip(self.blocks, memory.layers):
        x, _, new = block(x, source, mask, memory.mask)
        seen.append(new)
    return x, tuple(seen)


@wrong_stack("through", "something else is in the cache", SECOND)
def last_layer_handed_on(self, x, memory, mask, cache):
    for block, source, past in zip(self.blocks, memory.layers, cache):
        x, _, new = block(x, source, mask, memory.mask, past)
    return x, (new,) * len(self.blocks)


@wrong_stack("through", "the source's mask left out", PUT_TOGETHER)
def source_unmasked(self, x, memory, mask, cache):
    return Stack.through(self, x, memory._replace(mask=None), mask, cache)


@wrong_stack("through", PUT_TOGETHER)
def one_source_for_all(self, x, memory, mask, cache):
    return Stack.through(self, x, memory._replace(layers=memory.layers[:1] * len(self.blocks)), mask, cache)


@wrong_stack("through", PUT_TOGETHER)
def every_block_reads_the_tokens(self, x, memory, mask, cache):
    seen = []
    for block, source, past in zip(self.blocks, memory.layers, cache):
        states, _, new = block(x, source, mask, memory.mask, past)
        seen.append(new)
    return states, tuple(seen)


@wrong_stack("say", "the last norm left out", PUT_TOGETHER)
def not_normalised(self, x):
    return self.head(x)


@wrong_stack("say", "axes exchanged", "right at the last token alone", FITS)
def last_token_said(self, x):
    return self.head(self.norm(x[:, -1:])).expand(-1, x.size(1), -1)


@wrong_stack("step", TOO_MUCH)
def without_weights(self, token, memory, cache):
    logits, _, cache = Stack.step(self, token, memory, cache)
    return logits, cache


@wrong_stack("step", "the beginning is computed again", "something else is in the cache", TOO_MUCH)
def everything_again(self, token, memory, cache):
    tokens = token if cache[0] is None else torch.cat([cache[0].key, token], dim=1)
    logits, _, _ = Stack.step(self, tokens, memory, self.start(memory))
    return logits[:, -token.size(1) :], None, (KeyValue(tokens, tokens),) * len(self.blocks)


@wrong_stack("embed", "another answer to the same question")
def position_kept_on_self(self, token, past):
    begin = getattr(self, "position", 0)
    self.position = begin + token.size(1)
    return self.embedding(token, begin)
