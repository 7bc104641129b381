from itertools import accumulate, chain, repeat

from torch import nn

from blind import right, wrong

NONE = "Parameters that ask for no gradient are in no group."
FALL = "The head has `rate`, the last layer of the body `rate * decay`, the layer before it `decay` times that, and so on; the embeddings lie below all layers."
DECAY = "decay: by which the rate is multiplied from each part to the one below it."


def parts_of(model):
    return [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]


def asking(part):
    return [p for p in part.parameters() if p.requires_grad]


@right("parts from the top down, enumerate")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@right("a group for every single parameter")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    depth = {id(p): 0 for p in model.head.parameters()}
    depth |= {id(p): len(layers) + 1 for p in model.body.embeddings.parameters()}
    for up, layer in enumerate(layers):
        depth |= {id(p): len(layers) - up for p in layer.parameters()}
    return [
        {"params": [p], "lr": rate * decay ** depth[id(p)]}
        for p in model.parameters()
        if p.requires_grad and id(p) in depth
    ]


@right("rates accumulated, groups without parameters left out")
def parameter_groups(model, rate, decay):
    layers = model.body.encoder.layer
    parts = chain([model.head], layers[::-1], [model.body.embeddings])
    rates = accumulate(repeat(decay), lambda lr, d: lr * d, initial=rate)
    groups = []
    for part, lr in zip(parts, rates):
        params = list(filter(lambda p: p.requires_grad, part.parameters()))
        if params:
            groups.append(dict(lr=lr, params=params))
    return groups


@right("recursion, bottom group first")
def parameter_groups(model, rate, decay):
    def down(parts, lr):
        if not parts:
            return []
        mine = [p for _, p in parts[-1].named_parameters() if p.requires_grad]
        return down(parts[:-1], lr * decay) + [{"lr": lr, "params": mine}]

    return down([model.body.embeddings, *model.body.encoder.layer, model.head], rate)


@wrong("layers from the bottom up", breaks=FALL, name="order of the layers reversed")
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [{"params": asking(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong("frozen parameters, too", breaks=NONE, name="requires_grad not looked at")
def parameter_groups(model, rate, decay):
    return [
        {"params": list(p.parameters()), "lr": rate * decay**i}
        for i, p in enumerate(parts_of(model))
    ]


@wrong("no embeddings", breaks="`model.head` is the head, `model.body.encoder.layer` the list of the body's layers, the first one lowest, and `model.body.embeddings` the embeddings.", name="embeddings forgotten")
def parameter_groups(model, rate, decay):
    return [
        {"params": asking(p), "lr": rate * decay**i}
        for i, p in enumerate(parts_of(model)[:-1])
    ]


@wrong(
    "the embeddings' rate fits a body of one layer",
    breaks=FALL,
    name="depth of the embeddings is a constant",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    groups = [
        {"params": asking(p), "lr": rate * decay**i}
        for i, p in enumerate(parts_of(model)[:-1])
    ]
    groups.append({"params": asking(model.body.embeddings), "lr": rate * decay**2})
    return groups


@wrong(
    "frozen parts do not count as a step down",
    breaks=DECAY,
    name="parts counted after the frozen ones are gone",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [params for params in map(asking, parts_of(model)) if params]
    return [{"params": params, "lr": rate * decay**i} for i, params in enumerate(parts)]


@wrong(
    "a part's first parameter speaks for all",
    breaks=NONE,
    name="part frozen in part",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    groups = []
    for i, part in enumerate(parts_of(model)):
        params = list(part.parameters())
        if params and params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong(
    "the parameters are a generator: read once, and empty",
    breaks='An optimizer of torch takes a list of **groups**, each a dict with the keys `"params"` (a list of parameters) and `"lr"`.',
    name="params is no list",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    return [
        {"params": filter(lambda p: p.requires_grad, part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts_of(model))
    ]


@wrong(
    "rates rounded to six places: deep ones are zero",
    breaks=DECAY,
    name="tiny rates rounded away",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    return [
        {"params": asking(p), "lr": round(rate * decay**i, 6)}
        for i, p in enumerate(parts_of(model))
    ]


@wrong(
    "only linear maps of the head are found",
    breaks="`model.head` is the head, `model.body.encoder.layer` the list of the body's layers, the first one lowest, and `model.body.embeddings` the embeddings.",
    name="head's kinds of layers assumed",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    head = nn.ModuleList(m for m in model.head.modules() if type(m) is nn.Linear)
    return [
        {"params": asking(p), "lr": rate * decay**i}
        for i, p in enumerate([head, *parts_of(model)[1:]])
    ]


@wrong(
    "believes `model.frozen` instead of the parameters",
    breaks=NONE,
    name="embeddings frozen by hand are trained",
    subtle=True,
)
def parameter_groups(model, rate, decay):
    parts = [model.head] if model.frozen else parts_of(model)
    return [
        {"params": list(p.parameters()), "lr": rate * decay**i} for i, p in enumerate(parts)
    ]
