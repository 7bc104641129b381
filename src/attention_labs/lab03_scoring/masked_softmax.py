"""Question `masked_softmax`: weights that sum to one over the allowed positions."""

import torch

from attention_course.attention import masked_softmax
from attention_labs.lab03_scoring.shared import (
    EVERYWHERE,
    IN_FRONT,
    KEYS,
    NO_NOTHING,
    QUERIES,
    SENTENCES,
    sums_to_one_over,
    weight_where_forbidden,
    with_an_empty_row,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    normal,
    same_gradients,
    some_allowed,
    somewhere,
    wrong_output,
)
from nbjudge.edits import Edit


def _weights(d: Draw) -> list[Request]:
    full = (*d.leading, d.T, d.S)
    shapes = [
        full,
        (*d.leading, 1, d.S),
        full[-2:],
        full[1:],  # of several axes in front, the first alone may be left out
        (*d.leading[:-1], *(1 for _ in d.leading[-1:]), 1, d.S),
        (d.S,),
    ]
    masks = [None, *(some_allowed(d, *shape) for shape in dict.fromkeys(shapes))]
    return [Request((normal(d, *full), mask)) for mask in masks]


def _large_scores(d: Draw) -> list[Request]:
    shape = (*d.leading, d.T, d.S)
    mask = some_allowed(d, *shape)
    low = torch.rand(shape, generator=d, dtype=torch.float64)
    shifted = [x + normal(d, *shape) for x in (1e3, -1e3, -1e5)]
    huge = 1e10 * normal(d, *shape)
    return [
        Request((1000 * normal(d, *shape), None), gradients=True),
        *(Request((scores, mask), gradients=True) for scores in shifted),
        Request((1000 * ~mask + normal(d, *shape), mask), gradients=True),
        Request((-1e29 * (1 + 3 * low), mask)),
        Request((-1e29 * (1 + 3 * low), mask), dtype=torch.float32),
        # the one that is allowed is the lowest, and a hundred less is the same number
        Request((huge, huge == huge.amin(-1, keepdim=True)), dtype=torch.float32),
    ]


def _empty_row(d: Draw) -> list[Request]:
    shape = (*d.leading, d.T, d.S)
    mask = with_an_empty_row(d, *d.leading)
    nothing = torch.zeros(*shape[:-2], 1, d.S, dtype=torch.bool)
    sentences = some_allowed(d, *d.leading, 1, d.S)
    sentences[:1] = False
    queries = torch.arange(d.T)[:, None] % 2 == 1  # all keys or none
    return [
        Request((normal(d, *shape), mask), gradients=True),
        Request((normal(d, *shape), mask), gradients=True, dtype=torch.float32),
        Request((normal(d, *shape), mask), dtype=torch.bfloat16),
        Request((1e5 * normal(d, *shape), nothing), gradients=True),
        Request((normal(d, *d.leading, 1, d.S), sentences), gradients=True),
        Request((normal(d, d.T, d.S), with_an_empty_row(d)), gradients=True),
        Request((normal(d, 2, 3, d.T, d.S), with_an_empty_row(d, 3))),
        Request((normal(d, 1, d.S), torch.zeros(d.S, dtype=torch.bool))),
        Request((normal(d, *shape), queries), gradients=True),
        Request((normal(d, *d.leading, d.T, 1), queries), gradients=True),
    ]


def _exactly_zero(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """What is forbidden has no weight at all, not even a small one."""
    mask = request.inputs[1]
    if mask is None or not (small := (reply.outputs[0] != 0) & ~mask).any():
        return None
    return Finding(f"{int(small.sum())} forbidden weights are not 0", "exactly 0")


def _over(axis: int) -> Edit:
    """Take the softmax over another axis."""
    return edit(
        masked_softmax, "scores.softmax(dim=-1)", f"scores.softmax(dim={axis})"
    ) & edit(masked_softmax, "lowest).softmax(dim=-1)", f"lowest).softmax(dim={axis})")


def _filled(lowest: str) -> Edit:
    """Give forbidden scores another value, and leave the weights as they are then."""
    return edit(masked_softmax, "torch.finfo(scores.dtype).min", lowest) & edit(
        masked_softmax, " * mask", ""
    )


@comparable
def _shares_of_less(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether, beside a mask, the weights are right but for a factor in each row."""
    given, wanted = reply.outputs[0], reference.outputs[0]
    sums = given.sum(-1, keepdim=True)
    less = bool((sums < 1 + 1e-6).all()) and not close(given, wanted)
    ordinary = request.inputs[1] is not None and request.inputs[0].abs().max() < 50
    return bool(ordinary) and less and close(given, sums * wanted)


BATTERY = Battery(
    FUNCTION,
    _weights,
    {"B": SENTENCES, "T": QUERIES, "S": KEYS},
    leading=2,
    leaves_out=NO_NOTHING,
    large=(0.0, 1e5, 1e29),
)

QUESTION = Question(
    name="masked_softmax",
    reference=masked_softmax,
    use=lambda softmax, scores, mask: (
        softmax(scores) if mask is None else softmax(scores, mask)
    ),
    battery=BATTERY,
    requirements={
        "in front": IN_FRONT,
        **EVERYWHERE,
        "exact": "The weight of a forbidden position must be exactly 0. The weights of"
        " the allowed positions in its row must still sum to one.",
        "empty": "In a row in which *nothing* is allowed, all weights must be 0, not"
        " `nan`. The gradients of its scores must be 0 as well.",
        "broadcast": "`mask` may have fewer axes than `scores`, and some of its axes"
        " may have length one. A common shape is (B, 1, S).",
        "scores": "scores: (..., T, S), any real numbers.",
        "mask": "mask: True = may attend, broadcastable to `scores`; None allows"
        " everything.",
        "returns": "Weights (..., T, S): each row sums to one; a row that may attend to"
        " nothing is zero.",
    },
    properties=(
        BATTERY.numbers(
            "the weights, with and without a mask, and their gradients",
            2,
            checks=("exact", "broadcast", "mask", "returns"),
        ),
        BATTERY.line(
            "a row that may attend to nothing has weight 0 and a gradient of 0",
            1,
            _empty_row,
            same_gradients,
            checks=("empty", "returns"),
        ),
        BATTERY.edges(
            1,
            each_of(same_gradients, _exactly_zero),
            also=_large_scores,
            checks=("in front", "lengths", "exact", "scores"),
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "softmax over the query axis",
            "Each query spreads its attention over the source: the weights of one row,"
            " over the last axis, sum to one.",
            SCORING + "softmax",
            _over(-2),
            sums_to_one_over(-2),
        ),
        Mistake(
            "softmax over the batch axis",
            "Sentences of a batch do not compete: the last axis, the source, is the one"
            " that sums to one.",
            SCORING + "softmax",
            _over(0),
            sums_to_one_over(0),
        ),
        Mistake(
            "mask applied after the softmax",
            "Forbidden positions took their share of the sum before they were set to"
            " zero: mask the scores instead.",
            SCORING + "mask",
            (
                edit(masked_softmax, "torch.where(mask, scores, lowest)", "scores"),
                edit(
                    masked_softmax,
                    "return torch.where(mask, scores, lowest).softmax(dim=-1) * mask",
                    "kept = scores.softmax(dim=-1) * mask\n"
                    "    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-9)",
                ),
            ),
            _shares_of_less,
        ),
        Mistake(
            "the mask is ignored",
            "Padding gets weight as if it were a token.",
            SCORING + "mask",
            edit(masked_softmax, "if mask is None", "if True"),
        ),
        Mistake(
            "the mask is inverted",
            "In this course, True means that a query may attend to the position.",
            SCORING + "mask",
            edit(masked_softmax, "check_mask(mask, scores.shape)", "mask = ~mask"),
        ),
        Mistake(
            "masked scores set to zero",
            "A score of zero is a score like any other, and exp(0) is one: a forbidden"
            " score has to be very low.",
            SCORING + "mask",
            _filled("0.0"),
        ),
        Mistake(
            "masked scores set to minus infinity",
            "This works except in a row in which all positions are forbidden. There"
            " the softmax divides zero by zero.",
            SCORING + "mask",
            _filled("-torch.inf"),
        ),
        Mistake(
            "masked scores are not low enough",
            "Scores may be any numbers, also lower ones. Take the lowest number of the"
            " dtype, or minus infinity and think of the rows without a position.",
            SCORING + "mask",
            (
                edit(masked_softmax, "torch.finfo(scores.dtype).min", "-1e9"),
                edit(masked_softmax, "torch.finfo(scores.dtype).min", "-1e4"),
            ),
        ),
        Mistake(
            "nonzero weights in a fully masked row",
            "Where all scores are equally low the softmax is uniform: set forbidden"
            " weights to zero as well.",
            SCORING + "mask",
            _filled("-1e9"),
            somewhere(
                0,
                lambda given, wanted: (
                    (wanted == 0).all(-1, keepdim=True) & (given.abs() > 1e-6)
                ),
            ),
        ),
        Mistake(
            "the exponentials overflow",
            "exp(1000) is infinite: subtract the row's largest score first, or leave"
            " that to torch's softmax.",
            SCORING + "softmax",
            edit(
                masked_softmax,
                "return scores.softmax(dim=-1)",
                "mask = torch.ones_like(scores, dtype=torch.bool)",
            )
            & edit(
                masked_softmax,
                "return torch.where(mask, scores, lowest).softmax(dim=-1) * mask",
                "e = scores.exp() * mask\n"
                "    total = e.sum(-1, keepdim=True)\n"
                "    return e / total.masked_fill(total == 0, 1.0)",
            ),
            comparable(
                lambda request, reply, reference: (
                    bool(request.inputs[0].abs().max() > 100)
                    and not bool(reply.outputs[0].isfinite().all())
                )
            ),
        ),
        Mistake(
            "a masked position has nonzero weight",
            "Its score has to be so low that its weight is zero, whatever the other"
            " scores of the row are.",
            SCORING + "mask",
            sign=weight_where_forbidden(1, more_than=0.0),
        ),
        *ANYWHERE,
        Mistake(
            "the rows of weights have the wrong sum",
            "The denominator has to be the sum over the allowed positions of the same"
            " row.",
            SCORING + "softmax",
            sign=wrong_output(
                lambda given, wanted: not close(given.sum(-1), wanted.sum(-1))
            ),
        ),
    ),
)
