"""The training loop: learning rate, clipping, steps and history."""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn
from tqdm import tqdm

from attention_course.tasks.core import Task, shuffled_forever
from attention_course.training.checkpoints import Checkpoints, Row, Run
from attention_course.training.config import TrainConfig
from attention_course.training.interrupts import Stopped, held_back
from attention_course.training.own_tokens import OwnTokens


def warmup_and_decay(step: int, config: TrainConfig) -> float:
    """Return the share of the highest learning rate to use at a step.

    It goes up along a line, and down along a cosine.
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return (1 + math.cos(math.pi * progress)) / 2


class Objective(nn.Module):
    """A task's loss as a module, which is what Fabric wraps.

    So all of it runs in the precision and the processes asked for.

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
        """Return the sum of the losses in nats, and how many predictions it is of."""
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
    """Train a model on a task.

    It ends up in `eval()` mode and, if there was validation, with its best weights.

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
        Stopped: somebody pressed Ctrl-C; the step was finished, and a checkpoint saved.
            Without checkpoints, or with several processes, it is a KeyboardInterrupt as
            ever.
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
    may_stop = checkpoints is not None and fabric.world_size == 1
    with (
        held_back(may_stop) as stop,
        progress_bar(task.name, run.step, config.steps) as bar,
    ):
        for examples in islice(shareable, run.step, config.steps):
            if config.patience and run.validations_since_best >= config.patience:
                break
            if stop.is_set():
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
    if stop.is_set() and run.step < config.steps:
        raise Stopped(run.history)
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
    """Return a bar of plain text, which goes when it is done.

    So a page of the book keeps nothing of it.
    """
    # a file would fill with it
    seen = sys.stdout.isatty() or "ipykernel" in sys.modules
    # On stdout: nbgrader takes anything on stderr for an error.
    where = {"file": sys.stdout, "leave": False, "mininterval": 0.5}
    hidden = {} if seen else {"disable": True}  # if seen, TQDM_DISABLE decides
    return tqdm(total=steps, initial=done, desc=name, unit="step", **where, **hidden)
