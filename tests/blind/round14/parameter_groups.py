import math

from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("one group for every single parameter")
def parameter_groups(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": [p], "lr": rate * decay**depth}
        for depth, part in enumerate(parts)
        for p in part.parameters()
        if p.requires_grad
    ]


@right("counts from the bottom: the embeddings are L + 1 steps below the head")
def parameter_groups(model, rate, decay):  # noqa: F811
    layers = model.body.encoder.layer
    steps = len(layers) + 1
    groups = []
    for height, part in enumerate((model.body.embeddings, *layers, model.head)):
        trained = list(filter(lambda p: p.requires_grad, part.parameters()))
        if trained:
            groups.append({"params": trained, "lr": rate * decay ** (steps - height)})
    return groups


@right("recursion from the top down, the rate is multiplied on the way")
def parameter_groups(model, rate, decay):  # noqa: F811
    def below(parts, lr):
        if not parts:
            return []
        top, *rest = parts
        mine = [p for _, p in top.named_parameters() if p.requires_grad]
        return [{"lr": lr, "params": mine}] + below(rest, lr * decay)

    layers = list(model.body.encoder.layer)
    return below([model.head] + layers[::-1] + [model.body.embeddings], rate)


@right("merges parts with the same rate into one group, rates by way of logarithms")
def parameter_groups(model, rate, decay):  # noqa: F811
    layers, by_rate = model.body.encoder.layer, {}
    for step in range(len(layers) + 2):
        if step == 0:
            part = model.head
        elif step <= len(layers):
            part = layers[len(layers) - step]
        else:
            part = model.body.embeddings
        lr = rate * math.exp(step * math.log(decay))
        for p in part.parameters():
            if p.requires_grad:
                by_rate.setdefault(lr, []).append(p)
    return [{"params": params, "lr": lr} for lr, params in by_rate.items()]


# ---------------------------------------------------------------- wrong


@wrong(
    "takes the layers from the first to the last, so the lowest layer gets the largest rate of the body",
    "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings.",
    "layers in the wrong order",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]


@wrong(
    "puts all parameters into the groups, the frozen ones too",
    "Leave parameters that do not require a gradient out of all groups.",
    "frozen parameters in the groups",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": list(part.parameters()), "lr": rate * decay**depth}
        for depth, part in enumerate(parts)
    ]


@wrong(
    "counts from 1, so that the head gets rate times decay",
    "Give the head the learning rate `rate`.",
    "counts the parts from 1",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts, start=1)
    ]


@wrong(
    "steps to the next rate only after a part with trainable parameters",
    "A frozen part still counts as a step, so the parts below it keep their rates.",
    "frozen parts do not count as steps",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for part in parts:
        trained = [p for p in part.parameters() if p.requires_grad]
        if trained:
            groups.append({"params": trained, "lr": rate * decay ** len(groups)})
    return groups


@wrong(
    "looks only at the first parameter of a part to decide whether the part is frozen",
    "Leave parameters that do not require a gradient out of all groups.",
    "judges a part by its first parameter",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    groups = []
    for depth, part in enumerate(parts):
        params = list(part.parameters())
        if params and params[0].requires_grad:
            groups.append({"params": params, "lr": rate * decay**depth})
    return groups


@wrong(
    "finds the parameters of a layer by a part of their name, so layer.1 also takes layer.10, layer.11 and so on",
    "*every part has its own learning rate*",
    "layer.1 also matches layer.10",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    last = len(model.body.encoder.layer) - 1
    keys = ["head."]
    keys += [f"body.encoder.layer.{i}" for i in range(last, -1, -1)]
    keys += ["body.embeddings."]
    groups = []
    for depth, key in enumerate(keys):
        mine = [
            p
            for name, p in model.named_parameters()
            if name.startswith(key) and p.requires_grad
        ]
        groups.append({"params": mine, "lr": rate * decay**depth})
    return groups


@wrong(
    "gives the embeddings decay squared, which is right for a body with one layer only",
    "From each part to the part below it, multiply the rate by `decay`.",
    "exponent of embeddings fits one layer",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    def group(part, depth):
        trained = [p for p in part.parameters() if p.requires_grad]
        return {"params": trained, "lr": rate * decay**depth}

    layers = list(model.body.encoder.layer)
    groups = [group(model.head, 0)]
    groups += [group(layer, depth) for depth, layer in enumerate(layers[::-1], 1)]
    return groups + [group(model.body.embeddings, 2)]


@wrong(
    "reverses the layers inside the model: the model then runs them in the wrong order, and a second call gives the rates the wrong way round",
    "model: a `SentenceClassifier`; do not change it.",
    "reverses the model's own layers",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    model.body.encoder.layer = nn.ModuleList(reversed(model.body.encoder.layer))
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]


@wrong(
    "collects the groups in a default argument, so a second call also returns the groups of the first",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "mutable default argument keeps old groups",
)
def parameter_groups(model, rate, decay, groups=[]):  # noqa: B006, F811
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    for depth, part in enumerate(parts):
        trained = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": trained, "lr": rate * decay**depth})
    return groups


@wrong(
    "gives a generator instead of a list; it can be read only once",
    'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their learning rate).',
    "generator instead of a list",
)
def parameter_groups(model, rate, decay):  # noqa: F811
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {
            "params": filter(lambda p: p.requires_grad, part.parameters()),
            "lr": rate * decay**depth,
        }
        for depth, part in enumerate(parts)
    ]
