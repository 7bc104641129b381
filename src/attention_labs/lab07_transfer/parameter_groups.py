"""Question `parameter_groups`: a lower learning rate for each part below the head."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.freeze import SentenceClassifier, make_classifier
from attention_labs.lab07_transfer.shared import LOADING, NOT_EMPTY, SIZES
from nbjudge import (
    ANYWHERE,
    PLAIN,
    Axis,
    Battery,
    Changed,
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
    error_like,
    in_words,
    of_output,
    of_outputs,
    same_numbers,
    somewhere,
    state_of,
)
from nbjudge.comparisons import left_alone


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
HEAD = 7  # parameters of the head, after the body's


def _use_groups(
    group: Any, rate: float, decay: float, sizes: Sequence[int], asks: Sequence[bool]
) -> Any:
    """Hand the groups to an optimizer.

    Returns:
        How often each parameter was handed over; the logarithm of its rate; and whether
        the groups are a list, and the parameters of each one too.
    """
    model = make_classifier(SentenceClassifier, *sizes)
    del model.body.scale  # every parameter here is of a part
    made = _described(model)
    group(model, rate, decay)  # before anything is frozen
    same = _described(model) == made
    if not all(asks):  # what was frozen once may since be trained again
        model.freeze()
    for p, ask in zip(model.parameters(), asks):
        p.requires_grad_(ask)
    was = _described(model)
    groups = group(model, rate, decay)
    if groups is None:
        return None
    same = same and _described(model) == was
    # an optimizer makes lists of what it is given
    listed = isinstance(groups, list | tuple) and all(
        isinstance(x, dict) and isinstance(x.get("params", []), list | tuple | Tensor)
        for x in groups
    )
    optimizer = torch.optim.SGD(groups, lr=NO_RATE)
    rates = [
        (id(p), float(x["lr"])) for x in optimizer.param_groups for p in x["params"]
    ]
    if {key for key, _ in rates} - {id(p) for p in model.parameters()}:
        raise ValueError("a group holds parameters of another model")
    handed = [[lr for key, lr in rates if key == id(p)] for p in model.parameters()]
    told = (map(len, handed), (lrs[0] if lrs else 1.0 for lrs in handed), (listed,))
    counts, found, lists = (torch.tensor([*x], dtype=torch.float64) for x in told)
    outputs = counts, found.clamp(min=1e-300).log(), lists
    return outputs if same else Changed(outputs)


def _described(model: nn.Module) -> list[tuple[object, ...]]:
    """List what is in a model, and all modes."""
    modes = [(name, module.training) for name, module in model.named_modules()]
    return [*state_of(model), *modes]


def _to_group(
    d: Draw, rate: float = 0.0, decay: float = 0.0, frozen: Sequence[int] = ()
) -> Request:
    """Draw a rate and a decay, unless they are given; freeze these parameters."""
    asks = [i not in frozen for i in range(2 * d.L + 4 + HEAD)]
    rates = (rate or d.number(500, 900) / 1000, decay or d.number(300, 700) / 1000)
    return Request((*rates, [d.L, d.V, d.D, d.K], asks))


def _some_frozen(d: Draw) -> list[Request]:
    """Freeze parts of the model, and parameters within a part."""
    every = range(2 * d.L + 4 + HEAD)
    embeddings, layer, head = every[:4], d.number(0, d.L - 1), every[-HEAD:]
    return [
        _to_group(d, frozen=embeddings),
        _to_group(d, frozen=every[:-HEAD]),
        _to_group(d, frozen=every[2 * layer + 4 : 2 * layer + 6]),
        _to_group(d, frozen=head),
        _to_group(d, frozen=[i for i in every[1:] if d.number(0, 1)]),
        _to_group(d, frozen=[i for i in every[:-1] if i % 2]),
        _to_group(d, frozen=[i for i in every[1:] if not i % 2]),
        _to_group(d, rate=d.number(150, 200) / 100),
        _to_group(d, decay=1.0),
        _to_group(d, decay=1.0, frozen=embeddings),
        _to_group(d, decay=d.number(120, 190) / 100),
        _to_group(d, rate=d.number(1, 9) * 1e-6, decay=d.number(1, 9) / 100),
    ]


def _which_rates(request: Request, reply: Reply, reference: Reply) -> Finding:
    (given, rates), (wanted, right) = reply.outputs, reference.outputs
    if more := int((given > wanted).sum()):
        return Finding(
            f"{more} parameters too many are handed to the optimizer", "none"
        )
    if less := int((given < wanted).sum()):
        return Finding(f"{less} parameters are not handed to the optimizer", "none")
    wrong = int(((rates - right).abs() > 1e-4).sum())
    return Finding(f"{wrong} of {rates.numel()} parameters with another rate", "none")


_rates = of_outputs(0, 2, in_words(same_numbers, _which_rates))
_lists = in_words(
    of_output(2, same_numbers),
    lambda request, reply, reference: Finding(
        "groups, or parameters of a group, that can be gone through once only",
        "a list of dicts, with a list of parameters in each",
    ),
)


ORDER = (
    "From the top down, the parts are the head, the layers from the last to the first,"
    " and the embeddings. Each has `decay` times the rate of the part above it."
)

BATTERY = Battery(
    PLAIN,
    _to_group,
    {**SIZES, "K": Axis("labels")},
    leaves_out={"zero": NOT_EMPTY},
)

QUESTION = Question(
    name="parameter_groups",
    reference=parameter_groups,
    use=_use_groups,
    plain=True,
    battery=BATTERY,
    requirements={
        "falling": "Give the head the learning rate `rate`. From each part to the part"
        " below it, multiply the rate by `decay`. From the top down, the parts are the"
        " head, the body's layers from the last to the first, and the embeddings.",
        "groups": "A PyTorch optimizer takes a list of **groups**. Each group is a"
        ' dict with the keys `"params"` (a list of parameters) and `"lr"` (their'
        " learning rate).",
        "frozen": "Leave parameters that do not require a gradient out of all groups."
        " If nothing is left of a part, it needs no group, and an empty one does no"
        " harm. A frozen part still counts as a step, so the parts below it keep their"
        " rates.",
        "parts": "`model.head` is the head, `model.body.encoder.layer` is the list of"
        " the body's layers, from the first (lowest) to the last, and"
        " `model.body.embeddings` are the embeddings.",
        "model": "model: a `SentenceClassifier`; do not change it.",
        "rate": "rate: the learning rate of the head.",
        "decay": "decay: above 0, the factor from a part's rate to that of the part"
        " below.",
        "returns": 'The groups: a list of dicts with the keys "params" and "lr".',
    },
    properties=(
        BATTERY.numbers(
            "each part has its own rate",
            2,
            _rates,
            ("falling", "parts", "rate", "decay"),
            False,
        ),
        BATTERY.edges(
            1,
            each_of(_rates, _lists),
            ("falling", "groups", "frozen", "decay", "returns"),
            "no frozen parameter is in a group; edges: parts that are frozen in part,"
            " one layer, many layers, small rates, lists",
            _some_frozen,
        ),
        replace(
            BATTERY.manners(1, left_alone, ("model",)), claim="the model is unchanged"
        ),
    ),
    mistakes=(
        Mistake(
            "the order of the layers is reversed",
            ORDER + " `encoder.layer` begins with the lowest layer.",
            LOADING,
            edit(parameter_groups, "*reversed(", "*("),
        ),
        Mistake(
            "the order of all parts is reversed",
            ORDER,
            LOADING,
            edit(parameter_groups, "enumerate(parts)", "enumerate(parts[::-1])"),
        ),
        Mistake(
            "the embeddings are missing",
            ORDER,
            LOADING,
            edit(parameter_groups, ", model.body.embeddings", ""),
        ),
        Mistake(
            "the head is missing",
            "Give the head the learning rate `rate`.",
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
            "the head's rate is multiplied by decay, too",
            "The head has `rate`, and the part below it has `rate * decay`.",
            LOADING,
            edit(parameter_groups, "decay**depth", "decay ** (depth + 1)"),
        ),
        Mistake(
            "the rate falls linearly",
            "Each part has `decay` times the rate of the part *above* it, so use"
            " powers of `decay`.",
            LOADING,
            edit(parameter_groups, "decay**depth", "(decay * depth if depth else 1)"),
        ),
        Mistake(
            "divided by decay instead of multiplied",
            "Below the head, the rates get smaller. Multiply by `decay`.",
            LOADING,
            edit(parameter_groups, "* decay", "/ decay"),
        ),
        Mistake(
            "only frozen parameters are in the groups",
            "Take the parameters with `requires_grad`.",
            LOADING,
            edit(parameter_groups, "if p.requires_grad", "if not p.requires_grad"),
        ),
        Mistake(
            "a frozen part does not count as a step",
            "A frozen part has no group, but it still counts as a step for the parts"
            " below it.",
            LOADING,
            edit(
                parameter_groups,
                "enumerate(parts)",
                "enumerate([x for x in parts if any(p.requires_grad for p in"
                " x.parameters())])",
            ),
        ),
        Mistake(
            "one parameter decides for its whole part",
            "Only some parameters of a part may be frozen. Check every parameter.",
            LOADING,
            edit(
                parameter_groups,
                "p for p in part.parameters() if p.requires_grad",
                "p for p in part.parameters() if [*part.parameters()][0].requires_grad",
            ),
        ),
        Mistake(
            "generators instead of lists",
            "A generator is empty after it has been read once, and so are the results"
            " of filter and map. Turn them into lists.",
            "",
            edit(
                parameter_groups,
                "[p for p in part.parameters() if p.requires_grad]",
                "(p for p in part.parameters() if p.requires_grad)",
            ),
            comparable(
                lambda request, reply, reference: (
                    close(reply.outputs[1], reference.outputs[1])
                    and not bool(reply.outputs[2])
                )
            ),
        ),
        Mistake(
            "the rates are rounded",
            "A rate may be very small. Do not round it.",
            "",
            edit(
                parameter_groups, "rate * decay**depth", "round(rate * decay**depth, 6)"
            ),
        ),
        Mistake(
            "a parameter in two groups",
            "Your parts overlap: `model.body` also contains the parameters of its"
            " layers.",
            LOADING,
            sign=error_like("appear in more than one|duplicate"),
        ),
        Mistake(
            "the groups have the wrong format",
            'Make each group a dict, {"params": parameters, "lr": rate}, and return a'
            " list of groups.",
            LOADING,
            sign=error_like(
                "params|can't optimize|optimizer can only|optimizer got|is not"
                " iterable|optimizer parameters|must be dicts|argument of type"
            ),
        ),
        Mistake(
            "frozen parameters are in the groups",
            "Take only the parameters with `requires_grad`.",
            LOADING,
            edit(parameter_groups, " if p.requires_grad", ""),
            sign=somewhere(0, lambda given, wanted: given > wanted),
        ),
        Mistake(
            "a group without a rate",
            'Give each group the key "lr". Without it, the optimizer uses its own'
            " rate.",
            LOADING,
            sign=somewhere(
                1, lambda given, wanted: (given - math.log(NO_RATE)).abs() < 1e-9
            ),
        ),
        Mistake(
            "parameters that are not trained",
            "Put every parameter with `requires_grad` into a group.",
            LOADING,
            sign=somewhere(0, lambda given, wanted: given < wanted),
        ),
        *ANYWHERE,
        Mistake(
            "wrong rates below the head",
            ORDER,
            LOADING,
            sign=comparable(
                lambda request, reply, reference: close(
                    reply.outputs[1][-HEAD:], reference.outputs[1][-HEAD:]
                )
            ),
        ),
        Mistake(
            "wrong rates",
            ORDER,
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
