"""The files in a run's folder: their names, and how to read and check a checkpoint.

Checkpoints are written in `checkpoints`. This module does not import Fabric, so that
decoding does not have to wait for it, and imports torch only to read a checkpoint, so
that the command line can look for files at once.
"""

import os
import zipfile
from pathlib import Path
from typing import Any

CHECKPOINT, HISTORY, SUMMARY = "checkpoint.pt", "history.csv", "run.json"
PLOT, SCORES = "history.png", "scores.json"
VERSION = 2  # checkpoints with another number are refused
FORMAT = "attention-course checkpoint"
# The parts of a checkpoint and their types.
PARTS: dict[str, type | tuple[type, ...]] = {
    "about": dict,
    "data": (str, type(None)),
    "task": dict,
    "settings": dict,
    "model": dict,
    "optimizer": dict,
    "schedule": dict,
    "history": list,
    "best": (tuple, type(None)),
    "random": list,
}


def read(folder: Path) -> dict[str, Any]:
    """Read a folder's checkpoint.

    Reading it cannot run code: only tensors, numbers and text are accepted.

    Args:
        folder: as given to `Checkpoints`.

    Returns:
        What `Checkpoints.save` wrote, with the `PARTS`.

    Raises:
        ValueError: there is no checkpoint, or the file is not from this package, has
            another version, or was edited or damaged.
    """
    import torch

    path = Path(folder) / CHECKPOINT
    if not path.exists():
        raise ValueError(f"there is no checkpoint in {folder}")
    try:
        # torch reads changed bytes as other numbers; the file has check sums
        with zipfile.ZipFile(path) as archive:
            if archive.testzip():
                raise ValueError("a check sum is wrong")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what torch raises depends on which byte is wrong
        raise ValueError(
            f"{path} is damaged or no checkpoint ({type(error).__name__}); it was left"
            " as it is: put a copy of it there, or train again in another folder"
        ) from error
    said = state.get("format") if isinstance(state, dict) else None
    name, _, version = str(said).rpartition(" ")
    if name != FORMAT or not version.isdecimal():
        raise ValueError(
            f"{path} is not a checkpoint of this package; it was left as it is"
        )
    if int(version) != VERSION:
        age = "an older" if int(version) < VERSION else "a newer"
        raise ValueError(
            f"{path} has format {version}, that of {age} version of this package, which"
            f" reads format {VERSION}: use that version, or train again"
        )
    for part, kind in PARTS.items():
        if not isinstance(state.get(part, ...), kind):
            raise ValueError(
                f"{path} was edited or damaged: its part {part!r} is not what training"
                " wrote"
            )
    return state


def replace(path: Path, content: bytes) -> None:
    """Write a file atomically: under another name, which then replaces the old file.

    If writing is interrupted or the disk is full, the old file stays complete.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
