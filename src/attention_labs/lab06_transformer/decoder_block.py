"""decoder_block: a sequence asks itself, then the source, then every position thinks
for itself."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask, padding_mask
from attention_labs.lab06_transformer.blocks import (
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
from attention_labs.pieces import with_methods
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    close,
    comparable,
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


class _DecoderBlock(DecoderBlock):
    """The course's block in pieces that a mistake can replace."""

    def forward(
        self,
        x: Tensor,
        source: KeyValue,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        past: KeyValue | None = None,
        need_weights: bool = False,
    ) -> Any:
        x, seen = self.look_back(x, mask, past)
        x, weights = self.look_up(x, source, source_mask)
        return self.think(x), weights, seen

    def look_back(
        self, x: Tensor, mask: Tensor | None, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        query = self.around_self.before(x)
        seen = self.join(past, self.self_attention.remember(query, query))
        context, _ = self.self_attention.ask(query, seen, mask, need_weights=False)
        return self.around_self.after(x, context), seen

    def join(self, past: KeyValue | None, new: KeyValue) -> KeyValue:
        return new if past is None else past.extend(new)

    def look_up(
        self, x: Tensor, source: KeyValue, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        context, weights = self.cross_attention.ask(
            self.around_cross.before(x), source, mask
        )
        return self.around_cross.after(x, context), weights

    def think(self, x: Tensor) -> Tensor:
        return self.around_feed_forward.after(
            x, self.feed_forward(self.around_feed_forward.before(x))
        )


def _cross_first(
    self: Any,
    x: Tensor,
    source: KeyValue,
    mask: Any,
    source_mask: Any,
    past: Any,
    _: bool,
) -> Any:
    x, weights = self.look_up(x, source, source_mask)
    x, seen = self.look_back(x, mask, past)
    return self.think(x), weights, seen


def _side_by_side(
    self: Any,
    x: Tensor,
    source: KeyValue,
    mask: Any,
    source_mask: Any,
    past: Any,
    _: bool,
) -> Any:
    y, seen = self.look_back(x, mask, past)
    context, weights = self.cross_attention.ask(
        self.around_cross.before(x), source, source_mask
    )
    return self.think(self.around_cross.after(y, context)), weights, seen


def _masks_exchanged(
    self: Any,
    x: Tensor,
    source: KeyValue,
    mask: Any,
    source_mask: Any,
    past: Any,
    _: bool,
) -> Any:
    return _DecoderBlock.forward(self, x, source, source_mask, mask, past)


def _self_with_source_projections(self: Any, x: Tensor, mask: Any, past: Any) -> Any:
    query = self.around_self.before(x)
    seen = self.join(past, self.cross_attention.remember(query, query))
    context, _ = self.cross_attention.ask(query, seen, mask)
    return self.around_self.after(x, context), seen


def _use_decoder(
    block: Any,
    x: Tensor,
    source_key: Tensor,
    source_value: Tensor,
    mask: Tensor | None,
    source_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    need_weights: Tensor | None,
) -> Any:
    past = (
        None
        if past_key is None or past_value is None
        else KeyValue(past_key, past_value)
    )
    wanted = need_weights is not None
    out = block(x, KeyValue(source_key, source_value), mask, source_mask, past, wanted)
    if isinstance(out, tuple) and len(out) == 3 and not wanted:
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
    look = as_length(1) if need_weights else None
    inputs = (normal(g, B, tokens, D), *_heads(g, S), mask, source_mask, *pasts, look)
    return Request(inputs, init, weights, gradients)


def _free_writing(g: torch.Generator) -> Iterator[Request]:
    yield _writing(g)


def _looked_at(g: torch.Generator) -> Iterator[Request]:
    yield _writing(g, need_weights=True)
    yield _writing(g, source_mask=some_allowed(g, B, 1, S), need_weights=True)


def _masked_writing(g: torch.Generator) -> Iterator[Request]:
    padding = padding_mask(torch.tensor([S, S - 3]), S)
    yield _writing(g, causal_mask(T), padding, gradients=True)
    yield _writing(g, causal_mask(T), padding, init=POST_NORM, gradients=True)
    yield _writing(g, causal_mask(T), padding, init=ALL_DROPPED)


def _longer_writing(g: torch.Generator) -> Iterator[Request]:
    yield _writing(g, past=P, tokens=1, source_mask=some_allowed(g, B, 1, S))
    yield _writing(g, causal_mask(P + T)[P:], past=P, gradients=True)


def _writing_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(
        _writing(g, causal_mask(P + T)[P:], some_allowed(g, B, 1, S), past=P)
    )


@comparable
def _weight_on_padding(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for weight where the right weights are exactly zero, if weights were asked
    for."""
    looked = request.inputs[-1] is not None
    return looked and bool(
        ((reference.outputs[1] == 0) & (reply.outputs[1].abs() > 1e-6)).any()
    )


def _has_past(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[5] is not None


def _alone(request: Request, reply: Reply, reference: Reply) -> bool:
    return not has_mask(request, reply, reference) and not _has_past(
        request, reply, reference
    )


DECODER_BLOCK = Question(
    name="decoder_block",
    reference=DecoderBlock,
    use=_use_decoder,
    make=with_switches,
    properties=(
        Property(
            "the states, from the sequence and the source",
            2,
            _free_writing,
            of_output(STATES, same_numbers),
        ),
        Property(
            "the weights over the source, when they are asked for",
            1,
            _looked_at,
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
            _longer_writing,
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _writing_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "the source is asked first",
            "First the sequence asks itself, then the source, then every position"
            " thinks for itself.",
            SOURCE,
            with_methods(_DecoderBlock, forward=_cross_first),
        ),
        Mistake(
            "both attentions read what came in",
            "The source is asked by the states after the self-attention.",
            SOURCE,
            with_methods(_DecoderBlock, forward=_side_by_side),
        ),
        Mistake(
            "the masks exchanged",
            "`mask` is for the sequence's own positions, `source_mask` for the"
            " source's.",
            MASK,
            with_methods(_DecoderBlock, forward=_masks_exchanged),
        ),
        Mistake(
            "one attention for both",
            "self_attention and cross_attention have maps of their own.",
            SOURCE,
            with_methods(_DecoderBlock, look_back=_self_with_source_projections),
        ),
        Mistake(
            "the source is not asked",
            "Without cross-attention the decoder knows nothing of the source.",
            SOURCE,
            with_methods(
                _DecoderBlock,
                look_up=lambda self, x, source, mask: (
                    x,
                    self.cross_attention.ask(x, source, mask)[1],
                ),
            ),
        ),
        Mistake(
            "no way around the cross-attention",
            WAY_AROUND,
            BLOCK,
            with_methods(
                _DecoderBlock,
                look_up=lambda self, x, source, mask: self.cross_attention.ask(
                    self.around_cross.before(x), source, mask
                ),
            ),
        ),
        Mistake(
            "the source is asked by what is not normalised",
            NORM_PLACE,
            BLOCK,
            with_methods(
                _DecoderBlock,
                look_up=lambda self, x, source, mask: (
                    self.around_cross.after(
                        x, self.cross_attention.ask(x, source, mask)[0]
                    ),
                    self.cross_attention.ask(x, source, mask)[1],
                ),
            ),
        ),
        Mistake(
            "the past is ignored",
            "What the block returned for the positions before x comes back as `past`:"
            " `past.extend(new)` joins them.",
            CACHE,
            with_methods(_DecoderBlock, join=lambda self, past, new: new),
        ),
        Mistake(
            "the new before the past",
            "The past comes first, as its positions do: `past.extend(new)`.",
            CACHE,
            with_methods(
                _DecoderBlock,
                join=lambda self, past, new: new if past is None else new.extend(past),
            ),
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
            sign=comparable(_alone),
        ),
    ),
)
