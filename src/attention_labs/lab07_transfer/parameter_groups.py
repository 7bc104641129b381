"""parameter_groups: the further a part is below the head, the slower it learns."""

from collections.abc import Sequence
from typing import Any

import torch

from attention_labs.lab07_transfer.freeze import (
    HEAD,
    SentenceClassifier,
    make_classifier,
)
from attention_labs.lab07_transfer.shared import LAYERS, LOADING
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    edit,
    error_like,
    in_words,
    same_numbers,
    somewhere,
)


def parameter_groups(model: Any, rate: float, decay: float) -> list[dict[str, Any]]:
    """Give each part below the head `decay` times the rate of the one above it."""
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]


NO_RATE = 1000.0  # what a group gets that has none


def _use_groups(
    group: Any, rate: float, decay: float, layers: int, frozen: Sequence[int]
) -> Any:
    """Make a step with these groups: each gradient is 1, each parameter's way its rate.

    Returns:
        How far each parameter has moved.
    """
    model = make_classifier(SentenceClassifier, layers)
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    for number in frozen:
        parts[number].requires_grad_(False)
    groups = group(model, rate, decay)
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


def _to_group(
    g: torch.Generator,
    layers: int = LAYERS,
    frozen: int = 0,
    rates: tuple[float, float] = (0.5, 0.9),
    decays: tuple[float, float] = (0.3, 0.7),
) -> Request:
    """Draw a rate and a decay between bounds; freeze so many of the lowest parts."""
    rate, decay = (
        low + (high - low) * float(torch.rand((), generator=g, dtype=torch.float64))
        for low, high in (rates, decays)
    )
    return Request((rate, decay, layers, list(range(frozen))))


def _which_rates(request: Request, reply: Reply, reference: Reply) -> Finding:
    given, wanted = reply.outputs[0].double(), reference.outputs[0].double()
    if moved := int(((wanted == 0) & (given != 0)).sum()):
        return Finding(f"{moved} frozen parameters are handed to the optimizer", "none")
    wrong = int(((given - wanted).abs() > 1e-4 * wanted).sum())
    return Finding(f"{wrong} of {wanted.numel()} parameters with another rate", "none")


_rates = in_words(same_numbers, _which_rates)


ORDER = (
    "The head, the last layer, the layers before it, the embeddings: each has `decay`"
    " times the rate above it."
)

PARAMETER_GROUPS = Question(
    name="parameter_groups",
    reference=parameter_groups,
    use=_use_groups,
    properties=(
        Property(
            "each part moves at its own rate", 2, lambda g: [_to_group(g)], _rates
        ),
        Property(
            "any number of layers",
            1,
            lambda g: [
                _to_group(g, layers=1, rates=(1.5, 2.0)),
                _to_group(g, decays=(1.0, 1.0)),
                _to_group(g, layers=5),
            ],
            _rates,
        ),
        Property(
            "what is frozen is not handed over",
            1,
            lambda g: [_to_group(g, frozen=parts) for parts in (2, LAYERS + 1)],
            _rates,
        ),
    ),
    mistakes=(
        Mistake(
            "the lowest layer learns fastest",
            ORDER + " `encoder.layer` begins with the lowest.",
            LOADING,
            edit(parameter_groups, "*reversed(", "*("),
        ),
        Mistake(
            "the parts in the wrong order",
            ORDER,
            LOADING,
            edit(parameter_groups, "enumerate(parts)", "enumerate(parts[::-1])"),
        ),
        Mistake(
            "the embeddings left out",
            ORDER,
            LOADING,
            edit(parameter_groups, ", model.body.embeddings", ""),
        ),
        Mistake(
            "the head left out",
            "What is new learns fastest: the head has the rate itself.",
            LOADING,
            edit(parameter_groups, "[model.head", "[torch.nn.Identity()"),
        ),
        Mistake(
            "one rate for the whole body",
            ORDER,
            LOADING,
            edit(parameter_groups, "decay**depth", "decay ** min(depth, 1)"),
        ),
        Mistake(
            "one rate for everything",
            ORDER,
            LOADING,
            edit(parameter_groups, "rate * decay**depth", "rate"),
        ),
        Mistake(
            "the head's rate is lowered, too",
            "The head has the rate itself; the first part below it has `decay` times"
            " that.",
            LOADING,
            edit(parameter_groups, "decay**depth", "decay ** (depth + 1)"),
        ),
        Mistake(
            "the rate falls along a line",
            "Each part has `decay` times the rate of the one *above* it: powers of it.",
            LOADING,
            edit(parameter_groups, "decay**depth", "(decay * depth if depth else 1)"),
        ),
        Mistake(
            "divided by decay",
            "Below the head the rates get smaller.",
            LOADING,
            edit(parameter_groups, "* decay", "/ decay"),
        ),
        Mistake(
            "the frozen ones alone are handed over",
            "The optimizer is given what `requires_grad` asks for.",
            LOADING,
            edit(parameter_groups, "if p.requires_grad", "if not p.requires_grad"),
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
            "The optimizer is given what `requires_grad` asks for, and nothing else.",
            LOADING,
            edit(parameter_groups, " if p.requires_grad", ""),
            sign=somewhere(0, lambda given, wanted: (given != 0) & (wanted == 0)),
        ),
        Mistake(
            "a group without a rate",
            'A group has the key "lr"; without it the optimizer\'s own rate counts.',
            LOADING,
            sign=somewhere(0, lambda given, wanted: given == NO_RATE),
        ),
        Mistake(
            "parameters that do not move",
            "Every parameter that asks for a gradient is in one group, and its rate is"
            " not 0.",
            LOADING,
            sign=somewhere(0, lambda given, wanted: (given == 0) & (wanted != 0)),
        ),
        *ANYWHERE,
        Mistake(
            "other rates below the head",
            ORDER,
            LOADING,
            sign=comparable(
                lambda request, reply, reference: close(
                    reply.outputs[0][-HEAD:], reference.outputs[0][-HEAD:]
                )
            ),
        ),
        Mistake(
            "other rates",
            ORDER,
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
