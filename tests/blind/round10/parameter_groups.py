import functools
from itertools import accumulate, chain, repeat

import torch
from torch import nn

from blind import right, wrong


@right("rates from itertools.accumulate, parts from chain; parts without trained parameters give no group")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    parts = chain([model.head], layers[::-1], [model.body.embeddings])
    rates = accumulate(repeat(decay), lambda lr, factor: lr * factor, initial=rate)
    groups = []
    for part, lr in zip(parts, rates):
        trained = [p for p in part.parameters() if p.requires_grad]
        if trained:
            groups.append({"params": trained, "lr": lr})
    return groups


@right("recursion from the head down to the embeddings")
def parameter_groups(model, rate, decay):
    def below(parts, lr):
        if not parts:
            return []
        first, *rest = parts
        own = dict(params=list(filter(lambda p: p.requires_grad, first.parameters())), lr=lr)
        return [own, *below(rest, lr * decay)]

    return below([model.head, *reversed(model.body.encoder.layer), model.body.embeddings], rate)


@right("from the bottom up with while and pop, the list of groups turned round at the end")
def parameter_groups(model, rate, decay):
    waiting = [model.head]
    waiting += list(model.body.encoder.layer)[::-1]
    waiting.append(model.body.embeddings)
    groups = []
    while waiting:
        part = waiting.pop()
        groups.append({"lr": rate * decay ** len(waiting), "params": []})
        for _, parameter in part.named_parameters():
            if parameter.requires_grad:
                groups[-1]["params"].append(parameter)
    groups.reverse()
    return groups


@right("counts the depth with a dict from the depth to the parameters, by way of their identity")
def parameter_groups(model, rate, decay, head_first=True):
    depth = {id(p): 0 for p in model.head.parameters()}
    count = len(model.body.encoder.layer)
    for i in range(count):
        depth.update((id(p), count - i) for p in model.body.encoder.layer[i].parameters())
    depth.update((id(p), count + 1) for p in model.body.embeddings.parameters())
    buckets = {}
    for p in model.parameters():
        if p.requires_grad and id(p) in depth:
            buckets.setdefault(depth[id(p)], []).append(p)
    order = sorted(buckets, reverse=not head_first)
    return [{"params": buckets[d], "lr": rate * pow(decay, d)} for d in order]


@wrong(
    "takes the layers from the first to the last: with two or more layers the lowest gets the largest rate of them",
    "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings.",
    "layers in the wrong order",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "takes all parameters, also those of a frozen body",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen parameters are in the groups",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "multiplies the rate only after a part that has a group: below a frozen layer the rates are too large",
    "A frozen part still counts as a step, so the parts below it keep their rates.",
    "frozen parts are not counted as steps",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]:
        params = [p for p in part.parameters() if p.requires_grad]
        if params:
            groups.append({"params": params, "lr": rate})
            rate *= decay
    return groups


@wrong(
    "takes the first layer only, which is the whole encoder of the lab's body: the other layers of a deeper body "
    "are in no group, and the embeddings' rate is too large",
    "`model.head` is the head, `model.body.encoder.layer` is the list of the body's layers, from the first (lowest) to the last, and `model.body.embeddings` are the embeddings.",
    "written for a body with one layer",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, model.body.encoder.layer[0], model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "asks only the first parameter of a part: a part that is frozen in part (say, only the word embeddings) is "
    "left out or taken in as a whole",
    "Leave parameters that do not require a gradient out of all groups.",
    "parts are taken as all or nothing",
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
    "never lets a rate fall below 1e-8: with a decay of 0.1 and twelve layers the lower parts all get the same rate",
    "From each part to the part below it, multiply the rate by `decay`.",
    "learning rates cut off from below",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": max(rate * decay**i, 1e-8),
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "takes a short cut for decay = 1 and forgets to leave out what is frozen there",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen parameters included when decay is one",
)
def parameter_groups(model, rate, decay):
    if decay == 1:
        return [{"params": list(model.parameters()), "lr": rate}]
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "reads the layer's number from one character of the name: layers 10, 11, ... are taken for layer 1",
    "From each part to the part below it, multiply the rate by `decay`.",
    "layer numbers with two digits are misread",
)
def parameter_groups(model, rate, decay):
    count = len(model.body.encoder.layer)
    groups = {i: {"params": [], "lr": rate * decay**i} for i in range(count + 2)}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if name.startswith("head."):
            groups[0]["params"].append(p)
        elif name.startswith("body.encoder.layer."):
            number = int(name[len("body.encoder.layer.")])
            groups[count - number]["params"].append(p)
        elif name.startswith("body.embeddings."):
            groups[count + 1]["params"].append(p)
    return list(groups.values())


@wrong(
    "adds head and embeddings to the body's own list of layers: the returned groups are right the first time, but "
    "the model has two layers more and every later call counts them again",
    "model: a `SentenceClassifier`; do not change it.",
    "the model's list of layers is changed",
)
def parameter_groups(model, rate, decay):
    parts = model.body.encoder.layer
    parts.insert(0, model.body.embeddings)
    parts.append(model.head)
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(reversed(parts))
    ]


@wrong(
    "remembers the groups of a model for the same rate and decay: after model.freeze() the second call still returns the body",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "groups of an earlier call are returned",
)
@functools.lru_cache(maxsize=None)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]
