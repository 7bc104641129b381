"""cached_step: what came before is kept, and not computed again."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from attention_course.transformer import (
    SinusoidalPositions,
    TokenEmbedding,
    TransformerMemory,
)
from attention_course.transformer import TransformerDecoder as CourseDecoder
from attention_labs.lab06_transformer.blocks import (
    BLOCK,
    CACHE,
    DH,
    HIDDEN,
    STATES,
    B,
    D,
    DecoderBlock,
    H,
    S,
    T,
    V,
    flattened,
    tensors_of,
)
from attention_labs.pages import MASK
from attention_labs.pieces import with_methods
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    error_like,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)

LAYERS = 2


class TransformerDecoder(CourseDecoder):
    """The course's decoder, constructed from numbers as the lab's is."""

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        positions: nn.Module,
    ):
        super().__init__(
            TokenEmbedding(vocab_size, dim, positions),
            [DecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)],
            nn.LayerNorm(dim),
            nn.Linear(dim, vocab_size),
        )


def _with_positions(decoder: Any, *init: int) -> Any:
    return decoder(*init, SinusoidalPositions(init[1]))


def _use_steps(
    decoder: Any,
    target: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    pieces: Tensor,
) -> Any:
    """Go over the target piece by piece, and count the positions that go through the
    first block."""
    memory = TransformerMemory(tuple(KeyValue(k, v) for k, v in zip(key, value)), mask)
    counted: list[int] = []
    decoder.blocks[0].register_forward_hook(
        lambda module, inputs, output: counted.append(inputs[0].size(1))
    )
    cache, logits = decoder.start(memory), []
    for tokens in target.split(list(pieces.shape), dim=1):
        out = decoder.step(tokens, memory, cache)
        if not isinstance(out, tuple) or len(out) != 3:
            return flattened(out)
        logits.append(out[0])
        cache = out[2]
    return (
        torch.cat(logits, dim=1),
        *tensors_of(cache),
        logits[0].new_full((1,), sum(counted)),
    )


def _stepwise(
    g: torch.Generator, *pieces: int, gradients: bool = False, layers: int = LAYERS
) -> Request:
    tokens, init = sum(pieces), (V, D, H, HIDDEN, layers)
    memory = (normal(g, layers, B, H, S, DH), normal(g, layers, B, H, S, DH))
    weights = parameters(g, lambda: _with_positions(TransformerDecoder, *init))
    inputs = (
        torch.randint(V, (B, tokens), generator=g),
        *memory,
        some_allowed(g, B, 1, S),
        torch.zeros(pieces),
    )
    return Request(inputs, init, weights, gradients)


def _at_once(g: torch.Generator) -> Iterator[Request]:
    yield _stepwise(g, T)


def _one_by_one(g: torch.Generator) -> Iterator[Request]:
    yield _stepwise(g, *(1,) * T)


def _in_pieces(g: torch.Generator) -> Iterator[Request]:
    yield _stepwise(g, 2, 3, gradients=True)
    yield _stepwise(g, 3, 1, 2, layers=1)


def _step_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_stepwise(g, 2, 3))


def _up_to_the_count(judge: Any) -> Any:
    """Compare all outputs but the last, which says how much work it was."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        return judge(
            request,
            reply._replace(outputs=reply.outputs[:-1]),
            reference._replace(outputs=reference.outputs[:-1]),
        )

    return judged


def _each_once(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        return Finding(
            reply.error or f"{len(reply.outputs)} tensors returned", "no error"
        )
    counted, few = float(reply.outputs[-1].sum()), float(reference.outputs[-1])
    return (
        Finding(f"{counted:.0f} positions through the first block", f"{few:.0f}")
        if counted > few
        else None
    )


class _Stack(TransformerDecoder):
    """The course's decoder in pieces that a mistake can replace."""

    def step(
        self,
        token: Tensor,
        memory: TransformerMemory,
        cache: Any,
        need_weights: bool = False,
    ) -> Any:
        past = 0 if cache[0] is None else cache[0].key.size(2)
        x = self.embedding(token, self.place(past))
        mask, all_seen = self.allow(past, token), []
        for block, source, layer_past in zip(
            self.blocks, memory.layers, self.recall(cache)
        ):
            x, _, seen = block(
                x, source, mask, self.allow_source(memory.mask), layer_past
            )
            all_seen.append(seen)
        return self.head(self.finish(x)), None, self.keep(all_seen)

    def place(self, past: int) -> int:
        return past

    def allow(self, past: int, token: Tensor) -> Tensor | None:
        return causal_mask(past + token.size(1), token.device)[past:]

    def allow_source(self, mask: Tensor) -> Tensor | None:
        return mask

    def recall(self, cache: Any) -> Any:
        return cache

    def finish(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def keep(self, seen: list[KeyValue]) -> Any:
        return tuple(seen)


def _is_cut(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[-1] is not None and request.inputs[-1].dim() > 1


def _other_cache(request: Request, reply: Reply, reference: Reply) -> bool:
    if request.device == "meta" or len(reply.outputs) != len(reference.outputs):
        return False
    (logits, *kept, _), (wanted, *to_keep, _) = reply.outputs, reference.outputs
    return close(logits, wanted) and not all(map(close, kept, to_keep))


_shapes_differ = error_like("broadcast")


@comparable
def _same_logits(request: Request, reply: Reply, reference: Reply) -> bool:
    return _is_cut(request, reply, reference) and close(
        reply.outputs[STATES], reference.outputs[STATES]
    )


@comparable
def _first_piece_right(request: Request, reply: Reply, reference: Reply) -> bool:
    first = 0 if request.inputs[-1] is None else request.inputs[-1].size(0)
    return close(reply.outputs[STATES][:, :first], reference.outputs[STATES][:, :first])


def _only_later_pieces(request: Request, reply: Reply, reference: Reply) -> bool:
    fails = _shapes_differ(request, reply, reference) or _first_piece_right(
        request, reply, reference
    )
    return (
        _is_cut(request, reply, reference)
        and fails
        and not _same_logits(request, reply, reference)
    )


@comparable
def _first_token_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[STATES][:, -1], reference.outputs[STATES][:, -1])


CACHED_STEP = Question(
    name="cached_step",
    reference=TransformerDecoder,
    use=_use_steps,
    make=_with_positions,
    stand_ins={"causal_mask": causal_mask, "DecoderBlock": DecoderBlock},
    properties=(
        Property("all tokens at once", 2, _at_once, of_output(STATES, same_numbers)),
        Property(
            "one token after the other: the same logits",
            2,
            _one_by_one,
            _up_to_the_count(same_numbers),
        ),
        Property(
            "pieces of several tokens: the same logits",
            1,
            _in_pieces,
            _up_to_the_count(same_gradients),
        ),
        Property(
            "each position goes through the blocks once", 1, _one_by_one, _each_once
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _step_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "every step stands at position 0",
            "So many tokens came before: `embedding(token, past)`.",
            CACHE,
            with_methods(_Stack, place=lambda self, past: 0),
        ),
        Mistake(
            "the past is ignored",
            "Each block wants what it returned at the step before: its place in the"
            " cache.",
            CACHE,
            with_methods(_Stack, recall=lambda self, cache: (None,) * len(self.blocks)),
        ),
        Mistake(
            "one layer's past for all",
            "Each layer has keys and values of its own: go through blocks, sources and"
            " cache together.",
            CACHE,
            with_methods(
                _Stack, recall=lambda self, cache: (cache[0],) * len(self.blocks)
            ),
        ),
        Mistake(
            "the cache is not handed on",
            "What the blocks returned is the next step's cache: one entry per layer.",
            CACHE,
            with_methods(_Stack, keep=lambda self, seen: (None,) * len(seen)),
        ),
        Mistake(
            "no causal mask",
            "Where several tokens go in at once, each may see itself and what came"
            " before, and no more.",
            MASK,
            with_methods(_Stack, allow=lambda self, past, token: None),
        ),
        Mistake(
            "the first rows of the mask",
            "The new tokens are the *last* of past + T positions: theirs are the mask's"
            " last T rows.",
            MASK,
            with_methods(
                _Stack,
                allow=lambda self, past, token: causal_mask(
                    past + token.size(1), token.device
                )[: token.size(1)],
            ),
        ),
        Mistake(
            "a mask for the new positions alone",
            "The new tokens ask all past + T positions: T rows, past + T columns.",
            MASK,
            with_methods(
                _Stack,
                allow=lambda self, past, token: causal_mask(
                    token.size(1), token.device
                ),
            ),
        ),
        Mistake(
            "the source's mask left out",
            "Padding in the source may not be attended to: memory.mask goes into every"
            " block.",
            MASK,
            with_methods(_Stack, allow_source=lambda self, mask: None),
        ),
        Mistake(
            "the last norm left out",
            "The sum that pre-norm blocks leave is normalised once, before the head.",
            BLOCK,
            with_methods(_Stack, finish=lambda self, x: x),
        ),
        Mistake(
            "something else is in the cache",
            "The logits are right. The cache has, for each layer, what its block"
            " returned last: keys and values.",
            CACHE,
            sign=_other_cache,
        ),
        Mistake(
            "wrong from the second piece on",
            "What is new has a past: its positions count on, its mask is wider, and"
            " each block gets its own past.",
            CACHE,
            sign=_only_later_pieces,
        ),
        *ANYWHERE,
        Mistake(
            "the beginning is computed again",
            "The numbers are right, the work is not saved: only the new tokens go"
            " through the blocks.",
            CACHE,
            sign=_same_logits,
        ),
        Mistake(
            "right at the last token alone",
            "The last token may see everything. What may the others see?",
            MASK,
            sign=_first_token_right,
        ),
        Mistake(
            "the stack is put together in another way",
            "Embed, then every block with its own source, mask, source mask and past;"
            " then the norm, then the head.",
            BLOCK,
            sign=comparable(lambda request, reply, reference: True),
        ),
        Mistake(
            "not as many logits as tokens",
            "Every token that goes in gets its logits: (B, T, V), also when T is more"
            " than one.",
            BLOCK,
            sign=lambda request, reply, reference: (
                not reply.error
                and reply.outputs[0].shape[1:2] != reference.outputs[0].shape[1:2]
            ),
        ),
    ),
)
