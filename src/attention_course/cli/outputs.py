"""Files that a user names for the output of a command, checked before the work."""

from pathlib import Path

import typer

from attention_course.runs.about import WRITTEN

FILES = ("checkpoint.pt", *WRITTEN)  # of a run


def make_way(path: Path) -> None:
    """Check before the work that a file can be written; create a missing folder.

    Raises:
        OSError: it cannot be written.
        ValueError: it is a file of a run.
    """
    if path.name in FILES and (path.parent / FILES[0]).exists():
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
