"""Answers to parameter_groups."""

from functools import partial

import torch
from answers.core import right, right_edits, wide, wrong, wrong_edits
from answers.signs import IN_PLACE, NO_NAME, NOTHING

from attention_labs.lab07_transfer.parameter_groups import parameter_groups
from nbjudge import Request, edit


@wide("parameter_groups")
def any_rates(g):
    for number in range(24):
        layers = 1 + number % 6
        rate, decay = (0.1 + torch.rand(2, generator=g, dtype=torch.float64)).tolist()
        chance = torch.rand(2 * layers + 11, generator=g)
        asks = (chance > (0.4 if number % 2 else 0.0)).tolist()
        yield Request((rate, decay, [layers, 7, 4, 6], [*asks[:-1], True]))


def asking(part):
    return [p for p in part.parameters() if p.requires_grad]


change = partial(edit, parameter_groups)
PARTS = "[model.head, *reversed(model.body.encoder.layer), model.body.embeddings]"
CHOSEN = "[p for p in part.parameters() if p.requires_grad]"

right("parameter_groups")(parameter_groups)
right_edits(
    "parameter_groups",
    from_the_bottom=change("enumerate(parts)", "enumerate(reversed(parts))")
    & change("decay**depth", "decay ** (len(parts) - 1 - depth)"),
    empty_ones_left_out=change(
        "enumerate(parts)",
        "enumerate(parts) if any(p.requires_grad for p in part.parameters())",
    )
    & change("decay**depth", "pow(decay, depth)"),
)


@right("parameter_groups")
def multiplied_on_the_way(model, rate, decay):
    groups, lr = [{"params": asking(model.head), "lr": rate}], rate
    for layer in model.body.encoder.layer[::-1]:
        lr *= decay
        groups.append({"params": asking(layer), "lr": lr})
    groups.append({"params": asking(model.body.embeddings), "lr": lr * decay})
    return groups


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
def filtered(model, rate, decay):
    parts = [model.head, *list(model.body.encoder.layer)[::-1], model.body.embeddings]
    out = []
    while parts:
        chosen = filter(lambda p: p.requires_grad, parts.pop(0).parameters())
        out.append({"lr": rate, "params": list(chosen)})
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
    layers = model.body.encoder.layer
    table = {0: model.head, len(layers) + 1: model.body.embeddings}
    table |= {len(layers) - i: layer for i, layer in enumerate(layers)}
    return [{"params": asking(table[d]), "lr": rate * decay**d} for d in sorted(table)]


@right("parameter_groups")
def recursive(model, rate, decay):
    def go(parts, lr):
        if not parts:
            return []
        return [{"params": asking(parts[0]), "lr": lr}] + go(parts[1:], lr * decay)

    return go(
        [model.head, *list(model.body.encoder.layer)[::-1], model.body.embeddings], rate
    )


KEYS = "the groups have the wrong format"
TWICE = "a parameter in two groups"
BODY = ("wrong rates below the head", "one rate for the whole body")


@wrong("parameter_groups", "wrong rates")
def by_a_word_in_the_name(model, rate, decay):
    groups, top = [], len(model.body.encoder.layer)
    for name, p in model.named_parameters():
        depth = 0
        if "embeddings." in name:
            depth = top + 1
        elif ".layer." in name:
            depth = top - int(name.split(".layer.")[1].split(".")[0])
        if p.requires_grad:
            groups.append({"params": [p], "lr": rate * decay**depth})
    return groups


wrong_edits(
    "parameter_groups",
    lowest_first=(change("*reversed(", "*("), "the order of the layers is reversed"),
    upside_down=(
        change("(parts)", "(parts[::-1])"),
        "the order of all parts is reversed",
    ),
    no_embeddings=(
        change(", model.body.embeddings", ""),
        "the embeddings are missing",
        "parameters that are not trained",
    ),
    two_groups=(change(PARTS, "[model.head, model.body]"), *BODY),
    all_parameters=(change(CHOSEN, "part.parameters()"),),
    body_and_its_parts=(change("model.head,", "model.head, model.body,"), TWICE),
    model_first=(change("model.head", "model"), TWICE),
    head_lowered=(
        change("enumerate(parts)", "enumerate(parts, start=1)"),
        "the head's rate is multiplied by decay, too",
    ),
    embeddings_like_the_last_layer=(
        change("decay**depth", "decay ** (1 if depth == len(parts) - 1 else depth)"),
        *BODY,
    ),
    embeddings_like_the_lowest_layer=(
        change("decay**depth", "decay ** min(depth, len(parts) - 2)"),
        *BODY,
    ),
    first_layer_at_the_full_rate=(
        change("decay**depth", "decay ** max(depth - 1, 0)"),
        BODY[0],
    ),
    one_layer_expected=(
        change("*reversed(model.body.encoder.layer)", "model.body.encoder.layer"),
        *BODY,
    ),
    for_three_layers=(
        change(
            "decay**depth",
            "decay ** (depth and depth + 5 - len(parts))",
        ),
        BODY[0],
    ),
    pairs=(
        change('{\n            "params": ', "(")
        & change(' "lr":', "")
        & change("depth,\n        }", "depth)"),
        KEYS,
    ),
    misnamed_key=(change('"params"', '"parameters"'), KEYS),
    misnamed_rate=(change('"lr"', '"rate"'), "a group without a rate"),
    an_optimizer=(
        change("return [", "return torch.optim.Adam([")
        & change("enumerate(parts)\n    ]", "enumerate(parts)\n    ])"),
        KEYS,
    ),
    generators=(
        change(CHOSEN, "filter(lambda p: p.requires_grad, part.parameters())"),
        "generators instead of lists",
    ),
    parts_of_parts=(
        change(
            CHOSEN,
            "[p for x in part.children() for p in x.parameters() if p.requires_grad]",
        ),
        "parameters that are not trained",
    ),
    weights_and_biases=(
        change(
            CHOSEN,
            "[p for name, p in part.named_parameters()"
            " if p.requires_grad and name.endswith(('weight', 'bias'))]",
        ),
        "parameters that are not trained",
    ),
    left_in_eval=(change("return [", "model.eval(); return ["), IN_PLACE),
    groups_not_returned=(change("return [", "groups = ["), NOTHING),
    layers_misnamed=(change("encoder.layer", "encoder.layers"), NO_NAME),
)
