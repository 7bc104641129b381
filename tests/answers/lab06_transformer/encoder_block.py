"""Answers to encoder_block."""

from answers.core import draw, variations, wide, with_part, wrong
from answers.lab06_transformer.shared import (
    JOINED,
    NORM,
    PARTS,
    Block,
    block_weights,
    masks_of,
    sizes,
)
from answers.signs import FITS, NO_NAME, NONE, TOO_MUCH
from torch import nn

from attention_course.attention import MultiHeadAttention
from attention_course.masks import causal_mask
from attention_course.transformer import FeedForward, Residual
from nbjudge.question import Request


@wide("encoder_block")
def any_reading(g):
    for b, t, _, h, width, hidden, _ in sizes(g):
        dim = 2 * h * width
        for number, mask in enumerate(masks_of(g, b, t, t)):
            weights = block_weights(g, dim, hidden, ["self"])
            yield Request(
                (draw(g, b, t, dim), mask),
                (dim, h, hidden, 0, number % 2),
                weights,
                gradients=True,
            )


class EncoderBlock(Block):
    def __init__(self, dim, num_heads, hidden_dim, dropout=0.0, pre_norm=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.around_self = Residual(nn.LayerNorm(dim), dropout, pre_norm)
        self.around_feed_forward = Residual(nn.LayerNorm(dim), dropout, pre_norm)

    def forward(self, x, mask=None):
        query = self.enter(self.around_self, x)
        seen = self.remember(self.self_attention, query)
        x = self.leave(
            self.around_self, x, self.look(self.self_attention, query, seen, mask)
        )
        return self.think(x), seen


variations("encoder_block", EncoderBlock, **PARTS)


@wrong("encoder_block", "no way around the attention", JOINED)
@with_part(EncoderBlock, "forward")
def attention_alone(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x, _ = self.self_attention.ask(query, seen, mask)
    return (
        self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        ),
        seen,
    )


@wrong("encoder_block", "the way around begins behind the norm", JOINED)
@with_part(EncoderBlock, "forward")
def x_overwritten_by_the_norm(self, x, mask=None):
    x = self.around_self.before(x)
    seen = self.self_attention.remember(x, x)
    x = self.around_self.after(x, self.self_attention.ask(x, seen, mask)[0])
    x = self.around_feed_forward.before(x)
    return self.around_feed_forward.after(x, self.feed_forward(x)), seen


@wrong("encoder_block", JOINED)
@with_part(EncoderBlock, "forward")
def written_as_post_norm(self, x, mask=None):
    seen = self.self_attention.remember(x, x)
    x = self.around_self.norm(x + self.self_attention.ask(x, seen, mask)[0])
    return self.around_feed_forward.norm(x + self.feed_forward(x)), seen


@wrong("encoder_block", NORM)
@with_part(EncoderBlock, "forward")
def written_as_pre_norm(self, x, mask=None):
    query = self.around_self.norm(x)
    seen = self.self_attention.remember(query, query)
    x = x + self.self_attention.ask(query, seen, mask)[0]
    return x + self.feed_forward(self.around_feed_forward.norm(x)), seen


@wrong("encoder_block", JOINED)
@with_part(EncoderBlock, "forward")
def normed_twice(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = self.around_self.norm(
        self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    )
    return (
        self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        ),
        seen,
    )


@wrong("encoder_block", JOINED)
@with_part(EncoderBlock, "forward")
def added_twice(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = x + self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0])
    return (
        self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        ),
        seen,
    )


@wrong("encoder_block", "both sub-layers read what came in", JOINED)
@with_part(EncoderBlock, "forward")
def in_parallel(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    added = self.self_attention.ask(query, seen, mask)[0] + self.feed_forward(
        self.around_feed_forward.before(x)
    )
    return self.around_self.after(x, added), seen


@wrong("encoder_block", "the feed-forward network left out", JOINED)
@with_part(EncoderBlock, "forward")
def never_thinks(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    return (
        self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]),
        seen,
    )


@wrong("encoder_block", JOINED)
@with_part(EncoderBlock, "forward")
def thinks_first(self, x, mask=None):
    x = self.around_feed_forward.after(
        x, self.feed_forward(self.around_feed_forward.before(x))
    )
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    return (
        self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]),
        seen,
    )


@wrong("encoder_block", "the mask reaches nothing", "another mask")
@with_part(EncoderBlock, "forward")
def mask_forgotten(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = self.around_self.after(x, self.self_attention.ask(query, seen)[0])
    return (
        self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        ),
        seen,
    )


@wrong("encoder_block", "another mask")
@with_part(EncoderBlock, "forward")
def always_causal(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    causal = None if mask is None else mask & causal_mask(x.size(1), x.device)
    x = self.around_self.after(x, self.self_attention.ask(query, seen, causal)[0])
    return (
        self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        ),
        seen,
    )


@wrong("encoder_block", TOO_MUCH)
@with_part(EncoderBlock, "forward")
def states_alone(self, x, mask=None):
    return EncoderBlock.forward(self, x, mask)[0]


@wrong("encoder_block", FITS, TOO_MUCH, "something else is remembered")
@with_part(EncoderBlock, "forward")
def weights_returned(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    context, weights = self.self_attention.ask(query, seen, mask)
    x = self.around_self.after(x, context)
    return (
        self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        ),
        weights,
    )


@wrong("encoder_block", "something else is remembered")
@with_part(EncoderBlock, "forward")
def remembers_the_states(self, x, mask=None):
    x, _ = EncoderBlock.forward(self, x, mask)
    return x, self.self_attention.remember(x, x)


@wrong("encoder_block", "dropout at another place")
@with_part(EncoderBlock, "forward")
def dropout_left_out(self, x, mask=None):
    query = self.enter(self.around_self, x)
    seen = self.self_attention.remember(query, query)
    x = x + self.self_attention.ask(query, seen, mask)[0]
    x = x if self.around_self.pre_norm else self.around_self.norm(x)
    return self.think(x), seen


@wrong(
    "encoder_block",
    "dropout at another place",
    "the sub-layers are joined in another way",
)
@with_part(EncoderBlock, "forward")
def added_the_wrong_way_around(self, x, mask=None):
    query = self.around_self.before(x)
    seen = self.self_attention.remember(query, query)
    x = self.around_self.after(self.self_attention.ask(query, seen, mask)[0], x)
    return self.think(x), seen


@wrong("encoder_block", NONE)
@with_part(EncoderBlock, "forward")
def mask_needed(self, x, mask=None):
    return EncoderBlock.forward(self, x, mask.bool())


@wrong("encoder_block", NO_NAME)
@with_part(EncoderBlock, "forward")
def name_misspelt(self, x, mask=None):
    query = self.around_attention.before(x)
    seen = self.self_attention.remember(query, query)
    return (
        self.around_self.after(x, self.self_attention.ask(query, seen, mask)[0]),
        seen,
    )


@wrong("encoder_block", FITS)
@with_part(EncoderBlock, "forward")
def asks_without_remembering(self, x, mask=None):
    query = self.around_self.before(x)
    context, _ = self.self_attention.ask(query, query, mask)
    return self.around_self.after(x, context), query
