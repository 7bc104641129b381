"""Answers to load_body."""

import copy
from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.signs import IN_PLACE, NO_NAME, NOTHING

from attention_labs.lab07_transfer.load_body import OTHERS, load_body
from attention_labs.lab07_transfer.shared import Body
from nbjudge import Request, edit


def chance(g, share):
    return float(torch.rand((), generator=g)) < share


@wide("load_body")
def any_file(g):
    shapes = {name: x.shape for name, x in Body(2, 7, 4).state_dict().items()}
    for number in range(60):
        prefix = ("bert.", "old.reader.")[number % 2]
        present, odd = (0.95, 0.5, 0.2)[number % 3], 0.075 if number % 2 else 0.0
        shares = {prefix: present, "": 0.3, "copy." + prefix: 0.3}
        file = {
            way + name: draw(g, *(n + chance(g, odd) for n in shapes.get(name, (3, 2))))
            for way, share in shares.items()
            for name in (*shapes, *OTHERS)
            if chance(g, share)
        }
        own = {name: draw(g, *shape) for name, shape in shapes.items()}
        yield Request(([2, 7, 4], own, [True] * 8, file, prefix))


change = partial(edit, load_body)
COPY = "own[name].copy_(x)"
COPIED = f"for name, x in fitting.items():\n        {COPY}"
STRICT = "body.load_state_dict(fitting, strict=False)"
BEGINS, REST = "name.startswith(prefix)", "name.removeprefix(prefix)"
DIFFERS = "if own[name].shape != x.shape"
REPORT = "return missing, unexpected"

right_edits(
    "load_body",
    load_body=change(COPIED, STRICT),
    themselves_under_no_grad=change("state_dict()", "state_dict(keep_vars=True)")
    & change(COPY, f"with torch.no_grad(): {COPY}"),
    copied_through_data=change(
        COPY, "body.state_dict(keep_vars=True)[name].data[:] = x"
    )
    & change(REPORT, "return sorted(missing), sorted(unexpected)"),
    cloned_into_data=change(
        COPY,
        "theirs = x.to(own[name].dtype, copy=True);"
        " body.state_dict(keep_vars=True)[name].data = theirs",
    )
    & change(BEGINS, "name[: len(prefix)] == prefix")
    & change(REST, "name[len(prefix) :]"),
    with_get_parameter=change(
        COPY,
        "with torch.no_grad():"
        " part, _, last = name.rpartition('.');"
        " getattr(body.get_submodule(part), last).fill_(0.0).add_(x)",
    )
    & change(REPORT, "return tuple(missing), tuple(unexpected)"),
    partitioned=change(BEGINS, "name.partition(prefix)[0] == ''")
    & change(REST, "name.partition(prefix)[2]")
    & change(COPIED, f"missing = {STRICT}.missing_keys"),
)


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
    for where, module in body.named_modules(remove_duplicate=False):
        for name in module.state_dict():
            full = f"{where}.{name}" if where else name
            if "." in name:
                continue
            parameter = getattr(module, name)
            if (prefix + full) in weights:
                pairs.append((full, parameter, weights[prefix + full]))
                used.add(prefix + full)
            else:
                missing.append(full)
    if any(a.shape != b.shape for _, a, b in pairs):
        raise ValueError(", ".join(n for n, a, b in pairs if a.shape != b.shape))
    for _, parameter, value in pairs:
        parameter.detach().copy_(value)
    return missing, [name for name in weights if name not in used]


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


ARRIVES = "nothing is copied into the body"
PARTNER = "an error for names that do not match"
NAMES_TOLD = "wrong names are returned"
UNCHECKED = change(DIFFERS, "if False")

wrong_edits(
    "load_body",
    stripped=(
        change(REST, "name.lstrip(prefix)")
        & change(
            REPORT,
            "return missing, [x for x in weights if x not in {prefix + y for y in own}]",
        ),
        "single letters are stripped, not the prefix",
        "not everything is copied into the body",
    ),
    prefix_forgotten=(
        UNCHECKED
        & change(COPIED, "return tuple(body.load_state_dict(weights, strict=False))"),
        "the prefix is not removed",
        ARRIVES,
    ),
    any_name_taken=(
        change(f" if {BEGINS}", "")
        & change(
            REPORT, "return missing, [name for name in fitting if name not in own]"
        ),
        "names without the prefix are loaded, too",
        "an error for a tensor that does not belong to the body",
        NAMES_TOLD,
    ),
    unexpected_without_prefix=(
        change(REPORT, "return missing, [x for x in ours.values() if x not in own]"),
        "the old head's names are not returned",
    ),
    torchs_own_error=(
        UNCHECKED & change(COPIED, STRICT),
        "an unexpected error about mismatched shapes",
    ),
    strict=(
        UNCHECKED
        & change(" if ours[name] in own", "")
        & change(COPIED, "return body.load_state_dict(fitting)"),
        PARTNER,
    ),
    fitting_shapes_only=(
        UNCHECKED
        & change("in own}", "in own and weights[name].shape == own[ours[name]].shape}")
        & change(
            REPORT,
            "return missing, [x for x in weights if x.removeprefix(prefix) not in fitting]",
        ),
        "a different shape raises no error",
    ),
    refused_on_the_way=(
        change(DIFFERS, f"if own[name].shape == x.shape: {COPY}\n        else"),
        "the error comes too late",
    ),
    assigned=(
        change(COPY, "body.get_parameter(name).data = x"),
        "the body shares memory with the file",
    ),
    new_parameters=(
        change(
            COPY,
            "setattr(body.get_submodule(name.rpartition('.')[0]),"
            " name.rpartition('.')[2], nn.Parameter(x.clone(), x.is_floating_point()))",
        ),
        "the body's tensors are replaced",
    ),
    gradient_on=(
        UNCHECKED & change(COPY, "body.get_parameter(name).copy_(x)"),
        "in-place change of a tensor that requires a gradient",
    ),
    no_gradient_any_more=(
        change(COPIED, f"body.requires_grad_(False)\n    {COPIED}"),
        "the parameters are frozen",
    ),
    exchanged=(
        change(REPORT, "return unexpected, missing"),
        "missing and unexpected swapped",
        NAMES_TOLD,
    ),
    no_report=(change(REPORT, ""), NOTHING),
    the_table_alone=(UNCHECKED & change(COPY, "own[name] = x"), ARRIVES),
    dtype_of_the_first=(
        change(
            COPY,
            "kind = next(body.parameters()).dtype;"
            " body.state_dict(keep_vars=True)[name].data = x.to(kind, copy=True)",
        ),
        "a tensor of the body has changed its dtype",
    ),
    left_in_eval=(change(REPORT, "body.eval(); return missing, unexpected"), IN_PLACE),
    two_iterators=(change(REPORT, "return iter(missing), iter(unexpected)"),),
    by_attribute=(
        change(
            "own = body.state_dict()",
            "own = {name: x.detach() for name, x in (*body.state_dict().items(),"
            " *body.named_buffers()) if prefix + name in weights or name in"
            " body.state_dict()}",
        ),
        "non-persistent buffers are expected in the file",
        "an error for a tensor that does not belong to the body",
        NAMES_TOLD,
    ),
    as_many_of_as_many=(
        change(
            DIFFERS,
            "if (own[name].numel(), own[name].dim()) != (x.numel(), x.dim())",
        )
        & change(COPY, "own[name].copy_(x.reshape(own[name].shape))"),
        "a different shape raises no error",
    ),
    first_lengths=(
        change(DIFFERS, "if not x.dim() or len(own[name]) != len(x)")
        & change(COPIED, STRICT),
        "an unexpected error about mismatched shapes",
    ),
    buffers_recorded=(
        change(
            COPY,
            "(own[name] if name in dict(body.named_parameters())"
            " else body.get_buffer(name)).copy_(x)",
        ),
        "a tensor requires a gradient that did not before",
    ),
    part_by_part=(
        change(
            "own = body.state_dict()",
            "own = {f'{part}.{name}': x for part, child in body.named_children()"
            " for name, x in child.state_dict().items()}",
        ),
        "not everything is copied into the body",
    ),
    the_first_name_only=(
        change(
            "own = body.state_dict()",
            "own = {name: x.detach() for name, x in (*body.named_parameters(),"
            " *body.named_buffers()) if name in body.state_dict()}",
        ),
        NAMES_TOLD,
    ),
    frozen_if_refused=(
        change(
            "for name, x in fitting.items():\n        if",
            "asked = [p.requires_grad for p in body.parameters()];"
            " body.requires_grad_(False)\n    for name, x in fitting.items():\n        if",
        )
        & change(
            REPORT,
            "[p.requires_grad_(ask) for p, ask in zip(body.parameters(), asked)];"
            " return missing, unexpected",
        ),
        "the parameters are frozen",
    ),
    all_names_expected=(
        UNCHECKED
        & change(COPIED, "for name in own: own[name].copy_(weights[prefix + name])"),
        NO_NAME,
        PARTNER,
    ),
)
