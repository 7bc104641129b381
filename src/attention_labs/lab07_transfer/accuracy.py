"""accuracy: the share of right labels, measured in eval mode and without gradients."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.tasks.labels import LabelBatch
from attention_labs.lab07_transfer.body import K, S, V
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
    comparable,
    error_like,
    normal,
    of_output,
    of_outputs,
    same_numbers,
    wrong_in,
)


def accuracy(model: nn.Module, batches: Sequence[LabelBatch]) -> float:
    """Return the share of sentences that get their label."""
    return _Measure()(model, batches)


class _Measure:
    """Counting in pieces that a mistake can replace."""

    def __call__(self, model: nn.Module, batches: Sequence[LabelBatch]) -> float:
        was_training = model.training
        self.before(model)
        with self.gradients():
            counts = [
                (self.right(model, batch), len(batch.labels)) for batch in batches
            ]
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


class _Judged(nn.Module):
    """A classifier that answers with a table, otherwise in training mode, and remembers
    how it was called."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.detach().clone())
        self.inside = nn.Dropout(0.5)
        self.calls: list[tuple[float, float]] = []

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        self.calls.append(
            (
                float(self.training or self.inside.training),
                float(torch.is_grad_enabled()),
            )
        )
        logits = self.table[source[:, 0]]
        return (-logits if self.training else logits), None


def _use_accuracy(
    measure: Any,
    table: Tensor,
    source: Tensor,
    labels: Tensor,
    sizes: Tensor,
    trains: Tensor,
) -> Any:
    """Measure, and say what was measured, how the model was called and how it was
    left."""
    model = _Judged(table).train(bool(trains.size(0)))
    cut = [x.split(list(sizes.shape)) for x in (source, labels)]
    made = [LabelBatch(x, torch.full((len(x),), x.size(1)), y) for x, y in zip(*cut)]
    with torch.enable_grad():
        share = measure(model, made)
        left = [
            float(model.training),
            float(model.inside.training),
            float(torch.is_grad_enabled()),
        ]
    if share is None:
        return None
    calls = torch.tensor(model.calls, dtype=torch.float64).reshape(-1, 2).sum(0)
    return (
        torch.as_tensor(share, dtype=torch.float64),
        calls,
        torch.tensor(left, dtype=torch.float64),
    )


def _to_measure(g: torch.Generator, *sizes: int, trains: int = 0) -> Request:
    """Draw answers of which about half are right, and batches of these sizes."""
    table = normal(g, V, K)
    source = torch.randint(V, (sum(sizes), S), generator=g)
    right = table[source[:, 0]].argmax(-1)
    other = torch.randint(K, right.shape, generator=g)
    place = torch.arange(len(right))
    # the batches differ in how many are right
    labels = torch.where(place < sizes[0] - 2, right, other)
    return Request(
        (table, source, labels[:, None], torch.zeros(sizes), as_length(trains))
    )


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
            return Finding(
                "the model was called with gradients on", "without gradients"
            )
        names = {True: "training", False: "eval"}
        was = names[bool(reference.outputs[2][0])]
        return Finding(
            f"the model was left in {names[bool(left[0])]} mode",
            f"{was} mode, as it came",
        )
    return _share(request, reply, reference)


@comparable
def _in_training(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(reply.outputs[1][0] > 0)


@comparable
def _with_gradients(request: Request, reply: Reply, reference: Reply) -> bool:
    return bool(reply.outputs[1][1] > 0) or bool(
        reply.outputs[2][2] != reference.outputs[2][2]
    )


def _several(request: Request, reply: Reply, reference: Reply) -> bool:
    return request.inputs[3] is not None and request.inputs[3].dim() > 1


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
        Property("the share of right labels in a batch", 2, _one_batch, _share),
        Property(
            "batches of different sizes: every sentence counts the same",
            1,
            _unequal_batches,
            _share,
        ),
        Property(
            "in eval mode, without gradients; the model is left as it came",
            1,
            _in_both_modes,
            _carefully,
        ),
    ),
    mistakes=(
        Mistake(
            "every answer is compared with every label",
            "(B,) == (B, 1) is (B, B): give both the same shape.",
            "",
            with_pieces(
                _Measure,
                right=lambda model, batch: int(
                    (
                        model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels
                    ).sum()
                ),
            )(),
        ),
        Mistake(
            "the mean of the batches' shares",
            ALL,
            "",
            with_pieces(
                _Measure,
                share=lambda counts: (
                    sum(right / count for right, count in counts) / len(counts)
                ),
            )(),
        ),
        Mistake(
            "the number of right labels, not their share",
            ALL,
            "",
            with_pieces(
                _Measure, share=lambda counts: sum(right for right, _ in counts)
            )(),
        ),
        Mistake(
            "the likeliest sentence, not the likeliest label",
            "Logits are (B, labels): the largest along the last axis.",
            sign=error_like("The size of tensor a .* must match"),
        ),
        Mistake(
            "measured in training mode",
            "Dropout is for training: `model.eval()` first.",
            "",
            with_pieces(_Measure, before=lambda model: None)(),
        ),
        Mistake(
            "the model is left in eval mode",
            BACK,
            "",
            with_pieces(_Measure, after=lambda model, was_training: None)(),
        ),
        Mistake(
            "the model is left in training mode",
            BACK,
            "",
            with_pieces(_Measure, after=lambda model, was_training: model.train())(),
        ),
        Mistake(
            "gradients are kept",
            "What is only measured needs no gradients: `with torch.no_grad():` around"
            " the calls, and no longer.",
            sign=_with_gradients,
        ),
        Mistake(
            "measured in training mode", "`model.eval()` first.", sign=_in_training
        ),
        Mistake("the model is left in another mode", BACK, sign=wrong_in(2)),
        *ANYWHERE,
        Mistake(
            "the batches are put together in another way",
            ALL,
            sign=comparable(_several),
        ),
        Mistake(
            "counted in another way",
            "The label of a sentence is the place of its largest logit; compare it with"
            " the label in the batch.",
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
