"""accuracy: the share of right labels, measured in eval mode and without gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.tasks.labels import LabelBatch
from attention_labs.lab07_transfer.shared import K, S, V
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
    normal,
    of_output,
    same_numbers,
    somewhere,
    wrong_in,
)


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
    """A classifier that answers with a table, otherwise in training mode.

    It remembers whether it was ever called in training mode, and with gradients on.
    """

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.inside = nn.Dropout(0.5)
        self.called = (False, False)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        now = (self.training or self.inside.training, torch.is_grad_enabled())
        self.called = (self.called[0] or now[0], self.called[1] or now[1])
        logits = self.table[source[:, 0]]
        return (-logits if self.training else logits), None


def _use_accuracy(
    measure: Any,
    table: Tensor,
    source: Tensor,
    labels: Tensor,
    sizes: Sequence[int],
    trains: bool,
) -> Any:
    """Return what was measured, and how the model was called and left."""
    model = _Judged(table).train(trains)
    cut = [x.split(list(sizes)) for x in (source, labels)]
    made = [LabelBatch(x, torch.full((len(x),), x.size(1)), y) for x, y in zip(*cut)]
    with torch.enable_grad():
        share = measure(model, made)
        left = (model.training, model.inside.training, torch.is_grad_enabled())
    if share is None:
        return None
    how = (*model.called, *left)
    return tuple(torch.as_tensor(x, dtype=torch.float64) for x in (share, how))


def _to_measure(g: torch.Generator, *sizes: int, trains: bool = False) -> Request:
    """Draw answers of which about half are right, and batches of these sizes."""
    table = normal(g, V, K)
    source = torch.randint(V, (sum(sizes), S), generator=g)
    right = table[source[:, 0]].argmax(-1)
    other = torch.randint(K, right.shape, generator=g)
    # the batches differ in how many are right
    labels = torch.where(torch.arange(len(right)) < sizes[0] - 2, right, other)
    return Request((table, source, labels[:, None], list(sizes), trains))


def _careless(request: Request, reply: Reply, reference: Reply) -> Finding:
    in_training, with_gradients, *_ = reply.outputs[1].tolist()
    if in_training:
        return Finding("the model was called in training mode", "in eval mode")
    if with_gradients:
        return Finding("the model was called with gradients on", "without gradients")
    left, was = ("training" if x.outputs[1][2] else "eval" for x in (reply, reference))
    return Finding(f"the model was left in {left} mode", f"{was} mode, as it came")


_share = in_words(
    of_output(0, same_numbers),
    lambda request, reply, reference: Finding(
        f"a share of {float(reply.outputs[0]):.3f}", "another share"
    ),
)
_carefully = each_of(in_words(of_output(1, same_numbers), _careless), _share)

ALL = (
    "All sentences count the same: add up the right ones of all batches, then divide by"
    " the number of all sentences."
)
BACK = (
    "Keep `model.training` before you change it, and hand it to `model.train(...)`"
    " afterwards."
)

ACCURACY = Question(
    name="accuracy",
    reference=accuracy,
    use=_use_accuracy,
    properties=(
        Property(
            "the share of right labels in a batch",
            2,
            lambda g: [_to_measure(g, 11)],
            _share,
        ),
        Property(
            "batches of different sizes: every sentence counts the same",
            1,
            lambda g: [_to_measure(g, 7, 7, 2), _to_measure(g, 13, 1)],
            _share,
        ),
        Property(
            "in eval mode, without gradients; the model is left as it came",
            1,
            lambda g: [_to_measure(g, 7, 5, trains=trains) for trains in (True, False)],
            _carefully,
        ),
    ),
    mistakes=(
        Mistake(
            "every answer is compared with every label",
            "(B,) == (B, 1) is (B, B): give both the same shape.",
            "",
            edit(accuracy, "batch.labels[:, 0]", "batch.labels"),
        ),
        Mistake(
            "the mean of the batches' shares",
            ALL,
            "",
            edit(accuracy, ".sum())", ".sum()) / len(batch.labels)")
            & edit(accuracy, "count += len(batch.labels)", "count += 1"),
        ),
        Mistake(
            "the number of right labels, not their share",
            ALL,
            "",
            edit(accuracy, "right / count", "right"),
        ),
        Mistake(
            "the likeliest sentence, not the likeliest label",
            "Logits are (B, labels): the largest along the last axis.",
            sign=error_like("The size of tensor a .* must match"),
        ),
        Mistake(
            "the model is left in eval mode",
            BACK,
            "",
            edit(accuracy, "model.train(was_training)", "pass"),
        ),
        Mistake(
            "the model is left in training mode",
            BACK,
            "",
            edit(accuracy, "model.train(was_training)", "model.train()"),
        ),
        Mistake(
            "gradients are kept",
            "What is only measured needs no gradients: `with torch.no_grad():` around"
            " the calls, and no longer.",
            sign=somewhere(1, lambda how, wanted: (how != wanted)[[1, 4]]),
        ),
        Mistake(
            "measured in training mode",
            "Dropout is for training: `model.eval()` first.",
            "",
            edit(accuracy, "model.eval()", "pass"),
            sign=somewhere(1, lambda how, wanted: how[0] > 0),
        ),
        Mistake("the model is left in another mode", BACK, sign=wrong_in(1)),
        *ANYWHERE,
        Mistake(
            "the batches are put together in another way",
            ALL,
            sign=comparable(
                lambda request, reply, reference: len(request.inputs[3]) > 1
            ),
        ),
        Mistake(
            "counted in another way",
            "The label of a sentence is the place of its largest logit; compare it with"
            " the label in the batch.",
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
