import itertools
import math

import torch
from torch import nn

from blind import right, wrong


@right("from the bottom up, with rates from itertools.accumulate")
def parameter_groups(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    rates = itertools.accumulate(
        itertools.repeat(decay, len(parts) - 1), lambda a, b: a * b, initial=rate
    )
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": lr}
        for part, lr in zip(parts, [*rates][::-1])
    ]


@right("a generator from the top down that leaves out groups without parameters")
def parameter_groups(model, rate, decay):
    def groups():
        lr = rate
        body = model.body
        for part in (model.head, *reversed(list(body.encoder.layer)), body.embeddings):
            params = list(filter(lambda p: p.requires_grad, part.parameters()))
            if params:
                yield dict(params=params, lr=lr)
            lr = lr * decay

    return list(groups())


@right("one group for every parameter")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    depths = {model.head: 0, model.body.embeddings: len(layers) + 1}
    for i, layer in enumerate(layers):
        depths[layer] = len(layers) - i
    groups = []
    for part, depth in depths.items():
        for parameter in part.parameters():
            if parameter.requires_grad:
                groups.append({"lr": rate * math.pow(decay, depth), "params": [parameter]})
    return groups


@right("layers by their index, head and embeddings on their own")
def parameter_groups(model, rate, decay):
    def group(part, depth):
        params = []
        for _, parameter in part.named_parameters():
            if not parameter.requires_grad:
                continue
            params += [parameter]
        return {"lr": rate * decay**depth, "params": params}

    layers = model.body.encoder.layer
    result = [group(model.head, 0), group(model.body.embeddings, 1 + len(layers))]
    for depth in range(1, len(layers) + 1):
        result.insert(-1, group(layers[len(layers) - depth], depth))
    return result


@wrong(
    "goes through the layers from the first to the last",
    "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings.",
    "layers in the wrong order",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]


@wrong(
    "puts frozen parameters into the groups, too",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen parameters in the groups",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**depth}
        for depth, part in enumerate(parts)
    ]


@wrong(
    "begins with rate * decay in the head",
    "Give the head the learning rate `rate`.",
    "the head's rate is already multiplied by decay",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]:
        rate *= decay
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": rate})
    return groups


@wrong(
    "skips frozen parts before it counts the steps",
    "A frozen part still counts as a step, so the parts below it keep their rates.",
    "a frozen part does not count as a step",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    found = [[p for p in part.parameters() if p.requires_grad] for part in parts]
    return [
        {"params": params, "lr": rate * decay**depth}
        for depth, params in enumerate(filter(None, found))
    ]


@wrong(
    "params is a filter object, which is empty after it has been read once",
    'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their learning rate).',
    "params is not a list",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": filter(lambda p: p.requires_grad, part.parameters()),
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]


@wrong(
    "asks only the first parameter of a part whether the part is frozen",
    "Leave parameters that do not require a gradient out of all groups.",
    "a part that is frozen in part",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for depth, part in enumerate(parts):
        params = list(part.parameters())
        if params and params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**depth})
    return groups


@wrong(
    "takes only the table of word embeddings: the positions and the layer norm are in no group",
    "`model.head` is the head, `model.body.encoder.layer` is the list of the body's layers, from the first (lowest) to the last, and `model.body.embeddings` are the embeddings.",
    "only the word embeddings",
)
def parameter_groups(model, rate, decay):
    embeddings = model.body.embeddings
    words = getattr(embeddings, "word_embeddings", embeddings)
    parts = [model.head, *reversed(model.body.encoder.layer), words]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]


@wrong(
    "builds its list of parts in the body's own list of layers: the embeddings and the head become layers",
    "model: a `SentenceClassifier`; do not change it.",
    "the body's list of layers is changed",
)
def parameter_groups(model, rate, decay):
    parts = model.body.encoder.layer
    parts.insert(0, model.body.embeddings)
    parts.append(model.head)
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(reversed(parts))
    ]


@wrong(
    "finds a layer by the beginning of its name: layer.1 is also the beginning of layer.10 and layer.11",
    "From each part to the part below it, multiply the rate by `decay`.",
    "names of layers with two digits",
)
def parameter_groups(model, rate, decay):
    count = len(model.body.encoder.layer)
    starts = [f"body.encoder.layer.{i}" for i in reversed(range(count))]
    groups = []
    for depth, start in enumerate(["head.", *starts, "body.embeddings."]):
        params = [
            p
            for name, p in model.named_parameters()
            if name.startswith(start) and p.requires_grad
        ]
        groups.append({"params": params, "lr": rate * decay**depth})
    return groups


@wrong(
    "collects the parts in a dict by their rate: parts with the same rate (decay 1) replace each other, and only the embeddings are left",
    "Give the head the learning rate `rate`.",
    "parts with the same rate replace each other",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    found = {
        rate * decay**depth: [p for p in part.parameters() if p.requires_grad]
        for depth, part in enumerate(parts)
    }
    return [{"params": params, "lr": lr} for lr, params in found.items()]
