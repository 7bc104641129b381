import itertools
import operator
import re

import torch
from torch import nn

from blind import right, wrong


def trained(part):
    return [p for p in part.parameters() if p.requires_grad]


# ---------------------------------------------------------------- right


@right("the parts from the top down, with enumerate")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@right("rates by accumulate; leaves out empty groups")
def parameter_groups(model, rate, decay):
    parts = [model.head]
    parts.extend(model.body.encoder.layer[i] for i in range(len(model.body.encoder.layer))[::-1])
    parts.append(model.body.embeddings)
    rates = itertools.accumulate(
        itertools.chain([rate], itertools.repeat(decay)), operator.mul
    )
    groups = []
    for part, lr in zip(parts, rates):
        params = list(filter(operator.attrgetter("requires_grad"), part.parameters()))
        if params:
            groups.append(dict(params=params, lr=lr))
    return groups


@right("reads the depth from the names, and gives every parameter a group of its own")
def parameter_groups(model, rate, decay):
    layers = len(model.body.encoder.layer)
    groups = []
    for name, parameter in model.named_parameters():
        layer = re.match(r"body\.encoder\.layer\.(\d+)\.", name)
        if name.startswith("head."):
            steps = 0
        elif layer:
            steps = layers - int(layer[1])
        elif name.startswith("body.embeddings."):
            steps = layers + 1
        else:
            continue
        if parameter.requires_grad:
            groups.append({"params": [parameter], "lr": rate * decay**steps})
    return groups


def bottom_up(body):
    yield body.embeddings
    yield from body.encoder.layer


@right("from the bottom up: the smallest exponent last, groups in the opposite order")
def parameter_groups(model, rate, decay):
    below = list(bottom_up(model.body))
    groups = []
    for part in [*below, model.head]:
        groups.append({"lr": rate * decay ** len(below), "params": trained(part)})
        below = below[1:]
    return groups


# ---------------------------------------------------------------- wrong


@wrong(
    "the layers from the first to the last: the lowest layer gets the largest rate",
    breaks="From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings.",
    name="layers in the wrong order",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [{"params": trained(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong(
    "counts the parts from 1, so even the head's rate is multiplied by decay",
    breaks="Give the head the learning rate `rate`.",
    name="exponent off by one",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in (model.head, *reversed(model.body.encoder.layer), model.body.embeddings):
        rate = rate * decay
        groups.append({"params": trained(part), "lr": rate})
    return groups


@wrong(
    "takes all parameters, also those that require no gradient",
    breaks="Leave parameters that do not require a gradient out of all groups.",
    name="frozen parameters in the groups",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "lowers the rate only after a part that has a group",
    breaks="A frozen part still counts as a step, so the parts below it keep their rates.",
    name="frozen part is no step",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in (model.head, *reversed(model.body.encoder.layer), model.body.embeddings):
        params = trained(part)
        if params:
            groups.append({"params": params, "lr": rate * decay ** len(groups)})
    return groups


@wrong(
    "gives the embeddings the rate of the lowest layer",
    breaks="From each part to the part below it, multiply the rate by `decay`.",
    name="embeddings share the lowest layer's rate",
)
def parameter_groups(model, rate, decay):
    groups, n = [{"params": trained(model.head), "lr": rate}], len(model.body.encoder.layer)
    for i, layer in enumerate(model.body.encoder.layer):
        groups.append({"params": trained(layer), "lr": rate * decay ** (n - i)})
    groups.append({"params": trained(model.body.embeddings), "lr": rate * decay**n})
    return groups


@wrong(
    "asks only the first parameter of a part whether the part is frozen",
    breaks="Leave parameters that do not require a gradient out of all groups.",
    name="part taken as frozen as a whole",
)
def parameter_groups(model, rate, decay):
    groups = []
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    for i, part in enumerate(parts):
        params = list(part.parameters())
        if params and params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong(
    "reverses the list of layers in the model itself",
    breaks="model: a `SentenceClassifier`; do not change it.",
    name="layers of the model reversed",
)
def parameter_groups(model, rate, decay):
    encoder = model.body.encoder
    encoder.layer = nn.ModuleList(reversed(encoder.layer))
    parts = [model.head, *encoder.layer, model.body.embeddings]
    return [{"params": trained(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong(
    "keeps the parts in a dict from rates to parameters: with decay 1, only the last part is left",
    breaks="Give every part of a classifier its own learning rate.",
    name="parts with equal rates overwrite one another",
)
def parameter_groups(model, rate, decay):
    by_rate = {}
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    for i, part in enumerate(parts):
        by_rate[rate * decay**i] = trained(part)
    return [{"params": params, "lr": lr} for lr, params in by_rate.items()]


@wrong(
    "lets no part have a larger rate than the head, as with a decay above 1",
    breaks="From each part to the part below it, multiply the rate by `decay`.",
    name="rates capped at the head's",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": trained(part), "lr": min(rate, rate * decay**i)}
        for i, part in enumerate(parts)
    ]


def with_parts(model, parts=[]):  # noqa: B006
    parts += [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return parts


@wrong(
    "a mutable default collects the parts of all the models it has seen",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="parts of earlier calls",
)
def parameter_groups(model, rate, decay):
    return [
        {"params": trained(part), "lr": rate * decay**i}
        for i, part in enumerate(with_parts(model))
    ]
