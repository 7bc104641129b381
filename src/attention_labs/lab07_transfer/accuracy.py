"""Question `accuracy`: the share of right labels, in eval mode, without gradients."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.tasks.labels import LabelBatch
from nbjudge import (
    ANYWHERE,
    PLAIN,
    Axis,
    Battery,
    Changed,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    comparable,
    each_of,
    edit,
    error_like,
    in_words,
    normal,
    of_output,
    same_numbers,
    somewhere,
    state_of,
    wrong_in,
)
from nbjudge.comparisons import left_alone


def accuracy(model: nn.Module, batches: Sequence[LabelBatch]) -> float:
    """Return the share of sentences that get their label."""
    was_training = model.training
    model.eval()
    right = count = 0.0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right += int((logits.argmax(-1) == batch.labels[:, 0]).sum())
            count += len(batch.labels)
    model.train(was_training)
    return right / count


class _Judged(nn.Module):
    """A classifier that answers each sentence by its last word, otherwise in training.

    A part of it is frozen. It remembers whether it was ever called in training mode,
    and with gradients on.
    """

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.still = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.inside, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5)
        self.called = (False, False)

    def train(self, mode: bool = True) -> "_Judged":
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, str]:
        now = (self.training or self.inside.training, torch.is_grad_enabled())
        self.called = (self.called[0] or now[0], self.called[1] or now[1])
        logits = self.table[source.gather(1, lengths[:, None] - 1)[:, 0]]
        return (-logits if self.training else logits), "of no use"


def _use_accuracy(
    measure: Any,
    table: Tensor,
    batches: list[list[Tensor]],
    trains: bool,
    before: Tensor | None = None,
) -> Any:
    """Return what was measured, and how the model was called and left.

    If another table is given, the model has it first, and is measured then, too. Whole
    numbers make a model in bfloat16.
    """
    if not table.is_floating_point():
        table = table.to(torch.bfloat16)
    model = _Judged(table if before is None else before).train(trains)
    model.table.grad = torch.ones_like(table)  # of a step that is to be made
    given = [LabelBatch(*batch) for batch in batches]
    handed, was = [*given], state_of(model)
    with torch.enable_grad():
        if before is not None:
            measure(model, given)
            model.table.data.copy_(table)
        share = measure(model, given)
        left = [x.training for x in (model, model.inside, model.frozen)]
        how = (*model.called, *left, torch.is_grad_enabled())
    if share is None:
        return None
    outputs = tuple(torch.as_tensor(x, dtype=torch.float64) for x in (share, how))
    gradient = model.table.grad
    same = (
        state_of(model) == was
        and gradient is not None
        and bool((gradient == 1).all())
        and len(given) == len(handed)
        and all(x is y for x, y in zip(given, handed))
    )
    return outputs if same else Changed(outputs)


def _to_measure(d: Draw, *sizes: int, chance: float = 0.5) -> Request:
    """Draw batches of these sizes; beside the first one, answers may be wrong."""
    table = normal(d, d.V, d.K)
    batches: list[list[Tensor]] = []
    for size in sizes:
        source = torch.randint(d.V, (size, d.S), generator=d)
        lengths = torch.randint(1, d.S + 1, (size,), generator=d)
        labels = table[source.gather(1, lengths[:, None] - 1)].argmax(-1)
        wrong = (torch.rand(size, 1, generator=d) < chance) & bool(batches)
        labels = (labels + wrong * d.number(1, max(d.K - 1, 1))) % d.K
        batches.append([source, lengths, labels])
    return Request((table, batches, bool(d.number(0, 1))))


def _alike(d: Draw) -> Request:
    """Draw batches of one size, of which about half are right."""
    return _to_measure(d, *[d.B] * (d.N + 1), chance=0.7)


def _of_all_sizes(d: Draw) -> list[Request]:
    """Draw large and small batches, all of them right, and almost all of them wrong."""
    again = _to_measure(d, d.B, d.number(2, 30), chance=0.0)
    before = -again.inputs[0]
    return [
        replace(
            again,
            inputs=(*again.inputs, before),
            about="a model that was measured before it was trained",
        ),
        _to_measure(d, d.B, 1),
        _to_measure(d, *(d.number(1, 30) for _ in range(d.N)), 1),
        _to_measure(d, 2, *(d.number(1, 30) for _ in range(d.N))),
        _to_measure(d, d.B, d.B, d.number(1, d.B), chance=0.0),
        _to_measure(d, 1, 50, chance=1.0),
        _in_half(d),
        _far_off(d),
    ]


def _in_half(d: Draw) -> Request:
    """Draw a model in bfloat16, in which 256 + 1 is 256: the first hits are odd."""
    many = _to_measure(d, 2 * d.number(150, 250) + 1, d.number(300, 500))
    ranks = many.inputs[0].argsort(-1).argsort(-1)  # no two logits are equal
    about = "a model in bfloat16 and many sentences"
    return replace(many, inputs=(ranks, *many.inputs[1:]), about=about)


def _far_off(d: Draw) -> Request:
    """Draw large negative logits: their exponentials are 0, and all the same."""
    some = _to_measure(d, d.B, d.B)
    table = 1e4 * (some.inputs[0] - 9)
    return replace(some, inputs=(table, *some.inputs[1:]), about="large numbers")


def _in_both_modes(d: Draw) -> list[Request]:
    return [
        replace(request, inputs=(*request.inputs[:2], trains))
        for request in (_alike(d), _to_measure(d, d.B, 1, chance=0.0))
        for trains in (True, False)
    ]


def _careless(request: Request, reply: Reply, reference: Reply) -> Finding:
    in_training, with_gradients, *_ = reply.outputs[1].tolist()
    if in_training:
        return Finding("the model was called in training mode", "in eval mode")
    if with_gradients:
        return Finding("the model was called with gradients on", "without gradients")
    if not reply.outputs[1][5]:
        return Finding("gradients are off afterwards", "on, as they were")
    if reply.outputs[1][4]:
        return Finding("the model's frozen part was left in training mode", "eval mode")
    left, was = ("training" if x.outputs[1][2] else "eval" for x in (reply, reference))
    return Finding(f"the model was left in {left} mode", f"{was} mode, as it came")


_same_share = in_words(
    of_output(0, same_numbers),
    lambda request, reply, reference: Finding(
        f"a share of {float(reply.outputs[0]):.3f}", "another share"
    ),
)


def _share(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Compare the share, unless the answer uses NumPy, which has no bfloat16."""
    if "unsupported ScalarType BFloat16" in (reply.error or ""):
        return None
    return _same_share(request, reply, reference)


_carefully = each_of(in_words(of_output(1, same_numbers), _careless), _share)

ALL = (
    "All sentences count the same. Add up the right answers of all batches, and divide"
    " once by the number of all sentences."
)
BACK = (
    "Store `model.training` before you change it, and pass it to `model.train(...)`"
    " afterwards."
)

BATTERY = Battery(
    PLAIN,
    _alike,
    {
        "N": Axis("batches", most=5, long=60),
        "B": Axis("sentences in a batch", most=12, long=700),
        "S": Axis("positions"),
        "V": Axis("words", least=2, long=200),
        "K": Axis("labels", least=2, long=40),
    },
    leaves_out={"zero": "a share of no sentences is no number"},
)

QUESTION = Question(
    name="accuracy",
    reference=accuracy,
    use=_use_accuracy,
    plain=True,
    battery=BATTERY,
    requirements={
        "share": "What share of the sentences gets the right label?",
        "called": "A batch has the fields `source`, `lengths` and `labels` (B, 1)."
        " Call the model as `model(source, lengths)`. It returns logits (B, labels)"
        " and a second value, which you do not need.",
        "careful": "Measure without dropout and without gradients.",
        "same": "Every sentence must count the same, although the batches may differ"
        " in size.",
        "mode": "After the call, the model must be in the same mode as before, because"
        " your function may be called in the middle of training.",
        "parts": "If a part of the model is frozen, the model's own `train` method"
        " takes care of it.",
        "model": "model: called as model(source, lengths); keep its mode (train or"
        " eval).",
        "batches": "batches: a list of at least one batch, each with `source`,"
        " `lengths` and `labels` (B, 1).",
        "returns": "The share, between 0 and 1: a number, or a tensor that holds one.",
    },
    properties=(
        BATTERY.numbers(
            "the share of right labels",
            2,
            _share,
            ("share", "called", "batches", "returns"),
            False,
        ),
        BATTERY.edges(
            1,
            _share,
            ("same", "returns"),
            "every sentence counts the same in batches of different sizes; edges: one"
            " sentence, many sentences, large numbers, repeated calls",
            _of_all_sizes,
        ),
        BATTERY.line(
            "in eval mode, without gradients; the model and the batches are unchanged",
            1,
            _in_both_modes,
            each_of(_carefully, left_alone),
            ("careful", "mode", "parts", "model"),
            throughout=left_alone,
        ),
    ),
    mistakes=(
        Mistake(
            "every prediction is compared with every label",
            "Comparing (B,) with (B, 1) gives (B, B). Give both the same shape.",
            "",
            (
                edit(accuracy, "batch.labels[:, 0]", "batch.labels"),
                edit(accuracy, "batch.labels[:, 0]", "batch.labels")
                & edit(
                    accuracy,
                    "count += len(batch.labels)",
                    "count += len(batch.labels)**2",
                ),
            ),
        ),
        Mistake(
            "mean of the per-batch accuracies",
            ALL,
            "",
            edit(accuracy, ".sum())", ".sum()) / len(batch.labels)")
            & edit(accuracy, "count += len(batch.labels)", "count += 1"),
        ),
        Mistake(
            "only one batch counts",
            ALL,
            "",
            (
                edit(accuracy, "right +=", "right =")
                & edit(accuracy, "count +=", "count ="),
                edit(accuracy, "in batches", "in batches[:1]"),
                edit(accuracy, "count +=", "count ="),
            ),
        ),
        Mistake(
            "all batches assumed as large as the first",
            ALL,
            "",
            edit(
                accuracy,
                "count += len(batch.labels)",
                "count += len(batches[0].labels)",
            ),
        ),
        Mistake(
            "only the first two labels",
            "There may be more than two labels. Take the index of the largest of all"
            " logits.",
            "",
            edit(accuracy, "logits.argmax(-1)", "logits[:, :2].argmax(-1)"),
        ),
        Mistake(
            "mode not restored when all answers are right",
            "Restore the mode before you return, on every path through the function.",
            "",
            edit(
                accuracy,
                "model.train(was_training)",
                "if right < count: model.train(was_training)",
            ),
        ),
        Mistake(
            "a frozen part is put into train mode",
            "Call `model.train(...)`, which knows which part stays in eval mode. A"
            " loop over the modules does not know it.",
            "",
            (
                edit(
                    accuracy,
                    "model.train(was_training)",
                    "for module in model.modules(): module.train(was_training)",
                ),
                edit(
                    accuracy,
                    "model.train(was_training)",
                    "for x in model.modules(): x.training = was_training",
                ),
            ),
        ),
        Mistake(
            "counts are rounded in half precision",
            "In bfloat16, 256 + 1 is 256. Count with whole numbers.",
            "",
            edit(
                accuracy,
                "right += int((logits.argmax(-1) == batch.labels[:, 0]).sum())",
                "hits = logits.argmax(-1) == batch.labels[:, 0];"
                " right = right + hits.to(logits.dtype).sum()",
            )
            & edit(
                accuracy,
                "count += len(batch.labels)",
                "count = count + torch.ones_like(logits[:, 0]).sum()",
            )
            & edit(accuracy, "return right / count", "return (right / count).item()"),
        ),
        Mistake(
            "number of right labels instead of their share",
            ALL,
            "",
            edit(accuracy, "right / count", "right"),
        ),
        Mistake(
            "the most probable sentence, not the most probable label",
            "The logits are (B, labels). Take the largest along the last axis.",
            sign=error_like("The size of tensor a .* must match"),
        ),
        Mistake(
            "the model is left in eval mode",
            BACK,
            "",
            edit(accuracy, "model.train(was_training)", "pass"),
        ),
        Mistake(
            "the model is left in train mode",
            BACK,
            "",
            edit(accuracy, "model.train(was_training)", "model.train()"),
        ),
        Mistake(
            "gradients not switched off, or not restored",
            "Measuring needs no gradients. Put `with torch.no_grad():` around the"
            " calls of the model, and around nothing else.",
            sign=somewhere(1, lambda how, wanted: (how != wanted)[[1, 5]]),
        ),
        Mistake(
            "measured in train mode",
            "Dropout is only for training. Call `model.eval()` first.",
            "",
            (
                edit(accuracy, "model.eval()", "pass"),
                edit(accuracy, "model.eval()", "pass")
                & edit(accuracy, "model.train(was_training)", "pass"),
            ),
            sign=somewhere(1, lambda how, wanted: how[0] > 0),
        ),
        Mistake("the model is left in a different mode", BACK, sign=wrong_in(1)),
        *ANYWHERE,
        Mistake(
            "the batches are put together in a wrong way",
            ALL,
            sign=comparable(
                lambda request, reply, reference: (
                    len({len(batch[0]) for batch in request.inputs[1]}) > 1
                )
            ),
        ),
        Mistake(
            "wrong answers count",
            "The predicted label is the index of the largest logit. Compare it with"
            " the label in the batch.",
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
