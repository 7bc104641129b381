"""parameter_groups: the further a part is below the head, the slower it learns."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.body import LAYERS, LOADING
from attention_labs.lab07_transfer.freeze import (
    SentenceClassifier,
    make_classifier,
)
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    close,
    comparable,
    error_like,
    same_numbers,
    wrong_output,
)


def parameter_groups(model: Any, rate: float, decay: float) -> list[dict[str, Any]]:
    """Give the head the rate, and each part below it `decay` times the rate of the one
    above."""
    return _Groups()(model, rate, decay)


class _Groups:
    """Groups in pieces that a mistake can replace."""

    def __call__(self, model: Any, rate: float, decay: float) -> list[dict[str, Any]]:
        groups = []
        for depth, part in enumerate(self.parts(model)):
            groups.append(
                {"params": self.choose(part), "lr": self.rate(rate, decay, depth)}
            )
        return groups

    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]

    def choose(self, part: nn.Module) -> list[nn.Parameter]:
        return [p for p in part.parameters() if p.requires_grad]

    def rate(self, rate: float, decay: float, depth: int) -> float:
        return rate * decay**depth


NO_RATE = 1000.0  # what a group gets that has none


def _use_groups(
    group: Any, rate: Tensor, decay: Tensor, layers: Tensor, frozen: Tensor
) -> Any:
    """Let an optimizer with these groups make a step: every gradient is 1, so each
    parameter moves by its rate."""
    model = make_classifier(SentenceClassifier, layers.size(0))
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    for part, kept in zip(parts, frozen.tolist()):
        part.requires_grad_(not kept)
    groups = group(model, float(rate), float(decay))
    if groups is None:
        return None
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
            p.grad = torch.ones_like(p)
    torch.optim.SGD(groups, lr=NO_RATE).step()
    return torch.stack(
        [-p.detach().flatten()[0].double() for part in parts for p in part.parameters()]
    )


def _to_group(rate: float, decay: float, layers: int, frozen: int = 0) -> Request:
    """Make a request; so many of the lowest parts are frozen."""
    numbers = (
        torch.tensor(rate, dtype=torch.float64),
        torch.tensor(decay, dtype=torch.float64),
    )
    return Request((*numbers, as_length(layers), torch.arange(layers + 2) < frozen))


def _random(g: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=g, dtype=torch.float64))


def _three_layers(g: torch.Generator) -> Iterator[Request]:
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), LAYERS)


def _other_bodies(g: torch.Generator) -> Iterator[Request]:
    yield _to_group(_random(g, 1.5, 2.0), _random(g, 0.3, 0.7), 1)
    yield _to_group(_random(g, 0.5, 0.9), 1.0, LAYERS)
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), 5)


def _frozen_bodies(g: torch.Generator) -> Iterator[Request]:
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), LAYERS, frozen=2)
    yield _to_group(
        _random(g, 0.5, 0.9), _random(g, 0.3, 0.7), LAYERS, frozen=LAYERS + 1
    )


def _rates(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_numbers(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        given, wanted = reply.outputs[0].double(), reference.outputs[0].double()
        moved = int(((wanted == 0) & (given != 0)).sum())
        if moved:
            return Finding(
                f"{moved} frozen parameters are handed to the optimizer", "none"
            )
        wrong = int(((given - wanted).abs() > 1e-4 * wanted).sum())
        return Finding(
            f"{wrong} of {wanted.numel()} parameters with another rate", "none"
        )
    return finding


@comparable
def _left_out(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(((reply.outputs[0] == 0) & (reference.outputs[0] != 0)).any())


@comparable
def _frozen_moved(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(((reply.outputs[0] != 0) & (reference.outputs[0] == 0)).any())


@comparable
def _head_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[0][-4:], reference.outputs[0][-4:])


ORDER = (
    "The head, the last layer, the layers before it, the embeddings: each has `decay`"
    " times the rate above it."
)

PARAMETER_GROUPS = Question(
    name="parameter_groups",
    reference=parameter_groups,
    use=_use_groups,
    properties=(
        Property("each part moves at its own rate", 2, _three_layers, _rates),
        Property("any number of layers", 1, _other_bodies, _rates),
        Property("what is frozen is not handed over", 1, _frozen_bodies, _rates),
    ),
    mistakes=(
        Mistake(
            "the lowest layer learns fastest",
            ORDER + " `encoder.layer` begins with the lowest.",
            LOADING,
            with_pieces(
                _Groups,
                parts=lambda model: [
                    model.head,
                    *model.body.encoder.layer,
                    model.body.embeddings,
                ],
            )(),
        ),
        Mistake(
            "the parts in the wrong order",
            ORDER,
            LOADING,
            with_pieces(
                _Groups,
                parts=lambda model: [
                    model.body.embeddings,
                    *model.body.encoder.layer,
                    model.head,
                ],
            )(),
        ),
        Mistake(
            "the embeddings left out",
            ORDER,
            LOADING,
            with_pieces(
                _Groups,
                parts=lambda model: [model.head, *reversed(model.body.encoder.layer)],
            )(),
        ),
        Mistake(
            "the head left out",
            "What is new learns fastest: the head has the rate itself.",
            LOADING,
            with_pieces(
                _Groups,
                parts=lambda model: [
                    nn.Identity(),
                    *reversed(model.body.encoder.layer),
                    model.body.embeddings,
                ],
            )(),
        ),
        Mistake(
            "one rate for the whole body",
            ORDER,
            LOADING,
            with_pieces(
                _Groups, rate=lambda rate, decay, depth: rate * decay ** min(depth, 1)
            )(),
        ),
        Mistake(
            "one rate for everything",
            ORDER,
            LOADING,
            with_pieces(_Groups, rate=lambda rate, decay, depth: rate)(),
        ),
        Mistake(
            "the head's rate is lowered, too",
            "The head has the rate itself; the first part below it has `decay` times"
            " that.",
            LOADING,
            with_pieces(
                _Groups, rate=lambda rate, decay, depth: rate * decay ** (depth + 1)
            )(),
        ),
        Mistake(
            "the rate falls along a line",
            "Each part has `decay` times the rate of the one *above* it: powers of it.",
            LOADING,
            with_pieces(
                _Groups,
                rate=lambda rate, decay, depth: rate * decay * depth if depth else rate,
            )(),
        ),
        Mistake(
            "divided by decay",
            "Below the head the rates get smaller.",
            LOADING,
            with_pieces(_Groups, rate=lambda rate, decay, depth: rate / decay**depth)(),
        ),
        Mistake(
            "frozen parameters are handed over",
            "The optimizer is given what `requires_grad` asks for, and nothing else.",
            LOADING,
            with_pieces(_Groups, choose=lambda part: list(part.parameters()))(),
        ),
        Mistake(
            "the frozen ones alone are handed over",
            "The optimizer is given what `requires_grad` asks for.",
            LOADING,
            with_pieces(
                _Groups,
                choose=lambda part: [
                    p for p in part.parameters() if not p.requires_grad
                ],
            )(),
        ),
        Mistake(
            "a parameter in two groups",
            "The parts overlap: `model.body` holds its layers, and its layers'"
            " parameters.",
            LOADING,
            sign=error_like("appear in more than one|duplicate"),
        ),
        Mistake(
            "a group without its keys",
            'A group is {"params": parameters, "lr": rate}, and the groups are a list.',
            LOADING,
            sign=error_like(
                "params|can't optimize|optimizer can only|optimizer got|is not"
                " iterable|optimizer parameters|must be dicts|argument of type"
            ),
        ),
        Mistake(
            "frozen parameters are handed over",
            "Ask `requires_grad`.",
            LOADING,
            sign=_frozen_moved,
        ),
        Mistake(
            "a group without a rate",
            'A group has the key "lr"; without it the optimizer\'s own rate counts.',
            LOADING,
            sign=wrong_output(lambda given, wanted: bool((given == NO_RATE).any())),
        ),
        Mistake(
            "parameters that do not move",
            "Every parameter that asks for a gradient is in one group, and its rate is"
            " not 0.",
            LOADING,
            sign=_left_out,
        ),
        *ANYWHERE,
        Mistake("other rates below the head", ORDER, LOADING, sign=_head_right),
        Mistake(
            "other rates",
            ORDER,
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
