"""Evaluate a model on held-out examples: loss, predictions, scores and alignments.

The metrics are in `attention_course.metrics`; the command `evaluate` is in
`attention_course.runs.evaluation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_course.metrics import (
    alignment_error_rate,
    alignment_hit_rate,
    exact_match,
)
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import Task, batches
from attention_course.tasks.sequences import Example, SequenceTask


@torch.no_grad()
def validation_loss(model: nn.Module, task: Task, batch_size: int = 256) -> float:
    """Return the loss on the validation examples, in nats per token.

    The model is left in `eval()` mode.
    """
    model.eval()
    device = next(model.parameters()).device
    examples = sorted(task.validation, key=task.length or (lambda example: 0))
    sums = [
        task.loss(model, batch) for batch in batches(task, examples, batch_size, device)
    ]
    total, count = (float(sum(part)) for part in zip(*sums))
    return total / count


@dataclass(frozen=True)
class Evaluation:
    """A model's predictions, attention weights and scores on examples.

    Attributes:
        predictions: greedily decoded targets.
        exact_match: share of predictions that are right in every token.
        weights: for each example, attention weights (T, S) with the right target given
            (teacher forcing); see `alignment`.
        hit_rate: share of target tokens whose largest weight is on a gold position;
            None for a memory of one slot.
        alignment_error: see `alignment_error_rate`; None for a memory of one slot.
    """

    predictions: list[tuple[str, ...]]
    exact_match: float
    weights: list[list[list[float]]]
    hit_rate: float | None
    alignment_error: float | None


def alignment(weights: Float[Tensor, "B *LH T S"] | None) -> Float[Tensor, "B T S"]:
    """Return one attention map per sentence.

    The map is the weights themselves or, for a Transformer, their mean over the heads
    of the last layer.

    Args:
        weights: (B, T, S), or with layers and heads, (B, L, H, T, S).

    Returns:
        The weights of each target token over the source.

    Raises:
        ValueError: `weights` is None.
    """
    if weights is None:
        raise ValueError("the model gave no weights, although it was asked for them")
    return weights if weights.dim() == 3 else weights[:, -1].mean(dim=1)  # (B, T, S)


@torch.no_grad()
def evaluate(
    model: EncoderDecoder,
    task: SequenceTask,
    examples: Sequence[Example],
    batch_size: int = 256,
) -> Evaluation:
    """Decode examples greedily and score predictions and alignments.

    Args:
        model: put into `eval()` mode and left there.
        task: provides the vocabularies.
        examples: what to decode.
        batch_size: examples per batch.

    Returns:
        Predictions, weights and scores.
    """
    predictions = task.predict(model, examples, batch_size)
    weights: list[list[list[float]]] = []
    one_slot_per_token = True
    for batch in batches(task, examples, batch_size, next(model.parameters()).device):
        forced = alignment(
            model(batch.source, batch.lengths, batch.target_in, need_weights=True)[1]
        )
        weights += forced.tolist()
        one_slot_per_token = one_slot_per_token and forced.size(-1) == int(
            batch.lengths.max()
        )
    gold = [example.gold for example in examples]
    return Evaluation(
        predictions=predictions,
        exact_match=exact_match(predictions, [example.target for example in examples]),
        weights=weights,
        hit_rate=alignment_hit_rate(weights, gold) if one_slot_per_token else None,
        alignment_error=(
            alignment_error_rate(weights, gold) if one_slot_per_token else None
        ),
    )
