"""Ask a trained model: what it says, how sure it is, and where it looks."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_course.runs.sources import Line
from attention_course.tasks.labels import LabelTask
from attention_course.tasks.sequences import SequenceTask


class Answer(NamedTuple):
    """What a model says to one source.

    Attributes:
        line: the source.
        target: tokens or labels.
        text: the same as a text.
        score: log-probability in nats; of a beam, divided by the length penalty. None
            where there was nothing to decode.
        weights: (T, S), or (L, H, T, S) by layers and heads; None where they were not
            asked for, or the model has none.
    """

    line: Line
    target: tuple[str, ...] = ()
    text: str = ""
    score: float | None = None
    weights: Tensor | None = None

    @property
    def source(self) -> list[str]:
        """Return the source's tokens; of a file, its name."""
        tokens = self.line.source
        return [self.line.name] if isinstance(tokens, Tensor) else list(tokens or ())

    def map(self) -> Tensor | None:
        """Return one map: of heads, the mean over those of the last layer (T, S)."""
        weights = self.weights
        if weights is None or weights.dim() == 2:
            return weights
        return weights[-1].mean(dim=0)

    def as_dict(self, weighed: bool) -> dict[str, Any]:
        """Return what can be written as JSON; `heads` are only those of Transformers.

        Args:
            weighed: whether weights were asked for.
        """
        said: dict[str, Any] = {
            "source": self.source,
            "target": list(self.target),
            "text": self.text,
            "score": self.score,
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
    """Let a model answer.

    Args:
        task: as from `load_model`.
        model: as from `load_model`.
        lines: at most a batch; those without a source get an empty answer.
        decoding: "beam_size" and "length_penalty", where they are not the usual ones.
        weighed: whether weights are wanted.

    Returns:
        An answer per line.
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
    # what stands in the text of a file is not looked at
    empty = task.example("")
    examples = [empty._replace(source=line.source) for line in lines]
    said = task.decode(model, examples, **decoding)
    answers = [
        Answer(line, tokens, task.text(tokens), score)
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
    """Return nested lists with six decimals."""
    if weights is None:
        return None
    if weights.dim() == 1:
        return [round(weight, 6) for weight in weights.tolist()]
    return [_rounded(row) for row in weights]
