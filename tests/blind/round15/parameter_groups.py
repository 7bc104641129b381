from blind import right, wrong

HEAD = "Give the head the learning rate `rate`."
STEP = "From each part to the part below it, multiply the rate by `decay`."
ORDER = "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings."
LIST = 'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their learning rate).'
LEAVE = "Leave parameters that do not require a gradient out of all groups."
FROZEN = "A frozen part still counts as a step, so the parts below it keep their rates."
LAYERS = "`model.head` is the head, `model.body.encoder.layer` is the list of the body's layers, from the first (lowest) to the last, and `model.body.embeddings` are the embeddings."
EVERY = "Give every part of a classifier its own learning rate."


@right("one group for each part, empty ones left out")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for depth, part in enumerate(parts):
        params = [p for p in part.parameters() if p.requires_grad]
        if params:
            groups.append({"params": params, "lr": rate * decay**depth})
    return groups


def _trainable(module):
    return list(filter(lambda p: p.requires_grad, module.parameters()))


@right("multiplies the rate on the way down, keeps empty groups")
def parameter_groups(model, rate, decay):
    groups = [{"params": _trainable(model.head), "lr": rate}]
    for layer in list(model.body.encoder.layer)[::-1]:
        rate = rate * decay
        groups.append({"params": _trainable(layer), "lr": rate})
    groups.append({"params": _trainable(model.body.embeddings), "lr": rate * decay})
    return groups


@right("from the bottom up, exponents from the number of layers")
def parameter_groups(model, rate, decay):
    layers = model.body.encoder.layer
    count = len(layers)
    parts = {count + 1: model.body.embeddings, 0: model.head}
    for i, layer in enumerate(layers):
        parts[count - i] = layer
    return [
        {"lr": rate * decay**power, "params": _trainable(parts[power])}
        for power in sorted(parts, reverse=True)
    ]


@right("one group for each parameter, with the rate of its part")
def parameter_groups(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    top = len(parts) - 1
    return [
        {"params": [parameter], "lr": rate * decay ** (top - i)}
        for i, part in enumerate(parts)
        for parameter in part.parameters()
        if parameter.requires_grad
    ]


@wrong("takes the first layer for the one below the head", breaks=ORDER, name="layers not reversed")
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong("counts only the parts that are trained", breaks=FROZEN, name="a frozen part is no step")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for part in parts:
        params = [p for p in part.parameters() if p.requires_grad]
        if params:
            groups.append({"params": params, "lr": rate * decay ** len(groups)})
    return groups


@wrong("one rate for the head and another for all of the body", breaks=STEP, name="one step for the whole body")
def parameter_groups(model, rate, decay):
    parts = [*reversed(model.body.encoder.layer), model.body.embeddings]
    groups = [{"params": [p for p in model.head.parameters() if p.requires_grad], "lr": rate}]
    for part in parts:
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": rate * decay})
    return groups


@wrong("gives the embeddings the rate of the first layer", breaks=STEP, name="no step below the first layer")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)[::-1]
    groups = []
    for i, part in enumerate([model.head, *layers]):
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": rate * decay**i})
    params = [p for p in model.body.embeddings.parameters() if p.requires_grad]
    groups.append({"params": params, "lr": rate * decay ** len(layers)})
    return groups


@wrong("params are generators, which are empty when they are read for the second time", breaks=LIST, name="a generator instead of a list")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": filter(lambda p: p.requires_grad, part.parameters()),
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


@wrong("asks model.frozen, and so forgets layers that were unfrozen after freeze()", breaks=ORDER, name="flag of the model instead of requires_grad")
def parameter_groups(model, rate, decay):
    parts = [model.head]
    if not getattr(model, "frozen", False):
        parts += [*reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong("decides for a whole part by its first parameter", breaks=LEAVE, name="a part taken for all frozen or all trained")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts):
        params = list(part.parameters())
        if params and params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong("leaves out biases and norms, as one does for weight decay", breaks=EVERY, name="only matrices are trained")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for i, part in enumerate(parts):
        params = [p for p in part.parameters() if p.requires_grad and p.ndim > 1]
        groups.append({"params": params, "lr": rate * decay**i})
    return groups


@wrong("looks for 'layer.1' in the names, which layer.10 contains, too", breaks=LAYERS, name="names matched by their beginning")
def parameter_groups(model, rate, decay):
    named = [(n, p) for n, p in model.body.named_parameters() if p.requires_grad]
    depth = len(model.body.encoder.layer)
    groups = [{"params": [p for p in model.head.parameters() if p.requires_grad], "lr": rate}]
    for i in reversed(range(depth)):
        params = [p for n, p in named if n.startswith(f"encoder.layer.{i}")]
        groups.append({"params": params, "lr": rate * decay ** (depth - i)})
    params = [p for n, p in named if n.startswith("embeddings.")]
    groups.append({"params": params, "lr": rate * decay ** (depth + 1)})
    return groups


@wrong("a dict from rates to parts loses all but the last part if decay is 1", breaks=EVERY, name="groups overwritten where rates are equal")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    by_rate = {}
    for i, part in enumerate(parts):
        by_rate[rate * decay**i] = [p for p in part.parameters() if p.requires_grad]
    return [{"params": params, "lr": lr} for lr, params in by_rate.items()]
