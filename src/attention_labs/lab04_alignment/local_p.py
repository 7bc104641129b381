"""local_p: look around a predicted position alone."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.masks import padding_mask
from attention_course.rnn import LocalP
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.shared import WEIGHTS, A, D, E, T, weight_off_mask
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    comparable,
    edit,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    right_in,
    same_gradients,
    same_numbers,
)

LOCAL = "07_luong.html#luong-local"

LONG, HALF_WIDTH = 17, 3


def _use_window(
    window: Any, scores: Tensor, query: Tensor, value: Tensor, mask: Tensor
) -> Any:
    position = torch.zeros(scores.size(0), dtype=torch.long, device=scores.device)
    return window(scores, query, position, Memory(value, value, mask, query[:, 0]))


def _window(
    g: torch.Generator,
    lengths: Sequence[int],
    gradients: bool = False,
    queries: int = T,
) -> Request:
    inputs = (
        normal(g, len(lengths), queries, LONG),
        normal(g, len(lengths), queries, D),
        normal(g, len(lengths), LONG, E),
        padding_mask(torch.tensor(lengths), LONG),
    )
    init = (D, A, HALF_WIDTH)
    return Request(inputs, init, parameters(g, lambda: LocalP(*init)), gradients)


def _looks_at(reply: Reply) -> Tensor:
    return reply.outputs[WEIGHTS].abs() > 1e-9


FORWARD = LocalP.forward
EXPONENT = "-((distance / (self.half_width / 2)) ** 2) / 2"
FLAT = edit(FORWARD, EXPONENT, "torch.zeros_like(distance)")

LOCAL_P = Question(
    name="local_p",
    reference=LocalP,
    use=_use_window,
    properties=(
        Property(
            "the weights around the predicted position",
            2,
            lambda g: [_window(g, (LONG, LONG))],
            of_output(WEIGHTS, same_numbers),
        ),
        Property(
            "each sentence counts its own tokens, not the padding",
            1,
            lambda g: [_window(g, (LONG, 9)), _window(g, (1, 13))],
            same_numbers,
        ),
        Property(
            "the context, and gradients through the position",
            1,
            lambda g: [
                _window(g, (LONG, 11), gradients=True),
                _window(g, (LONG, 8, 13), queries=1),
                _window(g, (11,)),
            ],
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_window(g, (LONG, 11))),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "padding counted in the sentence's length",
            "The position is a share of the tokens that the sentence has, not of the"
            " length it was padded to.",
            LOCAL,
            edit(FORWARD, "lengths * share", "scores.size(-1) * share"),
        ),
        Mistake(
            "the position is not scaled to the sentence",
            "The sigmoid gives a share between 0 and 1: multiplied by the sentence's"
            " length it is a position.",
            LOCAL,
            edit(FORWARD, "lengths * share", "share"),
        ),
        Mistake(
            "no Gaussian",
            "Within the window the weight falls off with the distance from its centre."
            " Without that the predicted position gets no gradient.",
            LOCAL,
            FLAT,
        ),
        Mistake(
            "a forbidden position has weight",
            "Padding within the window stays padding: the memory's mask and the window"
            " are combined with `&`.",
            LOCAL,
            sign=weight_off_mask,
        ),
        Mistake(
            "no window",
            "The softmax runs over the positions at most w away from the centre, and no"
            " others.",
            LOCAL,
            edit(FORWARD, "memory.mask & (distance <= self.half_width)", "memory.mask"),
            sign=comparable(
                lambda request, reply, reference: bool(
                    (_looks_at(reply).sum(-1) > 2 * HALF_WIDTH + 1).any()
                )
            ),
        ),
        Mistake(
            "the Gaussian before the softmax",
            "It multiplies the weights, not the scores.",
            LOCAL,
            FLAT & edit(FORWARD, "x(scores,", f"x(scores * torch.exp({EXPONENT}),"),
        ),
        Mistake(
            "the weights are normalised again",
            "They are left as the Gaussian makes them, and need not sum to one.",
            LOCAL,
            FLAT & edit(FORWARD, "x(scores,", f"x(scores + {EXPONENT},"),
        ),
        Mistake(
            "the Gaussian is as wide as the window",
            "Its standard deviation is half of w.",
            LOCAL,
            edit(FORWARD, "self.half_width / 2", "self.half_width"),
        ),
        Mistake(
            "tanh missing",
            "The network that predicts the position has a hidden layer with a tanh.",
            LOCAL,
            edit(FORWARD, "torch.tanh(self", "(self"),
        ),
        *ANYWHERE,
        Mistake(
            "the context is no weighted sum of the values",
            "The weights are right: the context is their product with the values.",
            LOCAL,
            sign=right_in(WEIGHTS),
        ),
        Mistake(
            "another window",
            "Weights are zero where |s - p| > w, and nowhere else: p is the sentence's"
            " length times the sigmoid, and s counts from 0.",
            LOCAL,
            sign=comparable(
                lambda request, reply, reference: (
                    not torch.equal(_looks_at(reply), _looks_at(reference))
                )
            ),
        ),
        Mistake(
            "another Gaussian",
            "The window is right. The weights of the softmax are multiplied by exp(-(s"
            " - p)^2 / (2 (w / 2)^2)).",
            LOCAL,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
