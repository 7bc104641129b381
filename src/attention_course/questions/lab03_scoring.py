"""What lab03_scoring asks: from how alike to where to look."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import attention, scores
from attention_course.questions.core import Misconception, Property, Question, Reply, Request, Sign, construct
from attention_course.questions.inputs import manners, normal, some_allowed
from attention_course.questions.judges import good_manners, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, scaled_by, wrong_output

B, H, T, S, D, A, DK, DV = 2, 6, 3, 5, 7, 11, 13, 4
PAGE = "05_scoring.html#scoring-"
NEAREST = "04_soft_lookup.html#soft-lookup-1964"


# --- masked_softmax -------------------------------------------------------------------------------------------------


def _use_softmax(softmax: Callable[..., Tensor], scores: Tensor, mask: Tensor | None) -> Tensor:
    return softmax(scores) if mask is None else softmax(scores, mask)


def _ordinary_scores(g: torch.Generator) -> Iterator[Request]:
    yield Request((normal(g, B, T, S), None))
    yield Request((normal(g, B, T, S), some_allowed(g, B, T, S)), gradients=True)
    yield Request((normal(g, B, T, S), some_allowed(g, B, 1, S)))
    yield Request((normal(g, B, T, S), some_allowed(g, T, S)))
    yield Request((normal(g, B, H, T, S), some_allowed(g, B, 1, 1, S)))
    yield Request((normal(g, T, S), some_allowed(g, T, S)))


def _large_scores(g: torch.Generator) -> Iterator[Request]:
    yield Request((1000 * normal(g, B, T, S), None))
    yield Request((1000 + normal(g, B, T, S), some_allowed(g, B, T, S)))
    yield Request((-1000 + normal(g, B, T, S), some_allowed(g, B, T, S)))
    mask = some_allowed(g, B, T, S)
    yield Request((1000 * ~mask + normal(g, B, T, S), mask))


def _empty_rows(g: torch.Generator) -> Iterator[Request]:
    mask = some_allowed(g, B, T, S)
    mask[0, 1] = False
    yield Request((normal(g, B, T, S), mask), gradients=True)


def _softmax_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((normal(g, B, T, S), some_allowed(g, B, 1, S))))


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


def _sums_to_one_over(axis: int) -> Sign:
    def sign(given: Tensor, wanted: Tensor) -> bool:
        sums = given.sum(axis)
        return given.shape == wanted.shape and close(sums, torch.ones_like(sums))

    return wrong_output(sign)


@comparable
def _shares_of_less(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether there is a mask, and the weights are the right ones but for a factor in each row."""
    given, wanted = reply.outputs[0], reference.outputs[0]
    sums = given.sum(-1, keepdim=True)
    less = bool((sums < 1 + 1e-6).all()) and not close(given, wanted)
    return request.inputs[1] is not None and less and close(given, sums * wanted)


def _weight_where(mask: Callable[[Tensor], Tensor]) -> Sign:
    """Look for weight on the positions that a mask, made from the request's mask, picks."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        allowed = next((x for x in request.inputs if x is not None and x.dtype == torch.bool), None)
        return allowed is not None and bool((reply.outputs[-1].abs() * mask(allowed) > 1e-6).any())

    return comparable(sign)


@comparable
def _not_finite_where_large(request: Request, reply: Reply, reference: Reply) -> bool:
    scores = request.inputs[0]
    return scores is not None and bool(scores.abs().max() > 100) and not bool(reply.outputs[0].isfinite().all())


def _overflowing(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    weights = scores.exp() if mask is None else scores.exp() * mask
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


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
            _sums_to_one_over(-2),
        ),
        Misconception(
            "softmax over the batch",
            "Sentences of a batch do not compete: the last axis, the source, is the one that sums to one.",
            PAGE + "softmax",
            _over(0),
            _sums_to_one_over(0),
        ),
        Misconception(
            "mask after the softmax",
            "Forbidden positions took their share of the sum before they were set to zero: mask the scores instead.",
            PAGE + "mask",
            _mask_after,
            _shares_of_less,
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
            _weight_where(lambda mask: ~mask.any(-1, keepdim=True)),
        ),
        Misconception(
            "exponentials that overflow",
            "exp(1000) is infinite: subtract the row's largest score first, or leave that to torch's softmax.",
            PAGE + "softmax",
            _overflowing,
            _not_finite_where_large,
        ),
        Misconception(
            "a forbidden position has weight",
            "Its score has to be so low that nothing is left of it, whatever the other scores of the row are.",
            PAGE + "mask",
            sign=_weight_where(torch.logical_not),
        ),
        *ANYWHERE,
        Misconception(
            "the rows do not sum to one",
            "What is divided by has to be the sum over the allowed positions of the same row.",
            PAGE + "softmax",
            sign=wrong_output(lambda given, wanted: not close(given.sum(-1), wanted.sum(-1))),
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
    return {"key_proj.weight": normal(g, D, DK) / 2}


def _additive_parameters(g: torch.Generator) -> dict[str, Tensor]:
    return {
        "query_proj.weight": normal(g, A, D) / 2,
        "key_proj.weight": normal(g, A, DK) / 2,
        "energy_proj.weight": normal(g, 1, A),
    }


def _score_question(
    name: str,
    reference: type[nn.Module],
    init: tuple[int, ...],
    parameters: Parameters,
    points: tuple[int, int, int],
    misconceptions: tuple[Misconception, ...],
    key_dim: int = D,
    make: Callable[..., Any] = construct,
) -> Question:
    """Declare a score: all kinds are checked for the same three properties, and for some mistakes that all invite."""
    section = misconceptions[-1].section

    def request(g: torch.Generator, *leading: int, length: int = T, gradients: bool = False) -> Request:
        inputs = (normal(g, *leading, length, D), normal(g, *leading, S, key_dim))
        return Request(inputs, init, parameters(g), gradients)

    def ordinary(g: torch.Generator) -> Iterator[Request]:
        yield request(g, B)
        yield request(g, B, gradients=True)

    def other_shapes(g: torch.Generator) -> Iterator[Request]:
        yield request(g, B, length=1)
        yield request(g, 1, length=S)
        yield request(g, B, H)

    def politely(g: torch.Generator) -> Iterator[Request]:
        yield from manners(request(g, B))

    return Question(
        name=name,
        reference=reference,
        use=_use_score,
        make=make,
        properties=(
            Property("the scores and their gradients", points[0], ordinary, same_gradients),
            Property("one query, one sentence, an axis of heads", points[1], other_shapes, same_numbers),
            Property("inputs unchanged, dtype kept, works on any device", points[2], politely, good_manners),
        ),
        misconceptions=(
            *misconceptions,
            Misconception(
                "weights, where scores are meant",
                "A score may be any real number; the softmax comes after it.",
                PAGE + "interface",
                sign=_sums_to_one_over(-1),
            ),
            *ANYWHERE,
            Misconception(
                "every query gets the same scores",
                "Each score compares one query with one key: here the query has no say.",
                section,
                sign=wrong_output(lambda given, wanted: _same_along(given, wanted, -2)),
            ),
            Misconception(
                "every key gets the same score",
                "Each score compares one query with one key: here the key has no say, or the source is summed over.",
                section,
                sign=wrong_output(lambda given, wanted: _same_along(given, wanted, -1)),
            ),
            Misconception(
                "written for one number of axes",
                "The axes before the last two may be (B,), (B, H) or none: count axes from the end, -1 and -2.",
                PAGE + "interface",
                sign=lambda request, reply, reference: reference.outputs[0].dim() != 3,
            ),
        ),
    )


def _same_along(given: Tensor, wanted: Tensor, axis: int) -> bool:
    return given.shape == wanted.shape and given.size(axis) > 1 and bool((given.diff(dim=axis).abs() < 1e-6).all())


def _root_of_width_missing(request: Request, reply: Reply, reference: Reply) -> bool:
    def sign(given: Tensor, wanted: Tensor) -> bool:
        factor = scaled_by(given, wanted)
        return factor is not None and math.isclose(factor, math.sqrt(D), rel_tol=1e-3)

    return wrong_output(sign)(request, reply, reference)


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
            _root_of_width_missing,
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
    key_dim=DK,
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
            "another nonlinearity in place of tanh",
            "The formula has a hyperbolic tangent.",
            PAGE + "additive",
            _additive_with(lambda self, q, k: self.energy_proj(torch.sigmoid(_pairs(self, q, k))).squeeze(-1)),
        ),
        Misconception(
            "tanh after v",
            "The tanh is taken of each hidden unit, before v adds them up: a score is not bounded by one.",
            PAGE + "additive",
            _additive_with(lambda self, q, k: torch.tanh(self.energy_proj(_pairs(self, q, k))).squeeze(-1)),
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
    key_dim=DK,
)


def _gaussian_with(compare: Callable[[Tensor, float], Tensor]) -> type[nn.Module]:
    """Make a score of the differences q - k (..., T, S, D) and the bandwidth."""

    class Wrong(scores.Score):
        def __init__(self, bandwidth: float):
            super().__init__()
            self.bandwidth = bandwidth

        def forward(self, query: Tensor, projected: Tensor) -> Tensor:
            return compare(query.unsqueeze(-2) - projected.unsqueeze(-3), self.bandwidth)

    return Wrong


GAUSSIAN = _score_question(
    "gaussian",
    scores.GaussianScore,
    (3,),
    _no_parameters,
    (1, 1, 1),
    (
        Misconception(
            "the further, the more alike",
            "The kernel falls with the distance: its exponent is negative.",
            NEAREST,
            _gaussian_with(lambda x, b: x.square().sum(-1) / (2 * b**2)),
        ),
        Misconception(
            "distance not squared",
            "The exponent holds the squared distance; without the square the kernel is another one.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.norm(dim=-1) / (2 * b**2)),
        ),
        Misconception(
            "bandwidth not squared",
            "Both the distance and the bandwidth are squared, so that their ratio has no unit.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.square().sum(-1) / (2 * b)),
        ),
        Misconception(
            "the kernel, where its exponent is meant",
            "The softmax takes the exponential itself: the score is what stands in the exponent.",
            NEAREST,
            _gaussian_with(lambda x, b: torch.exp(-x.square().sum(-1) / (2 * b**2))),
        ),
        Misconception(
            "mean over the width, where the sum is meant",
            "The squared distance of two points is the sum of the squares over all D directions.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.square().mean(-1) / (2 * b**2)),
        ),
        Misconception(
            "bandwidth left out",
            "Divide by 2 b squared: a wide kernel lets distant points count, too.",
            NEAREST,
            _gaussian_with(lambda x, b: -x.square().sum(-1) / 2),
        ),
    ),
    make=lambda score, bandwidth: score(float(bandwidth)),
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
    yield Request((normal(g, B, T, S), normal(g, B, S, DV), None, None))
    yield Request((normal(g, B, T, S), normal(g, B, S, DV), some_allowed(g, B, 1, S), None), gradients=True)
    yield Request((normal(g, B, H, T, S), normal(g, B, H, S, DV), some_allowed(g, B, 1, T, S), None))


def _dropped_attention(g: torch.Generator) -> Iterator[Request]:
    empty = some_allowed(g, B, T, S)
    empty[0, 1] = False
    yield Request((normal(g, B, T, S), normal(g, B, S, DV), empty, None))
    keep = 2.0 * (torch.rand(B, T, S, generator=g) < 0.5)
    yield Request((normal(g, B, T, S), normal(g, B, S, DV), some_allowed(g, B, 1, S), keep))


def _attention_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(Request((normal(g, B, T, S), normal(g, B, S, DV), some_allowed(g, B, 1, S), None)))


def _without_dropout(scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: Any = None) -> Any:
    return attention.attend(scores, value, mask)


@comparable
def _weights_dropped(request: Request, reply: Reply, reference: Reply) -> bool:
    keep = request.inputs[-1]
    return keep is not None and close(reply.outputs[1], reference.outputs[1] * keep)


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
        Property(
            "a row that may attend to nothing; dropout thins the context, not the weights returned",
            1,
            _dropped_attention,
            same_numbers,
        ),
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
            _weights_dropped,
        ),
        Misconception(
            "dropout not applied",
            "Where a dropout is given, the context is made with the weights that it leaves.",
            PAGE + "context",
            _without_dropout,
        ),
        *ANYWHERE,
        Misconception(
            "a forbidden position has weight",
            "The mask has to reach the softmax, and nothing may be added to the weights after it.",
            PAGE + "mask",
            sign=_weight_where(torch.logical_not),
        ),
        Misconception(
            "the context is no weighted sum of the values",
            "The weights are right: each query's context is the sum over s of its weight on s times value s.",
            PAGE + "context",
            sign=comparable(lambda request, reply, reference: close(reply.outputs[1], reference.outputs[1])),
        ),
        Misconception(
            "the weights returned are not those that made the context",
            "The context is right: return beside it the weights after the softmax and before dropout.",
            PAGE + "context",
            sign=comparable(lambda request, reply, reference: close(reply.outputs[0], reference.outputs[0])),
        ),
    ),
)

QUESTIONS = (MASKED_SOFTMAX, DOT, SCALED_DOT, GENERAL, ADDITIVE, GAUSSIAN, ATTEND)
