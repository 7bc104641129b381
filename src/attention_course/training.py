"""Training and evaluation.

Device, precision and processes come from Lightning Fabric, which wraps a model and
leaves the loop to be read here.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float, Int
from lightning_fabric import Fabric
from torch import Tensor, nn
from tqdm import tqdm

from attention_course.checkpoints import Checkpoints, Row, Run
from attention_course.metrics import (
    alignment_error_rate,
    alignment_hit_rate,
    exact_match,
)
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import Task, batches, shuffled_forever
from attention_course.tasks.sequences import Example, SequenceTask


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Attributes:
        steps: batches to train on.
        batch_size: examples per batch; with several processes, of all of them together.
        learning_rate: Adam's, at its highest.
        warmup_steps: over which the learning rate rises to it; after them it falls to
            zero along a cosine.
        clip_norm: longest allowed gradient.
        label_smoothing: share of a target's probability that is spread over the whole
            vocabulary.
        teacher_forcing: how often a decoder is given the right last token; below 1 see
            `OwnTokens`.
        validate_every: steps between two validations, the last step having one always;
            None: there are none.
        patience: validations in a row without a better one after which training ends;
            None: it goes on.
        seed: of the order of the examples.
    """

    steps: int = 300
    batch_size: int = 64
    learning_rate: float = 5e-3
    warmup_steps: int = 50
    clip_norm: float = 1.0
    label_smoothing: float = 0.0
    teacher_forcing: float = 1.0
    validate_every: int | None = None
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "validate_every", "patience"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is at least 1, got {value}")
        for name in ("label_smoothing", "teacher_forcing"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise ValueError(f"{name} is a share between 0 and 1, got {share}")


def warmup_and_decay(step: int, config: TrainConfig) -> float:
    """Return the share of the highest learning rate to use at a step: up along a line,
    down along a cosine."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return (1 + math.cos(math.pi * progress)) / 2


class OwnTokens(nn.Module):
    """Give a decoder its own last token now and then, in training, as it will have to
    live with it afterwards.

    Bengio et al. (2015), "scheduled sampling", without the schedule: a coin is thrown
    for every token, and what is not the right one is drawn from what the model has just
    predicted. Step by step, so slower than `decode`.

    Args:
        model: what is trained; it knows nothing of this.
        ratio: how often the right token is given.

    Raises:
        ValueError: the model has no decoder.
    """

    def __init__(self, model: nn.Module, ratio: float):
        super().__init__()
        if not isinstance(model, EncoderDecoder):
            raise ValueError(
                "teacher forcing below 1 needs an EncoderDecoder, got"
                f" {type(model).__name__}"
            )
        self.model = model
        self.ratio = ratio

    def forward(
        self,
        source: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T V"], None]:
        """Predict every next token; called as the model is, and with no weights in the
        answer."""
        memory = self.model.encode(source, lengths)
        cache, given, predictions = self.model.start(memory), target[:, :1], []
        for right in target[:, 1:].split(1, dim=1):
            logits, _, cache = self.model.step(given, memory, cache)
            predictions.append(logits)
            # (B, 1)
            own = torch.distributions.Categorical(logits=logits.detach()).sample()
            given = torch.where(
                torch.rand(right.shape, device=right.device) < self.ratio, right, own
            )
        predictions.append(self.model.step(given, memory, cache)[0])
        return torch.cat(predictions, dim=1), None


class Objective(nn.Module):
    """A task's loss as a module: what Fabric wraps, so that all of it runs in the
    precision and processes asked for.

    Args:
        model: what is trained.
        task: brings the loss.
        config: says how.
    """

    def __init__(self, model: nn.Module, task: Task, config: TrainConfig):
        super().__init__()
        self.model = (
            model
            if config.teacher_forcing == 1
            else OwnTokens(model, config.teacher_forcing)
        )
        self.task = task
        self.label_smoothing = config.label_smoothing

    def forward(self, batch: Any) -> tuple[Float[Tensor, ""], int]:
        """Return the sum of the batch's losses in nats, and the number of predictions
        in that sum."""
        return self.task.loss(self.model, batch, self.label_smoothing)


def train_step(
    fabric: Fabric, objective: nn.Module, batch: Any, run: Run, clip_norm: float
) -> tuple[float, int]:
    """Update the model once.

    Args:
        fabric: where and how to compute.
        objective: the `Objective` that `fabric` has set up, together with the run's
            optimizer.
        batch: this process's share of the batch.
        run: its optimizer and its schedule make a step.
        clip_norm: longest allowed gradient.

    Returns:
        The loss in nats per token and the number of tokens, over all processes.

    Raises:
        FloatingPointError: the loss or its gradient is infinite or not a number; the
            weights are as they were.
    """
    total, count = objective(batch)
    sums = fabric.all_reduce(
        torch.stack([total.detach(), torch.as_tensor(count).to(total)]), reduce_op="sum"
    )
    run.optimizer.zero_grad()
    # Fabric averages the processes' gradients
    fabric.backward(total * fabric.world_size / sums[1])
    norm: Any = fabric.clip_gradients(
        objective, run.optimizer, max_norm=clip_norm, error_if_nonfinite=False
    )
    loss = float(sums[0] / sums[1])
    if not math.isfinite(loss + norm):
        what = f"the loss is {loss} and its gradient's length {norm:g}"
        raise FloatingPointError(
            f"at step {run.step + 1} {what}; a lower learning rate or a longer warm-up"
            " may help"
        )
    run.optimizer.step()
    run.schedule.step()
    return loss, int(sums[1])


def train(
    model: nn.Module,
    task: Task,
    config: TrainConfig | None = None,
    fabric: Fabric | None = None,
    validate: Callable[[nn.Module], float] | None = None,
    checkpoints: Checkpoints | None = None,
) -> list[Row]:
    """Train a model on a task. It ends up in `eval()` mode and, if there was
    validation, with its best weights.

    Args:
        model: changed in place.
        task: brings the examples and the loss.
        config: defaults to `TrainConfig()`.
        fabric: device, precision and processes; None: one process, where the model is
            (CPU or GPU).
        validate: how good a model is, higher is better; None: the task's score on its
            validation examples.
        checkpoints: where they go; if one is there, training goes on from it. None:
            there are none.

    Returns:
        A row per step.

    Raises:
        FloatingPointError: a loss or a gradient is infinite or not a number.
        OSError: a checkpoint could not be written.
        ValueError: there are no training examples, or the checkpoint that is there is
            of another run or damaged.
    """
    config = config or TrainConfig()
    fabric = fabric or fabric_at(next(model.parameters()).device)
    validate = validate or (lambda model: task.score(model, task.validation))
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: warmup_and_decay(step, config)
    )
    objective, optimizer = fabric.setup(Objective(model, task, config), optimizer)
    run = Run(model, optimizer, schedule)
    if checkpoints:
        checkpoints.restore(fabric, run, asdict(config))

    started = time.perf_counter() - run.seconds
    stream = shuffled_forever(task.train, config.batch_size, config.seed, task.length)
    shareable = (examples for examples in stream if len(examples) >= fabric.world_size)
    with progress_bar(task.name, run.step, config.steps) as bar:
        for examples in islice(shareable, run.step, config.steps):
            if config.patience and run.validations_since_best >= config.patience:
                break
            model.train()
            batch = task.collate(
                examples[fabric.global_rank :: fabric.world_size], fabric.device
            )
            loss, tokens = train_step(fabric, objective, batch, run, config.clip_norm)

            metric = None
            if config.validate_every and (
                (run.step + 1) % config.validate_every == 0
                or run.step + 1 == config.steps
            ):
                with fabric.autocast():
                    metric = fabric.broadcast(
                        validate(model) if fabric.is_global_zero else None
                    )
            run.record(loss, tokens, metric, time.perf_counter() - started)
            if checkpoints and run.step % checkpoints.every == 0:
                checkpoints.save(fabric, run, asdict(config))
            bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            bar.update()

    if checkpoints:
        checkpoints.save(fabric, run, asdict(config))
    if run.best:
        model.load_state_dict(run.best.weights)
    model.eval()
    return run.history


def fabric_at(device: torch.device) -> Fabric:
    """Return a Fabric of one process on a device, in single precision."""
    return Fabric(
        accelerator=device.type, devices=1 if device.index is None else [device.index]
    )


def progress_bar(name: str, done: int, steps: int) -> tqdm:
    """Return a bar of plain text, which goes when it is done; a page of the book keeps
    nothing of it."""
    # a file would fill with it
    seen = sys.stdout.isatty() or "ipykernel" in sys.modules
    # On stdout: nbgrader takes anything on stderr for an error.
    where = {"file": sys.stdout, "leave": False, "mininterval": 0.5}
    hidden = {} if seen else {"disable": True}  # if seen, TQDM_DISABLE decides
    return tqdm(total=steps, initial=done, desc=name, unit="step", **where, **hidden)


@torch.no_grad()
def validation_loss(model: nn.Module, task: Task, batch_size: int = 256) -> float:
    """Return the loss on the validation examples, in nats per token. The model is left
    in `eval()` mode."""
    model.eval()
    device = next(model.parameters()).device
    examples = sorted(task.validation, key=task.length or (lambda example: 0))
    sums = [
        task.loss(model, batch) for batch in batches(task, examples, batch_size, device)
    ]
    return float(sum(total for total, _ in sums)) / sum(count for _, count in sums)


@dataclass(frozen=True)
class Evaluation:
    """What a model did on examples.

    Attributes:
        predictions: greedily decoded targets.
        exact_match: share of predictions that are right in every token.
        weights: per example (T, S) attention weights, with the right target given
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
    """Return one map per sentence: the weights themselves, or the mean over the heads
    of a Transformer's last layer.

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
    model: EncoderDecoder,
    task: SequenceTask,
    examples: Sequence[Example],
    batch_size: int = 256,
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
