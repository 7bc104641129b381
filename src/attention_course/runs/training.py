"""Train a model and leave its run in a folder, for the command `train`.

The training loop is in `attention_course.training.loop`.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from lightning_fabric import Fabric
from matplotlib.figure import Figure

from attention_course import registry
from attention_course.compiled import compiling
from attention_course.plotting import training_curve
from attention_course.runs.about import About
from attention_course.runs.loading import parameters
from attention_course.tasks.core import padded_share, shuffled_forever
from attention_course.tasks.kept import keep_task
from attention_course.training import (
    Checkpoints,
    Row,
    TrainConfig,
    launch,
    train,
    validation_loss,
)
from attention_course.training.devices import Precision
from attention_course.training.folder import CHECKPOINT, HISTORY, PLOT, SUMMARY
from attention_course.training.interrupts import Stopped, is_first_process


def train_run(
    about: About,
    folder: Path,
    config: TrainConfig,
    by_score: bool = False,
    checkpoint_every: int = 500,
    resume: bool = False,
    device: str = "auto",
    precision: Precision = "32-true",
    devices: int = 1,
    compile: bool = False,
) -> None:
    """Train a model on a task, and leave its run in a folder.

    Args:
        about: the task and the model.
        folder: folder of the run; each run needs its own.
        config: how to train.
        by_score: whether the best weights are those with the best score on the task,
            instead of those with the lowest loss.
        checkpoint_every: steps between two checkpoints.
        resume: whether to resume from the folder's checkpoint, if it has one.
        device: "auto", "cpu" or "cuda".
        precision: "32-true" or "bf16-mixed".
        devices: GPUs, or processes on a CPU; see `launch` in `training`.
        compile: see `training.train`.

    Raises:
        OSError: nothing can be written to the folder.
        Stopped: the user pressed Ctrl-C; the folder has a checkpoint.
        ValueError: the task or the model cannot be made, another training uses the
            folder, or `launch` or `train` raises it.
    """
    with output_folder(folder), alone(folder):
        fabric = launch(device, precision, devices)
        torch.manual_seed(config.seed)
        task = registry.make_task(about.task, **about.options)
        ends = task.source_size, task.target_size
        model = registry.make_model(about.model, *ends, **about.sizes)
        # dropout differs from process to process
        torch.manual_seed(config.seed + fabric.global_rank)
        fabric.print(
            f"{about.task}, {about.model}: {parameters(model):,} parameters, on"
            f" {fabric.world_size} x {fabric.device.type}"
        )
        if resume and not (folder / CHECKPOINT).exists():
            fabric.print(f"{folder} has no checkpoint to go on from: a run begins")
        example = " ".join(task.view(task.train[0]).split("\n"))
        fabric.print(f"an example: {example:.150}")
        if length := task.length:
            drawn = shuffled_forever(task.train, config.batch_size, config.seed, length)
            first_pass = islice(drawn, math.ceil(len(task.train) / config.batch_size))
            share = padded_share(first_pass, length)
            fabric.print(f"batches are grouped by length: {share:.1%} of them padding")

        by = {"validated_by": task.metric if by_score else "loss"}
        named = about.kept | (by if config.validate_every else {})
        named["precision"] = precision
        checkpoints = Checkpoints(
            folder, checkpoint_every, named, keep_task(task), about.options.get("data")
        )
        validate = None if by_score else lambda model: -validation_loss(model, task)
        measured = task.metric if by_score else "loss"
        try:
            with compiling():
                history = train(
                    model, task, config, fabric, validate, checkpoints, compile
                )
        except Stopped as stop:
            if fabric.is_global_zero:
                draw_history(folder, stop.history, about.unit, measured)
            raise
        if fabric.is_global_zero:
            draw_history(folder, history, about.unit, measured)
        report(fabric, folder, history, about.unit, measured)


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Create a folder before the work, and remove it afterwards if it is empty.

    Raises:
        OSError: the folder cannot be created, or nothing can be written to it.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"nothing can be written to {folder} ({error.strerror}); name another"
            " folder"
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):  # one of them is not empty
            for path in made:
                path.rmdir()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no second training use a folder meanwhile.

    Of the processes that train together, the first one sees to that.

    Raises:
        ValueError: another training uses the folder.
    """
    if not is_first_process():
        yield
        return
    lock = FileLock(folder / "training.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"another training is going on in {folder}: name another folder"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


def draw_history(
    folder: Path, history: Sequence[Row], unit: str, measured: str
) -> None:
    """Plot the losses of a run, and save the figure in its folder.

    Args:
        folder: folder of the run.
        history: one row per step.
        unit: the unit of the loss, which is in nats per "token" or per "label".
        measured: what the validations measured; the sign of "loss" is reversed.
    """
    sign = -1 if measured == "loss" else 1
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    training_curve(
        [row.loss for row in history],
        {row.step: sign * row.metric for row in history if row.metric is not None},
        unit,
        measured,
        figure.subplots(),
    )
    figure.savefig(folder / PLOT, dpi=120)


def report(
    fabric: Fabric, folder: Path, history: Sequence[Row], unit: str, measured: str
) -> None:
    """Print how training ended, and where its files are."""
    last = history[-1]
    fabric.print(
        f"{len(history)} steps in {last.seconds:.0f} s; loss {last.loss:.3f} nats per"
        f" {unit}"
    )
    validated = [(row.metric, row.step) for row in history if row.metric is not None]
    if validated:
        metric, step = max(validated)
        value = -metric if measured == "loss" else metric
        fabric.print(f"best validation, after step {step}: {measured} {value:.3f}")
    written = (CHECKPOINT, HISTORY, SUMMARY, PLOT)
    names = ", ".join(name for name in written if (folder / name).exists())
    fabric.print(f"in {folder}: {names}")
