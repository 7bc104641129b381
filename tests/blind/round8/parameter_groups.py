import itertools
from collections import defaultdict

from blind import right, wrong


def _parts(model):
    """The parts from the top down."""
    return [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]


@right("recursion from the head down")
def parameter_groups(model, rate, decay):
    def below(parts, rate):
        if not parts:
            return []
        first, *rest = parts
        params = [p for p in first.parameters() if p.requires_grad]
        return [{"params": params, "lr": rate}] + below(rest, rate * decay)

    layers = list(model.body.encoder.layer)
    return below([model.head, *layers[::-1], model.body.embeddings], rate)


@right("from the bottom up, with one explicit power for each part; embeddings first")
def parameter_groups(model, rate, decay):
    layers = model.body.encoder.layer
    depth = len(layers)
    groups = [(depth + 1, model.body.embeddings)]
    for i in range(depth):
        groups.append((depth - i, layers[i]))
    groups.append((0, model.head))
    result = []
    for power, part in groups:
        trained = list(filter(lambda p: p.requires_grad, part.parameters()))
        if trained:
            result.append(dict(params=trained, lr=rate * decay**power))
    return result


@right("rates from itertools.accumulate, zipped with the parts")
def parameter_groups(model, rate, decay, *, trainable=lambda p: p.requires_grad):
    parts = _parts(model)
    rates = itertools.accumulate([rate] + [decay] * (len(parts) - 1), lambda a, b: a * b)
    return [
        {"lr": lr, "params": [*filter(trainable, part.parameters())]}
        for lr, part in zip(rates, parts)
    ]


@right("reads the depth off the parameters' names, parsed as numbers")
def parameter_groups(model, rate, decay):
    count = len(model.body.encoder.layer)
    found = defaultdict(list)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        words = name.split(".")
        if words[0] == "head":
            found[0].append(parameter)
        elif words[:2] == ["body", "embeddings"]:
            found[count + 1].append(parameter)
        elif words[:3] == ["body", "encoder", "layer"]:
            found[count - int(words[3])].append(parameter)
    return [
        {"params": found[power], "lr": rate * decay**power} for power in sorted(found)
    ]


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "does not turn the layers round: the first (lowest) layer gets the rate that the"
    " last one should have; not seen with one layer",
    "The head has `rate`, the last layer of the body `rate * decay`, the layer before"
    " it `decay` times that, and so on; the embeddings lie below all layers.",
    "layers in the wrong order",
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
    "takes all parameters, those of a frozen part, too",
    "Parameters that do not require a gradient are in no group.",
    "frozen parameters are in the groups",
)
def parameter_groups(model, rate, decay):
    return [
        {"params": list(part.parameters()), "lr": rate * decay**i}
        for i, part in enumerate(_parts(model))
    ]


@wrong(
    "multiplies before the first part: the head gets rate * decay, and every part below"
    " it one decay too many",
    "The head has `rate`, the last layer of the body `rate * decay`, the layer before"
    " it `decay` times that, and so on; the embeddings lie below all layers.",
    "the head's rate is already lowered",
)
def parameter_groups(model, rate, decay):
    groups = []
    for part in _parts(model):
        rate = rate * decay
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": rate})
    return groups


# --- corners -----------------------------------------------------------------------


@wrong(
    "leaves out parts that have nothing to train before it counts: with a frozen last"
    " layer all parts below it get a rate that is too high",
    "*every part has its own rate*, and the deeper a part lies, the smaller its rate.",
    "frozen parts are not counted as depth",
)
def parameter_groups(model, rate, decay):
    lists = (
        [p for p in part.parameters() if p.requires_grad] for part in _parts(model)
    )
    return [
        {"params": params, "lr": rate * decay**i}
        for i, params in enumerate(filter(None, lists))
    ]


@wrong(
    "looks for 'layer.1' in the names: from eleven layers on, the parameters of layer"
    " 10 are in two groups, which no optimizer takes",
    "A list of dicts with the keys \"params\" and \"lr\": what an optimizer takes.",
    "layer.1 also matches layer.10",
)
def parameter_groups(model, rate, decay):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    count = len(model.body.encoder.layer)
    keys = ["head."]
    keys += [f"body.encoder.layer.{i}" for i in range(count - 1, -1, -1)]
    keys += ["body.embeddings."]
    return [
        {
            "params": [p for n, p in named if n.startswith(key)],
            "lr": rate * decay**power,
        }
        for power, key in enumerate(keys)
    ]


@wrong(
    "computes the lowest rate first and divides by decay on the way up: a decay of 0"
    " (train the head alone) raises ZeroDivisionError",
    "decay: by which the rate is multiplied from each part to the one below it.",
    "divides by decay",
)
def parameter_groups(model, rate, decay):
    parts = _parts(model)[::-1]
    lr = rate * decay ** (len(parts) - 1)
    groups = []
    for part in parts:
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": lr})
        lr = lr / decay
    return groups[::-1]


@wrong(
    "turns the body's own list of layers round: after the call the model computes with"
    " its layers in the reverse order, and a second call gives other rates",
    "model: a `SentenceClassifier`; it stays as it is.",
    "reverses the model's layers in place",
)
def parameter_groups(model, rate, decay):
    model.body.encoder.layer = model.body.encoder.layer[::-1]
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [
        {
            "params": [p for p in part.parameters() if p.requires_grad],
            "lr": rate * decay**i,
        }
        for i, part in enumerate(parts)
    ]


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "squares decay from part to part: powers 0, 1, 2, 4, 8, ...; right for the lab's"
    " body of one layer (head, layer, embeddings), wrong from two layers on",
    "The head has `rate`, the last layer of the body `rate * decay`, the layer before"
    " it `decay` times that, and so on; the embeddings lie below all layers.",
    "decay is squared at each step",
)
def parameter_groups(model, rate, decay):
    groups, factor = [], decay
    for part in _parts(model):
        params = [p for p in part.parameters() if p.requires_grad]
        if not groups:
            groups.append({"params": params, "lr": rate})
        else:
            groups.append({"params": params, "lr": rate * factor})
            factor *= factor
    return groups


@wrong(
    "the list of groups is a default argument that is filled again at each call: the"
    " second call returns the first model's groups, too",
    "A list of dicts with the keys \"params\" and \"lr\": what an optimizer takes.",
    "mutable default argument keeps old groups",
)
def parameter_groups(model, rate, decay, groups=[]):
    for power, part in enumerate(_parts(model)):
        params = [p for p in part.parameters() if p.requires_grad]
        groups.append({"params": params, "lr": rate * decay**power})
    return groups


@wrong(
    "gives the embeddings rate * decay**2 whatever the number of layers: right for the"
    " one layer of this lab, too high with more",
    "The head has `rate`, the last layer of the body `rate * decay`, the layer before"
    " it `decay` times that, and so on; the embeddings lie below all layers.",
    "embeddings' rate assumes one layer",
)
def parameter_groups(model, rate, decay):
    def trained(part):
        return [p for p in part.parameters() if p.requires_grad]

    groups = [{"params": trained(model.head), "lr": rate}]
    for i, layer in enumerate(reversed(model.body.encoder.layer), start=1):
        groups.append({"params": trained(layer), "lr": rate * decay**i})
    groups.append({"params": trained(model.body.embeddings), "lr": rate * decay**2})
    return groups
