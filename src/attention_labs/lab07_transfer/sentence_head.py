"""sentence_head: pool the states of real tokens, and make logits of the mean."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.masks import padding_mask
from attention_labs.lab07_transfer.body import LOADING, B, D, K, S
from attention_labs.pages import PADDING
from attention_labs.pieces import with_methods
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
    parameters,
    same_gradients,
    same_numbers,
    wrong_output,
)

# Nothing is dropped; everything is; everything would be, but for eval mode.
INIT, DROPPED, IN_USE = (D, K, 0), (D, K, 1), (D, K, 2)


def _with_dropout(head: Any, dim: int, num_labels: int, dropout: int) -> Any:
    return head(dim, num_labels, float(dropout > 0)).train(dropout < 2)


class Head(nn.Module):
    """A head in pieces that a mistake can replace."""

    def __init__(self, dim: int, num_labels: int, dropout: float = 0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Make logits (B, labels) of states (B, S, D) and a mask (B, S)."""
        return self.answer(self.pool(states, mask))

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return each sentence's mean state (B, D)."""
        return self.total(states, mask) / self.count(states, mask)

    def total(self, states: Tensor, mask: Tensor) -> Tensor:
        """Add up the states of real tokens (B, D)."""
        return (states * mask[..., None]).sum(1)

    def count(self, states: Tensor, mask: Tensor) -> Tensor:
        """Count the real tokens (B, 1), one at least."""
        return mask.sum(1, keepdim=True).clamp(min=1).to(states.dtype)

    def answer(self, pooled: Tensor) -> Tensor:
        """Map mean states to logits."""
        return self.outer(self.dropout(torch.tanh(self.inner(pooled))))


def _use_head(head: Any, states: Tensor, mask: Tensor) -> Any:
    return head(states, mask)


def _judging(
    g: torch.Generator,
    lengths: Sequence[int],
    init: tuple[int, ...] = INIT,
    gradients: bool = False,
) -> Request:
    mask = padding_mask(torch.tensor(lengths), S)[:, 0]
    weights = parameters(g, lambda: _with_dropout(Head, *init))
    return Request((normal(g, len(lengths), S, D), mask), init, weights, gradients)


def _whole_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [S] * B, gradients=True)


def _padded_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [S - 2, S, 1], gradients=True)
    yield _judging(g, [2])


def _empty_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [2, 0, S], gradients=True)


def _dropped(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [S, 3, 2], DROPPED)
    yield _judging(g, [S, 3, 2], IN_USE)


def _head_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_judging(g, [S, 1, S - 2]))


def _some_padded(request: Request, reply: Reply, reference: Reply) -> bool:
    mask = request.inputs[1]
    return mask is not None and not mask.is_meta and not bool(mask.all())


MEAN = (
    "The mean is the sum of the states of real tokens, divided by the number of real"
    " tokens of each sentence."
)
MAPS = "Pooled, then `inner`, tanh, dropout, `outer`."

SENTENCE_HEAD = Question(
    name="sentence_head",
    reference=Head,
    use=_use_head,
    make=_with_dropout,
    properties=(
        Property(
            "the logits where no token is padding, and all gradients",
            2,
            _whole_sentences,
            same_gradients,
        ),
        Property("padding does not count", 1, _padded_sentences, same_gradients),
        Property(
            "a sentence without a token: finite logits and gradients",
            1,
            _empty_sentences,
            same_gradients,
        ),
        Property(
            "dropout between tanh and the last map, in training alone",
            1,
            _dropped,
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            _head_manners,
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "padding counts",
            MEAN,
            PADDING,
            with_methods(Head, pool=lambda self, states, mask: states.mean(1)),
        ),
        Mistake(
            "divided by padding, too",
            MEAN,
            PADDING,
            with_methods(Head, count=lambda self, states, mask: states.size(1)),
        ),
        Mistake(
            "the sum, not the mean",
            MEAN,
            PADDING,
            with_methods(Head, count=lambda self, states, mask: 1),
        ),
        Mistake(
            "a division by no token at all",
            "A sentence without a real token has the number 0 below the line: let it be"
            " at least 1.",
            PADDING,
            with_methods(
                Head, count=lambda self, states, mask: mask.sum(1, keepdim=True)
            ),
        ),
        Mistake(
            "the first token alone",
            MEAN,
            PADDING,
            with_methods(Head, pool=lambda self, states, mask: states[:, 0]),
        ),
        Mistake(
            "tanh left out",
            MAPS + " Two linear maps without tanh between them are one.",
            LOADING,
            with_methods(
                Head,
                answer=lambda self, pooled: self.outer(
                    self.dropout(self.inner(pooled))
                ),
            ),
        ),
        Mistake(
            "the inner map left out",
            MAPS,
            LOADING,
            with_methods(
                Head, answer=lambda self, pooled: self.outer(self.dropout(pooled))
            ),
        ),
        Mistake(
            "dropout left out",
            MAPS,
            LOADING,
            with_methods(
                Head,
                answer=lambda self, pooled: self.outer(torch.tanh(self.inner(pooled))),
            ),
        ),
        Mistake(
            "dropout outside of training",
            "`self.dropout` knows in which mode it is; F.dropout has to be told.",
            "",
            sign=lambda request, reply, reference: request.init == IN_USE,
        ),
        Mistake(
            "dropout at another place",
            MAPS,
            LOADING,
            sign=lambda request, reply, reference: request.init == DROPPED,
        ),
        Mistake(
            "an answer for every word",
            "One answer for a sentence: the states are averaged over its positions"
            " first.",
            PADDING,
            sign=wrong_output(lambda given, wanted: given.dim() == wanted.dim() + 1),
        ),
        *ANYWHERE,
        Mistake(
            "the mean is taken in another way",
            MEAN,
            PADDING,
            sign=comparable(_some_padded),
        ),
        Mistake(
            "the head is put together in another way",
            MAPS + " The mean is taken over the positions of a sentence, axis 1.",
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
