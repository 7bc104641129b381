"""freeze: a classifier whose body stays as it is."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.body import LAYERS, LOADING, Body, D, K
from attention_labs.lab07_transfer.sentence_head import Head
from attention_labs.pieces import with_methods
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    comparable,
    error_like,
    of_output,
    parameters,
    same_numbers,
    wrong_in,
)


class SentenceClassifier(nn.Module):
    """A body that somebody has trained, and a head that nobody has; what it computes is
    not asked for."""

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


def make_classifier(thing: Any, layers: int) -> Any:
    """Construct a classifier with a body of so many layers."""
    return thing(Body(layers), Head(D, K))


CALLS = ("train(True)", "train(False)", "train(True)", "train()", "eval()")


def _use_freeze(model: Any, freezes: Tensor) -> Any:
    """Freeze the body or do not, then change the mode; note who asks for a gradient and
    who is in training mode."""
    parts = (model.body, model.head)  # what else the answer has added is its own affair
    modes: list[list[float]] = []

    def note() -> None:
        modes.append(
            [float(module.training) for part in parts for module in part.modules()]
            + [float(model.training)]
        )

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
    return tuple(
        torch.tensor(flags, dtype=torch.float64) for flags in (asks, modes, returned)
    )


def _keeping(g: torch.Generator, layers: int = LAYERS, freezes: int = 1) -> Request:
    weights = parameters(g, lambda: make_classifier(SentenceClassifier, layers))
    return Request((as_length(freezes),), (layers,), weights)


def _to_freeze(g: torch.Generator) -> Iterator[Request]:
    yield _keeping(g)
    yield _keeping(g, layers=1)


def _not_to_freeze(g: torch.Generator) -> Iterator[Request]:
    yield _keeping(g, freezes=0)


# modules in the head, which is one of them, and parameters: they come after the body's
HEAD = 4


def _asks(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = of_output(0, same_numbers)(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        body, head = reply.outputs[0][:-HEAD], reply.outputs[0][-HEAD:]
        seen = (
            f"a gradient for {body.count_nonzero()} of {len(body)} parameters of the"
            " body"
        )
        seen += f", {head.count_nonzero()} of the head's"
        few = reference.outputs[0][:-HEAD].count_nonzero()
        return Finding(seen, f"for {few} of the body's and all {HEAD} of the head's")
    return finding


def _modes(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Say who is first in the wrong mode, and after which call."""
    finding = of_output(1, same_numbers)(request, reply, reference)
    if finding and finding.seen.startswith("entries"):
        call, module = (reply.outputs[1] != reference.outputs[1]).nonzero()[0].tolist()
        who = ("body", "head", "model")[
            (module >= _bodys(reference)) + (module == reference.outputs[1].size(1) - 1)
        ]
        name = "training" if float(reply.outputs[1][call, module]) else "eval"
        after = ("freeze()" if _freezes(request) else "its construction", *CALLS)[call]
        return Finding(
            f"the {who} is in {name} mode after {after}",
            f"{'eval' if name == 'training' else 'training'} mode",
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
    return next(
        (
            x
            for judge in (_asks, _modes, _returns)
            if (x := judge(request, reply, reference))
        ),
        None,
    )


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
    return _freezes(request) and bool(
        (reply.outputs[1][:, :last] > reference.outputs[1][:, :last]).any()
    )


def _something_rests(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool((reply.outputs[1] < reference.outputs[1]).any())


def _something_trains(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool((reply.outputs[1] > reference.outputs[1]).any())


DROPOUT = (
    "In training mode its dropout disturbs what is to stay as it is: whatever `train`"
    " is told, it is back in eval mode."
)
ITSELF = "`train` and `eval` of every module return the module itself."

FREEZE = Question(
    name="freeze",
    reference=SentenceClassifier,
    use=_use_freeze,
    once=True,
    make=make_classifier,
    properties=(
        Property("the body asks for no gradient, the head does", 2, _to_freeze, _asks),
        Property(
            "a frozen body stays in eval mode, the head follows `train`",
            1,
            _to_freeze,
            _modes,
        ),
        Property(
            "a body that is not frozen is trained; `train` returns the model",
            1,
            _not_to_freeze,
            _not_frozen,
        ),
    ),
    mistakes=(
        Mistake(
            "requires_grad set on the module",
            "A module has no requires_grad: Python makes an attribute of that name,"
            " which nobody reads. Its parameters have one, and the method"
            " requires_grad_ sets it for all of them.",
            LOADING,
            with_methods(SentenceClassifier, freeze=_freeze_attribute),
        ),
        Mistake(
            "the head is frozen, too",
            "The head is what has to be learned.",
            LOADING,
            with_methods(
                SentenceClassifier,
                freeze=_freeze_and(lambda self: self.requires_grad_(False)),
            ),
        ),
        Mistake(
            "dropout goes on in the frozen body",
            DROPOUT,
            LOADING,
            with_methods(SentenceClassifier, train=_as_usual),
        ),
        Mistake(
            "the head is never in training mode",
            "Only the body is kept in eval mode.",
            LOADING,
            with_methods(SentenceClassifier, train=_never_trains),
        ),
        Mistake(
            "the body is always in eval mode",
            "Only a frozen body is: ask `self.frozen`.",
            LOADING,
            with_methods(SentenceClassifier, train=_always_eval),
        ),
        Mistake(
            "train does not return the model",
            ITSELF,
            "",
            with_methods(SentenceClassifier, train=_train_and_return_nothing),
        ),
        Mistake(
            "the mode is ignored",
            "`eval()` calls `train(False)`: hand `mode` on.",
            "",
            with_methods(SentenceClassifier, train=_ignore_mode),
        ),
        Mistake(
            "train calls itself",
            "A `train` that calls `self.train` never ends: what every module does"
            " stands in the class above.",
            sign=error_like("RecursionError|recursion"),
        ),
        Mistake(
            "other parameters are frozen",
            "All parameters of the body, at every depth, and none of the head.",
            LOADING,
            sign=wrong_in(0),
        ),
        Mistake(
            "dropout goes on in the frozen body",
            DROPOUT,
            LOADING,
            sign=comparable(_body_trains),
        ),
        Mistake(
            "the mode is ignored",
            "`eval()` calls `train(False)`: hand `mode` on. The model itself has a"
            " mode, too.",
            LOADING,
            sign=comparable(_something_trains),
        ),
        Mistake(
            "something rests that should train",
            "The head, and a body that is not frozen, follow `mode`.",
            LOADING,
            sign=comparable(_something_rests),
        ),
        Mistake("train does not return the model", ITSELF, "", sign=wrong_in(2)),
        *ANYWHERE,
    ),
)
