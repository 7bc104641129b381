import torch
from torch import nn

from blind import right, wrong

HEAD = "Give the head the learning rate `rate`."
DECAY = "From each part to the part below it, multiply the rate by `decay`."
PARTS = "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings."
GROUP = 'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their learning rate).'
LEAVE = "Leave parameters that do not require a gradient out of all groups."
FROZEN = "A frozen part still counts as a step, so the parts below it keep their rates."
ABOVE = "decay: above 0, the factor from a part's rate to that of the part below."
NUMBERS = "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode."


# wrong, plain


@wrong(
    "goes through the layers from the first to the last",
    PARTS,
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
    "takes frozen parameters, too",
    LEAVE,
    "frozen parameters in the groups",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong(
    "multiplies before the head already",
    HEAD,
    "head's rate too small",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in (
        model.head,
        *reversed(model.body.encoder.layer),
        model.body.embeddings,
    ):
        rate = rate * decay
        groups.append(
            {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate}
        )
    return groups


@wrong(
    "forgets the embeddings, which are then not trained at all",
    PARTS,
    "embeddings forgotten",
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer)]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


# wrong, subtle


@wrong(
    "counts only the parts that have something to train",
    FROZEN,
    "frozen part not counted as a step",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    groups = []
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    for part in parts:
        trained = [p for p in part.parameters() if p.requires_grad]
        if trained:
            groups.append({"params": trained, "lr": rate * decay ** len(groups)})
    return groups


@wrong(
    "puts filters in place of lists into the groups, which are empty after one reading",
    GROUP,
    "iterator in place of a list",
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
    "judges a whole part by its first parameter, though a part may be frozen in part",
    LEAVE,
    "a part taken for frozen or not as a whole",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    groups = []
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    for i, part in enumerate(parts):
        found = list(part.parameters())
        if found and found[0].requires_grad:
            groups.append({"params": found, "lr": rate * decay**i})
    return groups


@wrong(
    "takes the body's only layer, as in this lab: further layers have no group",
    PARTS,
    "one layer taken for granted",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head, model.body.encoder.layer[0], model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "lets no rate become larger than the head's, although decay may be above 1",
    ABOVE,
    "decay above 1 not allowed for",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    decay = min(decay, 1.0)
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong(
    "rounds the rates to eight places, so that small ones become 0",
    NUMBERS,
    "small rates rounded to 0",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": round(rate * decay**i, 8),
        }
        for i, part in enumerate(parts)
    ]


# right


@right("from the bottom up, with the exponent counted down, no empty groups")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    parts = [model.body.embeddings] + layers + [model.head]
    groups = []
    for depth, part in zip(range(len(parts) - 1, -1, -1), parts):
        trained = [p for p in part.parameters() if p.requires_grad]
        if trained:
            groups.append({"lr": rate * decay**depth, "params": trained})
    return groups


@right("a group for every single parameter")
def parameter_groups(model, rate, decay):
    groups = []

    def add(part, lr):
        for _, parameter in part.named_parameters():
            if parameter.requires_grad:
                groups.append({"params": [parameter], "lr": lr})

    add(model.head, rate)
    for layer in model.body.encoder.layer[::-1]:
        rate = rate * decay
        add(layer, rate)
    add(model.body.embeddings, rate * decay)
    return groups


@right("a recursion from part to part, with empty groups for frozen parts")
def parameter_groups(model, rate, decay):
    def groups_of(parts, lr):
        if not parts:
            return []
        top, *below = parts
        mine = {"params": [], "lr": lr}
        mine["params"].extend(filter(lambda p: p.requires_grad, top.parameters()))
        return [mine, *groups_of(below, lr * decay)]

    stack = list(model.body.encoder.layer)
    stack.reverse()
    return groups_of([model.head] + stack + [model.body.embeddings], rate)


@right("by the parameters' names, sorted into parts with a dict")
def parameter_groups(model, rate, decay):
    depth = len(model.body.encoder.layer)
    steps = {"head.": 0, "body.embeddings.": depth + 1}
    for i in range(depth):
        steps[f"body.encoder.layer.{i}."] = depth - i
    found = {}
    for name, parameter in model.named_parameters():
        for start, step in steps.items():
            if parameter.requires_grad and name.startswith(start):
                found.setdefault(step, []).append(parameter)
    return [
        {"params": found[step], "lr": rate * pow(decay, step)} for step in sorted(found)
    ]
