import itertools

import torch
from torch import nn

from blind import right, wrong


@right("multiplies a running rate, and drops a part without parameters to train at the end")
def parameter_groups(model, rate, decay):
    groups = []
    parts = [model.head]
    for layer in model.body.encoder.layer:
        parts.insert(1, layer)
    parts += [model.body.embeddings]
    for part in parts:
        trained = list(filter(lambda p: p.requires_grad, part.parameters()))
        groups.append({"params": trained, "lr": rate})
        rate = rate * decay
    return [group for group in groups if group["params"]]


@right("from the bottom up, with the exponent counted down; empty groups stay in the list")
def parameter_groups(model, rate, decay):
    depth = len(model.body.encoder.layer) + 1
    groups = []
    for part in (model.body.embeddings, *model.body.encoder.layer, model.head):
        params = []
        for parameter in part.parameters():
            if parameter.requires_grad:
                params.append(parameter)
        groups.append({"lr": rate * decay**depth, "params": params})
        depth -= 1
    return groups


@right("one group for every parameter, the rates from itertools.accumulate")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    parts = [model.head, *layers[::-1], model.body.embeddings]
    steps = [rate] + [decay] * (len(parts) - 1)
    rates = itertools.accumulate(steps, lambda a, b: a * b)
    return [
        {"params": [parameter], "lr": lr}
        for part, lr in zip(parts, rates)
        for parameter in part.parameters()
        if parameter.requires_grad
    ]


@right("a recursion over the parts, which takes the first part off in each step")
def parameter_groups(model, rate, decay):
    def below(parts, lr):
        if not parts:
            return []
        top, *rest = parts
        params = [p for _, p in top.named_parameters() if p.requires_grad]
        return [dict(params=params, lr=lr), *below(rest, lr * decay)]

    layers = model.body.encoder.layer
    count = len(layers)
    down = [layers[count - 1 - i] for i in range(count)]
    return below([model.head] + down + [model.body.embeddings], rate)


@wrong(
    "multiplies before the first group: the head gets rate * decay",
    "Give the head the learning rate `rate`.",
    "one step too many everywhere",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in [
        model.head,
        *reversed(model.body.encoder.layer),
        model.body.embeddings,
    ]:
        rate *= decay
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": rate})
    return groups


@wrong(
    "puts all parameters into the groups, the frozen ones, too",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen parameters in the groups",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "counts from the bottom: the embeddings get the full rate, the head the smallest",
    "Howard and Ruder (2018) take a middle way: *every part has its own learning rate*, and"
    " deeper parts have smaller rates.",
    "upside down",
)
def parameter_groups(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "goes through the layers from the first to the last: right for the notebook's body of"
    " one layer only",
    "From the top down, the parts are the head, the body's layers from the last to the"
    " first, and the embeddings.",
    "layers not reversed",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "counts only the parts that have something to train: below a frozen layer, the rates are"
    " one step too high",
    "A frozen part still counts as a step, so the parts below it keep their rates.",
    "a frozen part is no step",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for part in parts:
        params = [p for p in part.parameters() if p.requires_grad]
        if params:
            groups.append({"params": params, "lr": rate * decay ** len(groups)})
    return groups


@wrong(
    "hands over a filter object, which is empty after it has been read once",
    'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their'
    " learning rate).",
    "params is an iterator, not a list",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": filter(lambda p: p.requires_grad, part.parameters()),
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "asks only the first parameter whether the part is frozen: with frozen word embeddings,"
    " the other embeddings are left out, and a part whose first parameter is trained brings"
    " its frozen ones along",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen or not by the first parameter of a part",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts):
        params = list(part.parameters())
        if params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong(
    "collects the parts in the body's own ModuleList: the groups are right, but the body has"
    " got two layers more, and the next call gives other groups",
    "model: a `SentenceClassifier`; do not change it.",
    "inserts the embeddings and the head into the body's layers",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = model.body.encoder.layer
    parts.insert(0, model.body.embeddings)
    parts.append(model.head)
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(reversed(parts))
    ]


@wrong(
    "chooses by the beginning of the name, without the dot at the end: layer.1 takes layer.10"
    " and layer.11, too, which are then in two groups",
    "From each part to the part below it, multiply the rate by `decay`.",
    "layer.1 is also the beginning of layer.10",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    count = len(model.body.encoder.layer)
    beginnings = ["head."]
    beginnings += [f"body.encoder.layer.{i}" for i in reversed(range(count))]
    beginnings += ["body.embeddings."]
    named = list(model.named_parameters())
    groups = []
    for i, beginning in enumerate(beginnings):
        params = [p for n, p in named if n.startswith(beginning) and p.requires_grad]
        groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong(
    "with decay 1 there is only one rate, so it hands over model.parameters() as one group:"
    " a frozen body's parameters are in it",
    "Leave parameters that do not require a gradient out of all groups.",
    "a short cut for decay 1 forgets what is frozen",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    if decay == 1:
        return [{"params": list(model.parameters()), "lr": rate}]
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]
