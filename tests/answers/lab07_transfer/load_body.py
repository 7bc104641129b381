"""Answers to load_body."""

import copy

import torch
from answers.core import draw, right, wide, wrong
from answers.signs import NO_NAME, NOTHING
from torch import nn

from attention_labs.lab07_transfer.load_body import NAMES, SHAPES
from nbjudge.question import Request


def chance(g, share):
    return float(torch.rand((), generator=g)) < share


@wide("load_body")
def any_file(g):
    for number in range(60):
        prefix = ("bert.", "old.reader.")[number % 2]
        present, odd = (0.95, 0.5, 0.2)[number % 3], 0.075 if number % 2 else 0.0
        shares = {prefix: present, "": 0.3, "copy." + prefix: 0.3}
        file = {
            way + name: draw(g, *(n + chance(g, odd) for n in SHAPES.get(name, (3, 2))))
            for way, share in shares.items()
            for name in NAMES
            if chance(g, share)
        }
        own = [draw(g, *shape) for shape in SHAPES.values()]
        yield Request((prefix, list(file), *own, *file.values()))


def refuse(name, tensor, wanted):
    raise ValueError(
        f"{name} has shape {tuple(tensor.shape)}, the body wants {tuple(wanted.shape)}"
    )


@right("load_body")
def load_body(body, weights, prefix):
    own = body.state_dict()
    fitting = {
        name.removeprefix(prefix): x
        for name, x in weights.items()
        if name.startswith(prefix)
    }
    for name, x in fitting.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
    missing, _ = body.load_state_dict(fitting, strict=False)
    return missing, [
        name for name in weights if name not in {prefix + known for known in own}
    ]


@right("load_body")
def prefix_put_on(body, weights, prefix):
    own = {prefix + name: x for name, x in body.state_dict().items()}
    both = own.keys() & weights.keys()
    for name in both:
        if own[name].size() != weights[name].size():
            raise ValueError(f"shapes differ for {name}")
    for name in both:
        own[name].copy_(weights[name])
    missing = {name[len(prefix) :] for name in own.keys() - weights.keys()}
    return missing, weights.keys() - own.keys()


@right("load_body")
def parameters_under_no_grad(body, weights, prefix):
    missing = []
    for name, parameter in body.named_parameters():
        theirs = weights.get(prefix + name)
        if theirs is None:
            missing.append(name)
        elif theirs.shape != parameter.shape:
            raise ValueError(
                f"{name}: {tuple(theirs.shape)} is not {tuple(parameter.shape)}"
            )
    used = []
    with torch.no_grad():
        for name, parameter in body.named_parameters():
            if prefix + name in weights:
                parameter.copy_(weights[prefix + name])
                used.append(prefix + name)
    return missing, [name for name in weights if name not in used]


@right("load_body")
def copied_through_data(body, weights, prefix):
    parameters = dict(body.named_parameters())
    wrong_ones = [
        n
        for n, p in parameters.items()
        if prefix + n in weights and weights[prefix + n].shape != p.shape
    ]
    if wrong_ones:
        raise ValueError(", ".join(wrong_ones))
    missing = set(parameters)
    unexpected = set(weights)
    for name, parameter in parameters.items():
        if prefix + name in weights:
            parameter.data[:] = weights[prefix + name]
            missing.remove(name)
            unexpected.remove(prefix + name)
    return sorted(missing), sorted(unexpected)


@right("load_body")
def cloned_into_data(body, weights, prefix):
    found, unexpected = {}, []
    own = dict(body.named_parameters())
    for name, tensor in weights.items():
        if name[: len(prefix)] == prefix and name[len(prefix) :] in own:
            found[name[len(prefix) :]] = tensor
        else:
            unexpected.append(name)
    for name in found:
        if list(found[name].shape) != list(own[name].shape):
            raise ValueError("another shape: " + name)
    for name in found:
        own[name].data = found[name].clone()
    return [name for name in own if name not in found], unexpected


@right("load_body")
def a_new_state(body, weights, prefix):
    state = body.state_dict()
    merged, missing = {}, []
    for name in state:
        if prefix + name in weights:
            merged[name] = weights[prefix + name]
            if merged[name].shape != state[name].shape:
                raise ValueError(name)
        else:
            merged[name] = state[name]
            missing.append(name)
    body.load_state_dict(merged)
    return missing, list(
        filter(
            lambda name: name.removeprefix(prefix) not in state or name in state,
            weights,
        )
    )


@right("load_body")
def error_taken_apart(body, weights, prefix):
    table = {k[len(prefix) :]: v for k, v in weights.items() if k.startswith(prefix)}
    trial = copy.deepcopy(body)
    try:
        trial.load_state_dict(table, strict=False)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    report = body.load_state_dict(table, strict=False)
    others = [k for k in weights if not k.startswith(prefix)]
    return report.missing_keys, [prefix + k for k in report.unexpected_keys] + others


@right("load_body")
def one_module_at_a_time(body, weights, prefix):
    pairs, used = [], set()
    missing = []
    for where, module in body.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{where}.{name}" if where else name
            if (prefix + full) in weights:
                pairs.append((parameter, weights[prefix + full]))
                used.add(prefix + full)
            else:
                missing.append(full)
    if any(a.shape != b.shape for a, b in pairs):
        raise ValueError("some tensor has another shape")
    for parameter, value in pairs:
        parameter.detach().copy_(value)
    return missing, [name for name in weights if name not in used]


@right("load_body")
def with_get_parameter(body, weights, prefix):
    names = [name for name, _ in body.named_parameters()]
    known = [name for name in names if f"{prefix}{name}" in weights]
    for name in known:
        if body.get_parameter(name).shape != weights[f"{prefix}{name}"].shape:
            raise ValueError(f"{name} does not fit")
    for name in known:
        nn.init._no_grad_fill_(body.get_parameter(name), 0.0)
        with torch.no_grad():
            body.get_parameter(name).add_(weights[f"{prefix}{name}"])
    return tuple(n for n in names if n not in known), tuple(
        w for w in weights if w not in [prefix + n for n in known]
    )


@right("load_body")
@torch.no_grad()
def counted_down(body, weights, prefix):
    left = dict(weights)
    missing, jobs = [], []
    for name, tensor in body.state_dict().items():
        value = left.pop(prefix + name, None)
        if value is None:
            missing += [name]
            continue
        if value.shape != tensor.shape:
            raise ValueError(f"{name}: shape {tuple(value.shape)}")
        jobs += [(tensor, value)]
    for tensor, value in jobs:
        tensor.set_(tensor).zero_().add_(value)
    return missing, list(left)


@right("load_body")
def partitioned(body, weights, prefix):
    own = body.state_dict()
    fitting = {}
    unexpected = []
    for name, tensor in weights.items():
        head, _, tail = name.partition(prefix)
        if head == "" and tail in own:
            fitting[tail] = tensor
        else:
            unexpected.append(name)
    for name, tensor in fitting.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{name} does not fit")
    return body.load_state_dict(fitting, strict=False).missing_keys, unexpected


@wrong(
    "load_body",
    "letters stripped, not the prefix",
    "not everything arrives in the body",
)
def stripped(body, weights, prefix):
    own = body.state_dict()
    fitting = {
        name.lstrip(prefix): x for name, x in weights.items() if name.startswith(prefix)
    }
    for name, x in fitting.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
    missing, _ = body.load_state_dict(fitting, strict=False)
    return missing, [
        name for name in weights if name not in {prefix + known for known in own}
    ]


@wrong("load_body", "the prefix left on", "nothing arrives in the body")
def prefix_forgotten(body, weights, prefix):
    missing, unexpected = body.load_state_dict(weights, strict=False)
    return missing, unexpected


@wrong("load_body", "names without the prefix are taken, too", "other names are told")
def any_name_taken(body, weights, prefix):
    table = {name.removeprefix(prefix): x for name, x in weights.items()}
    own = body.state_dict()
    for name in table:
        if name in own and table[name].shape != own[name].shape:
            refuse(name, table[name], own[name])
    return tuple(body.load_state_dict(table, strict=False))


@wrong("load_body", "other names are told")
def unexpected_without_prefix(body, weights, prefix):
    own = body.state_dict()
    table = {
        name.removeprefix(prefix): x
        for name, x in weights.items()
        if name.startswith(prefix)
    }
    for name in table:
        if name in own and table[name].shape != own[name].shape:
            refuse(name, table[name], own[name])
    return tuple(body.load_state_dict(table, strict=False))


@wrong("load_body", "the wrong error")
def torchs_own_error(body, weights, prefix):
    own = body.state_dict()
    table = {
        name.removeprefix(prefix): x
        for name, x in weights.items()
        if name.startswith(prefix)
    }
    missing, _ = body.load_state_dict(table, strict=False)
    return missing, [
        name for name in weights if name not in {prefix + known for known in own}
    ]


@wrong("load_body", "every name has to have a partner")
def strict(body, weights, prefix):
    table = {
        name.removeprefix(prefix): x
        for name, x in weights.items()
        if name.startswith(prefix)
    }
    return body.load_state_dict(table)


@wrong("load_body", "another shape is passed over")
def fitting_shapes_only(body, weights, prefix):
    own = body.state_dict()
    table = {
        n.removeprefix(prefix): x for n, x in weights.items() if n.startswith(prefix)
    }
    table = {n: x for n, x in table.items() if n in own and x.shape == own[n].shape}
    missing, _ = body.load_state_dict(table, strict=False)
    return missing, [n for n in weights if n.removeprefix(prefix) not in table]


@wrong("load_body", "refused too late")
def refused_on_the_way(body, weights, prefix):
    own, missing = body.state_dict(), []
    for name, tensor in own.items():
        if prefix + name not in weights:
            missing.append(name)
        elif weights[prefix + name].shape != tensor.shape:
            refuse(name, weights[prefix + name], tensor)
        else:
            tensor.copy_(weights[prefix + name])
    return missing, [
        name for name in weights if name not in {prefix + known for known in own}
    ]


@wrong("load_body", "pointed to, not copied")
def assigned(body, weights, prefix):
    own = body.state_dict()
    table = {
        name.removeprefix(prefix): x
        for name, x in weights.items()
        if name.startswith(prefix)
    }
    for name, x in table.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
    for name, parameter in body.named_parameters():
        if name in table:
            parameter.data = table[name]
    return [n for n in own if n not in table], [
        n for n in weights if n not in {prefix + known for known in own}
    ]


@wrong("load_body", "nothing arrives in the body")
def new_parameters(body, weights, prefix):
    own = body.state_dict()
    table = {
        name.removeprefix(prefix): x
        for name, x in weights.items()
        if name.startswith(prefix)
    }
    for name, x in table.items():
        if name in own and x.shape != own[name].shape:
            refuse(name, x, own[name])
        if name in own:
            module, _, last = name.rpartition(".")
            setattr(body.get_submodule(module), last, nn.Parameter(x.clone()))
    return [n for n in own if n not in table], [
        n for n in weights if n not in {prefix + known for known in own}
    ]


@wrong("load_body", "copied with the gradient on")
def gradient_on(body, weights, prefix):
    own = dict(body.named_parameters())
    for name, parameter in own.items():
        if prefix + name in weights:
            parameter.copy_(weights[prefix + name])
    return [n for n in own if prefix + n not in weights], [
        n for n in weights if n.removeprefix(prefix) not in own
    ]


@wrong("load_body", "frozen on the way")
def no_gradient_any_more(body, weights, prefix):
    own = dict(body.named_parameters())
    for name, parameter in own.items():
        if prefix + name in weights and weights[prefix + name].shape != parameter.shape:
            refuse(name, weights[prefix + name], parameter)
    for name, parameter in own.items():
        parameter.requires_grad = False
        if prefix + name in weights:
            parameter.copy_(weights[prefix + name])
    return [n for n in own if prefix + n not in weights], [
        n for n in weights if n not in {prefix + k for k in own}
    ]


@wrong("load_body", "missing and unexpected exchanged", "other names are told")
def exchanged(body, weights, prefix):
    return load_body(body, weights, prefix)[::-1]


@wrong("load_body", NOTHING)
def no_report(body, weights, prefix):
    load_body(body, weights, prefix)


@wrong("load_body", "nothing arrives in the body")
def the_table_alone(body, weights, prefix):
    own = body.state_dict()
    for name in own:
        if prefix + name in weights:
            own[name] = weights[prefix + name]
    return [n for n in own if prefix + n not in weights], [
        n for n in weights if n.removeprefix(prefix) not in own
    ]


@wrong("load_body", NO_NAME, "every name has to have a partner")
def all_names_expected(body, weights, prefix):
    own = body.state_dict()
    for name in own:
        own[name].copy_(weights[prefix + name])
    return [], [n for n in weights if n.removeprefix(prefix) not in own]
