"""What lab03_scoring asks: from how alike to where to look."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention, scores
from attention_course.questions.core import Misconception, Property, Question, Request
from attention_course.questions.judges import good_manners, manners, same_gradients, same_numbers

B, T, S, D, A, DK, DV = 2, 3, 5, 7, 11, 13, 4
PAGE = "05_scoring.html#scoring-"


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _mask(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw a random mask; every row allows at least one position and forbids at least one."""
    order = torch.rand(*shape, generator=generator).argsort(dim=-1)
    return (order == 0) | ((order > 1) & (torch.rand(*shape, generator=generator) < 0.5))


# --- masked_softmax -------------------------------------------------------------------------------------------------


def _use_softmax(softmax: Callable[..., Tensor], scores: Tensor, mask: Tensor | None) -> Tensor:
    return softmax(scores) if mask is None else softmax(scores, mask)


def _ordinary_scores(g: torch.Generator) -> Iterator[Request]:
    yield Request((_normal(g, B, T, S), None))
    yield Request((_normal(g, B, T, S), _mask(g, B, T, S)), gradients=True)
    yield Request((_normal(g, B, T, S), _mask(g, B, 1, S)))
    yield Request((_normal(g, B, 3, T, S), _mask(g, B, 1, 1, S)))
    yield Request((_normal(g, T, S), _mask(g, T, S)))


def _large_scores(g: torch.Generator) -> Iterator[Request]:
    yield Request((1000 * _normal(g, B, T, S), None))
    yield Request((1000 + _normal(g, B, T, S), _mask(g, B, T, S)))
    yield Request((-1000 + _normal(g, B, T, S), _mask(g, B, T, S)))


def _empty_rows(g: torch.Generator) -> Iterator[Request]:
    mask = _mask(g, B, T, S)
    mask[0, 1] = False
    yield Request((_normal(g, B, T, S), mask), gradients=True)


def _softmax_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((_normal(g, B, T, S), _mask(g, B, 1, S))))


def _fill(fill: float) -> Callable[..., Tensor]:
    def softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(-1)

    return softmax


def _over(axis: int) -> Callable[..., Tensor]:
    def softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return scores.softmax(axis)
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(axis).masked_fill(~mask, 0.0)

    return softmax


def _mask_after(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return scores.softmax(-1) if mask is None else scores.softmax(-1).masked_fill(~mask, 0.0)


def _mask_inverted(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return attention.masked_softmax(scores, None if mask is None else ~mask)


def _mask_ignored(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return scores.softmax(-1)


def _overflowing(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    weights = scores.exp() if mask is None else scores.exp() * mask
    return weights / weights.sum(-1, keepdim=True)


MASKED_SOFTMAX = Question(
    name="masked_softmax",
    reference=attention.masked_softmax,
    use=_use_softmax,
    properties=(
        Property("the weights, with and without a mask, and their gradients", 2, _ordinary_scores, same_gradients),
        Property("the weights stay right when scores are large", 1, _large_scores, same_numbers),
        Property("a row that may attend to nothing has weight 0 and a finite gradient", 1, _empty_rows, same_gradients),
        Property("inputs unchanged, dtype kept, works on any device", 1, _softmax_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "softmax over the queries",
            "Each query spreads its attention over the source: the weights of one row, over the last axis, sum to one.",
            PAGE + "softmax",
            _over(-2),
        ),
        Misconception(
            "softmax over the batch",
            "Sentences of a batch do not compete: the last axis, the source, is the one that sums to one.",
            PAGE + "softmax",
            _over(0),
        ),
        Misconception(
            "mask after the softmax",
            "Forbidden positions took their share of the sum before they were set to zero: mask the scores instead.",
            PAGE + "mask",
            _mask_after,
        ),
        Misconception(
            "mask inverted",
            "In this course True means: may attend.",
            PAGE + "mask",
            _mask_inverted,
        ),
        Misconception(
            "mask ignored",
            "Padding gets weight as if it were a token.",
            PAGE + "mask",
            _mask_ignored,
        ),
        Misconception(
            "forbidden scores set to zero",
            "A score of zero is a score like any other, and exp(0) is one: a forbidden score has to be very low.",
            PAGE + "mask",
            _fill(0.0),
        ),
        Misconception(
            "forbidden scores set to minus infinity",
            "That is right until a row is forbidden throughout: then the softmax divides zero by zero.",
            PAGE + "mask",
            _fill(-math.inf),
        ),
        Misconception(
            "a row that may attend to nothing attends to everything",
            "Where all scores are equally low the softmax is uniform: set forbidden weights to zero as well.",
            PAGE + "mask",
            _fill(-1e9),
        ),
        Misconception(
            "exponentials that overflow",
            "exp(1000) is infinite: subtract the row's largest score first, or leave that to torch's softmax.",
            PAGE + "softmax",
            _overflowing,
        ),
    ),
)


# --- scores ---------------------------------------------------------------------------------------------------------


def _use_score(score: Any, query: Tensor, key: Tensor) -> Tensor:
    return score(query, score.project_keys(key))


Parameters = Callable[[torch.Generator], dict[str, Tensor]]


def _no_parameters(g: torch.Generator) -> dict[str, Tensor]:
    return {}


def _general_parameters(g: torch.Generator) -> dict[str, Tensor]:
    return {"key_proj.weight": _normal(g, D, DK) / 2}


def _additive_parameters(g: torch.Generator) -> dict[str, Tensor]:
    return {
        "query_proj.weight": _normal(g, A, D) / 2,
        "key_proj.weight": _normal(g, A, DK) / 2,
        "energy_proj.weight": _normal(g, 1, A),
    }


def _score_question(
    name: str,
    reference: type[nn.Module],
    init: tuple[int, ...],
    parameters: Parameters,
    points: tuple[int, int, int],
    misconceptions: tuple[Misconception, ...],
) -> Question:
    """Declare a score: all kinds are checked for the same three properties."""
    key_dim = init[1] if init else D

    def request(g: torch.Generator, *leading: int, length: int = T, gradients: bool = False) -> Request:
        inputs = (_normal(g, *leading, length, D), _normal(g, *leading, S, key_dim))
        return Request(inputs, init, parameters(g), gradients)

    def ordinary(g: torch.Generator) -> Iterator[Request]:
        yield request(g, B)
        yield request(g, B, gradients=True)

    def other_shapes(g: torch.Generator) -> Iterator[Request]:
        yield request(g, B, length=1)
        yield request(g, 1, length=S)
        yield request(g, B, 3)

    def politely(g: torch.Generator) -> Iterator[Request]:
        yield from manners(request(g, B))

    return Question(
        name=name,
        reference=reference,
        use=_use_score,
        properties=(
            Property("the scores and their gradients", points[0], ordinary, same_gradients),
            Property("one query, one sentence, an axis of heads", points[1], other_shapes, same_numbers),
            Property("inputs unchanged, dtype kept, works on any device", points[2], politely, good_manners),
        ),
        misconceptions=misconceptions,
    )


def _dot_with(compare: Callable[[Tensor, Tensor], Tensor]) -> type[nn.Module]:
    class Wrong(scores.Score):
        def forward(self, query: Tensor, projected: Tensor) -> Tensor:
            return compare(query, projected)

    return Wrong


NOT_TRANSPOSED = Misconception(
    "keys not transposed",
    "A score compares every query with every key, (..., T, D) with (..., S, D): the result is (..., T, S).",
    PAGE + "dot",
    _dot_with(lambda query, key: query @ key),
)
KEYS_ASK = Misconception(
    "rows and columns exchanged",
    "Row t, column s holds the score of query t and key s: queries come first.",
    PAGE + "dot",
    _dot_with(lambda query, key: key @ query.mT),
)

DOT = _score_question(
    "dot",
    scores.DotScore,
    (),
    _no_parameters,
    (1, 1, 1),
    (
        NOT_TRANSPOSED,
        KEYS_ASK,
        Misconception(
            "scaled, where the plain product is meant",
            "The dot score leaves the product as it is; dividing by the root of the width is the next question.",
            PAGE + "dot",
            scores.ScaledDotScore,
        ),
        Misconception(
            "cosine, where the plain product is meant",
            "The dot score does not divide by the lengths of the vectors.",
            PAGE + "dot",
            _dot_with(
                lambda query, key: nn.functional.normalize(query, dim=-1) @ nn.functional.normalize(key, dim=-1).mT
            ),
        ),
        Misconception(
            "weights, where scores are meant",
            "A score may be any real number; the softmax comes after it.",
            PAGE + "interface",
            _dot_with(lambda query, key: (query @ key.mT).softmax(-1)),
        ),
    ),
)

SCALED_DOT = _score_question(
    "scaled_dot",
    scores.ScaledDotScore,
    (),
    _no_parameters,
    (1, 1, 1),
    (
        NOT_TRANSPOSED,
        KEYS_ASK,
        Misconception(
            "scale missing",
            "The products of wide vectors are large, and a softmax of large scores has no gradient to learn from.",
            PAGE + "scale",
            scores.DotScore,
        ),
        Misconception(
            "divided by the width, not by its root",
            "The variance of the product is the width, so its standard deviation is the root of it.",
            PAGE + "scale",
            _dot_with(lambda query, key: query @ key.mT / query.size(-1)),
        ),
        Misconception(
            "multiplied by the root of the width",
            "The scale makes scores smaller, not larger.",
            PAGE + "scale",
            _dot_with(lambda query, key: query @ key.mT * math.sqrt(query.size(-1))),
        ),
        Misconception(
            "scaled by the number of keys",
            "The product is a sum over the width of the vectors; how many keys there are does not matter.",
            PAGE + "scale",
            _dot_with(lambda query, key: query @ key.mT / math.sqrt(key.size(-2))),
        ),
        Misconception(
            "scaled by the number of queries",
            "The product is a sum over the width of the vectors; how many queries there are does not matter.",
            PAGE + "scale",
            _dot_with(lambda query, key: query @ key.mT / math.sqrt(query.size(-2))),
        ),
    ),
)


class _Unprojected(scores.GeneralScore):
    def project_keys(self, key: Tensor) -> Tensor:
        return key


class _ProjectedTwice(scores.GeneralScore):
    def forward(self, query: Tensor, projected: Tensor) -> Tensor:
        return query @ self.key_proj(projected).mT


class _ScaledGeneral(scores.GeneralScore):
    def forward(self, query: Tensor, projected: Tensor) -> Tensor:
        return query @ projected.mT / math.sqrt(query.size(-1))


GENERAL = _score_question(
    "general",
    scores.GeneralScore,
    (D, DK),
    _general_parameters,
    (2, 1, 1),
    (
        Misconception(
            "keys not projected",
            "`project_keys` applies the learned map W to every key; without it queries and keys differ in width.",
            PAGE + "general",
            _Unprojected,
        ),
        Misconception(
            "keys projected twice",
            "`forward` is handed keys that `project_keys` has already mapped.",
            PAGE + "general",
            _ProjectedTwice,
        ),
        Misconception(
            "scaled, where the plain product is meant",
            "The general score is a dot product after the map W, without a scale.",
            PAGE + "general",
            _ScaledGeneral,
        ),
    ),
)


def _additive_with(forward: Callable[[Any, Tensor, Tensor], Tensor]) -> type[nn.Module]:
    return type("Wrong", (scores.AdditiveScore,), {"forward": forward})


def _pairs(score: Any, query: Tensor, projected: Tensor) -> Tensor:
    return score.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)


class _AdditiveUnprojected(scores.AdditiveScore):
    def project_keys(self, key: Tensor) -> Tensor:
        return key

    def forward(self, query: Tensor, projected: Tensor) -> Tensor:
        return self.energy_proj(torch.tanh(_pairs(self, query, projected))).squeeze(-1)


ADDITIVE = _score_question(
    "additive",
    scores.AdditiveScore,
    (D, DK, A),
    _additive_parameters,
    (2, 1, 1),
    (
        Misconception(
            "tanh missing",
            "Without it the query adds the same number to every score, and a softmax does not see that.",
            PAGE + "additive",
            _additive_with(lambda self, q, k: self.energy_proj(_pairs(self, q, k)).squeeze(-1)),
        ),
        Misconception(
            "another nonlinearity in place of tanh",
            "The formula has a hyperbolic tangent.",
            PAGE + "additive",
            _additive_with(lambda self, q, k: self.energy_proj(torch.relu(_pairs(self, q, k))).squeeze(-1)),
        ),
        Misconception(
            "v missing: summed without weights",
            "The vector v, here `energy_proj`, weighs the hidden units before they are added up.",
            PAGE + "additive",
            _additive_with(lambda self, q, k: torch.tanh(_pairs(self, q, k)).sum(-1)),
        ),
        Misconception(
            "tanh of the two parts apart",
            "Query and key are added first; outside the tanh they could not interact.",
            PAGE + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.tanh(self.query_proj(q)).unsqueeze(-2) + torch.tanh(k).unsqueeze(-3)
                ).squeeze(-1)
            ),
        ),
        Misconception(
            "last axis of length one left over",
            "`energy_proj` makes one number per pair: (..., T, S, 1) still has to lose its last axis.",
            PAGE + "additive",
            _additive_with(lambda self, q, k: self.energy_proj(torch.tanh(_pairs(self, q, k)))),
        ),
        Misconception(
            "rows and columns exchanged",
            "Row t, column s holds the score of query t and key s: queries come first.",
            PAGE + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(
                    torch.tanh(self.query_proj(q).unsqueeze(-3) + k.unsqueeze(-2))
                ).squeeze(-1)
            ),
        ),
        Misconception(
            "keys not projected",
            "`project_keys` applies U to every key.",
            PAGE + "additive",
            _AdditiveUnprojected,
        ),
        Misconception(
            "keys projected twice",
            "`forward` is handed keys that `project_keys` has already mapped.",
            PAGE + "additive",
            _additive_with(
                lambda self, q, k: self.energy_proj(torch.tanh(_pairs(self, q, self.key_proj(k)))).squeeze(-1)
            ),
        ),
    ),
)


# --- attend ---------------------------------------------------------------------------------------------------------


def _use_attend(
    attend: Callable[..., Any], scores: Tensor, value: Tensor, mask: Tensor | None, keep: Tensor | None
) -> Any:
    if keep is None:
        return attend(scores, value) if mask is None else attend(scores, value, mask)
    return attend(scores, value, mask, dropout=_FixedDropout(keep))


class _FixedDropout(nn.Dropout):
    """A dropout that keeps the same weights each time."""

    def __init__(self, keep: Tensor):
        super().__init__()
        self.keep = keep

    def forward(self, input: Tensor) -> Tensor:
        return input * self.keep


def _ordinary_attention(g: torch.Generator) -> Iterator[Request]:
    yield Request((_normal(g, B, T, S), _normal(g, B, S, DV), None, None))
    yield Request((_normal(g, B, T, S), _normal(g, B, S, DV), _mask(g, B, 1, S), None), gradients=True)
    yield Request((_normal(g, B, 3, T, S), _normal(g, B, 3, S, DV), _mask(g, B, 1, T, S), None))


def _dropped_attention(g: torch.Generator) -> Iterator[Request]:
    keep = 2.0 * (torch.rand(B, T, S, generator=g) < 0.5)
    yield Request((_normal(g, B, T, S), _normal(g, B, S, DV), _mask(g, B, 1, S), keep))


def _attention_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((_normal(g, B, T, S), _normal(g, B, S, DV), _mask(g, B, 1, S), None)))


def _attend_with(
    finish: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]], masked: bool = True
) -> Callable[..., tuple[Tensor, Tensor]]:
    def attend(scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: Any = None) -> Any:
        weights = attention.masked_softmax(scores, mask if masked else None)
        return finish(scores, weights if dropout is None else dropout(weights), value)

    return attend


ATTEND = Question(
    name="attend",
    reference=attention.attend,
    use=_use_attend,
    stand_ins={"masked_softmax": attention.masked_softmax},
    properties=(
        Property("context and weights, in this order, and their gradients", 2, _ordinary_attention, same_gradients),
        Property("dropout thins the context, not the weights returned", 1, _dropped_attention, same_numbers),
        Property("inputs unchanged, dtype kept, works on any device", 1, _attention_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "weights first, context second",
            "The order is: context, weights.",
            PAGE + "context",
            _attend_with(lambda scores, weights, value: (weights, weights @ value)),
        ),
        Misconception(
            "scores, where weights are meant",
            "Only after the softmax do the numbers of a row say which share of each value to take.",
            PAGE + "context",
            _attend_with(lambda scores, weights, value: (scores @ value, weights)),
        ),
        Misconception(
            "scores returned, where weights are meant",
            "What is returned beside the context is what the context was made with: the weights.",
            PAGE + "context",
            _attend_with(lambda scores, weights, value: (weights @ value, scores)),
        ),
        Misconception(
            "mask not passed on",
            "The mask has to reach the softmax.",
            PAGE + "mask",
            _attend_with(lambda scores, weights, value: (weights @ value, weights), masked=False),
        ),
        Misconception(
            "hard choice: the value of the highest score",
            "Attention takes a share of every value; a hard choice has no gradient.",
            PAGE + "context",
            _attend_with(
                lambda scores, weights, value: (
                    nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).to(value.dtype) @ value,
                    weights,
                )
            ),
        ),
        Misconception(
            "weights returned after dropout",
            "Dropout is for the context; who looks at the weights wants them whole.",
            PAGE + "context",
            _attend_with(lambda scores, weights, value: (weights @ value, weights)),
        ),
    ),
)

QUESTIONS = (MASKED_SOFTMAX, DOT, SCALED_DOT, GENERAL, ADDITIVE, ATTEND)
