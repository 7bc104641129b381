"""What lab05_self_attention asks: a sequence that asks itself, with many heads, and told its order."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention, transformer
from attention_course.masks import causal_mask, padding_mask
from attention_course.questions.core import Finding, Misconception, Property, Question, Reply, Request
from attention_course.questions.inputs import as_length, manners, normal, parameters, some_allowed
from attention_course.questions.judges import good_manners, of_output, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, wrong_output

B, H, T, S, DH = 2, 3, 5, 7, 4
D = H * DH
SCORING = "05_scoring.html#scoring-"
HEADS = "12_many_heads.html#many-heads-"
ORDER = "11_self_attention.html#self-attention-order"


# --- sinusoidal_positions -------------------------------------------------------------------------------------------

WIDTH, LONG, PAST = 10, 17, 6


def _use_positions(positions: Any, x: Tensor, past: Tensor | None) -> Tensor:
    return positions(x) if past is None else positions(x, past.size(0))


def _from_the_start(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, LONG, WIDTH), None), (WIDTH,), gradients=True)


def _later(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, LONG, WIDTH), as_length(PAST)), (WIDTH,))
    yield Request((normal(g, B, 1, WIDTH), as_length(40 * PAST)), (WIDTH,))


def _positions_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((normal(g, B, LONG, WIDTH), None), (WIDTH,)))
    yield Request((normal(g, B, LONG, WIDTH) / 10, as_length(40 * PAST)), (WIDTH,), dtype=torch.bfloat16)


def _far_and_polite(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Have good manners, and keep count where the input's dtype cannot."""
    if (finding := good_manners(request, reply, reference)) or request.inputs[1] is None:
        return finding
    given, wanted = reply.outputs[0].double(), reference.outputs[0]
    if given.shape == wanted.shape and bool((given - wanted).abs().max() <= 0.05):
        return None
    return Finding(f"other positions in {request.dtype}", "those of float32, but for the rounding of the result")


def _positions_with(
    angle: Callable[[Tensor, Tensor, int], Tensor] = lambda t, i, dim: t / 10000 ** (2 * i / dim),
    lay: Callable[[Tensor], Tensor] = lambda angles: torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1),
    start: Callable[[int], int] = lambda past: past,
    add: Callable[[Tensor, Tensor], Tensor] = lambda x, p: x + p,
) -> type[nn.Module]:
    class Wrong(nn.Module):
        def __init__(self, dim: int):
            super().__init__()
            self.dim = dim

        def forward(self, x: Tensor, past: int = 0) -> Tensor:
            t = torch.arange(start(past), start(past) + x.size(1), device=x.device, dtype=torch.float32)
            i = torch.arange(self.dim // 2, device=x.device, dtype=torch.float32)
            return add(x, lay(angle(t[:, None], i, self.dim)).to(x.dtype))

    return Wrong


POSITIONS = Question(
    name="sinusoidal_positions",
    reference=transformer.SinusoidalPositions,
    use=_use_positions,
    properties=(
        Property("positions from 0, added to the vectors", 2, _from_the_start, same_gradients),
        Property("positions that continue where the past ends", 1, _later, same_numbers),
        Property("inputs unchanged, dtype kept, works on any device", 1, _positions_manners, _far_and_polite),
    ),
    misconceptions=(
        Misconception(
            "all sines before all cosines",
            "Sine and cosine of one clock stand side by side: entries 2i and 2i + 1.",
            section=ORDER,
            thing=_positions_with(lay=lambda angles: torch.cat([angles.sin(), angles.cos()], dim=-1)),
        ),
        Misconception(
            "sine and cosine exchanged",
            "Even entries hold the sine, odd ones the cosine.",
            section=ORDER,
            thing=_positions_with(lay=lambda angles: torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)),
        ),
        Misconception(
            "clocks half as far apart",
            "The exponent is 2i / D, where i counts pairs and 2i entries: mind the 2.",
            section=ORDER,
            thing=_positions_with(angle=lambda t, i, dim: t / 10000 ** (i / dim)),
        ),
        Misconception(
            "clocks that run faster and faster",
            "Each clock is slower than the one before: divide by the power of 10000.",
            section=ORDER,
            thing=_positions_with(angle=lambda t, i, dim: t * 10000 ** (2 * i / dim)),
        ),
        Misconception(
            "positions count from 1",
            "The first token stands at position 0.",
            section=ORDER,
            thing=_positions_with(start=lambda past: past + 1),
        ),
        Misconception(
            "the past is ignored",
            "The first vector stands at position `past`, because so many tokens came before it.",
            section=ORDER,
            thing=_positions_with(start=lambda past: 0),
        ),
        Misconception(
            "positions returned, not added",
            "What comes back is the vector with its position added.",
            section=ORDER,
            thing=_positions_with(add=lambda x, p: p.expand_as(x)),
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape and close(given[0], given[-1])),
        ),
        Misconception(
            "positions counted in half precision",
            "A half-precision number cannot tell 256 from 257: count in float32, and cast the positions last.",
            section=ORDER,
            sign=lambda request, reply, reference: request.dtype == torch.bfloat16 and request.inputs[1] is not None,
        ),
        *ANYWHERE,
        Misconception(
            "right at the first position alone",
            "At position 0 every sine is 0 and every cosine 1. What grows with the position is the angle, by clock.",
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape and close(given[:, 0], wanted[:, 0])),
        ),
    ),
)


# --- self_attention -------------------------------------------------------------------------------------------------

ALONE = 11  # the width where there is one head


class _SelfAttention(nn.Module):
    """One head, in pieces that a misconception can replace."""

    def __init__(self, dim: int):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.project(x)
        return attention.attend(self.score(q, k), v, self.allow(mask))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.query_proj(x), self.key_proj(x), self.value_proj(x)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(q.size(-1))

    def allow(self, mask: Tensor | None) -> Tensor | None:
        return mask


def _self_attention_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_SelfAttention,), pieces)


def _use_self(module: Any, x: Tensor, mask: Tensor | None) -> Any:
    return module(x) if mask is None else module(x, mask)


def _sequence(g: torch.Generator, mask: Tensor | None, gradients: bool = False) -> Request:
    weights = parameters(g, lambda: _SelfAttention(ALONE))
    return Request((normal(g, B, T, ALONE), mask), (ALONE,), weights, gradients)


def _unmasked_sequences(g: torch.Generator) -> Iterator[Request]:
    yield _sequence(g, None, gradients=True)


def _masked_sequences(g: torch.Generator) -> Iterator[Request]:
    padding = padding_mask(torch.tensor([T, T - 2]), T)
    yield _sequence(g, padding, gradients=True)
    yield _sequence(g, causal_mask(T), gradients=True)
    yield _sequence(g, padding & causal_mask(T))


def _sequence_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_sequence(g, some_allowed(g, B, 1, T)))


@comparable
def _forbidden(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for weight where the right weights are exactly zero."""
    return bool(((reference.outputs[1] == 0) & (reply.outputs[1].abs() > 1e-6)).any())


@comparable
def _wrong_context(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[1], reference.outputs[1])


WEIGHT = Misconception(
    "a forbidden position has weight",
    "The mask has to reach `attend`, with True = may attend.",
    SCORING + "mask",
    sign=_forbidden,
)
TWICE = "`attend` takes the softmax itself: it is handed scores."
SCALE = "The scores are divided by the root of the width of the vectors that are multiplied."

SELF_ATTENTION = Question(
    name="self_attention",
    reference=_SelfAttention,
    use=_use_self,
    properties=(
        Property("contexts, weights and all gradients, without a mask", 2, _unmasked_sequences, same_gradients),
        Property("padding and causal masks", 1, _masked_sequences, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _sequence_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "scale missing",
            SCALE,
            SCORING + "scale",
            _self_attention_with(score=lambda self, q, k: q @ k.mT),
        ),
        Misconception(
            "softmax applied twice",
            TWICE,
            SCORING + "softmax",
            _self_attention_with(score=lambda self, q, k: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)),
        ),
        Misconception(
            "scaled by the length of the sequence",
            SCALE,
            SCORING + "scale",
            _self_attention_with(score=lambda self, q, k: q @ k.mT / math.sqrt(q.size(-2))),
        ),
        Misconception(
            "divided by the width, not by its root",
            SCALE,
            SCORING + "scale",
            _self_attention_with(score=lambda self, q, k: q @ k.mT / q.size(-1)),
        ),
        Misconception(
            "values not projected",
            "Queries, keys and values are three maps of the same sequence: values have a map of their own.",
            SCORING + "context",
            _self_attention_with(project=lambda self, x: (self.query_proj(x), self.key_proj(x), x)),
        ),
        Misconception(
            "queries and keys not projected",
            "Queries, keys and values are three maps of the same sequence.",
            SCORING + "context",
            _self_attention_with(project=lambda self, x: (x, x, self.value_proj(x))),
        ),
        Misconception(
            "keys ask queries",
            "Row t holds the scores of query t: queries first, keys turned.",
            SCORING + "dot",
            _self_attention_with(score=lambda self, q, k: k @ q.mT / math.sqrt(q.size(-1))),
        ),
        WEIGHT,
        *ANYWHERE,
        Misconception(
            "the context is no weighted sum of the values",
            "The weights are right: the context is their product with the projected values.",
            SCORING + "context",
            sign=_wrong_context,
        ),
    ),
)


# --- split_heads, merge_heads ---------------------------------------------------------------------------------------


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Put the pieces back in a row: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def _use_split(split: Callable[[Tensor, int], Tensor], x: Tensor, heads: Tensor) -> Tensor:
    return split(x, heads.size(0))


def _use_merge(merge: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return merge(x)


def _whole(g: torch.Generator, heads: int = H, gradients: bool = False) -> Request:
    return Request((normal(g, B, T, heads * DH), as_length(heads)), gradients=gradients)


def _to_split(g: torch.Generator) -> Iterator[Request]:
    yield _whole(g, gradients=True)
    yield _whole(g, heads=1)
    yield _whole(g, heads=DH)


def _split_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_whole(g))


def _pieces(g: torch.Generator, heads: int = H, gradients: bool = False) -> Request:
    return Request((normal(g, B, heads, T, DH),), gradients=gradients)


def _to_merge(g: torch.Generator) -> Iterator[Request]:
    yield _pieces(g, gradients=True)
    yield _pieces(g, heads=1)
    yield _pieces(g, heads=T)


def _merge_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_pieces(g))


MIXED = (
    "The vector of one token is cut into pieces that stand side by side in it; pieces of different tokens do not mix."
)

SPLIT_HEADS = Question(
    name="split_heads",
    reference=split_heads,
    use=_use_split,
    properties=(
        Property("each head gets its piece of every vector", 2, _to_split, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _split_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "heads split by view, without transpose",
            MIXED + " First cut the last axis in two, then exchange axes.",
            HEADS + "split",
            lambda x, num_heads: x.reshape(x.size(0), num_heads, x.size(1), -1),
        ),
        Misconception(
            "pieces interleaved",
            "Of the two new axes the first counts heads and the second the entries of a piece.",
            HEADS + "split",
            lambda x, num_heads: x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2),
        ),
        Misconception(
            "transpose missing",
            "After the cut the axes are (B, T, H, Dh); attention wants heads before positions.",
            HEADS + "split",
            lambda x, num_heads: x.unflatten(-1, (num_heads, -1)),
        ),
        *ANYWHERE,
        Misconception(
            "numbers at the wrong places",
            MIXED,
            HEADS + "split",
            sign=wrong_output(lambda given, wanted: _same_numbers_elsewhere(given, wanted)),
        ),
    ),
)

MERGE_HEADS = Question(
    name="merge_heads",
    reference=merge_heads,
    use=_use_merge,
    properties=(
        Property("each token gets its pieces back, in a row", 1, _to_merge, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _merge_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "heads merged by view, without transpose",
            "First bring the pieces of one token together, (B, T, H, Dh), then make one axis of the last two.",
            HEADS + "split",
            lambda x: x.reshape(x.size(0), x.size(2), -1),
        ),
        Misconception(
            "pieces interleaved",
            "In a token's vector all of the first head's piece comes first.",
            HEADS + "split",
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
        ),
        Misconception(
            "heads added up",
            "The pieces are put side by side, not added.",
            HEADS + "split",
            lambda x: x.sum(1),
        ),
        *ANYWHERE,
        Misconception(
            "numbers at the wrong places",
            "All of a token's pieces go into its own vector, head after head.",
            HEADS + "split",
            sign=wrong_output(lambda given, wanted: _same_numbers_elsewhere(given, wanted)),
        ),
    ),
)


def _same_numbers_elsewhere(given: Tensor, wanted: Tensor) -> bool:
    return given.numel() == wanted.numel() and close(given.flatten().sort().values, wanted.flatten().sort().values)


# --- multi_head_attention -------------------------------------------------------------------------------------------


class _Heads(nn.Module):
    """Multi-head attention in pieces that a misconception can replace."""

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        context, weights = attention.attend(self.score(q, k), v, self.allow(mask))
        return self.finish(self.merge(context)), self.report(weights)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return self.query_proj(query), self.key_proj(key), self.value_proj(value)

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.num_heads)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(q.size(-1))

    def allow(self, mask: Tensor | None) -> Tensor | None:
        return mask

    def merge(self, context: Tensor) -> Tensor:
        return merge_heads(context)

    def finish(self, merged: Tensor) -> Tensor:
        return self.output_proj(merged)

    def report(self, weights: Tensor) -> Tensor:
        return weights


def _use_heads(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Any:
    return module(query, key, value) if mask is None else module(query, key, value, mask)


def _heads_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_Heads,), pieces)


def _looking(g: torch.Generator, mask: Tensor | None, heads: int = H, gradients: bool = False) -> Request:
    dim = heads * DH
    inputs = (normal(g, B, T, dim), normal(g, B, S, dim), normal(g, B, S, dim), mask)
    return Request(inputs, (dim, heads), parameters(g, lambda: _Heads(dim, heads)), gradients)


def _unmasked_heads(g: torch.Generator) -> Iterator[Request]:
    yield _looking(g, None)
    yield _looking(g, None, gradients=True)
    yield _looking(g, None, heads=1)


def _masked_heads(g: torch.Generator) -> Iterator[Request]:
    yield _looking(g, some_allowed(g, B, T, S), gradients=True)
    yield _looking(g, padding_mask(torch.tensor([S, S - 3]), S))
    yield _looking(g, some_allowed(g, T, S))


def _many_heads(g: torch.Generator) -> Iterator[Request]:
    request = _looking(g, None, heads=24)
    yield Request(request.inputs, request.init, request.parameters, traced=True)


def _heads_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_looking(g, some_allowed(g, B, 1, S)))


def _no_loop(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """A loop over heads calls some operators once per head."""
    if finding := same_numbers(request, reply, reference):
        return finding
    calls, few = len(reply.operators), 3 * len(reference.operators)
    return Finding(f"{calls} operator calls for many heads", f"at most {few}") if calls > few else None


MULTI_HEAD_ATTENTION = Question(
    name="multi_head_attention",
    reference=attention.MultiHeadAttention,
    use=_use_heads,
    stand_ins={"split_heads": split_heads, "merge_heads": merge_heads},
    properties=(
        Property("the weights of every head", 1, _unmasked_heads, of_output(1, same_numbers)),
        Property("the contexts, and all gradients", 2, _unmasked_heads, same_gradients),
        Property("masks with and without an axis for sentences", 1, _masked_heads, same_gradients),
        Property("all heads at once, without a loop", 1, _many_heads, _no_loop),
        Property("inputs unchanged, dtype kept, works on any device", 1, _heads_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "heads split by view, without transpose",
            MIXED,
            HEADS + "split",
            _heads_with(split=lambda self, x: x.reshape(x.size(0), self.num_heads, x.size(1), -1)),
        ),
        Misconception(
            "heads merged by view, without transpose",
            "First bring the pieces of one token together, (B, T, H, Dh), then make one axis of the last two.",
            HEADS + "split",
            _heads_with(merge=lambda self, context: context.reshape(context.size(0), context.size(2), -1)),
        ),
        Misconception(
            "scaled by the width of the model, not of a head",
            SCALE + " Within a head that is Dh.",
            SCORING + "scale",
            _heads_with(score=lambda self, q, k: q @ k.mT / math.sqrt(q.size(-1) * q.size(1))),
        ),
        Misconception(
            "scale missing",
            SCALE + " Within a head that is Dh.",
            SCORING + "scale",
            _heads_with(score=lambda self, q, k: q @ k.mT),
        ),
        Misconception(
            "softmax applied twice",
            TWICE,
            SCORING + "softmax",
            _heads_with(score=lambda self, q, k: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)),
        ),
        Misconception(
            "output map missing",
            "After the heads stand side by side again, `output_proj` mixes what they found.",
            HEADS + "equation",
            _heads_with(finish=lambda self, merged: merged),
        ),
        Misconception(
            "values taken from the keys",
            "`value_proj` maps the values; only in self-attention are keys and values the same.",
            SCORING + "context",
            _heads_with(
                project=lambda self, query, key, value: (
                    self.query_proj(query),
                    self.key_proj(key),
                    self.value_proj(key),
                )
            ),
        ),
        Misconception(
            "keys and values taken from the query",
            "Keys and values are maps of `key` and `value`; only in self-attention are all three the same.",
            SCORING + "context",
            _heads_with(
                project=lambda self, query, key, value: (
                    self.query_proj(query),
                    self.key_proj(query),
                    self.value_proj(query),
                )
            ),
        ),
        Misconception(
            "the mean over the heads is returned",
            "Each head has weights of its own: (B, H, T, S).",
            HEADS + "equation",
            _heads_with(report=lambda self, weights: weights.mean(1)),
        ),
        WEIGHT,
        *ANYWHERE,
        Misconception(
            "a loop over the heads",
            "The heads are an axis like the batch: one product of matrices serves all of them.",
            HEADS + "equation",
            sign=lambda request, reply, reference: request.traced and all(map(close, reply.outputs, reference.outputs)),
        ),
        Misconception(
            "the weights are right, the contexts are not",
            "Values are projected and split like the keys; the contexts are merged, and `output_proj` comes last.",
            HEADS + "equation",
            sign=_wrong_context,
        ),
    ),
)

QUESTIONS = (POSITIONS, SELF_ATTENTION, SPLIT_HEADS, MERGE_HEADS, MULTI_HEAD_ATTENTION)
