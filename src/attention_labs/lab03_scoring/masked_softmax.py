"""masked_softmax: weights that sum to one over what is allowed."""

import torch

from attention_course.attention import masked_softmax
from attention_labs.lab03_scoring.shared import (
    WEIGHT_WHERE_FORBIDDEN,
    B,
    H,
    S,
    T,
    sums_to_one_over,
    with_an_empty_row,
)
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
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
    same_gradients,
    same_numbers,
    some_allowed,
    somewhere,
    wrong_output,
)
from nbjudge.edits import Edit


def _large_scores(g: torch.Generator) -> list[Request]:
    asked = [
        Request((1000 * normal(g, B, T, S), None)),
        Request((1000 + normal(g, B, T, S), some_allowed(g, B, T, S))),
        Request((-1000 + normal(g, B, T, S), some_allowed(g, B, T, S))),
    ]
    mask = some_allowed(g, B, T, S)
    return [*asked, Request((1000 * ~mask + normal(g, B, T, S), mask))]


def _empty_row(g: torch.Generator) -> list[Request]:
    mask = with_an_empty_row(g)
    return [Request((normal(g, B, T, S), mask), gradients=True)]


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
    return request.inputs[1] is not None and less and close(given, sums * wanted)


MASKED_SOFTMAX = Question(
    name="masked_softmax",
    reference=masked_softmax,
    use=lambda softmax, scores, mask: (
        softmax(scores) if mask is None else softmax(scores, mask)
    ),
    properties=(
        Property(
            "the weights, with and without a mask, and their gradients",
            2,
            lambda g: (
                Request((normal(g, B, T, S), None)),
                Request((normal(g, B, T, S), some_allowed(g, B, T, S)), gradients=True),
                Request((normal(g, B, T, S), some_allowed(g, B, 1, S))),
                Request((normal(g, B, T, S), some_allowed(g, T, S))),
                Request((normal(g, B, H, T, S), some_allowed(g, B, 1, 1, S))),
                Request((normal(g, T, S), some_allowed(g, T, S))),
            ),
            same_gradients,
        ),
        Property(
            "the weights stay right when scores are large",
            1,
            _large_scores,
            same_numbers,
        ),
        Property(
            "a row that may attend to nothing has weight 0 and a finite gradient",
            1,
            _empty_row,
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(Request((normal(g, B, T, S), some_allowed(g, B, 1, S)))),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "softmax over the queries",
            "Each query spreads its attention over the source: the weights of one row,"
            " over the last axis, sum to one.",
            SCORING + "softmax",
            _over(-2),
            sums_to_one_over(-2),
        ),
        Mistake(
            "softmax over the batch",
            "Sentences of a batch do not compete: the last axis, the source, is the one"
            " that sums to one.",
            SCORING + "softmax",
            _over(0),
            sums_to_one_over(0),
        ),
        Mistake(
            "mask after the softmax",
            "Forbidden positions took their share of the sum before they were set to"
            " zero: mask the scores instead.",
            SCORING + "mask",
            edit(masked_softmax, "torch.where(mask, scores, lowest)", "scores"),
            _shares_of_less,
        ),
        Mistake(
            "mask inverted",
            "In this course True means: may attend.",
            SCORING + "mask",
            edit(masked_softmax, "check_mask(mask, scores.shape)", "mask = ~mask"),
        ),
        Mistake(
            "mask ignored",
            "Padding gets weight as if it were a token.",
            SCORING + "mask",
            edit(masked_softmax, "if mask is None", "if True"),
        ),
        Mistake(
            "forbidden scores set to zero",
            "A score of zero is a score like any other, and exp(0) is one: a forbidden"
            " score has to be very low.",
            SCORING + "mask",
            _filled("0.0"),
        ),
        Mistake(
            "forbidden scores set to minus infinity",
            "That is right until a row is forbidden throughout: then the softmax"
            " divides zero by zero.",
            SCORING + "mask",
            _filled("-torch.inf"),
        ),
        Mistake(
            "a row that may attend to nothing attends to everything",
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
            "exponentials that overflow",
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
            "a forbidden position has weight",
            "Its score has to be so low that nothing is left of it, whatever the other"
            " scores of the row are.",
            SCORING + "mask",
            sign=WEIGHT_WHERE_FORBIDDEN,
        ),
        *ANYWHERE,
        Mistake(
            "the rows do not sum to one",
            "What is divided by has to be the sum over the allowed positions of the"
            " same row.",
            SCORING + "softmax",
            sign=wrong_output(
                lambda given, wanted: not close(given.sum(-1), wanted.sum(-1))
            ),
        ),
    ),
)
