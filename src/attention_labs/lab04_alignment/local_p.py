"""local_p: look around a predicted position alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course import attention, rnn
from attention_course.masks import padding_mask
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.steps import WEIGHTS, A, D, E, T
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    comparable,
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
    batch, mask = len(lengths), padding_mask(torch.tensor(lengths), LONG)
    inputs = (
        normal(g, batch, queries, LONG),
        normal(g, batch, queries, D),
        normal(g, batch, LONG, E),
        mask,
    )
    init = (D, A, HALF_WIDTH)
    return Request(inputs, init, parameters(g, lambda: rnn.LocalP(*init)), gradients)


def _whole_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _window(g, (LONG, LONG))


def _padded_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _window(g, (LONG, 9))
    yield _window(g, (1, 13))


def _window_learns(g: torch.Generator) -> Iterator[Request]:
    yield _window(g, (LONG, 11), gradients=True)
    yield _window(g, (LONG, 8, 13), queries=1)
    yield _window(g, (11,))


def _window_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_window(g, (LONG, 11)))


class _Local(rnn.LocalP):
    """The course's window in pieces that a mistake can replace."""

    def forward(
        self, scores: Tensor, query: Tensor, position: Tensor, memory: Memory
    ) -> Any:
        share = self.squash(
            self.position_proj(self.hidden(self.hidden_proj(query)))
        ).squeeze(-1)
        centre = self.centre(share, memory.mask.sum(dim=-1), scores.size(-1))
        distance = (
            torch.arange(scores.size(-1), device=scores.device) - centre[..., None]
        ).abs()
        gauss = torch.exp(-((distance / self.spread(self.half_width)) ** 2) / 2)
        weights = self.weigh(scores, memory.mask, distance <= self.half_width, gauss)
        return weights @ memory.value, weights

    def hidden(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def squash(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)

    def centre(self, share: Tensor, lengths: Tensor, size: int) -> Tensor:
        return lengths * share

    def spread(self, half_width: int) -> float:
        return half_width / 2

    def weigh(
        self, scores: Tensor, mask: Tensor, near: Tensor, gauss: Tensor
    ) -> Tensor:
        return attention.masked_softmax(scores, mask & near) * gauss


@comparable
def _outside_the_sentence(request: Request, reply: Reply, reference: Reply) -> bool:
    mask = request.inputs[-1]
    return mask is not None and bool((reply.outputs[1].abs() * ~mask > 1e-6).any())


@comparable
def _outside_the_window(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(((reply.outputs[1].abs() > 1e-9).sum(-1) > 2 * HALF_WIDTH + 1).any())


def _same_window(reply: Reply, reference: Reply) -> bool:
    given, wanted = (x.outputs[1].abs() > 1e-9 for x in (reply, reference))
    return bool((given == wanted).all())


LOCAL_P = Question(
    name="local_p",
    reference=rnn.LocalP,
    use=_use_window,
    properties=(
        Property(
            "the weights around the predicted position",
            2,
            _whole_sentences,
            of_output(WEIGHTS, same_numbers),
        ),
        Property(
            "each sentence counts its own tokens, not the padding",
            1,
            _padded_sentences,
            same_numbers,
        ),
        Property(
            "the context, and gradients through the position",
            1,
            _window_learns,
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _window_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "padding counted in the sentence's length",
            "The position is a share of the tokens that the sentence has, not of the"
            " length it was padded to.",
            LOCAL,
            with_pieces(_Local, centre=lambda share, lengths, size: size * share),
        ),
        Mistake(
            "the position is not scaled to the sentence",
            "The sigmoid gives a share between 0 and 1: multiplied by the sentence's"
            " length it is a position.",
            LOCAL,
            with_pieces(_Local, centre=lambda share, lengths, size: share),
        ),
        Mistake(
            "no Gaussian",
            "Within the window the weight falls off with the distance from its centre."
            " Without that the predicted position gets no gradient.",
            LOCAL,
            with_pieces(
                _Local,
                weigh=lambda scores, mask, near, gauss: attention.masked_softmax(
                    scores, mask & near
                ),
            ),
        ),
        Mistake(
            "a forbidden position has weight",
            "Padding within the window stays padding: the memory's mask and the window"
            " are combined with `&`.",
            LOCAL,
            sign=_outside_the_sentence,
        ),
        Mistake(
            "no window",
            "The softmax runs over the positions at most w away from the centre, and no"
            " others.",
            LOCAL,
            with_pieces(
                _Local,
                weigh=lambda scores, mask, near, gauss: (
                    attention.masked_softmax(scores, mask) * gauss
                ),
            ),
            _outside_the_window,
        ),
        Mistake(
            "the Gaussian before the softmax",
            "It multiplies the weights, not the scores.",
            LOCAL,
            with_pieces(
                _Local,
                weigh=lambda scores, mask, near, gauss: attention.masked_softmax(
                    scores * gauss, mask & near
                ),
            ),
        ),
        Mistake(
            "the weights are normalised again",
            "They are left as the Gaussian makes them, and need not sum to one.",
            LOCAL,
            with_pieces(
                _Local,
                weigh=lambda scores, mask, near, gauss: attention.masked_softmax(
                    scores + gauss.log(), mask & near
                ),
            ),
        ),
        Mistake(
            "the Gaussian is as wide as the window",
            "Its standard deviation is half of w.",
            LOCAL,
            with_pieces(_Local, spread=lambda half_width: float(half_width)),
        ),
        Mistake(
            "tanh missing",
            "The network that predicts the position has a hidden layer with a tanh.",
            LOCAL,
            with_pieces(_Local, hidden=lambda x: x),
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
                lambda request, reply, reference: not _same_window(reply, reference)
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
