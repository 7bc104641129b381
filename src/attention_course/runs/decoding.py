"""Decode sources with a trained model: answers, log-probabilities, attention weights.

Greedy decoding and beam search are in `attention_course.decoding`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_course.runs.sources import Line
from attention_course.tasks.labels import LabelTask
from attention_course.tasks.sequences import SequenceTask


class Answer(NamedTuple):
    """A model's answer for one source.

    Attributes:
        line: the source.
        target: tokens or labels.
        text: the target as text.
        score: log-probability in nats; with beam search, it is divided by the length
            penalty. None if there was nothing to decode.
        weights: (T, S), or (L, H, T, S) with layers and heads; None if they were not
            asked for, or if the model has none.
        is_cut: whether decoding stopped before the model ended the target.
    """

    line: Line
    target: tuple[str, ...] = ()
    text: str = ""
    score: float | None = None
    weights: Tensor | None = None
    is_cut: bool = False

    @property
    def source(self) -> list[str]:
        """Return the source's tokens or, for a file, its name."""
        tokens = self.line.source
        return [self.line.name] if isinstance(tokens, Tensor) else list(tokens or ())

    @property
    def warnings(self) -> list[str]:
        """Return what a user should know before trusting the answer."""
        told = list(self.line.warnings)
        if self.is_cut:
            told.append(
                f"the answer was cut after {len(self.target)} tokens, as many as the"
                " longest target in training has"
            )
        return told

    def map(self) -> Tensor | None:
        """Return one map (T, S): with heads, the mean over those of the last layer."""
        weights = self.weights
        if weights is None or weights.dim() == 2:
            return weights
        return weights[-1].mean(dim=0)

    def as_dict(self, weighed: bool) -> dict[str, Any]:
        """Return a dictionary for JSON; only Transformers have `heads`.

        Args:
            weighed: whether weights were asked for.
        """
        said: dict[str, Any] = {
            "source": self.source,
            "target": list(self.target),
            "text": self.text,
            "score": self.score,
            "warnings": self.warnings,
        }
        if weighed:
            said["weights"] = _rounded(self.map())
            if self.weights is not None and self.weights.dim() == 4:
                said["heads"] = _rounded(self.weights)
        return said


def answer_lines(
    task: Any,
    model: Any,
    lines: Sequence[Line],
    decoding: Mapping[str, Any],
    weighed: bool = False,
) -> list[Answer]:
    """Let a model answer lines of input.

    Args:
        task: as from `load_model`.
        model: as from `load_model`.
        lines: at most one batch; lines without a source get an empty answer.
        decoding: "beam_size" and "length_penalty", if they differ from the defaults.
        weighed: whether to return weights.

    Returns:
        One answer per line.
    """
    asked = [line for line in lines if line.source is not None]
    if not asked:
        answers = []
    elif isinstance(task, SequenceTask):
        answers = _sequences(task, model, asked, decoding, weighed)
    else:
        answers = _labels(task, model, asked, weighed)
    ready = {answer.line.number: answer for answer in answers}
    return [ready.get(line.number, Answer(line)) for line in lines]


@torch.no_grad()
def _sequences(
    task: SequenceTask,
    model: Any,
    lines: Sequence[Line],
    decoding: Mapping[str, Any],
    weighed: bool,
) -> list[Answer]:
    # starts empty, since a source need not be text
    empty = task.example("")
    examples = [empty._replace(source=line.source) for line in lines]
    said = task.decode(model, examples, **decoding)
    most = task.max_length(examples)
    answers = [
        Answer(line, tokens, task.text(tokens), score, is_cut=len(tokens) >= most)
        for line, (tokens, score) in zip(lines, said)
    ]
    if not weighed:
        return answers
    device = next(model.parameters()).device
    batch = task.collate(
        [e._replace(target=tokens) for e, (tokens, _) in zip(examples, said)], device
    )
    _, weights = model(batch.source, batch.lengths, batch.target_in, need_weights=True)
    return [
        answer._replace(weights=row[..., : len(answer.target), :length].cpu())
        for answer, row, length in zip(answers, weights, batch.lengths.tolist())
    ]


@torch.no_grad()
def _labels(
    task: LabelTask, model: Any, lines: Sequence[Line], weighed: bool
) -> list[Answer]:
    device = next(model.parameters()).device
    source, lengths = task.read([line.source for line in lines], device)
    logits, weights = model(source, lengths)
    log_probs, best = logits.log_softmax(dim=-1).max(dim=-1)  # (B,) or (B, S)
    answers = []
    for b, (line, length) in enumerate(zip(lines, lengths.tolist())):
        count = length if best.dim() == 2 else 1
        ids = best[b].reshape(-1)[:count].tolist()
        labels = tuple(task.labels[i] for i in ids)
        score = float(log_probs[b].reshape(-1)[:count].sum())
        seen = weights[b, :, :length].cpu() if weighed and weights is not None else None
        answers.append(Answer(line, labels, " ".join(labels), score, seen))
    return answers


def _rounded(weights: Tensor | None) -> Any:
    """Return weights as nested lists, rounded to six decimals."""
    return None if weights is None else weights.double().round(decimals=6).tolist()
