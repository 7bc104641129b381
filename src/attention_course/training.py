"""Training and evaluation."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from attention_course.metrics import alignment_hit_rate, exact_match
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import Task, batches, shuffled_forever
from attention_course.tasks.sequences import Example, SequenceTask


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Attributes:
        steps: batches to train on.
        batch_size: examples per batch.
        learning_rate: Adam's, at its highest.
        warmup_steps: over which the learning rate rises to it; after them it falls to zero along a cosine.
        clip_norm: longest allowed gradient.
        seed: of the order of the examples.
    """

    steps: int = 300
    batch_size: int = 64
    learning_rate: float = 5e-3
    warmup_steps: int = 50
    clip_norm: float = 1.0
    seed: int = 0


def warmup_and_decay(step: int, config: TrainConfig) -> float:
    """Return the share of the highest learning rate to use at a step: up along a line, down along a cosine."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return (1 + math.cos(math.pi * progress)) / 2


def train_step(model: nn.Module, task: Task, batch: Any, optimizer: torch.optim.Optimizer, clip_norm: float) -> float:
    """Update the model once; return the loss in nats per token."""
    total, count = task.loss(model, batch)
    loss = total / count
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return float(loss.detach())


def train(model: nn.Module, task: Task, config: TrainConfig | None = None) -> list[float]:
    """Train a model on a task, where the model is (CPU or GPU). It is left in `eval()` mode.

    Args:
        model: changed in place.
        task: brings the examples and the loss.
        config: defaults to `TrainConfig()`.

    Returns:
        The loss of every step, in nats per token.
    """
    config = config or TrainConfig()
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_and_decay(step, config))

    model.train()
    losses: list[float] = []
    stream = shuffled_forever(task, config.batch_size, config.seed, device)
    # On stdout: nbgrader takes anything on stderr for an error.
    with tqdm(total=config.steps, desc=task.name, unit="step", file=sys.stdout, leave=False, mininterval=0.5) as bar:
        for batch in stream:
            if len(losses) == config.steps:
                break
            losses.append(train_step(model, task, batch, optimizer, config.clip_norm))
            schedule.step()
            bar.set_postfix_str(f"loss {losses[-1]:.3f}", refresh=False)
            bar.update()
    model.eval()
    return losses


@dataclass(frozen=True)
class Evaluation:
    """What a model did on examples.

    Attributes:
        predictions: greedily decoded targets.
        exact_match: share of predictions that are right in every token.
        weights: per example (T, S) attention weights, with the right target given (teacher forcing); see `alignment`.
        hit_rate: share of target tokens whose largest weight is on a gold position; None for a memory of one slot.
    """

    predictions: list[tuple[str, ...]]
    exact_match: float
    weights: list[list[list[float]]]
    hit_rate: float | None


def alignment(weights: Float[Tensor, "B *LH T S"] | None) -> Float[Tensor, "B T S"]:
    """Return one map per sentence: the weights themselves, or the mean over the heads of a Transformer's last layer.

    Args:
        weights: (B, T, S), or by layers and heads, (B, L, H, T, S).

    Returns:
        Weights of each target token over the source.

    Raises:
        ValueError: there are no weights.
    """
    if weights is None:
        raise ValueError("the model gave no weights, although it was asked for them")
    return weights if weights.dim() == 3 else weights[:, -1].mean(dim=1)  # (B, T, S)


@torch.no_grad()
def evaluate(
    model: EncoderDecoder, task: SequenceTask, examples: Sequence[Example], batch_size: int = 256
) -> Evaluation:
    """Decode examples greedily and score predictions and alignments.

    Args:
        model: put into `eval()` mode and left there.
        task: brings the vocabularies.
        examples: what to decode.
        batch_size: examples per batch.

    Returns:
        Predictions, weights and scores.
    """
    predictions = task.predict(model, examples, batch_size)
    weights: list[list[list[float]]] = []
    one_slot_per_token = True
    for batch in batches(task, examples, batch_size, next(model.parameters()).device):
        forced = alignment(model(batch.source, batch.lengths, batch.target_in, need_weights=True)[1])
        weights += forced.tolist()
        one_slot_per_token = one_slot_per_token and forced.size(-1) == batch.source.size(-1)
    gold = [example.gold for example in examples]
    return Evaluation(
        predictions=predictions,
        exact_match=exact_match(predictions, [example.target for example in examples]),
        weights=weights,
        hit_rate=alignment_hit_rate(weights, gold) if one_slot_per_token else None,
    )
