"""load_body: a file's tensors are copied into a body by name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.shared import LOADING, Body, D, V
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
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
    same_numbers,
)

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


def _pooling_body() -> nn.Module:
    """Make a body of two layers and with one part more."""
    body = Body(2)
    body.pooler = nn.Linear(D, D)
    return body


SHAPES = {name: x.shape for name, x in _pooling_body().state_dict().items()}
OWN = tuple(SHAPES)
# Names that a file may have: those of the body, and those of what the body has not.
NAMES = (*OWN, "encoder.layer.2.0.weight", "embeddings.norm.weight", "decoder.bias")
BERT, OLD = "bert.", "old.reader."  # what the names in a file begin with
ODD = ({OWN[-1]: (D + 1,)}, {OWN[0]: (V + 2, D)}, {OWN[1]: (D,)})


def _use_load(load: Any, prefix: str, names: Sequence[str], *tensors: Tensor) -> Any:
    """Load a file of these names: the first tensors are the body's own."""
    body, refused = _pooling_body(), False
    body.load_state_dict(dict(zip(OWN, tensors)))
    kept = list(body.parameters())
    theirs = tensors[len(OWN) :]
    weights = {name: x.to(torch.float32, copy=True) for name, x in zip(names, theirs)}
    try:
        with torch.enable_grad():
            report = load(body, weights, prefix)
    except ValueError:
        report, refused = ((), ()), True
    if report is None:
        return None
    told = [_places(part, [*OWN, *names]) for part in tuple(report)]
    for x in weights.values():
        x.fill_(9.0)  # what was copied stays, what was only pointed to does not
    values = torch.cat([parameter.detach().flatten() for parameter in kept])
    asking = sum(parameter.requires_grad for parameter in kept)
    return values.double(), *told, torch.tensor([refused, asking], dtype=torch.float64)


def _places(names: Any, known: Sequence[str]) -> Tensor:
    """Write names as numbers, in order; a name that nobody knows is -1."""
    if isinstance(names, str):
        raise TypeError("a string was returned, wanted a list of names")
    places = sorted(known.index(name) if name in known else -1 for name in names)
    return torch.tensor(places, dtype=torch.long)


def _file(
    g: torch.Generator,
    prefix: str,
    names: Sequence[str],
    odd: Mapping[str, tuple[int, ...]] | None = None,
) -> Request:
    """Draw a body, and a file of these names, some of which have odd shapes there."""
    shapes = {**SHAPES, **(odd or {})}
    own = [normal(g, *shape) for shape in SHAPES.values()]
    written = [names[i] for i in torch.randperm(len(names), generator=g).tolist()]
    theirs = [
        normal(g, *next((shapes[x] for x in shapes if name.endswith(x)), (D,)))
        for name in written
    ]
    return Request((prefix, written, *own, *theirs))


def _with(prefix: str, names: Iterable[str] = OWN) -> list[str]:
    return [prefix + name for name in names]


def _some_fit(g: torch.Generator) -> list[Request]:
    """Let names be missing, unexpected, and alike but for what they begin with."""
    alike = [way + name for name in OWN[:2] for way in (OLD, "", "copy." + OLD)]
    return [
        _file(g, BERT, [*_with(BERT), "decoder.bias", BERT + "embeddings.norm.weight"]),
        _file(g, OLD, _with(OLD, (*OWN[2:], "encoder.layer.2.0.weight"))),
        _file(g, OLD, [*alike, OWN[3], "copy." + OLD + OWN[4]]),
        _file(g, BERT, NAMES),
    ]


def _who_asks(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    asking, every = (int(x.outputs[3][1]) for x in (reply, reference))
    if asking == every:
        return None
    return Finding(f"{asking} parameters that ask for a gradient", f"all {every}")


def _same_names(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Compare the names that are told, without telling them."""
    told = zip(("missing", "unexpected"), reply.outputs[1:], reference.outputs[1:])
    for what, given, wanted in told:
        if given.numel() != wanted.numel():
            return Finding(
                f"{given.numel()} told as {what}", f"{wanted.numel()} of these names"
            )
        if not torch.equal(given.long(), wanted):
            return Finding(f"other names told as {what}", f"those that are {what}")
    return None


def _refused(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if not reply.error and _said_no(reply):
        return None
    seen = reply.error or "no error for a tensor of another shape"
    return Finding(seen, "a ValueError")


def _said_no(reply: Reply) -> bool:
    return bool(reply.outputs) and bool(reply.outputs[-1].flatten()[:1].sum())


_numbers = of_output(0, same_numbers)


def _old_values(request: Request) -> Tensor:
    return torch.cat([x.flatten() for x in request.inputs[2 : 2 + len(OWN)]])


def _untouched(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the body keeps the values that it had, although there are others."""
    before = _old_values(request)
    return close(reply.outputs[0], before) and not close(reference.outputs[0], before)


def _partly(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether some tensors got the right values, and others kept what they had."""
    given, wanted = reply.outputs[0], reference.outputs[0]
    either = torch.where(given == wanted, wanted, _old_values(request))
    return close(either, given) and not close(given, wanted)


# Each tensor is copied before the next one is looked at.
COPY_FIRST = """if own[name].shape == x.shape:
            own[name].copy_(x)
    for name, x in fitting.items():
        if own[name].shape != x.shape"""

LOAD_BODY = Question(
    name="load_body",
    reference=load_body,
    use=_use_load,
    plain=True,
    properties=(
        Property(
            "every tensor of the body gets its numbers from the file",
            2,
            lambda g: [_file(g, prefix, _with(prefix)) for prefix in (BERT, OLD)],
            each_of(_numbers, in_words(of_output(3, same_numbers), _who_asks)),
        ),
        Property(
            "what the file lacks, and what it has too much, is told",
            1,
            _some_fit,
            each_of(_numbers, _same_names),
        ),
        Property(
            "a tensor of another shape: a ValueError, and nothing is copied",
            1,
            lambda g: [_file(g, OLD, _with(OLD, NAMES), odd) for odd in ODD],
            each_of(_refused, _numbers),
        ),
    ),
    mistakes=(
        Mistake(
            "letters stripped, not the prefix",
            "lstrip takes letters, and goes on while it finds one of them; removeprefix"
            " takes the prefix.",
            LOADING,
            edit(load_body, "removeprefix", "lstrip"),
        ),
        Mistake(
            "the prefix left on",
            "The file calls it prefix + name, the body calls it name: take the prefix"
            " off before you compare.",
            LOADING,
            edit(load_body, "name.removeprefix(prefix)", "name")
            & edit(load_body, " if name.startswith(prefix)", ""),
        ),
        Mistake(
            "names without the prefix are taken, too",
            "What does not begin with the prefix belongs to another part of the file's"
            " model, whatever it is called.",
            LOADING,
            edit(load_body, " if name.startswith(prefix)", ""),
        ),
        Mistake(
            "the prefix is looked for anywhere",
            "A name has to *begin* with the prefix.",
            LOADING,
            edit(load_body, "name.removeprefix(prefix)", "name.split(prefix)[-1]")
            & edit(load_body, "name.startswith(prefix)", "prefix in name"),
        ),
        Mistake(
            "pointed to, not copied",
            "The body needs numbers of its own: otherwise whoever changes the file's"
            " tensors changes the body.",
            LOADING,
            edit(load_body, "own[name].copy_(x)", "body.get_parameter(name).data = x"),
        ),
        Mistake(
            "missing and unexpected exchanged",
            "Missing is what the body wants and the file lacks.",
            LOADING,
            edit(load_body, "missing, unexpected", "unexpected, missing"),
        ),
        Mistake(
            "copied with the gradient on",
            "To fill a parameter is no computation to differentiate: state_dict() has"
            " the tensors without it, and load_state_dict and torch.no_grad() serve as"
            " well.",
            FOLDER,
            sign=error_like("leaf Variable"),
        ),
        Mistake(
            "every name has to have a partner",
            "load_state_dict is strict if it is not told otherwise; here a name without"
            " a partner is no error.",
            LOADING,
            sign=error_like(r"Missing key|Unexpected key"),
        ),
        Mistake(
            "the wrong error",
            "The docstring's Raises says which error, and load_state_dict raises"
            " another one.",
            LOADING,
            sign=error_like("size mismatch|must match|doesn't match"),
        ),
        Mistake(
            "another shape is passed over",
            "A part that stays random is worth a line in red: raise a ValueError.",
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
            "refused too late",
            "Look at all shapes before the first copy: a body that is half old and half"
            " new is worse than either.",
            LOADING,
            edit(load_body, "if own[name].shape != x.shape", COPY_FIRST),
            sign=lambda request, reply, reference: _said_no(reference),
        ),
        Mistake(
            "frozen on the way",
            "The numbers are right, but the parameters ask for no gradient any more:"
            " whether the body is trained is decided later.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: (
                    close(reply.outputs[0], reference.outputs[0])
                    and bool((reply.outputs[-1] < reference.outputs[-1])[1])
                )
            ),
        ),
        Mistake(
            "nothing arrives in the body",
            "The numbers have to be written into the body's own tensors. Are the names"
            " compared without the prefix?",
            LOADING,
            sign=_untouched,
        ),
        Mistake(
            "not everything arrives in the body",
            "Some tensors keep their old numbers. Is the prefix taken off, and nothing"
            " but the prefix?",
            LOADING,
            sign=_partly,
        ),
        *ANYWHERE,
        Mistake(
            "other names are told",
            "Missing: the body's names that the file lacks. Unexpected: the file's"
            " names that are of no use here.",
            LOADING,
            sign=lambda request, reply, reference: (
                close(reply.outputs[0], reference.outputs[0])
                and len(reply.outputs) == len(reference.outputs)
            ),
        ),
        Mistake(
            "other numbers in the body",
            "The body's own tensors keep their places; only the numbers in them are"
            " new.",
            LOADING,
            sign=lambda request, reply, reference: bool(reply.outputs),
        ),
    ),
)
