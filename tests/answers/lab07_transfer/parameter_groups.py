"""Answers to parameter_groups."""

import torch
from answers.core import right, wide, wrong
from answers.signs import NO_NAME, NOTHING

from nbjudge.question import Request


@wide("parameter_groups")
def any_rates(g):
    for number in range(24):
        layers = number % 6
        rate, decay = (0.1 + torch.rand(2, generator=g, dtype=torch.float64)).tolist()
        frozen = torch.rand(layers + 2, generator=g) < (0.4 if number % 2 else 0.0)
        yield Request((rate, decay, layers, frozen.nonzero()[:, 0].tolist()))


def asking(part):
    return [p for p in part.parameters() if p.requires_grad]


@right("parameter_groups")
def parameter_groups(model, rate, decay):
    groups = []
    for depth, part in enumerate(
        [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    ):
        groups.append(
            {
                "params": [p for p in part.parameters() if p.requires_grad],
                "lr": rate * decay**depth,
            }
        )
    return groups


@right("parameter_groups")
def multiplied_on_the_way(model, rate, decay):
    groups, lr = [{"params": asking(model.head), "lr": rate}], rate
    for layer in model.body.encoder.layer[::-1]:
        lr *= decay
        groups.append({"params": asking(layer), "lr": lr})
    groups.append({"params": asking(model.body.embeddings), "lr": lr * decay})
    return groups


@right("parameter_groups")
def from_the_bottom(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    return [
        {"params": asking(x), "lr": rate * decay ** (len(parts) - 1 - i)}
        for i, x in enumerate(parts)
    ]


@right("parameter_groups")
def a_group_for_each(model, rate, decay):
    groups = []
    layers = model.body.encoder.layer
    for p in model.parameters():
        if not p.requires_grad:
            continue
        depth = len(layers) + 1
        if any(p is q for q in model.head.parameters()):
            depth = 0
        for i in range(len(layers)):
            if any(p is q for q in layers[i].parameters()):
                depth = len(layers) - i
        groups.append({"params": p, "lr": rate * decay**depth})
    return groups


@right("parameter_groups")
def by_name_of_the_parameter(model, rate, decay):
    top, groups = len(model.body.encoder.layer), []
    for name, p in model.named_parameters():
        words = name.split(".")
        depth = (
            0
            if words[0] == "head"
            else top + 1
            if words[1] == "embeddings"
            else top - int(words[3])
        )
        if p.requires_grad:
            groups.append({"params": [p], "lr": rate * decay**depth})
    return groups


@right("parameter_groups")
def empty_ones_left_out(model, rate, decay):
    parts = (
        [model.head] + list(model.body.encoder.layer)[::-1] + [model.body.embeddings]
    )
    rates = [rate * pow(decay, i) for i in range(len(parts))]
    groups = [dict(params=asking(part), lr=r) for part, r in zip(parts, rates)]
    return [group for group in groups if group["params"]]


@right("parameter_groups")
def filtered(model, rate, decay):
    parts = [model.head]
    for i in range(len(model.body.encoder.layer) - 1, -1, -1):
        parts.append(model.body.encoder.layer[i])
    parts.append(model.body.embeddings)
    out = []
    while parts:
        out.append(
            {
                "lr": rate,
                "params": list(
                    filter(lambda p: p.requires_grad, parts.pop(0).parameters())
                ),
            }
        )
        rate = rate * decay
    return out


@right("parameter_groups")
def yielded(model, rate, decay):
    def groups():
        yield model.head, 0
        n = len(model.body.encoder.layer)
        for i, layer in enumerate(model.body.encoder.layer):
            yield layer, n - i
        yield model.body.embeddings, n + 1

    return [
        {"params": asking(part), "lr": decay**depth * rate} for part, depth in groups()
    ]


@right("parameter_groups")
def in_a_table(model, rate, decay):
    depths = {"head": 0, "embeddings": 1 + len(model.body.encoder.layer)}
    table = {
        depths["head"]: model.head,
        depths["embeddings"]: model.body.embeddings,
        **{
            len(model.body.encoder.layer) - i: layer
            for i, layer in enumerate(model.body.encoder.layer)
        },
    }
    return [{"params": asking(table[d]), "lr": rate * decay**d} for d in sorted(table)]


@right("parameter_groups")
def generators(model, rate, decay):
    first = {
        "params": (p for p in model.head.parameters() if p.requires_grad),
        "lr": rate,
    }
    rest = [*reversed([*model.body.encoder.layer]), model.body.embeddings]
    return [first] + [
        {
            "params": (p for p in part.parameters() if p.requires_grad),
            "lr": rate * decay**n,
        }
        for n, part in enumerate(rest, start=1)
    ]


@right("parameter_groups")
def recursive(model, rate, decay):
    def go(parts, lr):
        if not parts:
            return []
        return [{"params": asking(parts[0]), "lr": lr}] + go(parts[1:], lr * decay)

    return go(
        [model.head, *list(model.body.encoder.layer)[::-1], model.body.embeddings], rate
    )


def grouped(parts, rates, choose=asking):
    return [{"params": choose(part), "lr": lr} for part, lr in zip(parts, rates)]


def powers(rate, decay, count, first=0):
    return [rate * decay ** (first + i) for i in range(count)]


@wrong("parameter_groups", "the lowest layer learns fastest")
def lowest_first(model, rate, decay):
    parts = [model.head, *model.body.encoder.layer, model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "the parts in the wrong order")
def upside_down(model, rate, decay):
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "the embeddings left out", "parameters that do not move")
def no_embeddings(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer)]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "one rate for the whole body", "other rates below the head")
def two_groups(model, rate, decay):
    return grouped([model.head, model.body], [rate, rate * decay])


@wrong("parameter_groups", "frozen parameters are handed over")
def all_parameters(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(
        parts, powers(rate, decay, len(parts)), lambda part: part.parameters()
    )


@wrong("parameter_groups", "a parameter in two groups")
def body_and_its_parts(model, rate, decay):
    parts = [
        model.head,
        model.body,
        *reversed(model.body.encoder.layer),
        model.body.embeddings,
    ]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "a parameter in two groups")
def model_first(model, rate, decay):
    parts = [model, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", "the head's rate is lowered, too")
def head_lowered(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts), first=1))


@wrong("parameter_groups", "other rates below the head", "one rate for the whole body")
def embeddings_like_the_last_layer(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    rates = powers(rate, decay, len(parts))
    return grouped(parts, [*rates[:-1], rates[1]])


@wrong("parameter_groups", "other rates below the head", "one rate for the whole body")
def embeddings_like_the_lowest_layer(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    rates = powers(rate, decay, len(parts))
    return grouped(parts, [*rates[:-1], rates[-2]])


@wrong("parameter_groups", "other rates below the head")
def first_layer_at_the_full_rate(model, rate, decay):
    layers = grouped(
        list(reversed(model.body.encoder.layer)),
        powers(rate, decay, len(model.body.encoder.layer)),
    )
    last = rate * decay ** len(layers)
    return [
        {"params": asking(model.head), "lr": rate},
        *layers,
        {"params": asking(model.body.embeddings), "lr": last},
    ]


@wrong("parameter_groups", "other rates below the head", "one rate for the whole body")
def one_layer_expected(model, rate, decay):
    parts = [model.head, model.body.encoder.layer, model.body.embeddings]
    return grouped(parts, powers(rate, decay, 3))


@wrong("parameter_groups", "other rates below the head")
def for_three_layers(model, rate, decay):
    layers = model.body.encoder.layer
    below = [
        {"params": asking(layer), "lr": rate * decay ** (3 - i)}
        for i, layer in enumerate(layers)
    ]
    last = {"params": asking(model.body.embeddings), "lr": rate * decay**4}
    return [{"params": asking(model.head), "lr": rate}, *below, last]


@wrong("parameter_groups", "a group without its keys")
def pairs(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return list(zip(map(asking, parts), powers(rate, decay, len(parts))))


@wrong("parameter_groups", "a group without its keys")
def misnamed_key(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"parameters": asking(p), "lr": lr}
        for p, lr in zip(parts, powers(rate, decay, len(parts)))
    ]


@wrong("parameter_groups", "a group without a rate")
def misnamed_rate(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    return [
        {"params": asking(p), "rate": lr}
        for p, lr in zip(parts, powers(rate, decay, len(parts)))
    ]


@wrong("parameter_groups", "a group without its keys")
def an_optimizer(model, rate, decay):
    return torch.optim.Adam(parameter_groups(model, rate, decay))


@wrong("parameter_groups", NOTHING)
def groups_not_returned(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]
    grouped(parts, powers(rate, decay, len(parts)))


@wrong("parameter_groups", NO_NAME)
def layers_misnamed(model, rate, decay):
    parts = [model.head, *reversed(model.body.encoder.layers), model.body.embeddings]
    return grouped(parts, powers(rate, decay, len(parts)))
