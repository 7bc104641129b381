from itertools import accumulate, chain, repeat

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("One group for each parameter, from the embeddings up")
def group_per_parameter(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    groups = []
    for height, part in enumerate(parts):
        for p in part.parameters():
            if p.requires_grad:
                groups.append({"params": [p], "lr": rate * decay ** (len(parts) - 1 - height)})
    return groups


@right("Rates by accumulate; parts with nothing to train have no group")
def accumulated(model, rate, decay):
    parts = chain([model.head], reversed(model.body.encoder.layer), [model.body.embeddings])
    rates = accumulate(repeat(decay), lambda r, d: r * d, initial=rate)
    pairs = (([*filter(lambda p: p.requires_grad, part.parameters())], r) for part, r in zip(parts, rates))
    return [dict(params=ps, lr=r) for ps, r in pairs if ps]


@right("A recursion from the top of a stack; a part with nothing to train has an empty group")
def recursive(model, rate, decay):
    def below(stack, r):
        if not stack:
            return []
        top = stack.pop()
        kept = [p for _, p in top.named_parameters() if p.requires_grad]
        return [{"lr": r, "params": kept}] + below(stack, r * decay)

    stack = list((model.body.embeddings,))
    stack.extend(model.body.encoder.layer)
    return below(stack + [model.head], rate)


@right("Sorts the model's parameters by their names into a table of depths")
def by_name(model, rate, decay):
    n = len(model.body.encoder.layer)
    table = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        words = name.split(".")
        if words[0] == "head":
            depth = 0
        elif words[:2] == ["body", "embeddings"]:
            depth = n + 1
        elif words[:3] == ["body", "encoder", "layer"]:
            depth = n - int(words[3])
        else:
            continue
        table.setdefault(depth, []).append(p)
    return [{"params": ps, "lr": rate * pow(decay, depth)} for depth, ps in table.items()]


# ---------------------------------------------------------------- wrong


def _trained(part):
    return [p for p in part.parameters() if p.requires_grad]


@wrong(
    "does not turn the layers around: the lowest one gets the highest rate",
    breaks="the last layer of the body `rate * decay`, the layer before it `decay` times that, and so on",
    name="layers upside down",
    subtle=True,
)
def upside_down(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [{"params": _trained(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong(
    "multiplies by decay * i instead of decay ** i",
    breaks="the layer before it `decay` times that, and so on",
    name="times i instead of to the power of i",
    subtle=True,
)
def linear_fall(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": _trained(p), "lr": rate * decay * i if i else rate}
        for i, p in enumerate(parts)
    ]


@wrong(
    "leaves out frozen parts first and counts then: what lies below a frozen layer gets too high a rate",
    breaks="decay: by which the rate is multiplied from each part to the one below it.",
    name="counts only the parts that are trained",
    subtle=True,
)
def frozen_not_counted(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    lists = [ps for ps in map(_trained, parts) if ps]
    return [{"params": ps, "lr": rate * decay**i} for i, ps in enumerate(lists)]


@wrong(
    "takes all parameters of each part",
    breaks="Parameters that ask for no gradient are in no group.",
    name="frozen parameters in the groups",
)
def frozen_ones_too(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [{"params": list(p.parameters()), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong(
    "asks model.frozen whether the body is trained, not the parameters",
    breaks="Parameters that ask for no gradient are in no group.",
    name="trusts model.frozen",
    subtle=True,
)
def trusts_frozen(model, rate, decay):
    groups = [{"params": list(model.head.parameters()), "lr": rate}]
    if not model.frozen:
        for part in [*reversed(model.body.encoder.layer), model.body.embeddings]:
            rate = rate * decay
            groups.append({"params": list(part.parameters()), "lr": rate})
    return groups


@wrong(
    "asks the first parameter of a part for all of them",
    breaks="Parameters that ask for no gradient are in no group.",
    name="the first parameter speaks for its part",
    subtle=True,
)
def first_speaks(model, rate, decay):
    groups = []
    parts = [model.head] + list(model.body.encoder.layer)[::-1] + [model.body.embeddings]
    for i, part in enumerate(parts):
        params = list(part.parameters())
        if params and params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong(
    "puts the embeddings into the model's own list of layers",
    breaks="model: a `SentenceClassifier`; it stays as it is.",
    name="changes the model's list of layers",
    subtle=True,
)
def inserts_embeddings(model, rate, decay):
    layers = model.body.encoder.layer
    layers.insert(0, model.body.embeddings)
    groups = [{"params": _trained(model.head), "lr": rate}]
    for i, layer in enumerate(reversed(layers), start=1):
        groups.append({"params": _trained(layer), "lr": rate * decay**i})
    return groups


@wrong(
    "finds a layer by `layer.1` in the name, which is in `layer.10`, too",
    breaks="*every part gets a rate of its own*, and the deeper it lies, the smaller",
    name="layer.1 matches layer.10",
    subtle=True,
)
def by_substring(model, rate, decay):
    n = len(model.body.encoder.layer)
    keys = [("head.", 0)]
    keys += [(f"encoder.layer.{i}", n - i) for i in range(n)]
    keys += [("body.embeddings.", n + 1)]
    groups = {depth: [] for _, depth in keys}
    for name, p in model.named_parameters():
        for key, depth in keys:
            if p.requires_grad and (key in name if "layer" in key else name.startswith(key)):
                groups[depth].append(p)
                break
    return [{"params": ps, "lr": rate * decay**depth} for depth, ps in groups.items()]


@wrong(
    "the embeddings share the rate of the lowest layer",
    breaks="the embeddings lie below all layers",
    name="embeddings at the rate of the lowest layer",
)
def embeddings_too_fast(model, rate, decay):
    layers = list(model.body.encoder.layer)
    groups = [{"params": _trained(model.head), "lr": rate}]
    for layer in reversed(layers):
        rate *= decay
        groups.append({"params": _trained(layer), "lr": rate})
    groups.append({"params": _trained(model.body.embeddings), "lr": rate})
    return groups


@wrong(
    "hands out filter objects: whoever looks at them once has emptied them",
    breaks='each a dict with the keys `"params"` (a list of parameters) and `"lr"`',
    name="an iterator instead of a list",
    subtle=True,
)
def iterators(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": filter(lambda p: p.requires_grad, part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]
