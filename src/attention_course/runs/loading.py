"""Load a trained model, and its task, from the folder of a run.

Checkpoints are written in `attention_course.training.checkpoints`; pretrained models
are read in `attention_course.pretrained`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from attention_course import registry
from attention_course.compiled import Compiled, compiling
from attention_course.runs import choices
from attention_course.runs.about import About, about_of
from attention_course.tasks.kept import keep_task, make_again
from attention_course.training.folder import CHECKPOINT, read
from attention_course.training.precision import check_gpus, fallback_kernels


class Loaded(NamedTuple):
    """A run that has been loaded.

    Attributes:
        about: the names and sizes of its task and model.
        task: with its examples (from `load`) or without (from `load_model`).
        model: with its best weights, or the last ones if there was no validation; in
            eval mode.
        step: step that training had reached.
    """

    about: About
    task: Any
    model: Any
    step: int


def load_model(folder: Path, device: str = "auto") -> Loaded:
    """Load the model of a run, and as much of its task as decoding needs.

    Args:
        folder: folder of the run; nothing else is read.
        device: "auto", "cpu" or "cuda".

    Returns:
        The run; its task has no examples.

    Raises:
        ValueError: there is no run in the folder, or it is damaged.
    """
    state, about = _read(folder, None)
    try:
        task = make_again(state["task"])
    except ValueError as error:
        raise _damaged(folder, error) from error
    model = _model(folder, state, about, task, device)
    return Loaded(about, task, model, len(state["history"]))


def load(folder: Path, data: Path | None = None, device: str = "auto") -> Loaded:
    """Load the model of a run, and make its task again, with its examples.

    Args:
        folder: folder of the run.
        data: folder of the task's corpus, if it has one; None: as in training.
        device: "auto", "cpu" or "cuda".

    Returns:
        The run; its task has its examples.

    Raises:
        ValueError: there is no run in the folder, it is damaged, the task differs from
            the one in training, or `data` was given for a task that has no corpus.
    """
    state, about = _read(folder, data)
    if "data" not in about.options:
        choices.refuse({"data": data}, f"for the task {about.task}")
    try:
        task = registry.make_task(about.task, **about.options)
    except TypeError as error:  # an option was edited
        raise _damaged(folder, error) from error
    made, kept = keep_task(task), state["task"]
    for name in made | kept:
        if made.get(name) != kept.get(name):
            raise ValueError(
                f"the task {about.task} is made otherwise here than it was for the run"
                f" in {folder}: its {name.replace('_', ' ')} differs. Install the"
                " packages that the run was trained with, or train again; translate"
                " works as it is"
            )
    model = _model(folder, state, about, task, device)
    return Loaded(about, task, model, len(state["history"]))


def parameters(model: nn.Module) -> int:
    """Count a model's parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def choose_device(device: str) -> torch.device:
    """Return the device with this name.

    Args:
        device: "cpu", "cuda", or "auto": CUDA if there is a GPU, as in training.

    Returns:
        The device.

    Raises:
        ValueError: there is no such device.
    """
    if device == "cuda":
        check_gpus(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def with_steps_compiled(model: nn.Module, about: About) -> Compiled:
    """Compile the decoding steps of a run's model.

    Raises:
        ValueError: the model does not decode step by step, or is not a Transformer.
    """
    if about.kind is not registry.Kind.SEQUENCES:
        choices.refuse({"compile": True}, f"for the task {about.task}")
    return Compiled(model)


@contextmanager
def computing(model: nn.Module, precision: str) -> Iterator[None]:
    """Compute in a precision, as Fabric does in training.

    Args:
        model: the precision applies to the type of its device.
        precision: "32-true" or "bf16-mixed".

    Raises:
        ValueError: something has to be compiled, but this machine cannot compile it.
    """
    half = precision == "bf16-mixed"
    device = next(model.parameters()).device.type
    autocast = torch.autocast(device, torch.bfloat16, enabled=half)
    with fallback_kernels(autocast), autocast, compiling():
        yield


def _read(folder: Path, data: Path | None) -> tuple[dict[str, Any], About]:
    state = read(folder)
    named = data or state["data"]
    try:
        return state, about_of(state["about"], str(named) if named else None)
    except (TypeError, ValueError) as error:  # names may be anything, if edited
        raise _damaged(folder, error) from error


def _model(
    folder: Path, state: Mapping[str, Any], about: About, task: Any, device: str
) -> Any:
    chosen = choose_device(device)
    try:
        ends = task.source_size, task.target_size
        model = registry.make_model(about.model, *ends, **about.sizes)
        model.load_state_dict(state["best"][2] if state["best"] else state["model"])
    except Exception as error:  # its type depends on what was edited
        raise _damaged(folder, error) from error
    return model.to(chosen).eval()


def _damaged(folder: Path, error: Exception) -> ValueError:
    first, *_ = str(error).strip().splitlines() or [type(error).__name__]
    return ValueError(
        f"{folder / CHECKPOINT} was edited or is of no run: {first.rstrip(':')}"
    )
