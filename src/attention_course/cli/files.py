"""Standard input, and files that a user names for output, checked before the work."""

import sys
from io import BufferedIOBase
from pathlib import Path
from typing import cast

import typer

from attention_course.runs.about import WRITTEN
from attention_course.training.folder import CHECKPOINT


def standard_input(what: str) -> BufferedIOBase:
    """Return standard input; at a terminal, tell the user what is read from it."""
    if sys.stdin.isatty():
        typer.echo(f"type {what}; Ctrl-D ends", err=True)
    return cast(BufferedIOBase, sys.stdin.buffer)


def make_way(path: Path) -> None:
    """Check before the work that a file can be written; create a missing folder.

    Raises:
        OSError: it cannot be written.
        ValueError: it is a file of a run.
    """
    if path.name in (CHECKPOINT, *WRITTEN) and (path.parent / CHECKPOINT).exists():
        raise ValueError(f"{path} belongs to a run: name another file")
    if path.is_file() and path.stat().st_size:
        typer.echo(f"{path} will be replaced", err=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        path.open("a").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error.strerror})") from error


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        OSError: it cannot be written.
    """
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error.strerror})") from error
