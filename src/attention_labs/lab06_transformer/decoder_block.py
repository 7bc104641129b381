"""Question `decoder_block`: self-attention, cross-attention, feed-forward network."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from attention_course.transformer.blocks import look_around
from attention_labs.lab06_transformer.shared import (
    BLOCK,
    CACHE,
    ELSEWHERE,
    LENGTHS,
    NORM_PLACE,
    PACKED,
    SENTENCES,
    SIZES,
    SOURCE,
    STATES,
    TARGET,
    WAY_AROUND,
    DecoderBlock,
    has_mask,
    in_parts,
    init,
    is_ordinary,
    other_memory,
    same_but_for_chance,
    with_an_empty_row,
    with_dropout,
)
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    MODULE,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)

LOOKED_UP = "13_transformer.html#transformer-decoder"


def _use_decoder(
    block: Any,
    x: Tensor,
    source_key: Tensor,
    source_value: Tensor,
    mask: Tensor | None,
    source_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Any,
    need_weights: bool,
) -> Any:
    past = None if past_key is None else KeyValue(past_key, past_value)
    rest = (mask, source_mask, past, need_weights)
    given = () if all(x is None or x is False for x in rest) else rest
    out = block(x, KeyValue(source_key, source_value), *given)
    if isinstance(out, tuple) and len(out) == 3 and not need_weights:
        out = out[0], None, out[2]
    return in_parts(out, 3, 3 + need_weights)


def _writing(
    d: Draw,
    mask: Tensor | None = None,
    source_mask: Tensor | None = None,
    past: bool = False,
    need_weights: bool = False,
    pre_norm: bool = True,
) -> Request:
    how = init(d, pre_norm=pre_norm)
    source, old = (d.B, d.H, d.S, d.DH), (d.B, d.H, d.P, d.DH)
    pasts = (normal(d, *old), normal(d, *old)) if past else (None, None)
    states = (normal(d, d.B, d.T, how[0]), normal(d, *source), normal(d, *source))
    weights = parameters(d, lambda: DecoderBlock(*how))
    return Request((*states, mask, source_mask, *pasts, need_weights), how, weights)


def _masked(d: Draw) -> list[Request]:
    look, padding = some_allowed(d, d.B, d.T, d.T), some_allowed(d, d.B, 1, d.S)
    asked = [
        _writing(d, need_weights=True),
        _writing(d, None, padding, need_weights=True),
        _writing(d, causal_mask(d.T), some_allowed(d, d.T, d.S)),
        _writing(d, look, some_allowed(d, d.B, d.T, d.S), need_weights=True),
        _writing(d, some_allowed(d, d.B, 1, d.T), some_allowed(d, 1, d.S)),
        _writing(d, some_allowed(d, d.T), some_allowed(d, d.S)),
    ]
    return [replace(x, gradients=True) for x in asked]


def _later(d: Draw) -> Request:
    mask = causal_mask(d.P + d.T)[d.P :]
    return _writing(d, mask, some_allowed(d, d.B, 1, d.S), True, True)


def _rare(d: Draw) -> list[Request]:
    post_norm = replace(_writing(d, pre_norm=False), gradients=True)
    as_long = _writing(BATTERY.sized(d, **{**d.sizes, "T": d.P}))
    beginning = replace(as_long, init=None, parameters={})
    single = _writing(BATTERY.sized(d, **{**d.sizes, "T": 1}))
    one = BATTERY.sized(d, T=1)
    empty = [
        _writing(
            x,
            with_an_empty_row(some_allowed(x, x.T, x.T)),
            with_an_empty_row(some_allowed(x, x.T, x.S)),
        )
        for x in (d, one)
    ]
    masked = replace(_later(d), init=None, parameters={})
    bare = replace(
        _writing(d), before=(masked,), about="no mask, after a call with one"
    )
    return [
        post_norm,
        *empty,
        bare,
        replace(_later(d), before=(beginning,), about="after another beginning"),
        *(
            replace(
                anew,
                before=(beginning,),
                about="no past, after another beginning",
                training=training,
            )
            for anew in (as_long, single)
            for training in (True, False)
        ),
        *with_dropout(d, _writing(d)),
        replace(_later(d), training=False),
    ]


BATTERY = Battery(
    MODULE,
    lambda d: [
        _later(d),
        _writing(
            d,
            some_allowed(d, d.B, d.T, d.P + d.T),
            some_allowed(d, d.B, d.T, d.S),
            past=True,
            pre_norm=False,
        ),
    ],
    {
        "B": SENTENCES,
        "T": TARGET,
        "S": SOURCE,
        "P": Axis("positions before", least=0, long=300),
        **SIZES,
    },
    leaves_out={"in front": "the text says (B, T, D)"},
)


@comparable
def _weight_on_padding(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether there is weight, if it was asked for, where it should be exactly zero."""
    wrong = (reference.outputs[1] == 0) & (reply.outputs[1].abs() > 1e-6)
    return request.inputs[-1] and bool(wrong.any())


def _has_past(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[5] is not None and not has_mask(request, reply, reference)


FORWARD = DecoderBlock.forward
LOOK_BACK = """query = self.around_self.before(x)
    context, seen = look_around(self.self_attention, query, mask, past)
    x = self.around_self.after(x, context)
    """
NO_PAST = edit(look_around, "now if past is None else past.extend(now)", "now")
LAST = "None if mask is None else mask[..., -x.size(1) :]"
RETURNS = "self.around_feed_forward.after(x, thought), weights, seen"
AVERAGED = "None if weights is None else weights.mean(1)"
OWN = "w if need_weights else None"
LOOK_UP = """query = self.around_cross.before(x)
    context, weights = self.cross_attention.ask(
        query, source, source_mask, need_weights
    )
    x = self.around_cross.after(x, context)
    """

QUESTION = Question(
    name="decoder_block",
    reference=DecoderBlock,
    use=_use_decoder,
    forbidden=(
        *ATTENTION,
        "attention_course.transformer.DecoderBlock",
        "attention_course.models.decoder_block",
    ),
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "sub-layers": "The decoder's block therefore has three sub-layers: first"
        " self-attention among the target positions, then cross-attention, in which"
        " each target position attends to the source, and last a feed-forward network,"
        " which works on each position separately.",
        "source": "`source` is a `KeyValue` that `cross_attention.remember` has made"
        " from the source. Use it as it is. Compute the queries of the cross-attention"
        " from the states *after* the self-attention.",
        "masks": "Use `mask` for the self-attention and `source_mask` for the"
        " cross-attention. `mask` says which target positions may be attended to, and"
        " `source_mask` says the same for the source positions.",
        "past": "`past` is the `KeyValue` that this block returned for the positions"
        " before x. If there is one, x must attend to the old positions *and* to the"
        " new ones. `past.extend(new)` returns a new `KeyValue`: the old one,"
        " followed by the new one.",
        "weights": "If `need_weights` is true, return the weights of the"
        " cross-attention. Otherwise you may return None in their place.",
        "arguments": "The arguments are those of `EncoderBlock`.",
        "x": "x: (B, T, D), the states of the layer below.",
        "of source": "source: `KeyValue` of the source, S positions.",
        "mask": "mask: which target positions may be attended to, broadcastable to (B,"
        " T, P + T); None allows all.",
        "source_mask": "source_mask: which source positions may be attended to,"
        " broadcastable to (B, T, S); None allows all.",
        "of past": "past: `KeyValue` of the P positions before x; None if there are"
        " none.",
        "need_weights": "need_weights: whether to return the weights of the"
        " cross-attention.",
        "returns": "The states (B, T, D); the weights (B, H, T, S) or None; the"
        " `KeyValue` of all P + T target positions.",
    },
    properties=(
        BATTERY.numbers(
            "the states, computed from the target and the source",
            2,
            of_output(STATES, same_numbers),
            checks=("sub-layers", "source", "x", "of source"),
            gradients=False,
            requests=_writing,
        ),
        BATTERY.line(
            "each mask reaches the right attention; the weights of the"
            " cross-attention; all gradients",
            1,
            _masked,
            same_gradients,
            checks=("masks", "weights", "mask", "source_mask", "need_weights"),
        ),
        BATTERY.line(
            "the keys and values of the past are used, and returned with the new ones",
            1,
            lambda d: [
                replace(x, gradients=True) for x in (_writing(d, past=True), _later(d))
            ],
            same_gradients,
            checks=("past", "of past", "returns"),
        ),
        BATTERY.edges(
            1,
            same_but_for_chance,
            claim="post-norm blocks; dropout on a sub-layer's output; edge cases",
            also=_rare,
            checks=("lengths", "arguments", "weights", "returns"),
        ),
        BATTERY.manners(1),
    ),
    mistakes=(
        Mistake(
            "the cross-attention comes first",
            "The self-attention comes first, then the cross-attention, then the"
            " feed-forward network.",
            LOOKED_UP,
            edit(FORWARD, LOOK_BACK + LOOK_UP, LOOK_UP + LOOK_BACK),
        ),
        Mistake(
            "both attentions read the block's input",
            "Make the queries of the cross-attention from the states after the"
            " self-attention.",
            LOOKED_UP,
            edit(FORWARD, "x = self.around_self", "y = self.around_self")
            & edit(FORWARD, "around_cross.after(x", "around_cross.after(y"),
        ),
        Mistake(
            "the masks swapped",
            "Use `mask` for the target positions and `source_mask` for the source"
            " positions.",
            MASK,
            edit(FORWARD, "query, mask, past", "query, source_mask, past")
            & edit(FORWARD, "source, source_mask, need", "source, mask, need"),
        ),
        Mistake(
            "cross-attention module used for the self-attention",
            "Use self_attention for the target and cross_attention for the source.",
            LOOKED_UP,
            edit(FORWARD, "around(self.self_attention", "around(self.cross_attention"),
        ),
        Mistake(
            "no cross-attention",
            "Without cross-attention, the decoder knows nothing about the source.",
            LOOKED_UP,
            edit(FORWARD, "x = self.around_cross.after(x, context)", ""),
        ),
        Mistake(
            "one norm shared by two sub-layers",
            "Each sub-layer has its own `Residual`: around_self, around_cross or"
            " around_feed_forward.",
            BLOCK,
            edit(FORWARD, "around_cross.before", "around_self.before")
            & edit(FORWARD, "around_cross.after", "around_self.after"),
        ),
        Mistake(
            "no skip connection around the cross-attention",
            WAY_AROUND,
            BLOCK,
            edit(FORWARD, "self.around_cross.after(x, context)", "context"),
        ),
        Mistake(
            "the cross-attention's queries made from states without the norm",
            NORM_PLACE,
            BLOCK,
            edit(FORWARD, "self.around_cross.before(x)", "x"),
        ),
        Mistake(
            "the past is ignored",
            "`past` holds the keys and values of the positions before x. Extend it by"
            " the new ones: `past.extend(new)`.",
            CACHE,
            (
                NO_PAST,
                NO_PAST & edit(FORWARD, "query, mask, past", f"query, {LAST}, past"),
            ),
        ),
        Mistake(
            "new keys before old keys",
            "The past comes first: `past.extend(new)`.",
            CACHE,
            edit(look_around, "past.extend(now)", "now.extend(past)"),
        ),
        Mistake(
            "the source mask is missing",
            "No target position may attend to padding in the source. Pass `source_mask`"
            " to the cross-attention.",
            MASK,
            edit(FORWARD, "source, source_mask, need", "source, None, need"),
        ),
        Mistake(
            "new positions attend to the past alone",
            "The new positions attend to the old *and* to the new ones, so also to"
            " themselves: `past.extend(new)`.",
            CACHE,
            edit(
                look_around,
                "attention.ask(query, seen, mask",
                "attention.ask(query, past or now, None if mask is None else"
                " mask[..., : (past or now).key.size(2)]",
            ),
        ),
        Mistake(
            "a masked position has nonzero weight",
            "Pass `source_mask` to the cross-attention.",
            MASK,
            sign=_weight_on_padding,
        ),
        Mistake(
            "a wrong `KeyValue` is returned",
            "The states are right. As the last result, return the keys and values of"
            " all target positions so far.",
            CACHE,
            edit(look_around, "return context, seen", "return context, now"),
            sign=other_memory,
        ),
        PACKED,
        *ANYWHERE,
        Mistake(
            "wrong weights are returned",
            "Return the weights of the cross-attention for every head, (B, H, T, S).",
            LOOKED_UP,
            (
                edit(FORWARD, RETURNS, RETURNS.replace("weights", AVERAGED)),
                edit(look_around, "context, _", "context, w")
                & edit(look_around, "need_weights=False", "need_weights=True")
                & edit(look_around, "return context", "return (context, w)")
                & edit(FORWARD, "context, seen", "(context, w), seen")
                & edit(FORWARD, RETURNS, RETURNS.replace("weights", OWN)),
            ),
            sign=lambda request, reply, reference: (
                len(reply.outputs) == len(reference.outputs) == 4
                and close(reply.outputs[STATES], reference.outputs[STATES])
                and not close(reply.outputs[1], reference.outputs[1])
            ),
        ),
        *ELSEWHERE,
        Mistake(
            "wrong when a past is given",
            "Without a past, the block is right. New queries must attend to old and"
            " new keys. Do not compute the old keys again.",
            CACHE,
            sign=comparable(_has_past),
        ),
        Mistake(
            "wrong when a mask is given",
            "Without masks, the block is right. Use `mask` for the self-attention and"
            " `source_mask` for the cross-attention.",
            MASK,
            sign=comparable(has_mask),
        ),
        Mistake(
            "the sub-layers are put together in a wrong way",
            "Do this three times: call `before` on the states, apply the sub-layer to"
            " the result, and call `after` on the states and the sub-layer's output.",
            BLOCK,
            sign=comparable(
                lambda *asked: is_ordinary(*asked) and not _has_past(*asked)
            ),
        ),
    ),
)
