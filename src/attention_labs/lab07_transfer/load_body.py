"""Question `load_body`: copy the tensors of a file into a body, by their names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.shared import LOADING, NOT_EMPTY, SIZES, Body
from nbjudge import (
    ANYWHERE,
    PLAIN,
    Battery,
    Changed,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    error_like,
    in_words,
    normal,
    of_output,
    same_copies,
    same_numbers,
)
from nbjudge.comparisons import left_alone

FOLDER = "16_transfer.html#transfer-folder"


def load_body(
    body: nn.Module, weights: Mapping[str, Tensor], prefix: str
) -> tuple[Sequence[str], Sequence[str]]:
    """Copy a file's tensors into a body, and tell the names that had no partner."""
    own = body.state_dict()
    ours = {
        name: name.removeprefix(prefix) for name in weights if name.startswith(prefix)
    }
    fitting = {ours[name]: weights[name] for name in ours if ours[name] in own}
    for name, x in fitting.items():
        if own[name].shape != x.shape:
            raise ValueError(f"{name} is of shape {tuple(x.shape)} in the file")
    for name, x in fitting.items():
        own[name].copy_(x)
    missing = [name for name in own if name not in fitting]
    unexpected = [name for name in weights if ours.get(name) not in own]
    return missing, unexpected


def _use_load(
    load: Any,
    sizes: Sequence[Any],
    own: Mapping[str, Tensor],
    asks: Sequence[bool],
    file: dict[str, Tensor],
    prefix: str,
) -> Any:
    """Load a file.

    Returns:
        The body's numbers; the names told as missing, and as unexpected; whether the
        file was refused, and a tensor named that does not fit; and of every tensor
        whether it is what it was: see STATES. Half of the file asks for gradients.
    """
    body, known = Body(*sizes), [*own, *file]
    for name, x in body.state_dict(keep_vars=True).items():
        whole = not x.is_floating_point()
        x.data = own[name].to(x.dtype if whole else own[name].dtype, copy=True)
    for parameter, ask in zip(body.parameters(), asks):
        parameter.requires_grad_(ask)
    kept, modes = body.state_dict(keep_vars=True), [*map(_mode, body.modules())]
    dtypes = {name: x.dtype for name, x in kept.items()}
    lent = [x for x in file.values() if x.is_floating_point()][::2]
    for x in lent:
        x.requires_grad_()
    theirs = {x.untyped_storage().data_ptr() for x in file.values()}
    odd = [x for x in own if file.get(prefix + x, own[x]).shape != own[x].shape]
    report, said = ((), ()), None
    try:
        with torch.enable_grad():
            report = load(body, file, prefix)
    except ValueError as error:
        if not odd:
            raise
        said = str(error)
    if report is None:
        return None
    told = [_places(part, known) for part in tuple(report)]
    now = body.state_dict(keep_vars=True)
    states = [
        (
            x.untyped_storage().data_ptr() not in theirs,
            x is kept[name],
            x.dtype == dtypes[name],
            x.requires_grad,
        )
        for name, x in now.items()
    ]
    values = torch.cat([x.detach().flatten().double() for x in now.values()])
    refused = (said is not None, any(name in (said or "") for name in odd))
    flags = (torch.tensor(x, dtype=torch.float64) for x in (refused, states))
    outputs = values, *told, *flags
    same = modes == [*map(_mode, body.modules())] and all(map(_asks, lent))
    return outputs if same else Changed(outputs)


def _mode(module: nn.Module) -> bool:
    return module.training


def _asks(x: Tensor) -> bool:
    return x.requires_grad


STATES = (
    "memory of its own",
    "its place in the body",
    "its dtype",
    "requires_grad as it was",
)


def _places(names: Any, known: Sequence[str]) -> Tensor:
    """Write names as numbers, in order; a name that nobody knows is -1."""
    if isinstance(names, str):
        raise TypeError("a string was returned, wanted a list of names")
    if not hasattr(names, "__len__"):
        raise TypeError(f"a {type(names).__name__} was returned, wanted a list")
    places = sorted(known.index(name) if name in known else -1 for name in names)
    return torch.tensor(places, dtype=torch.long)


# What the names in a file begin with: letters that the body's names begin with, too;
# others; and what stands in the middle of the body's names.
PREFIXES = (
    ("bert.", "old.reader.", "a-model.", "teacher.", "re(al)."),
    ("bart.", "gpt.", "my.old.", "a+b."),
    ("encoder.",),
    ("e",),
)
# What another part of the file's model may be called.
OTHERS = (
    *("embeddings.norm.weight", "encoder.layer.99.0.weight", "pooler.bias"),
    "embeddings.places",  # the body has it, and does not save it
)
# Other shapes for a tensor; some of them are the same for a vector.
ODD = (
    lambda x: x[None],
    lambda x: torch.cat([x, x]) if x.dim() > 1 else x,
    lambda x: torch.cat([x, x], -1) if x.dim() > 1 else x,
    lambda x: x.mT if x.dim() > 1 else x,
    lambda x: x.flatten(),
    lambda x: x[:1],
    lambda x: x[0],
)


def _body(d: Draw, tied: bool = False) -> dict[str, Tensor]:
    state = Body(d.L, d.V, d.D, tied).state_dict()
    body = {
        name: normal(d, *x.shape).to(d.one_of((torch.float32, torch.float64)))
        if x.is_floating_point()
        else torch.randint(d.one_of((9, 1 << 40)), x.shape, generator=d)
        for name, x in state.items()
    }
    return _tied(body) if tied else body


def _tied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Let the part that has two names have the same numbers under both."""
    return {
        name: tensors[name.replace("encoder.norm", "embeddings.1")] for name in tensors
    }


def _mixed(d: Draw, names: Sequence[str], least: int = 0) -> list[str]:
    """Draw some of these names, in another order."""
    order = torch.randperm(len(names), generator=d).tolist()
    return [names[i] for i in order[: d.number(least, len(names))]]


def _file(
    d: Draw, prefix: object, file: Mapping[str, Tensor], tied: bool = False
) -> Request:
    """Hand over a body and a file, in any order, in all dtypes, partly frozen."""
    dtypes, own = (torch.float32, torch.float64, torch.bfloat16), _body(d, tied)
    written = {}
    for name in _mixed(d, [*file], len(file)):
        x, dtype = file[name], d.one_of(dtypes)
        written[name] = x.to(dtype) if x.is_floating_point() else x
    asks = [d.number(0, 3) > 0 for _ in own]
    sizes = [d.L, d.V, d.D, tied]
    return Request((sizes, own, asks, _tied(written) if tied else written, prefix))


def _fitting(
    d: Draw, prefix: object, least: int | None = None, tied: bool = False
) -> dict[str, Tensor]:
    """Draw tensors for all of the body's names, or some; and an old head's."""
    body = _body(d, tied)
    names = body if least is None else _mixed(d, [*body], least)
    file = {f"{prefix}{name}": body[name] for name in names}
    return file | {"old." + name: normal(d, d.D) for name in OTHERS}


def _ordinary(d: Draw) -> list[Request]:
    prefixes = map(d.one_of, PREFIXES[:2])
    return [_file(d, prefix, _fitting(d, prefix, 3)) for prefix in prefixes]


def _look_alikes(d: Draw) -> list[Request]:
    """Let names be alike, in files that fit in part, not at all, and are empty."""
    files = [("one.", _fitting(d, "another.")), ("one.", {})]
    for number, prefix in enumerate(str(d.one_of(choices)) for choices in PREFIXES):
        alike = {
            change: normal(d, *(x.shape if number % 2 else (d.D + 1,))).to(x.dtype)
            for name, x in _body(d).items()
            for change in (
                name,
                prefix * 2 + name,
                "copy." + prefix + name,
                prefix.replace(".", "_") + name,
                prefix.upper() + name,
                prefix + name + ".more",
                prefix + name.upper(),
            )
        }
        more = {prefix + name: normal(d, d.D) for name in OTHERS}
        files.append((prefix, alike | more | _fitting(d, prefix, 2)))
    two_names = _file(d, "one.", _fitting(d, "one.", tied=True), tied=True)
    return [*(_file(d, *one) for one in files), two_names]


def _odd(d: Draw) -> list[Request]:
    """Let one tensor have another shape: one of the first, of the last, of the rest."""
    requests = []
    for way, change in enumerate(ODD):
        prefix = d.one_of(PREFIXES[way % 2])
        file = _fitting(d, prefix)
        names = [x for x in file if change(file[x]).shape != file[x].shape]
        names = [x for x in names if x.startswith(prefix)]
        if names:
            name = (names[0], names[-1], str(d.one_of(names)))[way % 3]
            requests.append(_file(d, prefix, file | {name: change(file[name])}))
    return requests


def _same_names(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Compare the names that are told, without telling them."""
    told = zip(("missing", "unexpected"), reply.outputs[1:], reference.outputs[1:])
    for what, given, wanted in told:
        if given.numel() != wanted.numel() or not torch.equal(given, wanted):
            seen, right = (f"{x.numel()} names told as {what}" for x in (given, wanted))
            return Finding(seen, right if seen != right else f"{right}: other ones")
    return None


def _refused(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    seen = reply.error or "no error for a tensor of another shape"
    if _said_no(reply):
        seen = "" if reply.outputs[3][1] else "a ValueError that names no such tensor"
    return Finding(seen, "a ValueError that names the tensor") if seen else None


def _said_no(reply: Reply) -> bool:
    return len(reply.outputs) == 5 and bool(reply.outputs[3][0])


def _what_became(request: Request, reply: Reply, reference: Reply) -> Finding:
    """Say which state of the body's tensors is another one."""
    lost = (reply.outputs[4] != reference.outputs[4]).sum(0)
    which = int(lost.argmax())
    return Finding(
        f"{lost[which]} of the body's tensors without {STATES[which]}", "none"
    )


_numbers = of_output(0, each_of(same_numbers, same_copies))
_kept = in_words(of_output(4, same_numbers), _what_became)


def _kept_if_any(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    return None if reply.error else _kept(request, reply, reference)


def _arrived(least: int, request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether some numbers, this many of them at least, are right; the rest is old."""
    given, wanted = reply.outputs[0], reference.outputs[0]
    before = torch.cat([x.flatten() for x in request.inputs[1].values()])
    right = ((given - wanted).abs() < 1e-5) & ((before - wanted).abs() >= 1e-5)
    old = close(torch.where(right, before, given), before)
    return old and not close(given, wanted) and bool(least <= right.sum())


# Each tensor is copied before the next one is looked at.
COPY_FIRST = """if own[name].shape == x.shape:
            own[name].copy_(x)
    for name, x in fitting.items():
        if own[name].shape != x.shape"""
LOAD = "body.load_state_dict(fitting, strict=False"
COPY = "for name, x in fitting.items():\n        own[name].copy_(x)"

BATTERY = Battery(PLAIN, _ordinary, SIZES, leaves_out={"zero": NOT_EMPTY})

QUESTION = Question(
    name="load_body",
    reference=load_body,
    use=_use_load,
    plain=True,
    battery=BATTERY,
    requirements={
        "copies": "Remove the prefix from those names of the file that begin with it."
        " If the rest is a name of the body, copy the tensor into the body's tensor of"
        " this name.",
        "shares": "The body must not share memory with the file's tensors.",
        "tensors": "The body's tensors are those in `body.state_dict()`: its"
        " parameters, and the buffers that are saved with them. No body has batch"
        " normalization.",
        "dtype": "Keep their dtype and their `requires_grad`, even if the file's"
        " tensors have different ones.",
        "missing": "The *missing* names are those of the body's tensors that the file"
        " does not have.",
        "unexpected": "The *unexpected* names are those of the file's tensors that the"
        " body does not have, including the old head's. Write them as in the file,"
        " with the prefix if they have one.",
        "order": "Neither list needs a particular order.",
        "refused": "If a tensor's name matches but its shape does not, raise a"
        " `ValueError` that contains the name, with or without the prefix. Raise it"
        " before you copy anything.",
        "body": "body: a module; copy into its tensors in place.",
        "weights": "weights: a dict from the file's names to tensors; do not change"
        " it.",
        "prefix": "prefix: the beginning of the body's names in the file.",
        "returns": "The missing names, as in the body, and the unexpected names, as in"
        " the file.",
        "raises": "ValueError: a tensor's shape differs from that of the body's"
        " tensor; nothing is copied.",
    },
    properties=(
        BATTERY.numbers(
            "every tensor of the body gets its numbers, if the file has them",
            1,
            _numbers,
            checks=("copies", "tensors", "prefix"),
        ),
        BATTERY.line(
            "a tensor with a different shape raises a ValueError with its name, and"
            " nothing is copied",
            1,
            _odd,
            each_of(_refused, _numbers),
            checks=("refused", "raises"),
        ),
        BATTERY.edges(
            1,
            each_of(_numbers, _same_names),
            ("missing", "unexpected", "order", "returns", "prefix"),
            "the missing and the unexpected names; names that differ only in their"
            " first letters; edge cases",
            _look_alikes,
        ),
        replace(
            BATTERY.manners(
                1,
                each_of(_kept, left_alone),
                ("shares", "dtype", "body", "weights"),
            ),
            throughout=each_of(_kept_if_any, left_alone),
            claim="copied into the body's own tensors, which are not replaced; the"
            " file's tensors are unchanged",
        ),
    ),
    mistakes=(
        Mistake(
            "single letters are stripped, not the prefix",
            "lstrip removes single letters: all leading ones that occur in its"
            " argument. removeprefix removes the prefix as a whole.",
            LOADING,
            (
                edit(load_body, "removeprefix", "lstrip"),
                edit(load_body, "removeprefix", "lstrip")
                & edit(
                    load_body,
                    "ours.get(name) not in own",
                    "not ours.get(name) or name.removeprefix(prefix) not in own",
                ),
            ),
        ),
        Mistake(
            "the prefix is not removed",
            "The file has prefix + name where the body has name. Remove the prefix"
            " before you compare.",
            LOADING,
            edit(load_body, "name.removeprefix(prefix)", "name")
            & edit(load_body, " if name.startswith(prefix)", ""),
        ),
        Mistake(
            "names without the prefix are loaded, too",
            "Names that do not begin with the prefix belong to a different part of the"
            " file's model. Do not copy them.",
            LOADING,
            edit(load_body, " if name.startswith(prefix)", ""),
        ),
        Mistake(
            "the prefix is accepted anywhere in the name",
            "A name has to *begin* with the prefix.",
            LOADING,
            edit(load_body, "name.removeprefix(prefix)", "name.split(prefix)[-1]")
            & edit(load_body, "name.startswith(prefix)", "prefix in name"),
        ),
        Mistake(
            "the prefix is removed everywhere in the name",
            "The prefix is only at the beginning of a name. If the same letters occur"
            " again later in the name, keep them there.",
            LOADING,
            (
                edit(load_body, "removeprefix(prefix)", 'replace(prefix, "")'),
                edit(load_body, "name.removeprefix(prefix)", "name.split(prefix)[-1]"),
            ),
        ),
        Mistake(
            "buffers are not loaded",
            "`body.state_dict()` has the parameters and the saved buffers.",
            LOADING,
            edit(
                load_body,
                "body.state_dict()",
                "{name: p.detach() for name, p in body.named_parameters()}",
            ),
        ),
        Mistake(
            "non-persistent buffers are expected in the file",
            "`body.state_dict()` has only the buffers that are saved. named_buffers"
            " has more.",
            LOADING,
            edit(
                load_body,
                "body.state_dict()",
                "{name: x.detach() for name, x in (*body.named_parameters(),"
                " *body.named_buffers())}",
            ),
        ),
        Mistake(
            "the old head's names are not returned",
            "Every name of the file that the body does not have is unexpected, with"
            " or without the prefix.",
            LOADING,
            (
                edit(
                    load_body, "for name in weights if ours", "for name in ours if ours"
                ),
                edit(
                    load_body,
                    "[name for name in weights if ours.get(name) not in own]",
                    "[name for name in ours.values() if name not in own]",
                ),
            ),
        ),
        Mistake(
            "unexpected names are reported without the prefix",
            "Return the unexpected names as they are in the file, with their prefix.",
            LOADING,
            edit(
                load_body,
                "[name for name in weights if ours.get(name) not in own]",
                "[ours.get(x, x) for x in weights if ours.get(x) not in own]",
            ),
        ),
        Mistake(
            "the body shares memory with the file",
            "The body needs its own copy of the numbers. Otherwise a change of the"
            " file's tensors also changes the body.",
            LOADING,
            (
                edit(
                    load_body, "own[name].copy_(x)", "body.get_parameter(name).data = x"
                ),
                edit(load_body, COPY, f"{LOAD}, assign=True)"),
                edit(
                    load_body,
                    "own[name].copy_(x)",
                    "body.state_dict(keep_vars=True)[name].data = x",
                ),
            ),
        ),
        Mistake(
            "the body's tensors are replaced",
            "Write the numbers into the body's own tensors. An optimizer that was"
            " made with these tensors can then still update them.",
            LOADING,
            edit(
                load_body,
                COPY,
                f"fitting = {{name: x.clone() for name, x in fitting.items()}}\n"
                f"    {LOAD}, assign=True)",
            ),
            comparable(
                lambda request, reply, reference: bool(
                    (reply.outputs[4][:, 1] == 0).any()
                )
            ),
        ),
        Mistake(
            "a tensor of the body has changed its dtype",
            "Copy into the body's tensor: the numbers then take its dtype. `.data = x`"
            " and assign=True replace the tensor.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: bool(
                    (reply.outputs[4][:, 2] == 0).any()
                )
            ),
        ),
        Mistake(
            "missing and unexpected swapped",
            "The missing names are those that the body has and the file lacks. Return"
            " them first.",
            LOADING,
            edit(load_body, "missing, unexpected", "unexpected, missing"),
        ),
        Mistake(
            "in-place change of a tensor that requires a gradient",
            "Copying must not be recorded for a gradient. Use load_state_dict, the"
            " tensors of state_dict(), or torch.no_grad().",
            FOLDER,
            sign=error_like("leaf Variable"),
        ),
        Mistake(
            "an error for names that do not match",
            "By default, load_state_dict is strict and raises an error for names that"
            " do not match. Use strict=False.",
            LOADING,
            sign=error_like(r"Missing key|Unexpected key"),
        ),
        Mistake(
            "an unexpected error about mismatched shapes",
            "The docstring's Raises says which error, and load_state_dict raises a"
            " different error.",
            LOADING,
            sign=error_like("size mismatch|must match|doesn't match"),
        ),
        Mistake(
            "the number of entries compared, not the shape",
            "A matrix and its transpose have the same number of entries. Compare the"
            " shapes.",
            LOADING,
            edit(
                load_body,
                "own[name].shape != x.shape",
                "own[name].numel() != x.numel()",
            )
            & edit(
                load_body, "own[name].copy_(x)", "own[name].copy_(x.view_as(own[name]))"
            ),
        ),
        Mistake(
            "the error message names no tensor",
            "Say in the message which tensor does not fit, so that the reader can"
            " find the part with the wrong shape.",
            LOADING,
            edit(
                load_body,
                'f"{name} is of shape {tuple(x.shape)} in the file"',
                '"a tensor is of another shape in the file"',
            ),
            sign=lambda request, reply, reference: (
                _said_no(reply) and not bool(reply.outputs[3][1])
            ),
        ),
        Mistake(
            "a different shape raises no error",
            "If a shape does not fit, part of the body would stay random without"
            " notice. Raise a ValueError.",
            LOADING,
            edit(load_body, "if own[name].shape != x.shape", "if False")
            & edit(
                load_body,
                "own[name].copy_",
                "own[name].shape == x.shape and own[name].copy_",
            ),
            sign=lambda request, reply, reference: (
                _said_no(reference) and bool(reply.outputs) and not _said_no(reply)
            ),
        ),
        Mistake(
            "the parameters are frozen",
            "The numbers are right, but the parameters no longer require a gradient."
            " Do not change `requires_grad`.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: bool(
                    (reply.outputs[4] < reference.outputs[4])[:, 3].any()
                )
            ),
        ),
        Mistake(
            "the error comes too late",
            "Compare all shapes before you copy the first tensor. Otherwise an error"
            " leaves a body that is half old and half new.",
            LOADING,
            edit(load_body, "if own[name].shape != x.shape", COPY_FIRST),
            sign=lambda request, reply, reference: _said_no(reference),
        ),
        Mistake(
            "an error for a tensor that does not belong to the body",
            "Compare shapes only for names that consist of the prefix and a name of"
            " the body.",
            LOADING,
            sign=error_like("^ValueError: (?!.*(unpack|separator))"),
        ),
        Mistake(
            "a tensor requires a gradient that did not before",
            "Do not change `requires_grad`. Copy under `torch.no_grad()`, so that"
            " nothing is recorded.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: bool(
                    (reply.outputs[4] > reference.outputs[4])[:, 3].any()
                )
            ),
        ),
        Mistake(
            "nothing is copied into the body",
            "Copy the numbers into the body's own tensors. Do you compare the names"
            " without the prefix?",
            LOADING,
            sign=lambda *three: _arrived(0, *three) and not _arrived(1, *three),
        ),
        Mistake(
            "not everything is copied into the body",
            "Some tensors keep their old numbers. Do you remove the prefix, and"
            " nothing but the prefix?",
            LOADING,
            sign=lambda *three: _arrived(1, *three),
        ),
        *ANYWHERE,
        Mistake(
            "wrong names are returned",
            "The missing names are those of the body that the file lacks. The"
            " unexpected names are those of the file that the body lacks.",
            LOADING,
            sign=lambda request, reply, reference: (
                close(reply.outputs[0], reference.outputs[0])
                and len(reply.outputs) == len(reference.outputs)
            ),
        ),
        Mistake(
            "wrong numbers in the body",
            "Keep the body's own tensors, and change only the numbers in them.",
            LOADING,
            sign=lambda request, reply, reference: bool(reply.outputs),
        ),
    ),
)
