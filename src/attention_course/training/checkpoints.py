"""Checkpoints: save a training run with its history (also as CSV), and resume it.

A checkpoint is a single file, which is either complete or absent. The other files of
the folder are for people and for lists of runs; training does not read them back. To
load a trained model, see `attention_course.runs.loading`.
"""

import csv
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import nn

from attention_course.training.folder import (
    CHECKPOINT,
    FORMAT,
    HISTORY,
    SUMMARY,
    VERSION,
    read,
    replace,
)

OTHERWISE = "name another folder, or train as it was trained"
ADVICE = {
    "steps": "the learning rate falls to zero at the last step, so a run cannot be made"
    " longer or shorter: train anew in another folder",
}


class Row(NamedTuple):
    """One step of training.

    Attributes:
        step: counted from 1.
        tokens: number of predictions in the losses up to this step.
        loss: loss of this step, in nats per token.
        metric: result of the validation after this step; None if there was none.
        seconds: training time since the start, including the time before a resume.
    """

    step: int
    tokens: int
    loss: float
    metric: float | None
    seconds: float


class Best(NamedTuple):
    """The best validation so far.

    Attributes:
        step: the step after which it took place.
        metric: higher is better.
        weights: the model's weights at that step.
    """

    step: int
    metric: float
    weights: dict[str, Any]


@dataclass
class Run:
    """The state of a training run: everything that changes during training.

    Attributes:
        model: holds the parameters.
        optimizer: holds its moments.
        schedule: holds the position in the learning-rate schedule.
        history: one row per step; their number is the position in the stream of
            batches.
        best: the best validation so far; None before the first one.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    history: list[Row] = field(default_factory=list)
    best: Best | None = None

    @property
    def step(self) -> int:
        """Return the number of steps so far."""
        return len(self.history)

    @property
    def seconds(self) -> float:
        """Return the training time so far, in seconds."""
        return self.history[-1].seconds if self.history else 0.0

    @property
    def validations_since_best(self) -> int:
        """Return the number of validations since the best one."""
        return (
            sum(row.metric is not None for row in self.history[self.best.step :])
            if self.best
            else 0
        )

    def record(
        self, loss: float, tokens: int, metric: float | None, seconds: float
    ) -> None:
        """Add a step's row, and copy the weights if its metric is the best so far."""
        before = self.history[-1].tokens if self.history else 0
        self.history.append(Row(self.step + 1, before + tokens, loss, metric, seconds))
        if metric is not None and (self.best is None or metric > self.best.metric):
            weights = {
                name: value.detach().clone()
                for name, value in self.model.state_dict().items()
            }
            self.best = Best(self.step, metric, weights)


@dataclass(frozen=True)
class Checkpoints:
    """A folder that holds the state of a run.

    The state is in `checkpoint.pt` and the history in `history.csv`. `run.json` is a
    summary without weights: what the run is, and how far it has come.

    Attributes:
        folder: created if it does not exist; each run needs its own.
        every: steps between two checkpoints; the first and the last step always have
            one.
        about: the task, model and sizes of the run; stored in the checkpoint, and must
            be the same on resuming.
        task: what decoding needs from the task, see `tasks.kept`; stored in the
            checkpoint, and must be the same on resuming.
        data: the folder of the task's corpus, if it has one; stored in the checkpoint,
            and may be different on resuming.
    """

    folder: Path
    every: int = 500
    about: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    data: Path | None = None

    @property
    def path(self) -> Path:
        """Return where the checkpoint is, or will be."""
        return self.folder / CHECKPOINT

    def save(self, fabric: Fabric, run: Run, settings: Mapping[str, Any]) -> None:
        """Replace the last checkpoint by a new one; if that fails, the last one stays.

        Args:
            fabric: all of its processes must call this method.
            run: what to save.
            settings: the training settings; compared on resuming.

        Raises:
            OSError: the checkpoint could not be written; the disk may be full.
        """
        state = {
            "format": f"{FORMAT} {VERSION}",
            "about": dict(self.about),
            "task": dict(self.task),
            "data": self.data and str(self.data.absolute()),
            "settings": dict(settings),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "schedule": run.schedule.state_dict(),
            "history": [tuple(row) for row in run.history],
            "best": run.best and tuple(run.best),
            "random": _gather(fabric, _random_state(fabric.device)),
        }
        if fabric.is_global_zero:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                buffer = io.BytesIO()
                torch.save(state, buffer)
                replace(self.path, buffer.getvalue())
                replace(self.folder / HISTORY, history_csv(run.history).encode())
                replace(self.folder / SUMMARY, self._summary(run, settings).encode())
            except OSError as error:
                kept = (
                    "the one before it is still there"
                    if self.path.exists()
                    else "there is none before it"
                )
                reason = error.strerror or error
                raise OSError(
                    f"no checkpoint of step {len(run.history)} could be written to"
                    f" {self.folder} ({reason}); {kept}"
                ) from error
        fabric.barrier()

    def restore(self, fabric: Fabric, run: Run, settings: Mapping[str, Any]) -> None:
        """Restore a run from the folder's checkpoint, if there is one.

        Args:
            fabric: all of its processes must call this method.
            run: receives the state.
            settings: the training settings; those of the checkpoint must be the same.

        Raises:
            ValueError: the file is not a checkpoint of this package, is damaged, or
                belongs to another run.
        """
        if not self.path.exists():
            return
        state = read(self.folder)
        now = {**self.about, **settings}
        stated = state["settings"] | state["about"]
        for name in sorted(stated, key=lambda name: name not in ("task", "model")):
            then = stated[name]
            if now.get(name) != then:
                raise ValueError(
                    f"{self.path} is of another run: its {name} is {then!r}, not"
                    f" {now.get(name)!r}; {ADVICE.get(name, OTHERWISE)}"
                )
        if self.task != state["task"]:
            raise ValueError(
                f"{self.path} is of a run with other vocabularies; the task is made"
                " otherwise by the packages that are installed here: train again"
            )
        try:
            run.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise ValueError(
                f"{self.path} is of another model than this {type(run.model).__name__}"
            ) from error
        try:
            # a run may resume on another device, where another kernel is the right one
            groups = zip(state["optimizer"]["param_groups"], run.optimizer.param_groups)
            for then, now in groups:
                then["fused"] = now["fused"]
            run.optimizer.load_state_dict(state["optimizer"])
            run.schedule.load_state_dict(state["schedule"])
            run.history[:] = [Row(*row) for row in state["history"]]
            run.best = state["best"] and Best(*state["best"])
            states = state["random"]
            _set_random_state(states[fabric.global_rank % len(states)], fabric.device)
        except Exception as error:  # its type depends on what was edited
            raise ValueError(
                f"{self.path} was edited or damaged: it cannot be gone on from"
                f" ({type(error).__name__})"
            ) from error

    def _summary(self, run: Run, settings: Mapping[str, Any]) -> str:
        """Return a summary of the run and its progress, as JSON."""
        summary = {
            "format": VERSION,
            "about": dict(self.about),
            "settings": dict(settings),
            "parameters": sum(p.numel() for p in run.model.parameters()),
            "step": run.step,
            "loss": run.history[-1].loss if run.history else None,
            "best": run.best and {"step": run.best.step, "metric": run.best.metric},
            "seconds": run.seconds,
        }
        return json.dumps(summary, indent=2) + "\n"


def history_csv(history: Sequence[Row]) -> str:
    """Format a history as CSV: a header, then one line per step."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(history)
    return text.getvalue()


def _random_state(device: torch.device) -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return {"python": random.getstate(), "torch": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)


def _gather(fabric: Fabric, mine: Any) -> list[Any]:
    """Gather one object from each process, in the order of their ranks."""
    if fabric.world_size == 1:
        return [mine]
    everyones = [None] * fabric.world_size
    torch.distributed.all_gather_object(everyones, mine)
    return everyones
