"""Answers to decoder_block."""

import torch
from answers.core import draw, right, variations, wide, with_part, wrong
from answers.lab06_transformer.shared import (
    JOINED,
    NORM,
    PARTS,
    Block,
    block_weights,
    masks_of,
    sizes,
)
from answers.signs import CUT, FITS, NONE, ORDER, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import KeyValue, MultiHeadAttention
from attention_course.transformer import FeedForward, Residual
from nbjudge.question import Request


@wide("decoder_block")
def any_writing(g):
    for b, t, s, h, width, hidden, past in sizes(g):
        dim = 2 * h * width
        pasts = [
            (None, None),
            (draw(g, b, h, past, 2 * width), draw(g, b, h, past, 2 * width)),
        ]
        for number, source_mask in enumerate(masks_of(g, b, t, s)):
            for key, value in pasts:
                seen = t if key is None else past + t
                mask = torch.ones(t, seen, dtype=torch.bool).tril(seen - t)
                for look in (None, torch.empty(1, 0)):
                    source = draw(g, b, h, s, 2 * width), draw(g, b, h, s, 2 * width)
                    inputs = (
                        draw(g, b, t, dim),
                        *source,
                        mask,
                        source_mask,
                        key,
                        value,
                        look,
                    )
                    weights = block_weights(g, dim, hidden, ["self", "cross"])
                    yield Request(
                        inputs, (dim, h, hidden, 0, number % 2), weights, gradients=True
                    )


class Decoder(Block):
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
        query = self.enter(self.around_self, x)
        seen = self.join(past, self.remember(self.self_attention, query))
        x = self.leave(
            self.around_self, x, self.look(self.self_attention, query, seen, mask)
        )
        query = self.enter(self.around_cross, x)
        context, weights = self.look_up(query, source, source_mask, need_weights)
        return self.think(self.leave(self.around_cross, x, context)), weights, seen

    def join(self, past, new):
        return new if past is None else past.extend(new)

    def look_up(self, query, source, source_mask, need_weights):
        return self.cross_attention.ask(query, source, source_mask, need_weights)


variations("decoder_block", Decoder, **PARTS)


@right("decoder_block")
class WithWeightsAlways(Decoder):
    def look_up(self, query, source, source_mask, need_weights):
        return self.cross_attention.ask(query, source, source_mask)


@right("decoder_block")
class Joined(Decoder):
    def join(self, past, new):
        key, value = ([] if past is None else [old] for old in past or (None, None))
        return KeyValue(
            torch.cat([*key, new.key], dim=2), torch.cat([*value, new.value], dim=2)
        )


def decoder(**parts):
    return type(next(iter(parts.values())).__name__, (Decoder,), parts)


@wrong("decoder_block", "the source is asked first", JOINED)
@with_part(Decoder, "forward")
def cross_before_self(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    context, weights = self.cross_attention.ask(
        self.around_cross.before(x), source, source_mask
    )
    x = self.around_cross.after(x, context)
    query = self.around_self.before(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    return self.think(x), weights, seen


@wrong("decoder_block", JOINED)
@with_part(Decoder, "forward")
def source_asked_by_the_old_query(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    query = self.around_self.before(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(
        query, source, source_mask, need_weights
    )
    return self.think(self.around_cross.after(x, context)), weights, seen


@wrong("decoder_block", JOINED)
@with_part(Decoder, "forward")
def one_norm_for_both(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    query = self.around_self.before(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(
        self.around_self.before(x), source, source_mask, need_weights
    )
    return self.think(self.around_self.after(x, context)), weights, seen


@wrong("decoder_block", JOINED)
@with_part(Decoder, "think")
def decoder_never_thinks(self, x):
    return x


@wrong("decoder_block", JOINED)
@with_part(Decoder, "think")
def thinks_without_a_norm(self, x):
    return x + self.feed_forward(x)


@wrong("decoder_block", NORM)
@with_part(Decoder, "forward")
def pre_norm_only(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    query = self.around_self.norm(x)
    seen = self.join(past, self.self_attention.remember(query, query))
    x = x + self.self_attention.ask(query, seen, mask)[0]
    context, weights = self.cross_attention.ask(
        self.around_cross.norm(x), source, source_mask, need_weights
    )
    x = x + context
    return x + self.feed_forward(self.around_feed_forward.norm(x)), weights, seen


@wrong("decoder_block", WEIGHT)
@with_part(Decoder, "look_up")
def source_mask_forgotten(self, query, source, source_mask, need_weights):
    return self.cross_attention.ask(query, source, None, need_weights)


@wrong("decoder_block", "something is wrong with a mask")
@with_part(Decoder, "look")
def looks_ahead(self, attention, query, seen, mask):
    return attention.ask(query, seen, None)[0]


@wrong("decoder_block", TOO_MUCH)
@with_part(Decoder, "look_up")
def weights_never(self, query, source, source_mask, need_weights):
    return self.cross_attention.ask(query, source, source_mask, need_weights=False)


@wrong(
    "decoder_block",
    "the past is ignored",
    "something is wrong with the past",
    FITS,
    TOO_MUCH,
)
@with_part(Decoder, "join")
def no_past(self, past, new):
    return new


@wrong("decoder_block", FITS, "something is wrong with the past")
@with_part(Decoder, "join")
def joined_along_the_heads(self, past, new):
    return (
        new
        if past is None
        else KeyValue(*(torch.cat(pair, dim=1) for pair in zip(past, new)))
    )


@wrong("decoder_block", "something is wrong with the past")
@with_part(Decoder, "forward")
def queries_of_the_past(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    query = self.around_self.before(x)
    new = self.self_attention.remember(query, query)
    seen = (
        new
        if past is None
        else KeyValue(past.extend(new).key, past.extend(new).value.flip(2))
    )
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(
        self.around_cross.before(x), source, source_mask, need_weights
    )
    return self.think(self.around_cross.after(x, context)), weights, seen


@wrong("decoder_block", "something else is remembered", FITS)
@with_part(Decoder, "forward")
def hands_on_the_new_alone(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    query = self.around_self.before(x)
    new = self.self_attention.remember(query, query)
    seen = new if past is None else past.extend(new)
    x = self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    context, weights = self.cross_attention.ask(
        self.around_cross.before(x), source, source_mask, need_weights
    )
    return self.think(self.around_cross.after(x, context)), weights, new


@wrong("decoder_block", ORDER, TOO_MUCH)
@with_part(Decoder, "forward")
def weights_last(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    x, weights, seen = Decoder.forward(
        self, x, source, mask, source_mask, past, need_weights
    )
    return x, seen, weights


@wrong("decoder_block", TOO_MUCH)
@with_part(Decoder, "forward")
def two_returned(
    self, x, source, mask=None, source_mask=None, past=None, need_weights=False
):
    x, weights, _ = Decoder.forward(
        self, x, source, mask, source_mask, past, need_weights
    )
    return x, weights


@wrong("decoder_block", "the source is not asked", JOINED)
@with_part(Decoder, "look_up")
def asks_itself_twice(self, query, source, source_mask, need_weights):
    seen = self.cross_attention.remember(query, query)
    return self.cross_attention.ask(query, seen)


@wrong("decoder_block", NONE)
@with_part(Decoder, "join")
def past_needed(self, past, new):
    return past.extend(new)


@wrong("decoder_block", CUT)
@with_part(Decoder, "join")
def past_detached(self, past, new):
    return (
        new
        if past is None
        else KeyValue(past.key.detach(), past.value.detach()).extend(new)
    )
