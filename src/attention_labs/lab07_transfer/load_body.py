"""load_body: a file's tensors are copied into a body by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.body import LOADING, Body, D, V
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    close,
    comparable,
    error_like,
    normal,
    of_output,
    same_numbers,
)

FOLDER = "16_transfer.html#transfer-folder"

PREFIXES = ("bert.", "old.reader.")


def _pooling_body() -> nn.Module:
    """Make a body of two layers and with one part more."""
    body = Body(2)
    body.pooler = nn.Linear(D, D)
    return body


OWN = tuple(_pooling_body().state_dict())
# Names that a file may have: those of the body, and those of what the body has not.
NAMES = (*OWN, "encoder.layer.2.0.weight", "embeddings.norm.weight", "decoder.bias")
# How a file may write them: with the prefix, without it, and with something before it.
WRITTEN = ("{prefix}{name}", "{name}", "copy.{prefix}{name}")


def _written(prefix: str) -> list[str]:
    """List all names that can occur; a name travels as its place among them."""
    return [form.format(prefix=prefix, name=name) for form in WRITTEN for name in NAMES]


def _places(names: Any, known: Sequence[str]) -> Tensor:
    """Write names as numbers, in order; a name that nobody knows is -1."""
    if isinstance(names, str):
        raise TypeError("a string was returned, wanted a list of names")
    places = sorted(known.index(name) if name in known else -1 for name in names)
    return torch.tensor(places, dtype=torch.long)


def _use_load(load: Any, prefix: Tensor, names: Tensor, *tensors: Tensor) -> Any:
    """Load a file of these names into a body: the first tensors are the body's own, the
    others are the file's."""
    text = PREFIXES[prefix.size(0)]
    known, body = _written(text), _pooling_body()
    kept = list(body.parameters())
    with torch.no_grad():
        for parameter, value in zip(kept, tensors):
            parameter.copy_(value)
    weights = {
        known[i]: x.to(torch.float32, copy=True)
        for i, x in zip(names.tolist(), tensors[len(kept) :])
    }
    found, refused = [torch.empty(0, dtype=torch.long)] * 2, True
    try:
        with torch.enable_grad():
            report = load(body, weights, text)
        refused = False
    except ValueError:
        report = None
    if not refused:
        if report is None:
            return None
        found = [_places(part, known) for part in tuple(report)]
    for x in weights.values():
        x.fill_(9.0)  # what was copied stays, what was only pointed to does not
    values = torch.cat([parameter.detach().flatten() for parameter in kept])
    asking = sum(parameter.requires_grad for parameter in kept)
    return values.double(), *found, torch.tensor([refused, asking], dtype=torch.float64)


def _file(
    g: torch.Generator,
    names: Mapping[str, Sequence[int]],
    prefix: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Request:
    """Draw a file: name -> the ways in which it is written there."""
    shapes = shapes or {}
    known = {name: x.shape for name, x in _pooling_body().state_dict().items()}
    own = [normal(g, *shape) for shape in known.values()]
    entries = [
        (way * len(NAMES) + NAMES.index(name), name)
        for name, ways in names.items()
        for way in ways
    ]
    order = torch.randperm(len(entries), generator=g).tolist()
    entries = [entries[i] for i in order]
    theirs = [
        normal(g, *shapes.get(name, tuple(known.get(name, (D,)))))
        for _, name in entries
    ]
    return Request(
        (
            as_length(prefix),
            torch.tensor([place for place, _ in entries]),
            *own,
            *theirs,
        )
    )


def _all_fit(g: torch.Generator) -> Iterator[Request]:
    for prefix in range(len(PREFIXES)):
        yield _file(g, {name: (0,) for name in OWN}, prefix)


def _some_fit(g: torch.Generator) -> Iterator[Request]:
    yield _file(
        g,
        {
            **{name: (0,) for name in OWN},
            "decoder.bias": (1,),
            "embeddings.norm.weight": (0,),
        },
    )
    yield _file(
        g, {**{name: (0,) for name in OWN[2:]}, "encoder.layer.2.0.weight": (0,)}, 1
    )
    yield _file(
        g, {**{name: (0, 1, 2) for name in OWN[:2]}, OWN[3]: (1,), OWN[4]: (2,)}, 1
    )
    yield _file(g, {name: (1,) for name in NAMES})


def _one_does_not(g: torch.Generator) -> Iterator[Request]:
    for name, shape in ((OWN[-1], (D + 1,)), (OWN[0], (V + 2, D)), (OWN[1], (D,))):
        yield _file(g, {known: (0,) for known in NAMES}, 1, {name: shape})


def _same_report(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Compare the names that are told, without telling them."""
    if finding := of_output(0, same_numbers)(request, reply, reference):
        return finding
    if len(reply.outputs) != len(reference.outputs):
        return Finding(
            f"{len(reply.outputs) - 2} lists returned",
            f"{len(reference.outputs) - 2} lists",
        )
    for what, given, wanted in zip(
        ("missing", "unexpected"), reply.outputs[1:], reference.outputs[1:]
    ):
        if given.numel() != wanted.numel():
            return Finding(
                f"{given.numel()} told as {what}", f"{wanted.numel()} of these names"
            )
        if not torch.equal(given.long(), wanted):
            return Finding(f"other names told as {what}", f"those that are {what}")
    return None


def _said_no(reply: Reply) -> bool:
    return bool(reply.outputs) and bool(reply.outputs[-1].flatten()[:1].sum())


def _loaded(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := of_output(0, same_numbers)(request, reply, reference):
        return finding
    given, wanted = reply.outputs[-1], reference.outputs[-1]
    if given.shape != wanted.shape:
        return Finding(f"shape {tuple(given.shape)}", f"shape {tuple(wanted.shape)}")
    asking, every = given[-1].item(), wanted[-1].item()
    return (
        None
        if asking == every
        else Finding(
            f"{asking:.0f} parameters that ask for a gradient", f"all {every:.0f}"
        )
    )


def _refused(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "a ValueError")
    if not _said_no(reply):
        return Finding("no error for a tensor of another shape", "a ValueError")
    return of_output(0, same_numbers)(request, reply, reference)


def load_body(
    body: nn.Module, weights: Mapping[str, Tensor], prefix: str
) -> tuple[Sequence[str], Sequence[str]]:
    """Copy a file's tensors into a body, and tell the names that had no partner."""
    return _Loading()(body, weights, prefix)


class _Loading:
    """Loading in pieces that a mistake can replace."""

    def __call__(
        self, body: nn.Module, weights: Mapping[str, Tensor], prefix: str
    ) -> Any:
        own = body.state_dict()
        # their name -> ours
        theirs = {
            name: x for name in weights if (x := self.strip(name, prefix)) is not None
        }
        for name, ours in theirs.items():
            if ours in own and own[ours].shape != weights[name].shape:
                if self.refuse(ours):
                    raise ValueError(
                        f"{name} has shape {tuple(weights[name].shape)}, not"
                        f" {tuple(own[ours].shape)}"
                    )
        for name, ours in theirs.items():
            if ours in own and own[ours].shape == weights[name].shape:
                self.copy(body, own, ours, weights[name])
        missing = [name for name in own if name not in theirs.values()]
        unexpected = [name for name in weights if theirs.get(name) not in own]
        return self.report(missing, unexpected, prefix)

    def strip(self, name: str, prefix: str) -> str | None:
        return name.removeprefix(prefix) if name.startswith(prefix) else None

    def refuse(self, name: str) -> bool:
        return True

    def copy(
        self, body: nn.Module, own: Mapping[str, Tensor], name: str, value: Tensor
    ) -> None:
        with torch.no_grad():
            own[name].copy_(value)

    def report(self, missing: list[str], unexpected: list[str], prefix: str) -> Any:
        return missing, unexpected


def _point_to(
    body: nn.Module, own: Mapping[str, Tensor], name: str, value: Tensor
) -> None:
    dict(body.named_parameters())[name].data = value


def _copy_then_refuse(
    body: nn.Module, weights: Mapping[str, Tensor], prefix: str
) -> Any:
    problem = ""
    own = body.state_dict()
    for name, value in weights.items():
        if name.startswith(prefix) and name.removeprefix(prefix) in own:
            ours = own[name.removeprefix(prefix)]
            if ours.shape == value.shape:
                ours.copy_(value)
            else:
                problem = name
    if problem:
        raise ValueError(problem)
    return load_body(body, weights, prefix)


def _report_differs(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or not reply.outputs:
        return False
    return close(reply.outputs[0], reference.outputs[0]) and len(reply.outputs) == len(
        reference.outputs
    )


def _refusal_wanted(request: Request, reply: Reply, reference: Reply) -> bool:
    return _said_no(reference)


def _not_refused(request: Request, reply: Reply, reference: Reply) -> bool:
    return (
        _refusal_wanted(request, reply, reference)
        and bool(reply.outputs)
        and not _said_no(reply)
    )


def _old_values(request: Request) -> Tensor:
    return torch.cat(
        [x.flatten() for x in request.inputs[2 : 2 + len(OWN)] if x is not None]
    )


def _untouched(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the body has kept the values that it had, although there are others for
    it."""
    before = _old_values(request)
    return (
        bool(reply.outputs)
        and close(reply.outputs[0], before)
        and not close(reference.outputs[0], before)
    )


def _partly(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether some tensors got the right values, and others kept those that they
    had."""
    if not reply.outputs or reply.outputs[0].shape != reference.outputs[0].shape:
        return False
    given, wanted = reply.outputs[0], reference.outputs[0]
    return not close(given, wanted) and close(
        torch.where(given == wanted, wanted, _old_values(request)), given
    )


HALF = (
    "Look at all shapes before the first copy: a body that is half old and half new is"
    " worse than either."
)

LOAD_BODY = Question(
    name="load_body",
    reference=load_body,
    use=_use_load,
    properties=(
        Property(
            "every tensor of the body gets its numbers from the file",
            2,
            _all_fit,
            _loaded,
        ),
        Property(
            "what the file lacks, and what it has too much, is told",
            1,
            _some_fit,
            _same_report,
        ),
        Property(
            "a tensor of another shape: a ValueError, and nothing is copied",
            1,
            _one_does_not,
            _refused,
        ),
    ),
    mistakes=(
        Mistake(
            "letters stripped, not the prefix",
            "lstrip takes letters, and goes on while it finds one of them; removeprefix"
            " takes the prefix.",
            LOADING,
            with_pieces(
                _Loading,
                strip=lambda name, prefix: (
                    name.lstrip(prefix) if name.startswith(prefix) else None
                ),
            )(),
        ),
        Mistake(
            "the prefix left on",
            "The file calls it prefix + name, the body calls it name: take the prefix"
            " off before you compare.",
            LOADING,
            with_pieces(_Loading, strip=lambda name, prefix: name)(),
        ),
        Mistake(
            "names without the prefix are taken, too",
            "What does not begin with the prefix belongs to another part of the file's"
            " model, whatever it is called.",
            LOADING,
            with_pieces(
                _Loading, strip=lambda name, prefix: name.removeprefix(prefix)
            )(),
        ),
        Mistake(
            "the prefix is looked for anywhere",
            "A name has to *begin* with the prefix.",
            LOADING,
            with_pieces(
                _Loading,
                strip=lambda name, prefix: (
                    name.split(prefix)[-1] if prefix in name else None
                ),
            )(),
        ),
        Mistake(
            "another shape is passed over",
            "A part that stays random is worth a line in red: raise a ValueError.",
            LOADING,
            with_pieces(_Loading, refuse=lambda name: False)(),
        ),
        Mistake("refused too late", HALF, LOADING, _copy_then_refuse),
        Mistake(
            "pointed to, not copied",
            "The body needs numbers of its own: otherwise whoever changes the file's"
            " tensors changes the body.",
            LOADING,
            with_pieces(_Loading, copy=_point_to)(),
        ),
        Mistake(
            "missing and unexpected exchanged",
            "Missing is what the body wants and the file lacks.",
            LOADING,
            with_pieces(
                _Loading,
                report=lambda missing, unexpected, prefix: (unexpected, missing),
            )(),
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
            "Raise a ValueError.",
            LOADING,
            sign=_not_refused,
        ),
        Mistake("refused too late", HALF, LOADING, sign=_refusal_wanted),
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
            sign=_report_differs,
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
