"""Answers to decoder_block."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab06_transformer.shared import (
    JOINED,
    PARTS,
    block_shapes,
    drawn,
    masks_of,
    sizes,
)
from answers.signs import CUT, FITS, NONE, ORDER, TOO_MUCH

from attention_course.transformer import Residual
from attention_course.transformer.blocks import look_around
from attention_labs.lab06_transformer.decoder_block import LOOK_BACK, LOOK_UP
from attention_labs.lab06_transformer.shared import DecoderBlock
from nbjudge import Request, edit


@wide("decoder_block")
def any_writing(g):
    for b, t, s, h, width, hidden, past in sizes(g):
        dim, heads = 2 * h * width, (b, h, s, 2 * width)
        old = (b, h, past, 2 * width)
        pasts = [(None, None), (draw(g, *old), draw(g, *old))]
        for number, source_mask in enumerate(masks_of(g, b, t, s)):
            for key, value in pasts:
                seen = t if key is None else past + t
                mask = torch.ones(t, seen, dtype=torch.bool).tril(seen - t)
                for look in (False, True):
                    states = (draw(g, b, t, dim), draw(g, *heads), draw(g, *heads))
                    inputs = (*states, mask, source_mask, key, value, look)
                    weights = drawn(g, block_shapes(dim, hidden, ["self", "cross"]))
                    init = (dim, h, hidden, 0, number % 2)
                    yield Request(inputs, init, weights, gradients=True)


change = partial(edit, DecoderBlock.forward)
join = partial(edit, look_around, "now if past is None else past.extend(now)")
ASKED, ASKED_SOURCE = "query, mask, past", "query, source, source_mask, need_weights"
THOUGHT = "self.around_feed_forward.after(x, thought)"
RETURNED = f"{THOUGHT}, weights, seen"

right("decoder_block", "Decoder")(DecoderBlock)
right_edits(
    "decoder_block",
    **PARTS,
    WithWeightsAlways=change(ASKED_SOURCE, "query, source, source_mask"),
    Joined=join(
        "KeyValue(*(nn.functional.pad(old, (0, 0, 0, new.size(2)))"
        " + nn.functional.pad(new, (0, 0, old.size(2), 0))"
        " for old, new in zip(past or [x[:, :, :0] for x in now], now)))"
    ),
)

PACKED = "the results are packed in another way"
PAST = "wrong when a past is given"

wrong_edits(
    "decoder_block",
    cross_before_self=(
        change(LOOK_BACK + LOOK_UP, LOOK_UP + LOOK_BACK),
        "the cross-attention comes first",
        JOINED,
    ),
    source_asked_by_the_old_query=(
        change("query = self.around_cross.before(x)", ""),
        JOINED,
    ),
    one_norm_for_both=(
        change("around_cross.before", "around_self.before")
        & change("around_cross.after", "around_self.after"),
        "one norm shared by two sub-layers",
    ),
    decoder_never_thinks=(change(THOUGHT, "x"), JOINED),
    thinks_without_a_norm=(change(THOUGHT, "x + self.feed_forward(x)"), JOINED),
    pre_norm_only=(
        edit(Residual.before, " if self.pre_norm else x", "")
        & edit(Residual.after, " if self.pre_norm else self.norm(x)", "")
        & edit(Residual.after, "self.dropout(added)", "added"),
    ),
    source_mask_forgotten=(
        change(ASKED_SOURCE, "query, source, None, need_weights"),
        "the source mask is missing",
    ),
    looks_ahead=(change(ASKED, "query, None, past"), "wrong when a mask is given"),
    weights_never=(
        change(ASKED_SOURCE, "query, source, source_mask, need_weights=False"),
        TOO_MUCH,
    ),
    no_past=(join("now"), "the past is ignored", PAST, FITS, TOO_MUCH),
    joined_along_the_heads=(
        join(
            "now if past is None else KeyValue(*(x.transpose(1, 2) for x in KeyValue("
            "*(x.transpose(1, 2) for x in past)).extend("
            "KeyValue(*(x.transpose(1, 2) for x in now)))))"
        ),
        FITS,
        PAST,
    ),
    queries_of_the_past=(
        join(
            "now if past is None else"
            " KeyValue(past.extend(now).key, past.extend(now).value.flip(2))"
        ),
        PAST,
    ),
    hands_on_the_new_alone=(
        edit(look_around, "return context, seen", "return context, now"),
        "a wrong `KeyValue` is returned",
        FITS,
    ),
    weights_last=(change(RETURNED, f"{THOUGHT}, seen, weights"), ORDER, TOO_MUCH),
    two_returned=(change(RETURNED, f"{THOUGHT}, weights"), TOO_MUCH),
    asks_itself_twice=(
        change(ASKED_SOURCE, "query, self.cross_attention.remember(query, query)"),
        "no cross-attention",
        JOINED,
    ),
    past_needed=(join("past.extend(now)"), NONE),
    past_detached=(
        join(
            "now if past is None else"
            " KeyValue(past.key.detach(), past.value.detach()).extend(now)"
        ),
        CUT,
    ),
    key_and_value_apart=(
        change(RETURNED, f"{THOUGHT}, weights, seen.key, seen.value"),
        PACKED,
    ),
    a_pair_instead=(change(RETURNED, f"{THOUGHT}, weights, tuple([*seen])"), PACKED),
    no_place_for_no_weights=(
        change(
            f"return {RETURNED}",
            f"x = {THOUGHT}; return (x, weights, seen) if need_weights else (x, seen)",
        ),
        PACKED,
    ),
    no_dropout_in_post_norm=(
        change(
            "self.around_cross.after(x, context)",
            "self.around_cross.after(x, context) if self.around_cross.pre_norm"
            " else self.around_cross.norm(x + context)",
        ),
        "dropout in the wrong place",
    ),
    dropout_before_the_network=(
        change(
            "self.around_feed_forward.before(x)",
            "self.around_feed_forward.dropout(self.around_feed_forward.before(x))",
        ),
        "dropout in the wrong place",
    ),
    dropout_of_weights=(
        change(
            LOOK_UP,
            "self.cross_attention.dropout.p = self.around_cross.dropout.p\n    "
            + LOOK_UP,
        ),
        "dropout in the wrong place",
    ),
    source_mask_has_rows=(
        change(
            ASKED_SOURCE,
            "query, source, source_mask if source_mask is None"
            " else source_mask[..., :, :], need_weights",
        ),
    ),
    empty_rows_are_full=(
        change(
            ASKED,
            "query, None if mask is None else mask | ~mask.any(-1, keepdim=True), past",
        ),
        "wrong when a mask is given",
    ),
)
