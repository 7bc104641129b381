"""Question `local_p`: local attention, in a window around a predicted position."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course.rnn import LocalP
from attention_course.rnn.windows import _distance
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.shared import (
    EVERYWHERE,
    LEAVES_OUT,
    WEIGHTS,
    WIDTHS,
    B,
    weight_off_mask,
)
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    comparable,
    edit,
    normal,
    of_output,
    parameters,
    right_in,
    same_gradients,
    same_numbers,
)

LOCAL = "07_luong.html#luong-local"


def _use_window(
    window: Any,
    scores: Tensor,
    query: Tensor,
    value: Tensor,
    mask: Tensor,
    position: Tensor,
) -> Any:
    return window(scores, query, position, Memory(-value, value, mask, query[:, 0]))


def _window(d: Draw, lengths: Tensor | None = None, strength: float = 1.0) -> Request:
    """Draw a window; without lengths, for sentences of one length, unpadded."""
    size = d.S if lengths is None or d.S == 1 else d.S + 3
    lengths = torch.full((d.B,), d.S) if lengths is None else lengths
    inputs = (
        normal(d, d.B, d.T, size),
        normal(d, d.B, d.T, d.D) * strength,
        normal(d, d.B, size, d.E),
        torch.arange(size) < lengths[:, None, None],
        torch.randint(d.S, (d.B,), generator=d),
    )
    init = (d.D, d.A, d.W)
    return Request(inputs, init, parameters(d, lambda: LocalP(*init)))


def _rare(d: Draw) -> list[Request]:
    """Draw the middle of sentences that have a position w away from it."""
    lengths = 2 * (d.W + torch.randint(4, (d.B,), generator=d))
    middle = _window(d, lengths, strength=0.0)
    placed = _window(d, lengths)
    scores, *others = placed.inputs
    unpadded, vector = _window(d), "position_proj.weight"
    ends = {**unpadded.parameters, vector: 100 * unpadded.parameters[vector]}
    return [
        replace(unpadded, parameters=ends, about="windows at both ends, no padding"),
        replace(middle, gradients=True),
        # Exact in bfloat16, too: positions and their distances are small.
        replace(middle, dtype=torch.bfloat16, about="in bfloat16"),
        replace(
            placed,
            inputs=(-1e12 * (1 + scores.abs()), *others),
            variation="large",
            about="scores around -1e+12",
        ),
        replace(
            placed,
            inputs=(1e4 * scores, *others),
            gradients=True,
            variation="large",
            about="scores around 1e+4 and -1e+4, and their gradients",
        ),
    ]


def _right_numbers(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Leave it to the manners to tell that dtypes do not fit."""
    if reply.error and request.dtype == torch.bfloat16:
        return None
    return same_gradients(request, reply, reference)


def _looks_at(reply: Reply) -> Tensor:
    return reply.outputs[WEIGHTS].abs() > 1e-9


BATTERY = Battery(
    MODULE,
    lambda d: _window(d, torch.randint(1, d.S + 1, (d.B,), generator=d)),
    {
        "B": B,
        "T": Axis("queries"),
        "S": Axis("source positions", most=20, long=600),
        "W": Axis("half-width", most=4, long=30, fixed=True),
        **{name: WIDTHS[name] for name in ("D", "E")},
        "A": Axis("hidden width", fixed=True),
    },
    leaves_out={
        **LEAVES_OUT,
        "bfloat16": "rounding decides which positions lie in the window",
        "long in bfloat16": "rounding decides which positions lie in the window",
    },
)
FORWARD = LocalP.forward
EXPONENT = "-((distance / (self.half_width / 2)) ** 2) / 2"
FLAT = edit(FORWARD, EXPONENT, "torch.zeros_like(distance)")

QUESTION = Question(
    name="local_p",
    reference=LocalP,
    use=_use_window,
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "tokens": "In this formula, $S$ is the number of tokens in the sentence,"
        " without its padding. Count them in `memory.mask`.",
        "window": "Apply the softmax only to the positions in the window. The window"
        " is a mask, and `&` combines it with the mask of the memory.",
        "Gaussian": "Multiply the weights by the Gaussian *after* the softmax. The"
        " products are the weights that you return and compute the context from, and"
        " they need not sum to one. Only the Gaussian gives $p_t$ a gradient.",
        "names": "Positions count from 0. In bfloat16, they need not be exact here. $W$"
        " is `hidden_proj`, and the learned vector $u$ is `position_proj`.",
        "all": "Write `forward`, which gets the scores of all T queries.",
        "scores": "scores: (B, T, S), how well each key matches each query.",
        "query": "query: (B, T, D).",
        "position": "position: not needed here.",
        "memory": "memory: has `value` (B, S, E) and `mask` (B, 1, S), which has the"
        " padding at the end.",
        "returns": "Context (B, T, E) and weights (B, T, S), zero outside the window.",
    },
    properties=(
        BATTERY.line(
            "the weights around the predicted position",
            2,
            _window,
            of_output(WEIGHTS, same_numbers),
            ("window", "names", "all", "scores", "query", "position", "returns"),
        ),
        BATTERY.numbers(
            "each sentence counts its own tokens, not the padding; the context, and"
            " gradients through the position",
            1,
            checks=("tokens", "window", "Gaussian", "memory", "returns"),
        ),
        BATTERY.edges(
            1,
            _right_numbers,
            claim="positions exactly w away; edges: length one, equal lengths, long"
            " inputs, large numbers, eval mode, repeated calls, two instances",
            checks=("lengths", "window", "returns"),
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "the sentence length includes padding",
            "The position is a share of the tokens that the sentence has, not of the"
            " length it was padded to.",
            LOCAL,
            edit(FORWARD, "lengths * share", "scores.size(-1) * share"),
        ),
        Mistake(
            "the position is not multiplied by the length",
            "The sigmoid gives a share between 0 and 1: multiplied by the sentence's"
            " length it is a position.",
            LOCAL,
            edit(FORWARD, "lengths * share", "share"),
        ),
        Mistake(
            "the Gaussian is missing",
            "Within the window the weight falls off with the distance from its center."
            " Without that the predicted position gets no gradient.",
            LOCAL,
            FLAT,
        ),
        Mistake(
            "a masked position has nonzero weight",
            "Padding within the window stays padding: the memory's mask and the window"
            " are combined with `&`.",
            LOCAL,
            edit(FORWARD, "memory.mask & (", "("),
            sign=weight_off_mask,
        ),
        Mistake(
            "the window is missing",
            "The softmax runs over the positions at most w away from the centre, and no"
            " others.",
            LOCAL,
            edit(FORWARD, "memory.mask & (distance <= self.half_width)", "memory.mask"),
            sign=comparable(
                lambda request, reply, reference: bool(
                    (_looks_at(reply).sum(-1) > 2 * (request.init or ())[2] + 1).any()
                )
            ),
        ),
        Mistake(
            "the Gaussian multiplies the scores, not the weights",
            "The Gaussian multiplies the weights, not the scores.",
            LOCAL,
            FLAT & edit(FORWARD, "x(scores,", f"x(scores * torch.exp({EXPONENT}),"),
        ),
        Mistake(
            "the weights are renormalized after the Gaussian",
            "The Gaussian multiplies the weights after the softmax, and nothing is"
            " done to them afterwards.",
            LOCAL,
            FLAT & edit(FORWARD, "x(scores,", f"x(scores + {EXPONENT},"),
        ),
        Mistake(
            "standard deviation w instead of w / 2",
            "Its standard deviation is half of w.",
            LOCAL,
            edit(FORWARD, "self.half_width / 2", "self.half_width"),
        ),
        Mistake(
            "half of w is rounded down",
            "The standard deviation is w / 2, also for an odd w: // drops the half.",
            LOCAL,
            edit(FORWARD, "self.half_width / 2", "self.half_width // 2"),
        ),
        Mistake(
            "the context is computed without the Gaussian",
            "The weights that are returned, after the Gaussian, are those that make the"
            " context.",
            LOCAL,
            edit(FORWARD, "weights = weights *", "before, weights = weights, weights *")
            & edit(FORWARD, "weights @", "before @"),
        ),
        Mistake(
            "the window cuts weights after the softmax",
            "The softmax runs over the positions in the window alone, so their weights"
            " sum to one before the Gaussian.",
            LOCAL,
            edit(
                FORWARD,
                "memory.mask & (distance <= self.half_width))",
                "memory.mask) * (distance <= self.half_width)",
            ),
        ),
        Mistake(
            "positions count from 1",
            "The first token of the source stands at position 0.",
            LOCAL,
            edit(
                _distance,
                "torch.arange(scores.size(2)",
                "torch.arange(1, 1 + scores.size(2)",
            ),
        ),
        Mistake(
            "the predicted position is rounded",
            "The predicted position is a number like 3.7. Measure the distance from"
            " there.",
            LOCAL,
            edit(
                FORWARD,
                "(lengths * share, scores",
                "((lengths * share).round(), scores",
            ),
        ),
        Mistake(
            "positions exactly w away are left out",
            "The window is |s - p| <= w: its two ends belong to it.",
            LOCAL,
            edit(FORWARD, "distance <= self", "distance < self"),
        ),
        Mistake(
            "tanh missing",
            "The network that predicts the position has a hidden layer with a tanh.",
            LOCAL,
            edit(FORWARD, "torch.tanh(self", "(self"),
        ),
        *ANYWHERE,
        Mistake(
            "the weights are right, the context is wrong",
            "The weights are right: the context is their product with the values.",
            LOCAL,
            sign=right_in(WEIGHTS),
        ),
        Mistake(
            "the wrong window",
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
            "the wrong Gaussian",
            "The window is right. The weights of the softmax are multiplied by exp(-(s"
            " - p)^2 / (2 (w / 2)^2)).",
            LOCAL,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
