"""Question `sentence_head`: mean pooling over real tokens, then a map to logits."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_labs.lab07_transfer.shared import LOADING
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    comparable,
    edit,
    normal,
    parameters,
    same_gradients,
    wrong_output,
)


class Head(nn.Module):
    """One answer for a whole sentence."""

    def __init__(self, dim: int, num_labels: int, dropout: float = 0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Make logits (B, labels) of states (B, S, D) and a mask (B, S)."""
        count = mask.sum(1, keepdim=True).clamp(min=1)
        pooled = (states * mask[..., None]).sum(1) / count
        return self.outer(self.dropout(torch.tanh(self.inner(pooled))))


def _use_head(
    head: Any, states: Tensor, mask: Tensor, share: float | None = None
) -> Any:
    """Make logits; or say whether this share is dropped, and the rest made up for it.

    It must be another choice for each sentence and number, and in each call.

    What the last map adds is taken off, and what is left compared with eval mode: for
    that, the last map leaves numbers as they are.
    """
    logits = head(states, mask)
    if share is None or logits is None:
        return logits
    again = head(states, mask)
    with torch.no_grad():
        kept = (logits - head.outer.bias) / (
            head.eval()(states, mask) - head.outer.bias
        )
    gone = kept.abs() < 1e-6
    alike = (gone == gone[:1], gone == gone[:, :1], logits == again)
    chance = not any(bool(x.all()) for x in alike)
    about = (gone.double().mean() - share).abs() < 0.08
    rest = (kept[~gone] * (1 - share) - 1).abs() < 1e-3
    return torch.tensor([about and chance, rest.all()], dtype=torch.float64)


def _sentences(d: Draw) -> Request:
    """Draw states with a mean, and a mask: real tokens and padding in any order."""
    mask = torch.rand(d.B, d.S, generator=d) < 0.6
    mask[torch.arange(d.B), torch.randint(d.S, (d.B,), generator=d)] = True
    weights = parameters(d, lambda: Head(d.D, d.K))
    states = normal(d, d.B, d.S, d.D) + normal(d, d.D)
    return Request((states, mask), (d.D, d.K, 0.0), weights)


def _all_real(d: Draw) -> Request:
    request = _sentences(d)
    states, mask = request.inputs
    return replace(request, inputs=(states, torch.ones_like(mask)))


def _without_tokens(d: Draw) -> list[Request]:
    """Let one sentence, or all of them, be without a token; or some states be 0."""
    request = _sentences(d)
    states, mask = request.inputs
    one = mask & (torch.arange(d.B)[:, None] != d.number(0, d.B - 1))
    some = torch.arange(d.S) % 2 == d.number(0, 1)
    return [
        replace(request, inputs=(states, x), gradients=True)
        for x in (one, torch.zeros_like(mask))
    ] + [
        replace(request, inputs=(states * some[..., None], mask)),
        replace(request, inputs=(states, one), dtype=torch.float16),
        _many_tokens(d),
        replace(request, gradients=True, training=False, about="in eval mode"),
    ]


def _many_tokens(d: Draw) -> Request:
    """Count 700 tokens in bfloat16, where 256 + 1 is 256; any sum of these is exact."""
    states, mask = torch.zeros(1, 700, d.D), torch.ones(1, 700, dtype=torch.bool)
    states[:, :200] = 1
    weights = {
        "inner.weight": torch.eye(d.D),
        "inner.bias": torch.zeros(d.D),
        "outer.weight": torch.full((d.K, d.D), 1 / d.D),
        "outer.bias": torch.zeros(d.K),
    }
    return Request(
        (states, mask),
        (d.D, d.K, 0.0),
        weights,
        dtype=torch.bfloat16,
        variation="long",
        about="700 tokens in bfloat16",
    )


def _dropped(d: Draw) -> list[Request]:
    """Drop everything; nothing, in eval mode; and some of many numbers."""
    request = _all_real(d)
    wide, share = d.number(40, 60), d.number(2, 6) / 10
    many = (normal(d, wide, d.S, wide), torch.ones(wide, d.S, dtype=torch.bool))
    weights = parameters(d, lambda: Head(wide, wide))
    weights["outer.weight"] = torch.eye(wide, dtype=torch.float64)
    return [
        replace(request, init=(d.D, d.K, 1.0)),
        replace(request, init=(d.D, d.K, share), training=False),
        Request((*many, share), (wide, wide, share), weights),
    ]


MEAN = (
    "The mean is the sum of the states of real tokens, divided by the number of real"
    " tokens of each sentence."
)
MAPS = "The order is: mean of the states, `inner`, tanh, dropout, `outer`."
COUNT = "mask.sum(1, keepdim=True).clamp(min=1)"
POOLED = "(states * mask[..., None]).sum(1) / count"

BATTERY = Battery(
    MODULE,
    _sentences,
    {
        "B": Axis("sentences"),
        "S": Axis("positions", long=700),
        "D": Axis("width", fixed=True),
        "K": Axis("labels", fixed=True),
    },
    leaves_out={
        "zero": "there is a sentence, it has a position, and somebody asks for a label",
        "in front": "the text has (B, S, D), and nothing else",
    },
)

QUESTION = Question(
    name="sentence_head",
    reference=Head,
    use=_use_head,
    battery=BATTERY,
    requirements={
        "mean": "So average the states over the real tokens of the sentence first."
        " Then apply a small network:",
        "formula": r"\text{logits}_b = W_2\, \mathrm{dropout}\big(\tanh(W_1 c_b +"
        r" b_1)\big) + b_2",
        "count": "$n_b$ is the number of real tokens of sentence b.",
        "real": "The mask (B, S) is True where a token is real.",
        "anywhere": "Padding may be anywhere in a sentence.",
        "empty": "For a sentence without any real token, $c_b$ must be 0, and all"
        " gradients must be finite.",
        "dtype": "The logits must have the dtype of the states, so convert the mask to"
        " numbers with `mask.to(states.dtype)`. Count the tokens before you convert: in"
        " bfloat16, a sum of ones stops at 256.",
        "dim": "dim: D, width of the states.",
        "labels": "num_labels: the number of possible answers.",
        "dropout": "dropout: the share of the numbers between the maps that is dropped"
        " in training.",
        "states": "states: (B, S, D).",
        "mask": "mask: (B, S), True where a token is real.",
        "returns": "Logits (B, num_labels).",
    },
    properties=(
        BATTERY.numbers(
            "the logits without padding, and all gradients",
            2,
            checks=("formula", "dim", "labels", "states", "returns"),
            requests=_all_real,
        ),
        BATTERY.line(
            "padding does not count",
            1,
            judge=same_gradients,
            checks=("mean", "count", "real", "anywhere", "mask"),
        ),
        BATTERY.line(
            "dropout between tanh and `outer`, only in train mode",
            1,
            _dropped,
            checks=("formula", "dropout"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            ("empty", "states", "mask", "returns"),
            "a sentence without a real token; edges: length one, long inputs, large"
            " numbers, repeated calls, two instances",
            _without_tokens,
        ),
        BATTERY.manners(1, checks=("dtype",)),
    ),
    mistakes=(
        Mistake(
            "padding is included in the mean",
            MEAN,
            PADDING,
            edit(Head.forward, POOLED, "states.mean(1)"),
        ),
        Mistake(
            "padding counts in the denominator",
            MEAN,
            PADDING,
            edit(Head.forward, COUNT, "states.size(1)"),
        ),
        Mistake(
            "the sum instead of the mean", MEAN, PADDING, edit(Head.forward, COUNT, "1")
        ),
        Mistake(
            "division by zero for a sentence without tokens",
            "For a sentence without a real token, the denominator is 0. Use a"
            " denominator of at least 1.",
            PADDING,
            edit(Head.forward, ".clamp(min=1)", ""),
        ),
        Mistake(
            "padding is assumed to be at the end",
            "The mask tells which tokens are real. They need not be the first ones.",
            PADDING,
            edit(
                Head.forward,
                POOLED,
                "(states * (torch.arange(states.size(1), device=mask.device)"
                " < mask.sum(1, keepdim=True))[..., None]).sum(1) / count",
            ),
        ),
        Mistake(
            "zero logits for a sentence without tokens",
            "Its mean is zero. Pass this mean through the network like any other mean.",
            PADDING,
            edit(
                Head.forward,
                "return self.outer(self.dropout(torch.tanh(self.inner(pooled))))",
                "return self.outer(self.dropout(torch.tanh(self.inner(pooled))))"
                " * mask.any(1, keepdim=True)",
            ),
        ),
        Mistake(
            "NaN gradients for a sentence without tokens",
            "A division by zero has no finite gradient, even if you replace the"
            " result afterwards. Use a denominator of at least 1.",
            PADDING,
            edit(
                Head.forward,
                "pooled = (states * mask[..., None]).sum(1) / count",
                "pooled = ((states * mask[..., None]).sum(1) / mask.sum(1,"
                " keepdim=True)).nan_to_num()",
            ),
        ),
        Mistake(
            "only the first token",
            MEAN,
            PADDING,
            edit(Head.forward, POOLED, "states[:, 0]"),
        ),
        Mistake(
            "tanh missing",
            MAPS + " Two linear maps without tanh between them are one.",
            LOADING,
            edit(Head.forward, "torch.tanh", ""),
        ),
        Mistake(
            "inner layer missing",
            MAPS,
            LOADING,
            edit(Head.forward, "torch.tanh(self.inner(pooled))", "pooled"),
        ),
        Mistake(
            "dropout missing", MAPS, LOADING, edit(Head.forward, "self.dropout", "")
        ),
        Mistake(
            "dropout before the tanh",
            MAPS,
            LOADING,
            edit(
                Head.forward,
                "self.dropout(torch.tanh(self.inner(pooled)))",
                "torch.tanh(self.dropout(self.inner(pooled)))",
            ),
        ),
        Mistake(
            "dropout after the last layer",
            MAPS,
            LOADING,
            edit(
                Head.forward,
                "self.outer(self.dropout(torch.tanh(self.inner(pooled))))",
                "self.dropout(self.outer(torch.tanh(self.inner(pooled))))",
            ),
        ),
        Mistake(
            "dropout applied to the mean",
            MAPS,
            LOADING,
            edit(
                Head.forward,
                "self.dropout(torch.tanh(self.inner(pooled)))",
                "torch.tanh(self.inner(self.dropout(pooled)))",
            ),
        ),
        Mistake(
            "wrong in eval mode when dropout is set",
            "`self.dropout` follows the mode of the model. F.dropout needs"
            " `training=self.training`.",
            sign=lambda request, reply, reference: (
                not request.training and (request.init or (0,))[-1] > 0
            ),
        ),
        Mistake(
            "a wrong share is dropped",
            "Pass the numbers between the two maps through `self.dropout` once. It"
            " knows the share.",
            sign=lambda request, reply, reference: (request.init or (0,))[-1] > 0,
        ),
        Mistake(
            "the logits have an extra axis",
            "Return one answer per sentence. Average the states over the positions"
            " first.",
            PADDING,
            sign=wrong_output(lambda given, wanted: given.dim() == wanted.dim() + 1),
        ),
        *ANYWHERE,
        Mistake(
            "the mean is wrong",
            MEAN,
            PADDING,
            sign=comparable(
                lambda request, reply, reference: not bool(request.inputs[1].all())
            ),
        ),
        Mistake(
            "the head is put together in a wrong way",
            MAPS + " Take the mean over the positions of a sentence, axis 1.",
            LOADING,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
