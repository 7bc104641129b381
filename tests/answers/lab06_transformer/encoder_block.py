"""Answers to encoder_block."""

from functools import partial

from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab06_transformer.shared import (
    JOINED,
    NORM,
    PARTS,
    block_shapes,
    drawn,
    masks_of,
    sizes,
)
from answers.signs import FITS, NO_NAME, NONE, TOO_MUCH

from attention_labs.lab06_transformer.shared import EncoderBlock
from nbjudge import Request, edit


@wide("encoder_block")
def any_reading(g):
    for b, t, _, h, width, hidden, _ in sizes(g):
        dim = 2 * h * width
        for number, mask in enumerate(masks_of(g, b, t, t)):
            weights = drawn(g, block_shapes(dim, hidden, ["self"]))
            inputs, init = (draw(g, b, t, dim), mask), (dim, h, hidden, 0, number % 2)
            yield Request(inputs, init, weights, gradients=True)


change = partial(edit, EncoderBlock.forward)
READ, ADDED = "self.around_self.before(x)", "self.around_self.after(x, context)"
READ_2, ADDED_2 = (
    "self.around_feed_forward.before(x)",
    "self.around_feed_forward.after(x, thought)",
)
LOOK = "context, seen = look_around(self.self_attention, query, mask, past)"
ASKED = "query, mask, past"

right("encoder_block")(EncoderBlock)
right_edits("encoder_block", **PARTS)

REMEMBERED = "a wrong `KeyValue` is returned"
DROPOUT = "dropout in the wrong place"
PACKED = "the results are packed in another way"

wrong_edits(
    "encoder_block",
    attention_alone=(
        change(ADDED, "context"),
        "no skip connection around the attention",
        JOINED,
    ),
    x_overwritten_by_the_norm=(
        change("query = self", "query = x = self")
        & change("thought =", f"x = {READ_2}; thought =")
        & change(f"feed_forward({READ_2}", "feed_forward(x"),
        "the skip connection begins after the norm",
        JOINED,
    ),
    written_as_post_norm=(
        change(READ, "x")
        & change(ADDED, "self.around_self.norm(x + context)")
        & change(READ_2, "x")
        & change(ADDED_2, "self.around_feed_forward.norm(x + thought)"),
        JOINED,
    ),
    written_as_pre_norm=(
        change(READ, "self.around_self.norm(x)")
        & change(ADDED, "x + context")
        & change(READ_2, "self.around_feed_forward.norm(x)")
        & change(ADDED_2, "x + thought"),
        NORM,
    ),
    normed_twice=(change(ADDED, f"self.around_self.norm({ADDED})"), JOINED),
    added_twice=(change(ADDED, f"x + {ADDED}"), JOINED),
    in_parallel=(
        change(f"x = {ADDED}", "")
        & change(ADDED_2, "self.around_self.after(x, context + thought)"),
        "both sub-layers read the block's input",
        JOINED,
    ),
    never_thinks=(
        change(ADDED_2, "x"),
        "feed-forward network missing",
        JOINED,
    ),
    thinks_first=(
        change(ADDED_2, "x")
        & change(
            "query =",
            f"x = self.around_feed_forward.after(x, self.feed_forward({READ_2}))\n"
            "    query =",
        ),
        JOINED,
    ),
    mask_forgotten=(
        change(ASKED, "query, None, past"),
        "the mask is not used",
        "a wrong mask",
    ),
    always_causal=(
        change(
            ASKED,
            "query, None if mask is None else"
            " mask & mask.new_ones(x.size(1), x.size(1)).tril(), past",
        ),
        "a wrong mask",
    ),
    states_alone=(change(f"{ADDED_2}, seen", ADDED_2), TOO_MUCH),
    weights_returned=(
        change(
            LOOK, f"{LOOK}\n    _, seen = self.self_attention.ask(query, seen, mask)"
        ),
        FITS,
        TOO_MUCH,
        REMEMBERED,
    ),
    remembers_the_states=(
        change(
            f"return {ADDED_2}, seen",
            f"x = {ADDED_2}\n    return x, self.self_attention.remember(x, x)",
        ),
        REMEMBERED,
    ),
    dropout_left_out=(
        change(
            ADDED,
            "x + context if self.around_self.pre_norm"
            " else self.around_self.norm(x + context)",
        ),
        "added by hand, without `after`",
        DROPOUT,
    ),
    added_the_wrong_way_around=(
        change("after(x, context)", "after(context, x)"),
        DROPOUT,
        JOINED,
    ),
    mask_needed=(change(ASKED, "query, mask.bool(), past"), NONE),
    name_misspelt=(change("around_self.before", "around_attention.before"), NO_NAME),
    asks_without_remembering=(
        change(LOOK, "context, seen = self.self_attention.ask(query, query, mask)"),
        "`ask` is called on the sequence, not on a `KeyValue`",
        FITS,
    ),
    key_and_value_apart=(
        change(f"{ADDED_2}, seen", f"{ADDED_2}, seen.key, seen.value"),
        PACKED,
    ),
    a_pair_instead=(
        change(f"{ADDED_2}, seen", f"{ADDED_2}, (seen.key, seen.value)"),
        PACKED,
    ),
    no_dropout_in_post_norm=(
        change(
            ADDED,
            f"{ADDED} if self.around_self.pre_norm"
            " else self.around_self.norm(x + context)",
        ),
        DROPOUT,
        NORM,
    ),
    dropout_in_eval_mode=(
        change(
            ADDED,
            "x + nn.functional.dropout(context, self.around_self.dropout.p)"
            f" if self.around_self.pre_norm else {ADDED}",
        ),
    ),
    dropout_before_the_network=(
        change(READ_2, f"self.around_feed_forward.dropout({READ_2})"),
        DROPOUT,
    ),
    dropout_of_weights=(
        change(
            LOOK,
            f"self.self_attention.dropout.p = self.around_self.dropout.p\n    {LOOK}",
        ),
        DROPOUT,
    ),
    mask_of_two_axes_at_least=(
        change(ASKED, "query, mask if mask is None else mask[..., :, :], past"),
    ),
    one_position_attends_to_itself=(
        change(ASKED, "query, None if x.size(1) == 1 else mask, past"),
    ),
    empty_rows_are_full=(
        change(
            ASKED,
            "query, None if mask is None else mask | ~mask.any(-1, keepdim=True), past",
        ),
        "a wrong mask",
    ),
    no_gradient_in_eval_mode=(
        change(
            f"return {ADDED_2}, seen",
            f"y = {ADDED_2}\n    return (y if self.training else y.detach()), seen",
        ),
    ),
)
