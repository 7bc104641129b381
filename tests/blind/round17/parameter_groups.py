from itertools import accumulate, repeat

import torch
from torch import nn
from blind import right, wrong

HEAD = "Give the head the learning rate `rate`."
STEP = "From each part to the part below it, multiply the rate by `decay`."
ORDER = "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings."
DICTS = 'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their learning rate).'
LEAVE_OUT = "Leave parameters that do not require a gradient out of all groups."
EMPTY = "If nothing is left of a part, it needs no group, and an empty one does no harm."
COUNTS = "A frozen part still counts as a step, so the parts below it keep their rates."
CHANGE = "model: a `SentenceClassifier`; do not change it."
DECAY = "decay: above 0, the factor from a part's rate to that of the part below."
SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."


# ---------------------------------------------------------------- right answers


@right("a group of its own for each parameter")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [parameter], "lr": rate * decay**number}
        for number, part in enumerate(parts)
        for parameter in part.parameters()
        if parameter.requires_grad
    ]


@right("from the bottom up, dividing the lowest rate step by step")
def parameter_groups(model, rate, decay):
    layers = model.body.encoder.layer
    groups = []
    for below, part in enumerate([model.body.embeddings, *layers, model.head]):
        kept = [p for _, p in part.named_parameters() if p.requires_grad is True]
        groups.append({"lr": rate * decay ** (len(layers) + 1 - below), "params": kept})
    return groups


@right("running products from accumulate; one group for all parts with equal rates")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    parts = [model.head] + layers[::-1] + [model.body.embeddings]
    rates = accumulate(repeat(decay, len(parts) - 1), lambda a, b: a * b, initial=rate)
    by_rate = {}
    for part, lr in zip(parts, rates):
        by_rate.setdefault(lr, []).extend(filter(lambda p: p.requires_grad, part.parameters()))
    return [{"params": kept, "lr": lr} for lr, kept in by_rate.items() if kept]


def from_here_down(parts, rate, decay):
    if not parts:
        return []
    kept = []
    for module in parts[0].modules():
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad and all(parameter is not old for old in kept):
                kept.append(parameter)
    below = from_here_down(parts[1:], decay * rate, decay)
    return below + [dict(params=kept, lr=rate)] if kept else below


@right("recursion from the head down, the groups in the opposite order")
def parameter_groups(model, rate, decay):
    parts = [model.head]
    for number in range(len(model.body.encoder.layer) - 1, -1, -1):
        parts.append(model.body.encoder.layer[number])
    parts.append(model.body.embeddings)
    return from_here_down(parts, rate, decay)


# ---------------------------------------------------------------- wrong answers


@wrong("takes the layers from the first to the last",
       breaks=ORDER, name="forgets to reverse the layers")
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong("takes all parameters of each part",
       breaks=LEAVE_OUT, name="frozen parameters are in the groups")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong("multiplies the rate only after a part that has a group",
       breaks=COUNTS, name="a frozen part is no step")
def parameter_groups(model, rate, decay):
    groups = []
    for part in [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]:
        kept = [p for p in part.parameters() if p.requires_grad]
        if kept:
            groups.append({"params": kept, "lr": rate})
            rate *= decay
    return groups


@wrong("counts the parts from 1",
       breaks=HEAD, name="the head's rate is multiplied by decay, too")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts, start=1):
        kept = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": kept, "lr": rate * decay**i})
    return groups


@wrong("takes the step from a layer to the next as often as there are layers, no more",
       breaks=STEP, name="the embeddings have the rate of the lowest layer")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    parts = [model.head, *reversed(layers), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts):
        kept = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": kept, "lr": rate * decay ** min(i, len(layers))})
    return groups


@wrong("caps the decay at 1, so that no part learns faster than the head",
       breaks=DECAY, name="a factor above 1 is taken for 1")
def parameter_groups(model, rate, decay):
    decay = min(decay, 1.0)
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong("drops a part as soon as one of its parameters is frozen",
       breaks=EMPTY, name="the rest of a part that is partly frozen is not trained")
def parameter_groups(model, rate, decay):
    groups = []
    for part in [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]:
        if all(p.requires_grad for p in part.parameters()):
            groups.append({"params": list(part.parameters()), "lr": rate})
        rate = rate * decay
    return groups


@wrong("puts filter objects into the groups",
       breaks=DICTS, name="the parameters can be read only once")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts):
        kept = filter(lambda p: p.requires_grad, part.parameters())
        groups.append({"params": kept, "lr": rate * decay**i})
    return groups


@wrong("appends the head and the embeddings to the body's own list of layers",
       breaks=CHANGE, name="the body has two more layers afterwards")
def parameter_groups(model, rate, decay):
    parts = model.body.encoder.layer
    parts.insert(0, model.body.embeddings)
    parts.append(model.head)
    groups = []
    for part in reversed(parts):
        kept = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": kept, "lr": rate})
        rate = rate * decay
    return groups


@wrong("never lets a rate fall below 1e-7",
       breaks=SIZES, name="small rates are raised to a floor")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts):
        kept = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": kept, "lr": max(rate * decay**i, 1e-7)})
    return groups
