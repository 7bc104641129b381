"""What a run is of: its model, task and sizes, by the names of the registry."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention_course import registry

# Tasks whose targets are labels, where a loss is per label.
LABELS = {
    registry.Kind.TAGS,
    registry.Kind.SENTENCE_CLASSES,
    registry.Kind.FRAME_LABELS,
    registry.Kind.IMAGE_CLASSES,
}


class About(NamedTuple):
    """What a run is of.

    Attributes:
        task: name of the task.
        options: what is asked of it.
        model: name of the model.
        sizes: how large it is.
    """

    task: str
    options: Mapping[str, Any]
    model: str
    sizes: Mapping[str, Any]

    @property
    def kind(self) -> registry.Kind:
        """Return what goes in and what comes out."""
        return registry.find_task(self.task).kind

    @property
    def unit(self) -> str:
        """Return what the loss is in nats of."""
        return "label" if self.kind in LABELS else "token"

    @property
    def kept(self) -> dict[str, Any]:
        """Return the same as one table, without the folder of a corpus."""
        options = {name: v for name, v in self.options.items() if name != "data"}
        return {"task": self.task, "model": self.model, **options, **self.sizes}


def about_of(kept: Mapping[str, Any], data: str | None = None) -> About:
    """Return what a table of `About.kept` is of.

    Args:
        kept: the table.
        data: the folder of the task's corpus, if it has one.

    Returns:
        The same, by task and model.

    Raises:
        ValueError: the table is of no task and model, or lacks one of their sizes.
    """
    if "task" not in kept or "model" not in kept:
        raise ValueError("it does not say its task and model: it was not made by train")
    options = registry.find_task(kept["task"]).options
    sizes = registry.find_model(kept["model"], kept["task"]).sizes
    known = {**kept, "data": data}
    for name in (*options, *sizes):
        if name not in known:
            raise ValueError(f"it does not say its {name}")
    return About(
        kept["task"],
        {name: known[name] for name in options},
        kept["model"],
        {name: known[name] for name in sizes},
    )


def refuse_other(folder: Path, resume: bool) -> None:
    """Refuse a folder with a run that is not to be gone on with.

    Raises:
        ValueError: there is one.
    """
    if (folder / "checkpoint.pt").exists() and not resume:
        raise ValueError(
            f"there is a run in {folder}: go on with it by --resume, or name another"
            " folder"
        )
