"""Score a trained model on held-out examples, for the command `evaluate`.

The metrics are in `attention_course.metrics`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from torch import nn

from attention_course.metrics import (
    TextScore,
    exact_match,
    text_scores,
    token_accuracy,
)
from attention_course.runs import choices
from attention_course.runs.loading import parameters
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.multi30k import TranslationTask
from attention_course.tasks.sequences import SequenceTask
from attention_course.tasks.writing import WritingTask
from attention_course.training import evaluate
from attention_course.training.folder import SCORES, replace


def evaluate_run(
    task: Any, model: nn.Module, split: str, decoding: Mapping[str, Any]
) -> tuple[dict[str, float], list[str]]:
    """Print and return a model's scores on a split.

    Args:
        task: as from `load`.
        model: as from `load`.
        split: "validation" or "test".
        decoding: "beam_size" and "length_penalty", if they differ from the defaults.

    Returns:
        The scores by name, the task's own metric first, and the predictions as texts.

    Raises:
        ValueError: `decoding` was given for a task without decoding.
    """
    if not isinstance(task, SequenceTask):
        choices.refuse(decoding, f"for the task {task.name}")
    examples = getattr(task, split)
    scores: dict[str, float | TextScore]
    print(
        f"{task.name}, {split}: {len(examples):,} examples; {parameters(model):,}"
        " parameters",
        flush=True,
    )
    if isinstance(task, WritingTask):
        scores, texts = {"bits per character": -task.score(model, examples)}, []
    else:
        predictions = task.predict(model, examples, **decoding)
        if isinstance(task, SequenceTask):
            scores = sequence_scores(task, model, examples, predictions)
            texts = [task.text(prediction) for prediction in predictions]
        else:
            scores = {task.metric: task.score(model, examples)}
            if any(example.gold for example in examples):
                scores["alignment hit rate"] = task.hit_rate(model, examples)
            texts = [" ".join(prediction) for prediction in predictions]
    for name, score in scores.items():
        print(score if isinstance(score, TextScore) else f"{name} {score:.4f}")
    plain = {
        name: score.score if isinstance(score, TextScore) else score
        for name, score in scores.items()
    }
    return plain, texts


def sequence_scores(
    task: SequenceTask,
    model: nn.Module,
    examples: Sequence[Any],
    predictions: Sequence[Any],
) -> dict[str, float | TextScore]:
    """Score predicted sequences, and alignments if gold alignments are known."""
    targets = [example.target for example in examples]
    scores: dict[str, float | TextScore] = {
        "exact match": exact_match(predictions, targets),
        "token accuracy": token_accuracy(predictions, targets),
    }
    if isinstance(task, TranslationTask):
        cased, lower, chrf, chrf_lower = text_scores(
            [task.text(p) for p in predictions], [task.text(t) for t in targets]
        )
        texts: dict[str, float | TextScore] = {"BLEU": cased, "BLEU, lower case": lower}
        texts |= {"chrF": chrf, "chrF, lower case": chrf_lower}
        scores = texts | scores
    if any(any(example.gold) for example in examples):
        evaluation = evaluate(cast(EncoderDecoder, model), task, examples)
        if evaluation.hit_rate is not None and evaluation.alignment_error is not None:
            scores["alignment hit rate"] = evaluation.hit_rate
            scores["alignment error rate"] = evaluation.alignment_error
    return scores


def note_scores(
    folder: Path, split: str, step: int, scores: Mapping[str, float]
) -> None:
    """Write scores to a run's folder, where lists of runs find them.

    Args:
        folder: folder of the run.
        split: split that the scores are for.
        step: step that the run had reached.
        scores: the scores by name.

    Raises:
        OSError: the scores cannot be written.
    """
    path = folder / SCORES
    try:
        known = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # there is none, or it was edited
        known = {}
    known[split] = {"step": step, "scores": dict(scores)}
    replace(path, (json.dumps(known, indent=2) + "\n").encode())
