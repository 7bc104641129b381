"""What lab07_transfer asks: numbers taken over by name, a head, what is kept as it is, and a fair measure of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.masks import padding_mask
from attention_course.questions.core import Finding, Misconception, Property, Question, Reply, Request
from attention_course.questions.inputs import as_length, manners, normal, parameters
from attention_course.questions.judges import good_manners, of_output, of_outputs, same_gradients, same_numbers
from attention_course.questions.signs import ANYWHERE, close, comparable, error_like, wrong_output
from attention_course.tasks.labels import LabelBatch

B, S, D, V, K = 3, 5, 4, 7, 6  # sentences, positions, width, words, labels
LAYERS = 3
LOADING = "16_transfer.html#transfer-load"
FOLDER = "16_transfer.html#transfer-folder"
PADDING = "04_soft_lookup.html#soft-lookup-padding"


class _Body(nn.Module):
    """A stand-in for a pretrained encoder: its parts are called as those of the library's BERT. It reads nothing."""

    def __init__(self, layers: int):
        super().__init__()
        self.embeddings = nn.Sequential(nn.Embedding(V, D), nn.Dropout(0.5))
        stack = (nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5)) for _ in range(layers))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(stack)})


# --- load_body ------------------------------------------------------------------------------------------------------

PREFIXES = ("bert.", "old.reader.")


def _pooling_body() -> nn.Module:
    """Make a body of two layers and with one part more."""
    body = _Body(2)
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
    """Load a file of these names into a body: the first tensors are the body's own, the others are the file's."""
    text = PREFIXES[prefix.size(0)]
    known, body = _written(text), _pooling_body()
    kept = list(body.parameters())
    with torch.no_grad():
        for parameter, value in zip(kept, tensors):
            parameter.copy_(value)
    weights = {known[i]: x.to(torch.float32, copy=True) for i, x in zip(names.tolist(), tensors[len(kept) :])}
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
    entries = [(way * len(NAMES) + NAMES.index(name), name) for name, ways in names.items() for way in ways]
    order = torch.randperm(len(entries), generator=g).tolist()
    entries = [entries[i] for i in order]
    theirs = [normal(g, *shapes.get(name, tuple(known.get(name, (D,))))) for _, name in entries]
    return Request((as_length(prefix), torch.tensor([place for place, _ in entries]), *own, *theirs))


def _all_fit(g: torch.Generator) -> Iterator[Request]:
    for prefix in range(len(PREFIXES)):
        yield _file(g, {name: (0,) for name in OWN}, prefix)


def _some_fit(g: torch.Generator) -> Iterator[Request]:
    yield _file(g, {**{name: (0,) for name in OWN}, "decoder.bias": (1,), "embeddings.norm.weight": (0,)})
    yield _file(g, {**{name: (0,) for name in OWN[2:]}, "encoder.layer.2.0.weight": (0,)}, 1)
    yield _file(g, {**{name: (0, 1, 2) for name in OWN[:2]}, OWN[3]: (1,), OWN[4]: (2,)}, 1)
    yield _file(g, {name: (1,) for name in NAMES})


def _one_does_not(g: torch.Generator) -> Iterator[Request]:
    for name, shape in ((OWN[-1], (D + 1,)), (OWN[0], (V + 2, D)), (OWN[1], (D,))):
        yield _file(g, {known: (0,) for known in NAMES}, 1, {name: shape})


def _same_report(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Compare the names that are told, without telling them."""
    if finding := of_output(0, same_numbers)(request, reply, reference):
        return finding
    if len(reply.outputs) != len(reference.outputs):
        return Finding(f"{len(reply.outputs) - 2} lists returned", f"{len(reference.outputs) - 2} lists")
    for what, given, wanted in zip(("missing", "unexpected"), reply.outputs[1:], reference.outputs[1:]):
        if given.numel() != wanted.numel():
            return Finding(f"{given.numel()} told as {what}", f"{wanted.numel()} of these names")
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
    return None if asking == every else Finding(f"{asking:.0f} parameters that ask for a gradient", f"all {every:.0f}")


def _refused(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "a ValueError")
    if not _said_no(reply):
        return Finding("no error for a tensor of another shape", "a ValueError")
    return of_output(0, same_numbers)(request, reply, reference)


def load_body(body: nn.Module, weights: Mapping[str, Tensor], prefix: str) -> tuple[Sequence[str], Sequence[str]]:
    """Copy a file's tensors into a body, and tell the names that had no partner."""
    return _Loading()(body, weights, prefix)


class _Loading:
    """Loading in pieces that a misconception can replace."""

    def __call__(self, body: nn.Module, weights: Mapping[str, Tensor], prefix: str) -> Any:
        own = body.state_dict()
        theirs = {name: x for name in weights if (x := self.strip(name, prefix)) is not None}  # their name -> ours
        for name, ours in theirs.items():
            if ours in own and own[ours].shape != weights[name].shape:
                if self.refuse(ours):
                    raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, not {tuple(own[ours].shape)}")
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

    def copy(self, body: nn.Module, own: Mapping[str, Tensor], name: str, value: Tensor) -> None:
        with torch.no_grad():
            own[name].copy_(value)

    def report(self, missing: list[str], unexpected: list[str], prefix: str) -> Any:
        return missing, unexpected


def _load_with(**pieces: Callable[..., Any]) -> Callable[..., Any]:
    loading: type[_Loading] = type("Wrong", (_Loading,), {name: staticmethod(piece) for name, piece in pieces.items()})
    return lambda body, weights, prefix: loading()(body, weights, prefix)


def _point_to(body: nn.Module, own: Mapping[str, Tensor], name: str, value: Tensor) -> None:
    dict(body.named_parameters())[name].data = value


def _copy_then_refuse(body: nn.Module, weights: Mapping[str, Tensor], prefix: str) -> Any:
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
    return close(reply.outputs[0], reference.outputs[0]) and len(reply.outputs) == len(reference.outputs)


def _refusal_wanted(request: Request, reply: Reply, reference: Reply) -> bool:
    return _said_no(reference)


def _not_refused(request: Request, reply: Reply, reference: Reply) -> bool:
    return _refusal_wanted(request, reply, reference) and bool(reply.outputs) and not _said_no(reply)


def _old_values(request: Request) -> Tensor:
    return torch.cat([x.flatten() for x in request.inputs[2 : 2 + len(OWN)] if x is not None])


def _untouched(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the body has kept the values that it had, although there are others for it."""
    before = _old_values(request)
    return bool(reply.outputs) and close(reply.outputs[0], before) and not close(reference.outputs[0], before)


def _partly(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether some tensors got the right values, and others kept those that they had."""
    if not reply.outputs or reply.outputs[0].shape != reference.outputs[0].shape:
        return False
    given, wanted = reply.outputs[0], reference.outputs[0]
    return not close(given, wanted) and close(torch.where(given == wanted, wanted, _old_values(request)), given)


HALF = "Look at all shapes before the first copy: a body that is half old and half new is worse than either."

LOAD_BODY = Question(
    name="load_body",
    reference=load_body,
    use=_use_load,
    properties=(
        Property("every tensor of the body gets its numbers from the file", 2, _all_fit, _loaded),
        Property("what the file lacks, and what it has too much, is told", 1, _some_fit, _same_report),
        Property("a tensor of another shape: a ValueError, and nothing is copied", 1, _one_does_not, _refused),
    ),
    misconceptions=(
        Misconception(
            "letters stripped, not the prefix",
            "lstrip takes letters, and goes on while it finds one of them; removeprefix takes the prefix.",
            LOADING,
            _load_with(strip=lambda name, prefix: name.lstrip(prefix) if name.startswith(prefix) else None),
        ),
        Misconception(
            "the prefix left on",
            "The file calls it prefix + name, the body calls it name: take the prefix off before you compare.",
            LOADING,
            _load_with(strip=lambda name, prefix: name),
        ),
        Misconception(
            "names without the prefix are taken, too",
            "What does not begin with the prefix belongs to another part of the file's model, whatever it is called.",
            LOADING,
            _load_with(strip=lambda name, prefix: name.removeprefix(prefix)),
        ),
        Misconception(
            "the prefix is looked for anywhere",
            "A name has to *begin* with the prefix.",
            LOADING,
            _load_with(strip=lambda name, prefix: name.split(prefix)[-1] if prefix in name else None),
        ),
        Misconception(
            "another shape is passed over",
            "A part that stays random is worth a line in red: raise a ValueError.",
            LOADING,
            _load_with(refuse=lambda name: False),
        ),
        Misconception("refused too late", HALF, LOADING, _copy_then_refuse),
        Misconception(
            "pointed to, not copied",
            "The body needs numbers of its own: otherwise whoever changes the file's tensors changes the body.",
            LOADING,
            _load_with(copy=_point_to),
        ),
        Misconception(
            "missing and unexpected exchanged",
            "Missing is what the body wants and the file lacks.",
            LOADING,
            _load_with(report=lambda missing, unexpected, prefix: (unexpected, missing)),
        ),
        Misconception(
            "copied with the gradient on",
            "To fill a parameter is no computation to differentiate: state_dict() has the tensors without it, and "
            "load_state_dict and torch.no_grad() serve as well.",
            FOLDER,
            sign=error_like("leaf Variable"),
        ),
        Misconception(
            "every name has to have a partner",
            "load_state_dict is strict if it is not told otherwise; here a name without a partner is no error.",
            LOADING,
            sign=error_like(r"Missing key|Unexpected key"),
        ),
        Misconception(
            "the wrong error",
            "The docstring's Raises says which error, and load_state_dict raises another one.",
            LOADING,
            sign=error_like("size mismatch|must match|doesn't match"),
        ),
        Misconception("another shape is passed over", "Raise a ValueError.", LOADING, sign=_not_refused),
        Misconception("refused too late", HALF, LOADING, sign=_refusal_wanted),
        Misconception(
            "frozen on the way",
            "The numbers are right, but the parameters ask for no gradient any more: whether the body is trained is "
            "decided later.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: (
                    close(reply.outputs[0], reference.outputs[0])
                    and bool((reply.outputs[-1] < reference.outputs[-1])[1])
                )
            ),
        ),
        Misconception(
            "nothing arrives in the body",
            "The numbers have to be written into the body's own tensors. Are the names compared without the prefix?",
            LOADING,
            sign=_untouched,
        ),
        Misconception(
            "not everything arrives in the body",
            "Some tensors keep their old numbers. Is the prefix taken off, and nothing but the prefix?",
            LOADING,
            sign=_partly,
        ),
        *ANYWHERE,
        Misconception(
            "other names are told",
            "Missing: the body's names that the file lacks. Unexpected: the file's names that are of no use here.",
            LOADING,
            sign=_report_differs,
        ),
        Misconception(
            "other numbers in the body",
            "The body's own tensors keep their places; only the numbers in them are new.",
            LOADING,
            sign=lambda request, reply, reference: bool(reply.outputs),
        ),
    ),
)


# --- sentence_head --------------------------------------------------------------------------------------------------

# Nothing is dropped; everything is; everything would be, but for eval mode.
INIT, DROPPED, IN_USE = (D, K, 0), (D, K, 1), (D, K, 2)


def _with_dropout(head: Any, dim: int, num_labels: int, dropout: int) -> Any:
    return head(dim, num_labels, float(dropout > 0)).train(dropout < 2)


class _Head(nn.Module):
    """A head in pieces that a misconception can replace."""

    def __init__(self, dim: int, num_labels: int, dropout: float = 0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return self.answer(self.pool(states, mask))

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        return self.total(states, mask) / self.count(states, mask)

    def total(self, states: Tensor, mask: Tensor) -> Tensor:
        return (states * mask[..., None]).sum(1)

    def count(self, states: Tensor, mask: Tensor) -> Tensor:
        return mask.sum(1, keepdim=True).clamp(min=1).to(states.dtype)

    def answer(self, pooled: Tensor) -> Tensor:
        return self.outer(self.dropout(torch.tanh(self.inner(pooled))))


def _head_with(**pieces: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (_Head,), pieces)


def _use_head(head: Any, states: Tensor, mask: Tensor) -> Any:
    return head(states, mask)


def _judging(
    g: torch.Generator, lengths: Sequence[int], init: tuple[int, ...] = INIT, gradients: bool = False
) -> Request:
    mask = padding_mask(torch.tensor(lengths), S)[:, 0]
    weights = parameters(g, lambda: _with_dropout(_Head, *init))
    return Request((normal(g, len(lengths), S, D), mask), init, weights, gradients)


def _whole_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [S] * B, gradients=True)


def _padded_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [S - 2, S, 1], gradients=True)
    yield _judging(g, [2])


def _empty_sentences(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [2, 0, S], gradients=True)


def _dropped(g: torch.Generator) -> Iterator[Request]:
    yield _judging(g, [S, 3, 2], DROPPED)
    yield _judging(g, [S, 3, 2], IN_USE)


def _head_manners(g: torch.Generator) -> Iterator[Request]:
    yield from manners(_judging(g, [S, 1, S - 2]))


def _some_padded(request: Request, reply: Reply, reference: Reply) -> bool:
    mask = request.inputs[1]
    return mask is not None and not mask.is_meta and not bool(mask.all())


MEAN = "The mean is the sum of the states of real tokens, divided by the number of real tokens of each sentence."
MAPS = "Pooled, then `inner`, tanh, dropout, `outer`."

SENTENCE_HEAD = Question(
    name="sentence_head",
    reference=_Head,
    use=_use_head,
    make=_with_dropout,
    properties=(
        Property("the logits where no token is padding, and all gradients", 2, _whole_sentences, same_gradients),
        Property("padding does not count", 1, _padded_sentences, same_gradients),
        Property("a sentence without a token: finite logits and gradients", 1, _empty_sentences, same_gradients),
        Property("dropout between tanh and the last map, in training alone", 1, _dropped, same_numbers),
        Property("inputs unchanged, dtype kept, works on any device", 1, _head_manners, good_manners),
    ),
    misconceptions=(
        Misconception(
            "padding counts",
            MEAN,
            PADDING,
            _head_with(pool=lambda self, states, mask: states.mean(1)),
        ),
        Misconception(
            "divided by padding, too",
            MEAN,
            PADDING,
            _head_with(count=lambda self, states, mask: states.size(1)),
        ),
        Misconception(
            "the sum, not the mean",
            MEAN,
            PADDING,
            _head_with(count=lambda self, states, mask: 1),
        ),
        Misconception(
            "a division by no token at all",
            "A sentence without a real token has the number 0 below the line: let it be at least 1.",
            PADDING,
            _head_with(count=lambda self, states, mask: mask.sum(1, keepdim=True)),
        ),
        Misconception(
            "the first token alone",
            MEAN,
            PADDING,
            _head_with(pool=lambda self, states, mask: states[:, 0]),
        ),
        Misconception(
            "tanh left out",
            MAPS + " Two linear maps without tanh between them are one.",
            LOADING,
            _head_with(answer=lambda self, pooled: self.outer(self.dropout(self.inner(pooled)))),
        ),
        Misconception(
            "the inner map left out",
            MAPS,
            LOADING,
            _head_with(answer=lambda self, pooled: self.outer(self.dropout(pooled))),
        ),
        Misconception(
            "dropout left out",
            MAPS,
            LOADING,
            _head_with(answer=lambda self, pooled: self.outer(torch.tanh(self.inner(pooled)))),
        ),
        Misconception(
            "dropout outside of training",
            "`self.dropout` knows in which mode it is; F.dropout has to be told.",
            "",
            sign=lambda request, reply, reference: request.init == IN_USE,
        ),
        Misconception(
            "dropout at another place",
            MAPS,
            LOADING,
            sign=lambda request, reply, reference: request.init == DROPPED,
        ),
        Misconception(
            "an answer for every word",
            "One answer for a sentence: the states are averaged over its positions first.",
            PADDING,
            sign=wrong_output(lambda given, wanted: given.dim() == wanted.dim() + 1),
        ),
        *ANYWHERE,
        Misconception(
            "the mean is taken in another way",
            MEAN,
            PADDING,
            sign=comparable(_some_padded),
        ),
        Misconception(
            "the head is put together in another way",
            MAPS + " The mean is taken over the positions of a sentence, axis 1.",
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)


# --- freeze ---------------------------------------------------------------------------------------------------------


class SentenceClassifier(nn.Module):
    """A body that somebody has trained, and a head that nobody has; what it computes is not asked for."""

    def __init__(self, body: nn.Module, head: nn.Module):
        super().__init__()
        self.body, self.head, self.frozen = body, head, False

    def freeze(self) -> None:
        """Keep the body as it is from now on."""
        self.frozen = True
        self.body.requires_grad_(False)
        self.body.eval()

    def train(self, mode: bool = True) -> "SentenceClassifier":
        """Switch between training and use; a frozen body is always in use."""
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self


def _classifier(thing: Any, layers: int) -> Any:
    return thing(_Body(layers), _Head(D, K))


CALLS = ("train(True)", "train(False)", "train(True)", "train()", "eval()")


def _use_freeze(model: Any, freezes: Tensor) -> Any:
    """Freeze the body or do not, then change the mode; note who asks for a gradient and who is in training mode."""
    parts = (model.body, model.head)  # what else the answer has added is its own affair
    modes: list[list[float]] = []

    def note() -> None:
        modes.append([float(module.training) for part in parts for module in part.modules()] + [float(model.training)])

    if freezes.size(0):
        model.freeze()
    note()
    returned = []
    for mode in ((True,), (False,), (True,), ()):
        returned.append(float(model.train(*mode) is model))
        note()
    returned.append(float(model.eval() is model))
    note()
    asks = [float(p.requires_grad) for part in parts for p in part.parameters()]
    return tuple(torch.tensor(flags, dtype=torch.float64) for flags in (asks, modes, returned))


def _keeping(g: torch.Generator, layers: int = LAYERS, freezes: int = 1) -> Request:
    weights = parameters(g, lambda: _classifier(SentenceClassifier, layers))
    return Request((as_length(freezes),), (layers,), weights)


def _to_freeze(g: torch.Generator) -> Iterator[Request]:
    yield _keeping(g)
    yield _keeping(g, layers=1)


def _not_to_freeze(g: torch.Generator) -> Iterator[Request]:
    yield _keeping(g, freezes=0)


HEAD = 4  # modules in the head, which is one of them, and parameters: they come after the body's


def _asks(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = of_output(0, same_numbers)(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        body, head = reply.outputs[0][:-HEAD], reply.outputs[0][-HEAD:]
        seen = f"a gradient for {body.count_nonzero()} of {len(body)} parameters of the body"
        seen += f", {head.count_nonzero()} of the head's"
        few = reference.outputs[0][:-HEAD].count_nonzero()
        return Finding(seen, f"for {few} of the body's and all {HEAD} of the head's")
    return finding


def _modes(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Say who is first in the wrong mode, and after which call."""
    finding = of_output(1, same_numbers)(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        call, module = (reply.outputs[1] != reference.outputs[1]).nonzero()[0].tolist()
        who = ("body", "head", "model")[(module >= _bodys(reference)) + (module == reference.outputs[1].size(1) - 1)]
        name = "training" if float(reply.outputs[1][call, module]) else "eval"
        after = ("freeze()" if _freezes(request) else "its construction", *CALLS)[call]
        return Finding(
            f"the {who} is in {name} mode after {after}", f"{'eval' if name == 'training' else 'training'} mode"
        )
    return finding


def _returns(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = of_output(2, same_numbers)(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        call = CALLS[int((reply.outputs[2] != reference.outputs[2]).nonzero()[0])]
        return Finding(f"something else than the model returned by {call}", "the model")
    return finding


def _freezes(request: Request) -> bool:
    return request.inputs[0] is not None and bool(request.inputs[0].size(0))


def _bodys(reference: Reply) -> int:
    """Count the modules of the body."""
    return reference.outputs[1].size(1) - HEAD - 1


def _not_frozen(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    return next((x for judge in (_asks, _modes, _returns) if (x := judge(request, reply, reference))), None)


def _classifier_with(**methods: Callable[..., Any]) -> type[nn.Module]:
    return type("Wrong", (SentenceClassifier,), methods)


def _as_usual(self: Any, mode: bool = True) -> Any:
    return nn.Module.train(self, mode)


def _freeze_and(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    def freeze(self: Any) -> None:
        SentenceClassifier.freeze(self)
        change(self)

    return freeze


def _never_trains(self: Any, mode: bool = True) -> Any:
    return nn.Module.train(self, mode and not self.frozen)


def _always_eval(self: Any, mode: bool = True) -> Any:
    nn.Module.train(self, mode)
    self.body.eval()
    return self


def _train_and_return_nothing(self: Any, mode: bool = True) -> None:
    SentenceClassifier.train(self, mode)


def _ignore_mode(self: Any, mode: bool = True) -> Any:
    return SentenceClassifier.train(self, True)


def _freeze_attribute(self: Any) -> None:
    self.frozen = True
    self.body.requires_grad = False
    self.body.eval()


def _body_trains(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether something in a frozen body is in training mode."""
    last = _bodys(reference)
    return _freezes(request) and bool((reply.outputs[1][:, :last] > reference.outputs[1][:, :last]).any())


def _something_rests(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool((reply.outputs[1] < reference.outputs[1]).any())


def _something_trains(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool((reply.outputs[1] > reference.outputs[1]).any())


def _returns_other(request: Request, reply: Reply, reference: Reply) -> bool:
    return not close(reply.outputs[2], reference.outputs[2])


def _asks_wrong(request: Request, reply: Reply, reference: Reply) -> bool:
    return not close(reply.outputs[0], reference.outputs[0])


DROPOUT = (
    "In training mode its dropout disturbs what is to stay as it is: whatever `train` is told, it is back in eval mode."
)
ITSELF = "`train` and `eval` of every module return the module itself."

FREEZE = Question(
    name="freeze",
    reference=SentenceClassifier,
    use=_use_freeze,
    once=True,
    make=_classifier,
    properties=(
        Property("the body asks for no gradient, the head does", 2, _to_freeze, _asks),
        Property("a frozen body stays in eval mode, the head follows `train`", 1, _to_freeze, _modes),
        Property(
            "a body that is not frozen is trained; `train` returns the model",
            1,
            _not_to_freeze,
            _not_frozen,
        ),
    ),
    misconceptions=(
        Misconception(
            "requires_grad set on the module",
            "A module has no requires_grad: Python makes an attribute of that name, which nobody reads. Its parameters "
            "have one, and the method requires_grad_ sets it for all of them.",
            LOADING,
            _classifier_with(freeze=_freeze_attribute),
        ),
        Misconception(
            "the head is frozen, too",
            "The head is what has to be learned.",
            LOADING,
            _classifier_with(freeze=_freeze_and(lambda self: self.requires_grad_(False))),
        ),
        Misconception(
            "dropout goes on in the frozen body",
            DROPOUT,
            LOADING,
            _classifier_with(train=_as_usual),
        ),
        Misconception(
            "the head is never in training mode",
            "Only the body is kept in eval mode.",
            LOADING,
            _classifier_with(train=_never_trains),
        ),
        Misconception(
            "the body is always in eval mode",
            "Only a frozen body is: ask `self.frozen`.",
            LOADING,
            _classifier_with(train=_always_eval),
        ),
        Misconception("train does not return the model", ITSELF, "", _classifier_with(train=_train_and_return_nothing)),
        Misconception(
            "the mode is ignored",
            "`eval()` calls `train(False)`: hand `mode` on.",
            "",
            _classifier_with(train=_ignore_mode),
        ),
        Misconception(
            "train calls itself",
            "A `train` that calls `self.train` never ends: what every module does stands in the class above.",
            sign=error_like("RecursionError|recursion"),
        ),
        Misconception(
            "other parameters are frozen",
            "All parameters of the body, at every depth, and none of the head.",
            LOADING,
            sign=comparable(_asks_wrong),
        ),
        Misconception("dropout goes on in the frozen body", DROPOUT, LOADING, sign=comparable(_body_trains)),
        Misconception(
            "the mode is ignored",
            "`eval()` calls `train(False)`: hand `mode` on. The model itself has a mode, too.",
            LOADING,
            sign=comparable(_something_trains),
        ),
        Misconception(
            "something rests that should train",
            "The head, and a body that is not frozen, follow `mode`.",
            LOADING,
            sign=comparable(_something_rests),
        ),
        Misconception("train does not return the model", ITSELF, "", sign=comparable(_returns_other)),
        *ANYWHERE,
    ),
)


# --- accuracy -------------------------------------------------------------------------------------------------------


def accuracy(model: nn.Module, batches: Sequence[LabelBatch]) -> float:
    """Return the share of sentences that get their label."""
    return _Measure()(model, batches)


class _Measure:
    """Counting in pieces that a misconception can replace."""

    def __call__(self, model: nn.Module, batches: Sequence[LabelBatch]) -> float:
        was_training = model.training
        self.before(model)
        with self.gradients():
            counts = [(self.right(model, batch), len(batch.labels)) for batch in batches]
        self.after(model, was_training)
        return self.share(counts)

    def before(self, model: nn.Module) -> None:
        model.eval()

    def gradients(self) -> Any:
        return torch.no_grad()

    def right(self, model: nn.Module, batch: LabelBatch) -> int:
        logits, _ = model(batch.source, batch.lengths)
        return int((logits.argmax(-1) == batch.labels[:, 0]).sum())

    def after(self, model: nn.Module, was_training: bool) -> None:
        model.train(was_training)

    def share(self, counts: Sequence[tuple[int, int]]) -> float:
        return sum(right for right, _ in counts) / sum(count for _, count in counts)


def _measure_with(**pieces: Callable[..., Any]) -> Callable[..., Any]:
    measure: type[_Measure] = type("Wrong", (_Measure,), {name: staticmethod(piece) for name, piece in pieces.items()})
    return lambda model, batches: measure()(model, batches)


class _Judged(nn.Module):
    """A classifier that answers with a table, otherwise in training mode, and remembers how it was called."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.inside = nn.Dropout(0.5)
        self.calls: list[tuple[float, float]] = []

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        self.calls.append((float(self.training or self.inside.training), float(torch.is_grad_enabled())))
        logits = self.table[source[:, 0]]
        return (-logits if self.training else logits), None


def _use_accuracy(measure: Any, table: Tensor, source: Tensor, labels: Tensor, sizes: Tensor, trains: Tensor) -> Any:
    """Measure, and say what was measured, how the model was called and how it was left."""
    model = _Judged(table).train(bool(trains.size(0)))
    cut = [x.split(list(sizes.shape)) for x in (source, labels)]
    made = [LabelBatch(x, torch.full((len(x),), x.size(1)), y) for x, y in zip(*cut)]
    with torch.enable_grad():
        share = measure(model, made)
        left = [float(model.training), float(model.inside.training), float(torch.is_grad_enabled())]
    if share is None:
        return None
    calls = torch.tensor(model.calls, dtype=torch.float64).reshape(-1, 2).sum(0)
    return torch.as_tensor(share, dtype=torch.float64), calls, torch.tensor(left, dtype=torch.float64)


def _to_measure(g: torch.Generator, *sizes: int, trains: int = 0) -> Request:
    """Draw answers of which about half are right, and batches of these sizes."""
    table = normal(g, V, K)
    source = torch.randint(V, (sum(sizes), S), generator=g)
    right = table[source[:, 0]].argmax(-1)
    other = torch.randint(K, right.shape, generator=g)
    place = torch.arange(len(right))
    labels = torch.where(place < sizes[0] - 2, right, other)  # the batches differ in how many are right
    return Request((table, source, labels[:, None], torch.zeros(sizes), as_length(trains)))


def _one_batch(g: torch.Generator) -> Iterator[Request]:
    yield _to_measure(g, 11)


def _unequal_batches(g: torch.Generator) -> Iterator[Request]:
    yield _to_measure(g, 7, 7, 2)
    yield _to_measure(g, 13, 1)


def _in_both_modes(g: torch.Generator) -> Iterator[Request]:
    yield _to_measure(g, 7, 5, trains=1)
    yield _to_measure(g, 7, 5, trains=0)


def _share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = of_output(0, same_numbers)(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        return Finding(f"a share of {float(reply.outputs[0]):.3f}", "another share")
    return finding


def _carefully(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := of_outputs(1, 3, same_numbers)(request, reply, reference):
        if reply.error or not finding.seen.startswith("entries"):
            return finding
        called, left = reply.outputs[1], reply.outputs[2]
        if called[0]:
            return Finding("the model was called in training mode", "in eval mode")
        if called[1]:
            return Finding("the model was called with gradients on", "without gradients")
        names = {True: "training", False: "eval"}
        was = names[bool(reference.outputs[2][0])]
        return Finding(f"the model was left in {names[bool(left[0])]} mode", f"{was} mode, as it came")
    return _share(request, reply, reference)


@comparable
def _in_training(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(reply.outputs[1][0] > 0)


@comparable
def _with_gradients(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(reply.outputs[1][1] > 0) or bool(reply.outputs[2][2] != reference.outputs[2][2])


@comparable
def _left_otherwise(request: Request, reply: Reply, reference: Reply) -> bool:
    return not close(reply.outputs[2], reference.outputs[2])


def _several(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[3] is not None and request.inputs[3].dim() > 1


ALL = "All sentences count the same: add up the right ones of all batches, then divide by the number of all sentences."
BACK = "Keep `model.training` before you change it, and hand it to `model.train(...)` afterwards."

ACCURACY = Question(
    name="accuracy",
    reference=accuracy,
    use=_use_accuracy,
    properties=(
        Property("the share of right labels in a batch", 2, _one_batch, _share),
        Property("batches of different sizes: every sentence counts the same", 1, _unequal_batches, _share),
        Property("in eval mode, without gradients; the model is left as it came", 1, _in_both_modes, _carefully),
    ),
    misconceptions=(
        Misconception(
            "every answer is compared with every label",
            "(B,) == (B, 1) is (B, B): give both the same shape.",
            "",
            _measure_with(
                right=lambda model, batch: int((model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels).sum())
            ),
        ),
        Misconception(
            "the mean of the batches' shares",
            ALL,
            "",
            _measure_with(share=lambda counts: sum(right / count for right, count in counts) / len(counts)),
        ),
        Misconception(
            "the number of right labels, not their share",
            ALL,
            "",
            _measure_with(share=lambda counts: sum(right for right, _ in counts)),
        ),
        Misconception(
            "the likeliest sentence, not the likeliest label",
            "Logits are (B, labels): the largest along the last axis.",
            sign=error_like("The size of tensor a .* must match"),
        ),
        Misconception(
            "measured in training mode",
            "Dropout is for training: `model.eval()` first.",
            "",
            _measure_with(before=lambda model: None),
        ),
        Misconception(
            "the model is left in eval mode",
            BACK,
            "",
            _measure_with(after=lambda model, was_training: None),
        ),
        Misconception(
            "the model is left in training mode",
            BACK,
            "",
            _measure_with(after=lambda model, was_training: model.train()),
        ),
        Misconception(
            "gradients are kept",
            "What is only measured needs no gradients: `with torch.no_grad():` around the calls, and no longer.",
            sign=_with_gradients,
        ),
        Misconception("measured in training mode", "`model.eval()` first.", sign=_in_training),
        Misconception("the model is left in another mode", BACK, sign=_left_otherwise),
        *ANYWHERE,
        Misconception("the batches are put together in another way", ALL, sign=comparable(_several)),
        Misconception(
            "counted in another way",
            "The label of a sentence is the place of its largest logit; compare it with the label in the batch.",
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)


# --- parameter_groups -----------------------------------------------------------------------------------------------


def parameter_groups(model: Any, rate: float, decay: float) -> list[dict[str, Any]]:
    """Give the head the rate, and each part below it `decay` times the rate of the one above."""
    return _Groups()(model, rate, decay)


class _Groups:
    """Groups in pieces that a misconception can replace."""

    def __call__(self, model: Any, rate: float, decay: float) -> list[dict[str, Any]]:
        groups = []
        for depth, part in enumerate(self.parts(model)):
            groups.append({"params": self.choose(part), "lr": self.rate(rate, decay, depth)})
        return groups

    def parts(self, model: Any) -> list[nn.Module]:
        return [model.head, *reversed(model.body.encoder.layer), model.body.embeddings]

    def choose(self, part: nn.Module) -> list[nn.Parameter]:
        return [p for p in part.parameters() if p.requires_grad]

    def rate(self, rate: float, decay: float, depth: int) -> float:
        return rate * decay**depth


def _groups_with(**pieces: Callable[..., Any]) -> Callable[..., Any]:
    groups: type[_Groups] = type("Wrong", (_Groups,), {name: staticmethod(piece) for name, piece in pieces.items()})
    return lambda model, rate, decay: groups()(model, rate, decay)


NO_RATE = 1000.0  # what a group gets that has none


def _use_groups(group: Any, rate: Tensor, decay: Tensor, layers: Tensor, frozen: Tensor) -> Any:
    """Let an optimizer with these groups make a step: every gradient is 1, so each parameter moves by its rate."""
    model = _classifier(SentenceClassifier, layers.size(0))
    parts = [model.body.embeddings, *model.body.encoder.layer, model.head]
    for part, kept in zip(parts, frozen.tolist()):
        part.requires_grad_(not kept)
    groups = group(model, float(rate), float(decay))
    if groups is None:
        return None
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
            p.grad = torch.ones_like(p)
    torch.optim.SGD(groups, lr=NO_RATE).step()
    return torch.stack([-p.detach().flatten()[0].double() for part in parts for p in part.parameters()])


def _to_group(rate: float, decay: float, layers: int, frozen: int = 0) -> Request:
    """Make a request; so many of the lowest parts are frozen."""
    numbers = torch.tensor(rate, dtype=torch.float64), torch.tensor(decay, dtype=torch.float64)
    return Request((*numbers, as_length(layers), torch.arange(layers + 2) < frozen))


def _random(g: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=g, dtype=torch.float64))


def _three_layers(g: torch.Generator) -> Iterator[Request]:
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), LAYERS)


def _other_bodies(g: torch.Generator) -> Iterator[Request]:
    yield _to_group(_random(g, 1.5, 2.0), _random(g, 0.3, 0.7), 1)
    yield _to_group(_random(g, 0.5, 0.9), 1.0, LAYERS)
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), 5)


def _frozen_bodies(g: torch.Generator) -> Iterator[Request]:
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), LAYERS, frozen=2)
    yield _to_group(_random(g, 0.5, 0.9), _random(g, 0.3, 0.7), LAYERS, frozen=LAYERS + 1)


def _rates(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_numbers(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        given, wanted = reply.outputs[0].double(), reference.outputs[0].double()
        moved = int(((wanted == 0) & (given != 0)).sum())
        if moved:
            return Finding(f"{moved} frozen parameters are handed to the optimizer", "none")
        wrong = int(((given - wanted).abs() > 1e-4 * wanted).sum())
        return Finding(f"{wrong} of {wanted.numel()} parameters with another rate", "none")
    return finding


@comparable
def _left_out(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(((reply.outputs[0] == 0) & (reference.outputs[0] != 0)).any())


@comparable
def _frozen_moved(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(((reply.outputs[0] != 0) & (reference.outputs[0] == 0)).any())


@comparable
def _head_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return close(reply.outputs[0][-4:], reference.outputs[0][-4:])


ORDER = "The head, the last layer, the layers before it, the embeddings: each has `decay` times the rate above it."

PARAMETER_GROUPS = Question(
    name="parameter_groups",
    reference=parameter_groups,
    use=_use_groups,
    properties=(
        Property("each part moves at its own rate", 2, _three_layers, _rates),
        Property("any number of layers", 1, _other_bodies, _rates),
        Property("what is frozen is not handed over", 1, _frozen_bodies, _rates),
    ),
    misconceptions=(
        Misconception(
            "the lowest layer learns fastest",
            ORDER + " `encoder.layer` begins with the lowest.",
            LOADING,
            _groups_with(
                parts=lambda model: [model.head, *model.body.encoder.layer, model.body.embeddings],
            ),
        ),
        Misconception(
            "the parts in the wrong order",
            ORDER,
            LOADING,
            _groups_with(parts=lambda model: [model.body.embeddings, *model.body.encoder.layer, model.head]),
        ),
        Misconception(
            "the embeddings left out",
            ORDER,
            LOADING,
            _groups_with(parts=lambda model: [model.head, *reversed(model.body.encoder.layer)]),
        ),
        Misconception(
            "the head left out",
            "What is new learns fastest: the head has the rate itself.",
            LOADING,
            _groups_with(
                parts=lambda model: [nn.Identity(), *reversed(model.body.encoder.layer), model.body.embeddings]
            ),
        ),
        Misconception(
            "one rate for the whole body",
            ORDER,
            LOADING,
            _groups_with(rate=lambda rate, decay, depth: rate * decay ** min(depth, 1)),
        ),
        Misconception(
            "one rate for everything",
            ORDER,
            LOADING,
            _groups_with(rate=lambda rate, decay, depth: rate),
        ),
        Misconception(
            "the head's rate is lowered, too",
            "The head has the rate itself; the first part below it has `decay` times that.",
            LOADING,
            _groups_with(rate=lambda rate, decay, depth: rate * decay ** (depth + 1)),
        ),
        Misconception(
            "the rate falls along a line",
            "Each part has `decay` times the rate of the one *above* it: powers of it.",
            LOADING,
            _groups_with(rate=lambda rate, decay, depth: rate * decay * depth if depth else rate),
        ),
        Misconception(
            "divided by decay",
            "Below the head the rates get smaller.",
            LOADING,
            _groups_with(rate=lambda rate, decay, depth: rate / decay**depth),
        ),
        Misconception(
            "frozen parameters are handed over",
            "The optimizer is given what `requires_grad` asks for, and nothing else.",
            LOADING,
            _groups_with(choose=lambda part: list(part.parameters())),
        ),
        Misconception(
            "the frozen ones alone are handed over",
            "The optimizer is given what `requires_grad` asks for.",
            LOADING,
            _groups_with(choose=lambda part: [p for p in part.parameters() if not p.requires_grad]),
        ),
        Misconception(
            "a parameter in two groups",
            "The parts overlap: `model.body` holds its layers, and its layers' parameters.",
            LOADING,
            sign=error_like("appear in more than one|duplicate"),
        ),
        Misconception(
            "a group without its keys",
            'A group is {"params": parameters, "lr": rate}, and the groups are a list.',
            LOADING,
            sign=error_like(
                "params|can't optimize|optimizer can only|optimizer got|is not iterable|optimizer parameters|"
                "must be dicts|argument of type"
            ),
        ),
        Misconception("frozen parameters are handed over", "Ask `requires_grad`.", LOADING, sign=_frozen_moved),
        Misconception(
            "a group without a rate",
            'A group has the key "lr"; without it the optimizer\'s own rate counts.',
            LOADING,
            sign=wrong_output(lambda given, wanted: bool((given == NO_RATE).any())),
        ),
        Misconception(
            "parameters that do not move",
            "Every parameter that asks for a gradient is in one group, and its rate is not 0.",
            LOADING,
            sign=_left_out,
        ),
        *ANYWHERE,
        Misconception("other rates below the head", ORDER, LOADING, sign=_head_right),
        Misconception("other rates", ORDER, LOADING, sign=comparable(lambda request, reply, reference: True)),
    ),
)

QUESTIONS = (LOAD_BODY, SENTENCE_HEAD, FREEZE, ACCURACY, PARAMETER_GROUPS)
