import math

import torch
from torch import nn
from blind import right, wrong


@right("rates run down with the parts, a part without trained parameters gives no group")
def parameter_groups(model, rate, decay):
    groups = []
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    while parts:
        trained = [p for p in parts.pop().parameters() if p.requires_grad]
        if trained:
            groups.append({"params": trained, "lr": rate})
        rate = rate * decay
    return groups


@right("one group for every parameter, the depth as exponent")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    depth = {0: model.head, len(layers) + 1: model.body.embeddings}
    for i, layer in enumerate(layers):
        depth[len(layers) - i] = layer
    return [
        dict(params=[parameter], lr=rate * math.pow(decay, steps))
        for steps, part in depth.items()
        for parameter in part.parameters()
        if parameter.requires_grad
    ]


@right("a generator from the embeddings upwards, groups may be empty")
def parameter_groups(model, rate, decay):
    def groups():
        layers = model.body.encoder.layer
        top = len(layers) + 1
        for height, part in enumerate([model.body.embeddings, *layers, model.head]):
            trained = list(filter(lambda p: p.requires_grad, part.parameters()))
            yield {"params": trained, "lr": rate * decay ** (top - height)}

    return list(groups())


@right("recursion over the parts from the top down, with a name in each group")
def parameter_groups(model, rate, decay, parts=None):
    if parts is None:
        body = model.body
        parts = (model.head, *tuple(body.encoder.layer)[::-1], body.embeddings)
    if not parts:
        return []
    first, rest = parts[0], parts[1:]
    trained = [p for _, p in first.named_parameters() if p.requires_grad]
    below = parameter_groups_below(model, rate * decay, decay, rest)
    return [{"params": trained, "lr": rate, "name": str(len(rest))}, *below]


def parameter_groups_below(model, rate, decay, parts):
    groups = []
    for steps, part in enumerate(parts):
        trained = [p for p in part.parameters() if p.requires_grad]
        group = {"params": trained, "lr": rate * decay**steps}
        groups.append({**group, "name": str(len(parts) - 1 - steps)})
    return groups


@wrong(
    "goes through the layers from the first to the last, so the lowest layer gets the largest rate",
    "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings.",
    "layers not reversed",
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
    "takes all parameters into the groups, also frozen ones",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen parameters included",
)
def parameter_groups(model, rate, decay):
    layers = reversed(model.body.encoder.layer)
    parts = [model.head, *layers, model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "puts the embeddings into one group with the lowest layer",
    "From each part to the part below it, multiply the rate by `decay`.",
    "embeddings share the lowest layer's rate",
)
def parameter_groups(model, rate, decay):
    layers = list(reversed(model.body.encoder.layer))
    parts = [[model.head], *([layer] for layer in layers)]
    parts[-1].append(model.body.embeddings)
    return [
        {
            "params": [q for m in part for q in m.parameters() if q.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "counts only the parts that have something to train: below a frozen part, all rates are too large",
    "A frozen part still counts as a step, so the parts below it keep their rates.",
    "frozen part is no step",
)
def parameter_groups(model, rate, decay):
    layers = reversed(model.body.encoder.layer)
    groups = []
    for part in (model.head, *layers, model.body.embeddings):
        trained = [p for p in part.parameters() if p.requires_grad]
        if trained:
            groups.append({"params": trained, "lr": rate * decay ** len(groups)})
    return groups


@wrong(
    "looks at the first parameter of each part only: in a part that is frozen half, all or none is trained",
    "Leave parameters that do not require a gradient out of all groups.",
    "a part is taken or left as a whole",
)
def parameter_groups(model, rate, decay):
    layers = reversed(model.body.encoder.layer)
    groups = []
    for i, part in enumerate([model.head, *layers, model.body.embeddings]):
        parameters = list(part.parameters())
        if parameters and parameters[0].requires_grad:
            groups.append({"params": parameters, "lr": rate * decay**i})
    return groups


@wrong(
    "refuses a decay above 1, which the text allows (deeper parts then learn faster)",
    "decay: above 0, the factor from a part's rate to that of the part below.",
    "decay above 1 refused",
)
def parameter_groups(model, rate, decay):
    if not 0 < decay <= 1:
        raise ValueError("decay must be between 0 and 1")
    layers = reversed(model.body.encoder.layer)
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate([model.head, *layers, model.body.embeddings])
    ]


@wrong(
    "the list of groups is a default argument: a second call returns the first one's groups, too",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "mutable default collects earlier groups",
)
def parameter_groups(model, rate, decay, groups=[]):
    layers = reversed(model.body.encoder.layer)
    for i, part in enumerate([model.head, *layers, model.body.embeddings]):
        trained = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": trained, "lr": rate * decay**i})
    return groups


@wrong(
    "reads one digit of the layer's number from its name: layers 10 and 11 are taken for layer 1",
    "From each part to the part below it, multiply the rate by `decay`.",
    "layer numbers with two digits misread",
)
def parameter_groups(model, rate, decay):
    top = len(model.body.encoder.layer)
    start = "body.encoder.layer."
    found = {}
    for name, parameter in model.named_parameters():
        if name.startswith("head."):
            step = 0
        elif name.startswith(start):
            step = top - int(name[len(start)])
        elif name.startswith("body.embeddings."):
            step = top + 1
        else:
            continue
        if parameter.requires_grad:
            found.setdefault(step, []).append(parameter)
    return [{"params": found[i], "lr": rate * decay**i} for i in sorted(found)]


@wrong(
    "rounds the rates to eight digits: with decay 0.1 and a few layers, the rates below become 0 or much too large",
    "From each part to the part below it, multiply the rate by `decay`.",
    "small rates rounded away",
)
def parameter_groups(model, rate, decay):
    layers = reversed(model.body.encoder.layer)
    groups = []
    for i, part in enumerate([model.head, *layers, model.body.embeddings]):
        trained = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": trained, "lr": round(rate * decay**i, 8)})
    return groups


@wrong(
    "sorts by words in the names: a layer's parameter whose name contains embedding, such as attention.self.distance_embedding.weight, gets the embeddings' rate, and one that contains head the head's",
    "Give every part of a classifier its own learning rate.",
    "parts told by words in parameter names",
)
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    steps = [[] for _ in range(len(layers) + 2)]
    owner = {
        id(p): len(layers) - i for i, layer in enumerate(layers) for p in layer.parameters()
    }
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if "head" in name:
            steps[0].append(p)
        elif "embedding" in name:
            steps[-1].append(p)
        elif id(p) in owner:
            steps[owner[id(p)]].append(p)
    return [{"params": ps, "lr": rate * decay**i} for i, ps in enumerate(steps)]
