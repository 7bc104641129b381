from torch import nn

from blind import right, wrong


@right("parts from the top down")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p for p in part.parameters() if p.requires_grad], "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@right("from the bottom up, groups without parameters left out")
def parameter_groups(model, rate, decay):
    layers = list(model.body.encoder.layer)
    groups = []
    for depth, part in enumerate([model.body.embeddings, *layers, model.head]):
        params = list(filter(lambda p: p.requires_grad, part.parameters()))
        if params:
            groups.append({"lr": rate * decay ** (len(layers) + 1 - depth), "params": params})
    return groups


@right("a group for each parameter")
def parameter_groups(model, rate, decay):
    groups = []

    def add(part, lr):
        groups.extend({"params": [p], "lr": lr} for p in part.parameters() if p.requires_grad)

    add(model.head, rate)
    count = len(model.body.encoder.layer)
    for i in range(count):
        add(model.body.encoder.layer[count - 1 - i], rate * decay ** (i + 1))
    add(model.body.embeddings, rate * decay ** (count + 1))
    return groups


@right("recursive, the rate falls on the way down")
def parameter_groups(model, rate, decay):
    def down(parts, lr):
        if not parts:
            return []
        *rest, top = parts
        mine = []
        for p in top.parameters():
            if p.requires_grad:
                mine.append(p)
        return down(rest, lr * decay) + [dict(params=mine, lr=lr)]

    return down([model.body.embeddings, *model.body.encoder.layer, model.head], rate)


ASK = "Parameters that ask for no gradient are in no group."


def trained(part):
    return [p for p in part.parameters() if p.requires_grad]


@wrong("layers not turned around", breaks="The head has `rate`, the last layer of the body `rate * decay`, the layer before it `decay` times that, and so on;", name="the lowest layer gets the largest rate", subtle=False)
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [{"params": trained(part), "lr": rate * decay**i} for i, part in enumerate(parts)]


@wrong("embeddings left out", breaks="the embeddings lie below all layers.", name="embeddings are not trained", subtle=False)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer)]
    return [{"params": trained(part), "lr": rate * decay**i} for i, part in enumerate(parts)]


@wrong("frozen parameters are in the groups", breaks=ASK, name="requires_grad not looked at", subtle=False)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [{"params": list(part.parameters()), "lr": rate * decay**i} for i, part in enumerate(parts)]


@wrong("one layer, as in the lab's body", breaks="`model.head` is the head, `model.body.encoder.layer` the list of the body's layers, the first one lowest, and `model.body.embeddings` the embeddings.", name="only the last layer is trained", subtle=True)
def parameter_groups(model, rate, decay):
    parts = [model.head, model.body.encoder.layer[-1], model.body.embeddings]
    return [{"params": trained(part), "lr": rate * decay**i} for i, part in enumerate(parts)]


@wrong("frozen parts do not count as steps down", breaks="decay: by which the rate is multiplied from each part to the one below it.", name="rates move up past a frozen part", subtle=True)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    some = [params for params in map(trained, parts) if params]
    return [{"params": params, "lr": rate * decay**i} for i, params in enumerate(some)]


@wrong("a generator of parameters", breaks='An optimizer of torch takes a list of **groups**, each a dict with the keys `"params"` (a list of parameters) and `"lr"`.', name="parameters that can be read once", subtle=True)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": filter(lambda p: p.requires_grad, part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
    ]


@wrong("turns the body's own list around", breaks="model: a `SentenceClassifier`; it stays as it is.", name="the body's layers are reversed for good", subtle=True)
def parameter_groups(model, rate, decay):
    model.body.encoder.layer = nn.ModuleList(reversed(model.body.encoder.layer))
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [{"params": trained(part), "lr": rate * decay**i} for i, part in enumerate(parts)]


@wrong("no rate below 1e-6", breaks="decay: by which the rate is multiplied from each part to the one below it.", name="a smallest rate nobody asked for", subtle=True)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [{"params": trained(part), "lr": max(rate * decay**i, 1e-6)} for i, part in enumerate(parts)]


@wrong("finds a layer by a piece of its name", breaks="*every part gets a rate\nof its own*, and the deeper it lies, the smaller.", name="layer.1 is found in layer.10", subtle=True)
def parameter_groups(model, rate, decay):
    count = len(model.body.encoder.layer)
    groups = [{"params": trained(model.head), "lr": rate}]
    for i in reversed(range(count)):
        params = [
            p
            for name, p in model.body.encoder.named_parameters()
            if p.requires_grad and f"layer.{i}" in name
        ]
        groups.append({"params": params, "lr": rate * decay ** (count - i)})
    groups.append({"params": trained(model.body.embeddings), "lr": rate * decay ** (count + 1)})
    return groups


@wrong("asks the first parameter for all of its part", breaks=ASK, name="a part frozen by half", subtle=True)
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(parts)
        if next(part.parameters()).requires_grad
    ]
