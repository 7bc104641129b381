"""Describe a run: its task, model and sizes, by their names in the registry.

The weights of a run are loaded in `loading`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention_course import registry
from attention_course.training.folder import (
    CHECKPOINT,
    HISTORY,
    PLOT,
    SCORES,
    SUMMARY,
)

# Kinds of tasks whose targets are labels, so that their loss is per label.
LABELS = {
    registry.Kind.TAGS,
    registry.Kind.SENTENCE_CLASSES,
    registry.Kind.FRAME_LABELS,
    registry.Kind.IMAGE_CLASSES,
}

# Files of a run beside its checkpoint; the last one is from `evaluate`.
WRITTEN = (HISTORY, SUMMARY, PLOT, SCORES)


class About(NamedTuple):
    """The task and the model of a run.

    Attributes:
        task: name of the task.
        options: options of the task.
        model: name of the model.
        sizes: sizes of the model.
    """

    task: str
    options: Mapping[str, Any]
    model: str
    sizes: Mapping[str, Any]

    @property
    def kind(self) -> registry.Kind:
        """Return the kind of the task: what goes in and what comes out."""
        return registry.find_task(self.task).kind

    @property
    def unit(self) -> str:
        """Return the unit of the loss, which is in nats per "label" or per "token"."""
        return "label" if self.kind in LABELS else "token"

    @property
    def kept(self) -> dict[str, Any]:
        """Return all of this in one dictionary, without the folder of a corpus."""
        options = {name: v for name, v in self.options.items() if name != "data"}
        return {"task": self.task, "model": self.model, **options, **self.sizes}


def about_of(kept: Mapping[str, Any], data: str | None = None) -> About:
    """Restore a description from the dictionary in `About.kept`.

    Args:
        kept: the dictionary.
        data: the folder of the task's corpus, if it has one.

    Returns:
        The description of the run.

    Raises:
        ValueError: the dictionary lacks the task, the model, or one of their options or
            sizes, or it has one more.
    """
    if "task" not in kept or "model" not in kept:
        raise ValueError("it does not say its task and model: it was not made by train")
    options = registry.find_task(kept["task"]).options
    sizes = registry.find_model(kept["model"], kept["task"]).sizes
    known = {**kept, "data": data}
    for name in (*options, *sizes):
        if name not in known:
            raise ValueError(f"it does not say its {name}")
    expected = {"task", "model", "validated_by", "precision", *options, *sizes}
    for name in kept.keys() - expected:
        raise ValueError(f"it says its {name}, which this version does not know")
    return About(
        kept["task"],
        {name: known[name] for name in options},
        kept["model"],
        {name: known[name] for name in sizes},
    )


def refuse_other(folder: Path, resume: bool) -> None:
    """Refuse a folder that already has a run, unless the run is to be resumed.

    Raises:
        ValueError: the folder has a run, and `resume` is False; or it has a file that
            training would overwrite, and no run.
    """
    others = [name for name in WRITTEN if (folder / name).exists()]
    if others and not (folder / CHECKPOINT).exists():
        raise ValueError(
            f"{folder} has {others[0]} but no checkpoint, and training would overwrite"
            " it: name another folder, or move the file"
        )
    if (folder / CHECKPOINT).exists() and not resume:
        raise ValueError(
            f"there is a run in {folder}: go on with it by --resume, or name another"
            " folder"
        )
