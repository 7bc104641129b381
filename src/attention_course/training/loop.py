"""The training loop: steps, learning-rate schedule, gradient clipping and history.

Saving and resuming a run is in `checkpoints`; the command `train` is in
`attention_course.runs.training`.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from typing import Any

import torch
from jaxtyping import Bool, Float
from lightning_fabric import Fabric
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from tqdm import tqdm

from attention_course.tasks.core import Task, shuffled_forever
from attention_course.training.checkpoints import Checkpoints, Row, Run
from attention_course.training.config import TrainConfig
from attention_course.training.devices import compiled, fabric_at
from attention_course.training.interrupts import Stopped, held_back
from attention_course.training.own_tokens import OwnTokens
from attention_course.training.precision import fallback_kernels


def warmup_and_decay(step: int, config: TrainConfig) -> float:
    """Return the learning rate at a step, as a share of its peak.

    It rises along a line during warm-up, and then falls along a cosine.
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return (1 + math.cos(math.pi * progress)) / 2


class Objective(nn.Module):
    """A task's loss as a module, so that Fabric can wrap it.

    All of the loss then runs in the requested precision and processes.

    Args:
        model: the model to train.
        task: provides the loss.
        config: the training settings.
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

    def forward(self, batch: Any) -> tuple[Float[Tensor, ""], Tensor | int]:
        """Return the summed loss in nats, and the number of predictions in the sum."""
        return self.task.loss(self.model, batch, self.label_smoothing)


def train_step(
    fabric: Fabric,
    objective: nn.Module,
    batch: Any,
    run: Run,
    clip_norm: float,
    wait: bool = True,
) -> Float[Tensor, "3"]:
    """Update the model once.

    Args:
        fabric: where and how to compute.
        objective: the `Objective` that `fabric` has set up, together with the run's
            optimizer.
        batch: this process's share of the batch.
        run: its optimizer and its schedule take one step.
        clip_norm: largest allowed norm of the gradient.
        wait: whether to check the loss before the update. If not, nothing is read from
            the device; after the first loss or gradient that is infinite or not a
            number, a fused optimizer then makes no more updates, and `read` raises the
            error later.

    Returns:
        A tensor on the device: the loss in nats per token and the number of tokens,
        both over all processes, and the norm of the gradient before clipping.

    Raises:
        FloatingPointError: with `wait`, the loss or its gradient is infinite or not a
            number; the weights are unchanged.
    """
    total, count = objective(batch)
    count = torch.as_tensor(count, dtype=total.dtype, device=total.device)
    sums = torch.stack([total.detach(), count])
    if fabric.world_size > 1:
        # not with Fabric, which adds a barrier where the host waits
        torch.distributed.all_reduce(sums)
    run.optimizer.zero_grad()
    # Fabric averages the gradients of the processes, hence the factor
    fabric.backward(total * fabric.world_size / sums[1])
    norm: Any = fabric.clip_gradients(
        objective, run.optimizer, max_norm=clip_norm, error_if_nonfinite=False
    )
    told = torch.stack([sums[0] / sums[1], sums[1], norm.to(sums)])
    if wait:
        read([told], run.step + 1)
    else:
        skip_updates_unless(told.isfinite().all(), run.optimizer)
    run.optimizer.step()
    run.schedule.step()
    return told


def skip_updates_unless(finite: Bool[Tensor, ""], optimizer: Any) -> None:
    """Let a fused optimizer make no more updates, unless `finite`.

    The optimizer's kernel checks this on the device, by the attribute with which a
    `GradScaler` reports gradients that are not finite.
    """
    fused = optimizer.optimizer  # the optimizer that Fabric has wrapped
    failed = 1 - finite.float()
    fused.found_inf = torch.maximum(getattr(fused, "found_inf", failed), failed)


def read(told: Sequence[Float[Tensor, "3"]], first: int) -> list[tuple[float, int]]:
    """Read the results of steps from the device, all at once; this waits for it.

    Args:
        told: the results of `train_step`, one tensor per step.
        first: the number of the first of these steps.

    Returns:
        The loss in nats per token and the number of tokens of each step.

    Raises:
        FloatingPointError: the loss or the gradient of a step is infinite or not a
            number.
    """
    rows = torch.stack([*told]).tolist()
    for step, (loss, _, norm) in enumerate(rows, first):
        if not math.isfinite(loss + norm):
            raise FloatingPointError(
                f"at step {step} the loss is {loss} and its gradient's length {norm:g};"
                " a lower learning rate or a longer warm-up may help"
            )
    return [(loss, int(tokens)) for loss, tokens, _ in rows]


def train(
    model: nn.Module,
    task: Task,
    config: TrainConfig | None = None,
    fabric: Fabric | None = None,
    validate: Callable[[nn.Module], float] | None = None,
    checkpoints: Checkpoints | None = None,
    compile: bool = False,
    read_every: int | None = None,
) -> list[Row]:
    """Train a model on a task.

    The model ends up in `eval()` mode and, if there was validation, with its best
    weights.

    Args:
        model: changed in place.
        task: provides the examples and the loss.
        config: defaults to `TrainConfig()`.
        fabric: device, precision and processes, see `launch`; None: one process, on the
            device of the model.
        validate: returns a metric of a model, where higher is better; None: the task's
            score on its validation examples.
        checkpoints: where to save checkpoints; if there is one already, training
            resumes from it. None: no checkpoints.
        compile: whether `torch.compile` turns model and loss into fewer and larger
            kernels; the first steps then take a minute or more.
        read_every: steps between two readings of the losses, each of which waits for
            the device; None: 20 on a GPU, 1 on a CPU, where there is nothing to wait
            for. Losses are always read at the last step, at validations and at
            checkpoints.

    Returns:
        One row per step.

    Raises:
        FloatingPointError: a loss or a gradient is infinite or not a number; the
            weights are those before that step.
        OSError: a checkpoint could not be written.
        Stopped: the user pressed Ctrl-C; the step was finished, and a checkpoint saved.
            Without checkpoints, Ctrl-C raises a KeyboardInterrupt as usual.
        ValueError: there are no training examples, a batch has fewer of them than there
            are processes, the existing checkpoint is damaged or belongs to another run,
            `read_every` is below 1, or the model cannot be compiled.
    """
    config = config or TrainConfig()
    fabric = fabric or fabric_at(next(model.parameters()).device)
    validate = validate or (lambda model: task.score(model, task.validation))
    on_cpu = fabric.device.type == "cpu"
    if read_every is None:
        read_every = 1 if on_cpu else 20
    if read_every < 1:
        raise ValueError(f"read_every is at least 1, got {read_every}")
    examples = min(config.batch_size, len(task.train))
    if 0 < examples < fabric.world_size:
        raise ValueError(
            f"{fabric.world_size} processes share each batch, and each needs an"
            f" example: a batch has {examples}"
        )
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=config.learning_rate,
        fused=not on_cpu or read_every > 1,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: warmup_and_decay(step, config)
    )
    objective: Any = Objective(model, task, config)
    if compile:
        objective = compiled(objective)
    objective, optimizer = fabric.setup(objective, optimizer)
    run = Run(model, optimizer, schedule)
    if checkpoints:
        checkpoints.restore(fabric, run, asdict(config))
        if run.step:
            done = "nothing is left to do" if run.step == config.steps else "going on"
            fabric.print(f"{done} after step {run.step:,} of {config.steps:,}")

    started = time.perf_counter() - run.seconds
    stream = shuffled_forever(task.train, config.batch_size, config.seed, task.length)
    shares = (
        examples[fabric.global_rank :: fabric.world_size]
        for examples in stream
        if len(examples) >= fabric.world_size
    )
    batches = made_ahead(task, islice(shares, run.step, config.steps), fabric)
    unread: list[tuple[Tensor, float]] = []  # results of steps, and their times
    first, validated, stops = fabric.is_global_zero, "", False
    with (
        held_back(checkpoints is not None, told=first) as stop,
        fallback_kernels(fabric.autocast()),
        progress_bar(task.name, run.step, config.steps, hidden=not first) as bar,
    ):
        for step, batch in enumerate(batches, run.step + 1):
            if config.patience and run.validations_since_best >= config.patience:
                break
            model.train()
            wait = read_every == 1
            told = train_step(fabric, objective, batch, run, config.clip_norm, wait)
            unread.append((told, time.perf_counter() - started))
            bar.update()
            last = step == config.steps
            validates = config.validate_every is not None and (
                step % config.validate_every == 0 or last
            )
            # the first one shows whether there is room for them
            saves = checkpoints is not None and (
                step % checkpoints.every == 0 or step == 1
            )
            # several processes have to stop after the same step
            stops = stop.is_set() and fabric.world_size == 1
            if len(unread) < read_every and not (last or validates or saves or stops):
                continue
            stops = in_any_process(fabric, stop.is_set())

            losses = read([told for told, _ in unread], run.step + 1)
            bar.set_postfix_str(f"loss {losses[-1][0]:.3f}{validated}", refresh=False)
            metric = None
            if validates:
                with fabric.autocast():
                    metric = fabric.broadcast(
                        validate(model) if fabric.is_global_zero else None
                    )
                validated = f", validation {metric:.3f} (higher is better)"
            for (loss, tokens), (_, seconds) in zip(losses[:-1], unread):
                run.record(loss, tokens, None, seconds)
            run.record(*losses[-1], metric, time.perf_counter() - started)
            unread.clear()
            if checkpoints and saves:
                checkpoints.save(fabric, run, asdict(config))
            if stops:
                break

    if checkpoints:
        checkpoints.save(fabric, run, asdict(config))
    if stops and run.step < config.steps:
        raise Stopped(run.history)
    if run.best:
        model.load_state_dict(run.best.weights)
    model.eval()
    return run.history


def in_any_process(fabric: Fabric, holds: bool) -> bool:
    """Return whether something holds in any of the processes, which all have to ask."""
    if fabric.world_size == 1:
        return holds
    found = torch.tensor(float(holds), device=fabric.device)
    torch.distributed.all_reduce(found)
    return bool(found)


def made_ahead(
    task: Task, drawn: Iterable[Sequence[Any]], fabric: Fabric
) -> Iterator[Any]:
    """Collate batches of examples on the device of `fabric`.

    For a GPU, a thread makes them ahead of time in pinned memory, from which they are
    copied without waiting. A CPU has no time to spare for that.
    """
    if fabric.device.type == "cpu":
        return (task.collate(examples) for examples in drawn)

    def pinned(examples: Sequence[Any]) -> Any:
        return apply_to_collection(task.collate(examples), Tensor, Tensor.pin_memory)

    return (fabric.to_device(batch) for batch in ahead(pinned, drawn))


def ahead(
    make: Callable[[Any], Any], drawn: Iterable[Any], number: int = 2
) -> Iterator[Any]:
    """Call `make` on items in another thread, in order, up to `number` of them ahead.

    An error in `make` is raised here, when its item is due.
    """
    left = iter(drawn)
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting = deque(thread.submit(make, one) for one in islice(left, number))
        while waiting:
            thing = waiting.popleft().result()
            waiting.extend(thread.submit(make, one) for one in islice(left, 1))
            yield thing


def progress_bar(name: str, done: int, steps: int, hidden: bool = False) -> tqdm:
    """Return a progress bar of plain text, which disappears when it is done.

    So it leaves no trace on a page of the book. Output that goes to a file gets a line
    per minute instead. Among several processes, only the first one shows its progress.
    """
    # On stdout: nbgrader takes anything on stderr for an error.
    where: dict[str, Any] = {"file": sys.stdout, "leave": False, "mininterval": 0.5}
    if not (sys.stdout.isatty() or "ipykernel" in sys.modules):
        line = "{desc}: {n_fmt} of {total_fmt} steps{postfix}\n"
        where |= {"bar_format": line, "mininterval": 60, "delay": 60}
    # if this process shows it, TQDM_DISABLE decides
    disable = {"disable": True} if hidden else {}
    return tqdm(total=steps, initial=done, desc=name, unit="step", **where, **disable)
