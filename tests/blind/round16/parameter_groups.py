from itertools import accumulate, chain, repeat

import torch
from blind import right, wrong

HEAD = "Give the head the learning rate `rate`."
DECAY = "From each part to the part below it, multiply the rate by `decay`."
PARTS = "From the top down, the parts are the head, the body's layers from the last to the first, and the embeddings."
LIST = 'Each group is a dict with the keys `"params"` (a list of parameters) and `"lr"` (their learning rate).'
OUT = "Leave parameters that do not require a gradient out of all groups."
STEP = "A frozen part still counts as a step, so the parts below it keep their rates."
MODEL = "model: a `SentenceClassifier`; do not change it."
ABOVE = "decay: above 0, the factor from a part's rate to that of the part below."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
BODY = "`model.body.encoder.layer` is the list of the body's layers, from the first (lowest) to the last, and `model.body.embeddings` are the embeddings."


def parts_of(model):
    return [model.head, *list(model.body.encoder.layer)[::-1], model.body.embeddings]


def trained(part):
    return [p for p in part.parameters() if p.requires_grad]


@right("rates by accumulate, parts by chain, without empty groups")
def parameter_groups(model, rate, decay):
    parts = chain([model.head], reversed(model.body.encoder.layer), [model.body.embeddings])
    rates = accumulate(repeat(decay), lambda a, b: a * b, initial=rate)
    groups = [{"params": trained(part), "lr": lr} for part, lr in zip(parts, rates)]
    return [group for group in groups if group["params"]]


@right("one group for each parameter")
def parameter_groups(model, rate, decay):
    return [
        {"params": [p], "lr": rate * decay**depth}
        for depth, part in enumerate(parts_of(model))
        for p in part.parameters()
        if p.requires_grad
    ]


@right("from the bottom up: the depth of a layer is the number of layers less its index")
def parameter_groups(model, rate, decay):
    layers = model.body.encoder.layer
    depths = {len(layers) + 1: model.body.embeddings, 0: model.head}
    depths.update({len(layers) - i: layer for i, layer in enumerate(layers)})
    groups = []
    for depth in sorted(depths, reverse=True):
        groups.append({"lr": rate * pow(decay, depth), "params": list(filter(lambda p: p.requires_grad, depths[depth].parameters()))})
    return groups


@right("a recursion over the list of parts")
def parameter_groups(model, rate, decay):
    def below(parts, lr):
        if not parts:
            return []
        first, *rest = parts
        return [{"params": trained(first), "lr": lr}] + below(rest, lr * decay)

    return below(parts_of(model), rate)


@wrong("goes through the layers from the first to the last, so the lowest layer gets the largest rate", breaks=PARTS, name="layers from the bottom up")
def parameter_groups(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return [{"params": trained(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong("throws frozen parts away before it counts, so the parts below a frozen part get too large a rate", breaks=STEP, name="frozen parts are not counted")
def parameter_groups(model, rate, decay):
    parts = [part for part in parts_of(model) if trained(part)]
    return [{"params": trained(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong("takes all parameters of a part as soon as one of them requires a gradient: wrong for a part that is frozen in part", breaks=OUT, name="parts that are partly frozen")
def parameter_groups(model, rate, decay):
    groups = []
    for i, part in enumerate(parts_of(model)):
        parameters = list(part.parameters())
        if any(p.requires_grad for p in parameters):
            groups.append({"params": parameters, "lr": rate * decay**i})
    return groups


@wrong('"params" is a generator, which is empty after it has been read once', breaks=LIST, name="params is a generator")
def parameter_groups(model, rate, decay):
    return [
        {"params": (p for p in part.parameters() if p.requires_grad), "lr": rate * decay**i}
        for i, part in enumerate(parts_of(model))
    ]


@wrong("the list of groups is a default argument: a second call returns the groups of the first call, too", breaks=CALLS, name="groups of earlier calls")
def parameter_groups(model, rate, decay, groups=[]):
    for i, part in enumerate(parts_of(model)):
        groups.append({"params": trained(part), "lr": rate * decay**i})
    return groups


@wrong("pops the layers from the body's own list: the model has no layers afterwards", breaks=MODEL, name="takes the layers out of the model")
def parameter_groups(model, rate, decay):
    layers, groups = model.body.encoder.layer, [{"params": trained(model.head), "lr": rate}]
    while len(layers):
        rate = rate * decay
        groups.append({"params": trained(layers.pop(-1)), "lr": rate})
    groups.append({"params": trained(model.body.embeddings), "lr": rate * decay})
    return groups


@wrong("takes only the last layer of the encoder, as in the lab's body of one layer", breaks=BODY, name="only one layer")
def parameter_groups(model, rate, decay):
    parts = [model.head, model.body.encoder.layer[-1], model.body.embeddings]
    return [{"params": trained(p), "lr": rate * decay**i} for i, p in enumerate(parts)]


@wrong("rounds the rates to eight digits, so small rates become 0 (rate 1e-5, decay 0.01, two steps down)", breaks=DECAY, name="rounded rates")
def parameter_groups(model, rate, decay):
    return [{"params": trained(p), "lr": round(rate * decay**i, 8)} for i, p in enumerate(parts_of(model))]


@wrong("does not let a decay above 1 raise the rates: it uses min(decay, 1)", breaks=ABOVE, name="decay limited to 1")
def parameter_groups(model, rate, decay):
    decay = min(decay, 1.0)
    return [{"params": trained(p), "lr": rate * decay**i} for i, p in enumerate(parts_of(model))]


@wrong("gives the embeddings the rate of the lowest layer, one step too few", breaks=DECAY, name="embeddings at the lowest layer's rate")
def parameter_groups(model, rate, decay):
    parts = parts_of(model)
    last = len(parts) - 2
    return [{"params": trained(p), "lr": rate * decay ** min(i, last)} for i, p in enumerate(parts)]
