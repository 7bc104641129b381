"""freeze: a classifier whose body stays as it is."""

from typing import Any

import torch
from torch import nn

from attention_labs.lab07_transfer.sentence_head import Head
from attention_labs.lab07_transfer.shared import LAYERS, LOADING, Body, D, K
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    comparable,
    each_of,
    edit,
    error_like,
    in_words,
    of_output,
    parameters,
    same_numbers,
    somewhere,
    wrong_in,
)


class SentenceClassifier(nn.Module):
    """A body that somebody has trained, and a head; what it computes is not asked."""

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


CALLS = (
    ("its construction", lambda model: model),
    ("train(True)", lambda model: model.train(True)),
    ("train(False)", lambda model: model.train(False)),
    ("train(True)", lambda model: model.train(True)),
    ("train()", lambda model: model.train()),
    ("eval()", lambda model: model.eval()),
)
# modules in the head, which is one of them, and parameters: they come after the body's
HEAD = 4


def _use_freeze(model: Any, freezes: bool) -> Any:
    """Freeze the body or do not, then change the mode.

    Returns:
        Who asks for a gradient; who is in training mode after each call; and whether
        the model was returned by it.
    """
    body, head = model.body, model.head  # what the answer adds is its own affair
    if freezes:
        model.freeze()
    returned, modes = [], []
    for _, call in CALLS:
        returned.append(call(model) is model)
        modules = (*body.modules(), *head.modules(), model)
        modes.append([module.training for module in modules])
    asks = [p.requires_grad for p in (*body.parameters(), *head.parameters())]
    noted = (asks, modes, returned)
    return tuple(torch.tensor(flags, dtype=torch.float64) for flags in noted)


def _keeping(g: torch.Generator, layers: int = LAYERS, freezes: bool = True) -> Request:
    weights = parameters(g, lambda: make_classifier(SentenceClassifier, layers))
    return Request((freezes,), (layers,), weights)


def _to_freeze(g: torch.Generator) -> list[Request]:
    return [_keeping(g), _keeping(g, layers=1)]


def _who_asks(request: Request, reply: Reply, reference: Reply) -> Finding:
    body, head = reply.outputs[0][:-HEAD], reply.outputs[0][-HEAD:]
    wanted = reference.outputs[0][:-HEAD].count_nonzero()
    return Finding(
        f"a gradient for {body.count_nonzero()} of {len(body)} parameters of the body,"
        f" {head.count_nonzero()} of the head's",
        f"for {wanted} of the body's and all {HEAD} of the head's",
    )


def _who_is_in_which_mode(request: Request, reply: Reply, reference: Reply) -> Finding:
    """Say who is first in the wrong mode, and after which call."""
    given, wanted = reply.outputs[1], reference.outputs[1]
    call, module = (given != wanted).nonzero()[0].tolist()
    last = wanted.size(1) - 1  # the model, after the modules of the body and the head
    who = "model" if module == last else "head" if module >= last - HEAD else "body"
    after = "freeze()" if request.inputs[0] and not call else CALLS[call][0]
    seen, right = ("training" if x[call, module] else "eval" for x in (given, wanted))
    return Finding(f"the {who} is in {seen} mode after {after}", f"{right} mode")


def _what_is_returned(request: Request, reply: Reply, reference: Reply) -> Finding:
    name, _ = CALLS[int((reply.outputs[2] != reference.outputs[2]).nonzero()[0])]
    return Finding(f"something else than the model returned by {name}", "the model")


_asks = in_words(of_output(0, same_numbers), _who_asks)
_modes = in_words(of_output(1, same_numbers), _who_is_in_which_mode)
_returns = in_words(of_output(2, same_numbers), _what_is_returned)


def _body_trains(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether something in a frozen body is in training mode."""
    body = slice(-HEAD - 1)
    more = reply.outputs[1][:, body] > reference.outputs[1][:, body]
    return bool(request.inputs[0] and more.any())


DROPOUT = (
    "In training mode its dropout disturbs what is to stay as it is: whatever `train`"
    " is told, it is back in eval mode."
)

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
            lambda g: [_keeping(g, freezes=False)],
            each_of(_asks, _modes, _returns),
        ),
    ),
    mistakes=(
        Mistake(
            "requires_grad set on the module",
            "A module has no requires_grad: Python makes an attribute of that name,"
            " which nobody reads. Its parameters have one, and the method"
            " requires_grad_ sets it for all of them.",
            LOADING,
            edit(SentenceClassifier.freeze, "grad_(False)", "grad = False"),
        ),
        Mistake(
            "the head is frozen, too",
            "The head is what has to be learned.",
            LOADING,
            edit(SentenceClassifier.freeze, "body.requires_grad_", "requires_grad_"),
        ),
        Mistake(
            "the head is never in training mode",
            "Only the body is kept in eval mode.",
            LOADING,
            edit(
                SentenceClassifier.train,
                "train(mode)",
                "train(mode and not self.frozen)",
            ),
        ),
        Mistake(
            "the body is always in eval mode",
            "Only a frozen body is: ask `self.frozen`.",
            LOADING,
            edit(SentenceClassifier.train, "if self.frozen", "if True"),
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
            edit(SentenceClassifier.train, "if self.frozen", "if False"),
            sign=comparable(_body_trains),
        ),
        Mistake(
            "the mode is ignored",
            "`eval()` calls `train(False)`: hand `mode` on. The model itself has a"
            " mode, too.",
            LOADING,
            edit(SentenceClassifier.train, "train(mode)", "train()"),
            sign=somewhere(1, lambda given, wanted: given > wanted),
        ),
        Mistake(
            "something rests that should train",
            "The head, and a body that is not frozen, follow `mode`.",
            LOADING,
            sign=somewhere(1, lambda given, wanted: given < wanted),
        ),
        Mistake(
            "train does not return the model",
            "`train` and `eval` of every module return the module itself.",
            "",
            edit(SentenceClassifier.train, "return self", "return None"),
            sign=wrong_in(2),
        ),
        *ANYWHERE,
    ),
)
