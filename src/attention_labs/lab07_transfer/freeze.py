"""Question `freeze`: a pretrained body that does not change, in any mode."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.shared import LOADING, NOT_EMPTY, SIZES, Body
from nbjudge import (
    ANYWHERE,
    STATE,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    Sign,
    comparable,
    each_of,
    edit,
    error_like,
    in_words,
    of_output,
    of_outputs,
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


def make_classifier(
    thing: Any, layers: int, words: int, width: int, labels: int
) -> Any:
    """Construct a classifier with a body and a head of these sizes.

    What is in the head has names that the body's parts have, too.
    """
    head = nn.Sequential(
        OrderedDict(
            body=nn.Linear(width, width),
            embeddings=nn.LayerNorm(width),
            dropout=nn.Dropout(0.5),
            layer=nn.Sequential(nn.Linear(width, labels)),
        )
    )
    head.scale = nn.Parameter(torch.ones(width))  # of none of its parts
    return thing(Body(layers, words, width), head)


MODES = {
    "train(True)": lambda model: model.train(True),
    "train(False)": lambda model: model.train(False),
    "train()": lambda model: model.train(),
    "train(mode=False)": lambda model: model.train(mode=False),
    "eval()": lambda model: model.eval(),
}
AWAKE = {
    "body.train(), train()": lambda model: (model.body.train(), model.train())[1],
    "head.eval(), train()": lambda model: (model.head.eval(), model.train())[1],
    "body.train(), eval()": lambda model: (model.body.train(), model.eval())[1],
    "head.train(), eval()": lambda model: (model.head.train(), model.eval())[1],
}
FREEZE_IT, BY_HAND = "freeze()", "body.requires_grad_(False)"
CALLS = (
    MODES
    | AWAKE
    | {
        FREEZE_IT: lambda model: (model.freeze(), model)[1],
        BY_HAND: lambda model: (model.body.requires_grad_(False), model)[1],
    }
)


def _use_freeze(model: Any, calls: Sequence[str]) -> Any:
    """Call these methods of the model, which gets a third part.

    Returns:
        Which parameters of body and head ask for a gradient; which modules of the body,
        and which others, are in training mode after each call; and whether it returned
        the model.
    """
    body, head = model.body, model.head  # what the answer adds is its own affair
    model.more = nn.Dropout(0.5)
    returned, modes = [], []
    for call in calls:
        returned.append(CALLS[call](model) is model)
        others = (*head.modules(), model.more, model)
        modes.append([[x.training for x in part] for part in (body.modules(), others)])
    asks = [[p.requires_grad for p in part.parameters()] for part in (body, head)]
    flags = (*asks, *([now[part] for now in modes] for part in (0, 1)), returned)
    return tuple(torch.tensor(x, dtype=torch.float64) for x in flags)


def _calling(d: Draw, *calls: str) -> Request:
    init = (d.L, d.V, d.D, d.K)
    weights = parameters(d, lambda: make_classifier(SentenceClassifier, *init))
    return Request((list(calls),), init, weights)


def _any_modes(d: Draw) -> list[str]:
    """List all changes of the mode, and some of them once more, in any order."""
    order = [d.number(0, len(MODES) - 1) for _ in range(3)]
    order += torch.randperm(len(MODES), generator=d).tolist()
    return [[*MODES][i] for i in order]


def _frozen(d: Draw) -> Request:
    before, after = _any_modes(d), _any_modes(d)
    return _calling(d, *before[: d.number(0, 3)], FREEZE_IT, *after)


def _not_frozen(d: Draw) -> list[Request]:
    """Freeze never, without freeze(), and twice; wake the body up, frozen or not."""
    return [
        _calling(d, *AWAKE, FREEZE_IT, *AWAKE, *_any_modes(d)),
        _calling(d, *_any_modes(d)),
        _calling(d, BY_HAND, *_any_modes(d)),
        _calling(d, FREEZE_IT, *_any_modes(d), FREEZE_IT, *_any_modes(d)),
    ]


def _who_asks(request: Request, reply: Reply, reference: Reply) -> Finding:
    counts = [int(x.count_nonzero()) for x in (*reply.outputs, *reference.outputs)]
    return Finding(
        f"a gradient for {counts[0]} of {len(reply.outputs[0])} parameters of the body,"
        f" {counts[1]} of the head's",
        f"for {counts[2]} of the body's and {counts[3]} of the head's",
    )


def _who_is_in_which_mode(request: Request, reply: Reply, reference: Reply) -> Finding:
    """Say who is first in the wrong mode, and after which call."""
    differ = [x != y for x, y in zip(reply.outputs, reference.outputs)]
    part = 0 if differ[0].any() else 1
    call, module = differ[part].nonzero()[0].tolist()
    last = (
        differ[1].size(1) - 1
    )  # the model, after the third part and those of the head
    who = {(1, last): "model", (1, last - 1): "model's third part"}
    seen, right = (
        "training" if x.outputs[part][call, module] else "eval"
        for x in (reply, reference)
    )
    return Finding(
        f"the {who.get((part, module), ('body', 'head')[part])} is in {seen} mode after"
        f" {', '.join(request.inputs[0][: call + 1])}",
        f"{right} mode",
    )


def _what_is_returned(request: Request, reply: Reply, reference: Reply) -> Finding:
    call = int((reply.outputs[0] != reference.outputs[0]).nonzero()[0])
    name = request.inputs[0][call]
    return Finding(f"something else than the model returned by {name}", "the model")


_asks = of_outputs(0, 2, in_words(same_numbers, _who_asks))
_modes = of_outputs(2, 4, in_words(same_numbers, _who_is_in_which_mode))
_returns = of_output(4, in_words(same_numbers, _what_is_returned))


def _body_trains(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether something in a frozen body is in training mode."""
    more = reply.outputs[2] > reference.outputs[2]
    return FREEZE_IT in request.inputs[0] and bool(more.any())


def _either_mode(test: Callable[[Tensor, Tensor], Tensor]) -> Sign:
    """Look at the modes of the body, and at those of the rest."""
    signs = [somewhere(part, test) for part in (2, 3)]
    return lambda *three: any(sign(*three) for sign in signs)


DROPOUT = (
    "In train mode, dropout would change the states of the frozen body. Put it back"
    " into eval mode, whatever `mode` is."
)

BATTERY = Battery(
    STATE,
    _frozen,
    {**SIZES, "K": Axis("labels", fixed=True)},
    leaves_out={
        "zero": NOT_EMPTY,
        "unchanged": "what is changed is the model itself, and nothing is handed in",
    },
)

FLAG = "self.body.training = False"

QUESTION = Question(
    name="freeze",
    reference=SentenceClassifier,
    use=_use_freeze,
    make=make_classifier,
    plain=True,
    battery=BATTERY,
    requirements={
        "no gradient": "Set `requires_grad` of all the body's parameters to False."
        " Then they are not trained, and no gradients are computed for them.",
        "eval": "Put the body into eval mode, and keep it there.",
        "both": "`freeze()` does both steps at once and leaves the head as it is.",
        "train": "`train(mode)` first does what it does in every module, and then puts"
        " a frozen body back into eval mode. A body that is not frozen follows `mode`.",
        "alone": "Only `freeze()` freezes the body: if the body's parameters do not"
        " require gradients for a different reason, the body still follows `mode`.",
        "from now on": "Freeze the body from now on: no gradients, eval mode.",
        "in use": "Switch to train mode (True) or eval mode (False), but keep a frozen"
        " body in eval mode.",
        "returns": "The model itself.",
    },
    properties=(
        BATTERY.numbers(
            "a frozen body requires no gradients, but the head does",
            2,
            _asks,
            ("no gradient", "both"),
            False,
        ),
        BATTERY.line(
            "a frozen body stays in eval mode, but the head follows `train`",
            1,
            judge=_modes,
            checks=("eval", "both", "train", "in use"),
        ),
        BATTERY.edges(
            1,
            each_of(_asks, _modes, _returns),
            ("train", "alone", "from now on", "returns"),
            "a body that is not frozen is trained; `train` returns the model; edges:"
            " `freeze` called twice, two models",
            _not_frozen,
        ),
    ),
    mistakes=(
        Mistake(
            "requires_grad set on the module, not its parameters",
            "A module has no requires_grad, so this line only makes a new attribute."
            " Call the method requires_grad_, which sets it for all parameters.",
            LOADING,
            edit(SentenceClassifier.freeze, "grad_(False)", "grad = False"),
        ),
        Mistake(
            "the head is frozen, too",
            "Do not freeze the head. It has to be trained.",
            LOADING,
            edit(SentenceClassifier.freeze, "body.requires_grad_", "requires_grad_"),
        ),
        Mistake(
            "the head is never in train mode",
            "Keep only the body in eval mode.",
            LOADING,
            edit(
                SentenceClassifier.train,
                "train(mode)",
                "train(mode and not self.frozen)",
            ),
        ),
        Mistake(
            "an unfrozen body stays in eval mode, too",
            "Keep the body in eval mode only if `self.frozen` is True.",
            LOADING,
            edit(SentenceClassifier.train, "if self.frozen", "if True"),
        ),
        Mistake(
            "infinite recursion",
            "A `train` that calls `self.train` never ends. Call `super().train(...)`"
            " to do what every module does.",
            sign=error_like("RecursionError|recursion"),
        ),
        Mistake(
            "the wrong parameters are frozen",
            "Freeze all parameters of the body, at every depth, and none of the head.",
            LOADING,
            sign=comparable(
                lambda request, reply, reference: any(
                    bool((x != y).any())
                    for x, y in zip(reply.outputs[:2], reference.outputs[:2])
                )
            ),
        ),
        Mistake(
            "eval mode comes too late",
            "`freeze()` does both steps at once. Do not leave eval mode to the next"
            " `train`.",
            LOADING,
            edit(SentenceClassifier.freeze, "self.body.eval()", "pass"),
        ),
        Mistake(
            "a second call of freeze undoes the first",
            "After `freeze`, the body stays frozen, however often you call it.",
            LOADING,
            edit(SentenceClassifier.freeze, "= True", "= not self.frozen"),
        ),
        Mistake(
            "frozen state inferred from requires_grad",
            "Store in `self.frozen` that `freeze()` was called. Parameters may require"
            " no gradient for a different reason.",
            LOADING,
            edit(
                SentenceClassifier.train,
                "self.frozen",
                "not any(p.requires_grad for p in self.body.parameters())",
            ),
        ),
        Mistake(
            "a part of the model does not follow `train`",
            "Call `super().train(mode)`. It switches every part of the model, not only"
            " the body and the head.",
            LOADING,
            (
                edit(
                    SentenceClassifier.train,
                    "super().train(mode)",
                    "self.training = mode; self.head.train(mode);"
                    " self.body.train(mode)",
                ),
                edit(
                    SentenceClassifier.train,
                    "super().train(mode)",
                    "self.training = mode; self.head.train(mode);"
                    " self.frozen or super().train(mode)",
                ),
            ),
        ),
        Mistake(
            "eval mode set on the body, not its submodules",
            "A module's `training` does not affect its parts. Call `eval()`, which"
            " switches every module in it.",
            LOADING,
            edit(SentenceClassifier.freeze, "self.body.eval()", FLAG)
            & edit(SentenceClassifier.train, "self.body.eval()", FLAG),
        ),
        Mistake(
            "a frozen body follows `train`",
            DROPOUT,
            LOADING,
            edit(SentenceClassifier.train, "if self.frozen", "if False"),
        ),
        Mistake(
            "dropout in the frozen body",
            DROPOUT,
            LOADING,
            sign=comparable(_body_trains),
        ),
        Mistake(
            "the mode argument is ignored",
            "`eval()` calls `train(False)`, so pass `mode` on. The model itself has a"
            " mode, too.",
            LOADING,
            edit(SentenceClassifier.train, "train(mode)", "train()"),
            sign=_either_mode(lambda given, wanted: given > wanted),
        ),
        Mistake(
            "a part is in eval mode that should be in train mode",
            "The head, and a body that is not frozen, follow `mode`.",
            LOADING,
            sign=_either_mode(lambda given, wanted: given < wanted),
        ),
        Mistake(
            "train does not return the model",
            "Return `self`, as `train` of every module does.",
            "",
            (
                edit(SentenceClassifier.train, "return self", "return None"),
                edit(
                    SentenceClassifier.train,
                    "return self",
                    "return self.body if self.frozen else self",
                ),
            ),
            sign=wrong_in(4),
        ),
        *ANYWHERE,
    ),
)
