"""sentence_head: pool the states of real tokens, and make logits of the mean."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.masks import padding_mask
from attention_labs.lab07_transfer.shared import LOADING, B, D, K, S
from attention_labs.pages import PADDING
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
    parameters,
    same_gradients,
    same_numbers,
    wrong_output,
)

# Nothing is dropped; everything is; everything would be, but for eval mode.
INIT, DROPPED, IN_USE = (D, K, 0), (D, K, 1), (D, K, 2)


class Head(nn.Module):
    """One answer for a whole sentence."""

    def __init__(self, dim: int, num_labels: int, dropout: float = 0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Make logits (B, labels) of states (B, S, D) and a mask (B, S)."""
        count = mask.sum(1, keepdim=True).clamp(min=1)
        pooled = (states * mask[..., None]).sum(1) / count
        return self.outer(self.dropout(torch.tanh(self.inner(pooled))))


def _with_dropout(head: Any, dim: int, num_labels: int, dropout: int) -> Any:
    return head(dim, num_labels, float(dropout > 0)).train(dropout < 2)


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


def _some_padded(request: Request, reply: Reply, reference: Reply) -> bool:
    mask = request.inputs[1]
    return mask is not None and not mask.is_meta and not bool(mask.all())


MEAN = (
    "The mean is the sum of the states of real tokens, divided by the number of real"
    " tokens of each sentence."
)
MAPS = "Pooled, then `inner`, tanh, dropout, `outer`."
COUNT = "mask.sum(1, keepdim=True).clamp(min=1)"
POOLED = "(states * mask[..., None]).sum(1) / count"

SENTENCE_HEAD = Question(
    name="sentence_head",
    reference=Head,
    use=_use_head,
    make=_with_dropout,
    properties=(
        Property(
            "the logits where no token is padding, and all gradients",
            2,
            lambda g: [_judging(g, [S] * B, gradients=True)],
            same_gradients,
        ),
        Property(
            "padding does not count",
            1,
            lambda g: [_judging(g, [S - 2, S, 1], gradients=True), _judging(g, [2])],
            same_gradients,
        ),
        Property(
            "a sentence without a token: finite logits and gradients",
            1,
            lambda g: [_judging(g, [2, 0, S], gradients=True)],
            same_gradients,
        ),
        Property(
            "dropout between tanh and the last map, in training alone",
            1,
            lambda g: [_judging(g, [S, 3, 2], init) for init in (DROPPED, IN_USE)],
            same_numbers,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_judging(g, [S, 1, S - 2])),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "padding counts",
            MEAN,
            PADDING,
            edit(Head.forward, POOLED, "states.mean(1)"),
        ),
        Mistake(
            "divided by padding, too",
            MEAN,
            PADDING,
            edit(Head.forward, COUNT, "states.size(1)"),
        ),
        Mistake("the sum, not the mean", MEAN, PADDING, edit(Head.forward, COUNT, "1")),
        Mistake(
            "a division by no token at all",
            "A sentence without a real token has the number 0 below the line: let it be"
            " at least 1.",
            PADDING,
            edit(Head.forward, ".clamp(min=1)", ""),
        ),
        Mistake(
            "the first token alone",
            MEAN,
            PADDING,
            edit(Head.forward, POOLED, "states[:, 0]"),
        ),
        Mistake(
            "tanh left out",
            MAPS + " Two linear maps without tanh between them are one.",
            LOADING,
            edit(Head.forward, "torch.tanh", ""),
        ),
        Mistake(
            "the inner map left out",
            MAPS,
            LOADING,
            edit(Head.forward, "torch.tanh(self.inner(pooled))", "pooled"),
        ),
        Mistake(
            "dropout left out", MAPS, LOADING, edit(Head.forward, "self.dropout", "")
        ),
        Mistake(
            "dropout outside of training",
            "`self.dropout` knows in which mode it is; F.dropout has to be told.",
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
