"""decoder_block: a sequence asks itself, then the source, then each position thinks."""

from typing import Any

import torch
from torch import Tensor

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask, padding_mask
from attention_course.transformer.blocks import look_around
from attention_labs.lab06_transformer.shared import (
    ALL_DROPPED,
    BLOCK,
    CACHE,
    DH,
    ELSEWHERE,
    NORM_PLACE,
    POST_NORM,
    PRE_NORM,
    STATES,
    WAY_AROUND,
    B,
    D,
    DecoderBlock,
    H,
    P,
    S,
    T,
    flattened,
    has_mask,
    other_memory,
    with_switches,
)
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)

SOURCE = "13_transformer.html#transformer-decoder"


def _use_decoder(
    block: Any,
    x: Tensor,
    source_key: Tensor,
    source_value: Tensor,
    mask: Tensor | None,
    source_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    need_weights: bool,
) -> Any:
    source = KeyValue(source_key, source_value)
    past = None
    if past_key is not None and past_value is not None:
        past = KeyValue(past_key, past_value)
    out = block(x, source, mask, source_mask, past, need_weights)
    if isinstance(out, tuple) and len(out) == 3 and not need_weights:
        out = out[0], out[2]
    return flattened(out)


def _heads(g: torch.Generator, positions: int) -> tuple[Tensor, Tensor]:
    return normal(g, B, H, positions, DH), normal(g, B, H, positions, DH)


def _writing(
    g: torch.Generator,
    mask: Tensor | None = None,
    source_mask: Tensor | None = None,
    past: int = 0,
    tokens: int = T,
    init: tuple[int, ...] = PRE_NORM,
    gradients: bool = False,
    need_weights: bool = False,
) -> Request:
    weights = parameters(g, lambda: with_switches(DecoderBlock, *init))
    pasts = _heads(g, past) if past else (None, None)
    states = (normal(g, B, tokens, D), *_heads(g, S))
    inputs = (*states, mask, source_mask, *pasts, need_weights)
    return Request(inputs, init, weights, gradients)


def _masked_writing(g: torch.Generator) -> list[Request]:
    masks = causal_mask(T), padding_mask(torch.tensor([S, S - 3]), S)
    return [
        _writing(g, *masks, gradients=True),
        _writing(g, *masks, init=POST_NORM, gradients=True),
        _writing(g, *masks, init=ALL_DROPPED),
    ]


@comparable
def _weight_on_padding(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether there is weight, if it was asked for, where it should be exactly zero."""
    wrong = (reference.outputs[1] == 0) & (reply.outputs[1].abs() > 1e-6)
    return request.inputs[-1] and bool(wrong.any())


def _has_past(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[5] is not None


FORWARD = DecoderBlock.forward
LOOK_BACK = """query = self.around_self.before(x)
    context, seen = look_around(self.self_attention, query, mask, past)
    x = self.around_self.after(x, context)
    """
LOOK_UP = """query = self.around_cross.before(x)
    context, weights = self.cross_attention.ask(
        query, source, source_mask, need_weights
    )
    x = self.around_cross.after(x, context)
    """

DECODER_BLOCK = Question(
    name="decoder_block",
    reference=DecoderBlock,
    use=_use_decoder,
    make=with_switches,
    forbidden=(
        *ATTENTION,
        "attention_course.transformer.DecoderBlock",
        "attention_course.models.decoder_block",
    ),
    properties=(
        Property(
            "the states, from the sequence and the source",
            2,
            lambda g: [_writing(g)],
            of_output(STATES, same_numbers),
        ),
        Property(
            "the weights over the source, when they are asked for",
            1,
            lambda g: [
                _writing(g, need_weights=True),
                _writing(g, None, some_allowed(g, B, 1, S), need_weights=True),
            ],
            same_numbers,
        ),
        Property(
            "each mask where it belongs; pre-norm, post-norm, dropout; all gradients",
            1,
            _masked_writing,
            same_gradients,
        ),
        Property(
            "what the past left is seen, and handed on with the new",
            1,
            lambda g: [
                _writing(g, None, some_allowed(g, B, 1, S), past=P, tokens=1),
                _writing(g, causal_mask(P + T)[P:], past=P, gradients=True),
            ],
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(
                _writing(g, causal_mask(P + T)[P:], some_allowed(g, B, 1, S), past=P)
            ),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "the source is asked first",
            "First the sequence asks itself, then the source, then every position"
            " thinks for itself.",
            SOURCE,
            edit(FORWARD, LOOK_BACK + LOOK_UP, LOOK_UP + LOOK_BACK),
        ),
        Mistake(
            "both attentions read what came in",
            "The source is asked by the states after the self-attention.",
            SOURCE,
            edit(FORWARD, "x = self.around_self", "y = self.around_self")
            & edit(FORWARD, "around_cross.after(x", "around_cross.after(y"),
        ),
        Mistake(
            "the masks exchanged",
            "`mask` is for the sequence's own positions, `source_mask` for the"
            " source's.",
            MASK,
            edit(FORWARD, "query, mask, past", "query, source_mask, past")
            & edit(FORWARD, "source, source_mask, need", "source, mask, need"),
        ),
        Mistake(
            "one attention for both",
            "self_attention and cross_attention have maps of their own.",
            SOURCE,
            edit(FORWARD, "around(self.self_attention", "around(self.cross_attention"),
        ),
        Mistake(
            "the source is not asked",
            "Without cross-attention the decoder knows nothing of the source.",
            SOURCE,
            edit(FORWARD, "x = self.around_cross.after(x, context)", ""),
        ),
        Mistake(
            "no way around the cross-attention",
            WAY_AROUND,
            BLOCK,
            edit(FORWARD, "self.around_cross.after(x, context)", "context"),
        ),
        Mistake(
            "the source is asked by what is not normalised",
            NORM_PLACE,
            BLOCK,
            edit(FORWARD, "self.around_cross.before(x)", "x"),
        ),
        Mistake(
            "the past is ignored",
            "What the block returned for the positions before x comes back as `past`:"
            " `past.extend(new)` joins them.",
            CACHE,
            edit(look_around, "now if past is None else past.extend(now)", "now"),
        ),
        Mistake(
            "the new before the past",
            "The past comes first, as its positions do: `past.extend(new)`.",
            CACHE,
            edit(look_around, "past.extend(now)", "now.extend(past)"),
        ),
        Mistake(
            "a forbidden position has weight",
            "The source's mask has to reach the attention that asks the source.",
            MASK,
            sign=_weight_on_padding,
        ),
        Mistake(
            "something else is remembered",
            "The states are right. What comes last is keys and values of all target"
            " positions so far.",
            CACHE,
            sign=other_memory,
        ),
        *ANYWHERE,
        Mistake(
            "other weights are returned",
            "The weights are those of the cross-attention, of every head: (B, H,"
            " T, S).",
            SOURCE,
            sign=lambda request, reply, reference: (
                len(reply.outputs) == len(reference.outputs) == 4
                and close(reply.outputs[STATES], reference.outputs[STATES])
                and not close(reply.outputs[1], reference.outputs[1])
            ),
        ),
        *ELSEWHERE,
        Mistake(
            "something is wrong with the past",
            "Without a past the block is right. New queries look at old and new keys;"
            " the old ones are not made again.",
            CACHE,
            sign=comparable(_has_past),
        ),
        Mistake(
            "something is wrong with a mask",
            "Without masks the block is right: `mask` is for the self-attention,"
            " `source_mask` for the other.",
            MASK,
            sign=comparable(has_mask),
        ),
        Mistake(
            "the sub-layers are joined in another way",
            "Three times: read what `before` returns, and give `after` the states and"
            " what the sub-layer says.",
            BLOCK,
            sign=comparable(
                lambda *replies: not has_mask(*replies) and not _has_past(*replies)
            ),
        ),
    ),
)
