"""Run nbgrader's commands in a course directory, and report errors in one line."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


class GradingError(Exception):
    """Something that the instructor has to fix; the message is one line."""


def nbgrader(course: Path, *arguments: str) -> None:
    """Run an nbgrader command in a course directory.

    Args:
        course: where nbgrader_config.py and the notebooks are.
        arguments: as on the command line.

    Raises:
        GradingError: nbgrader failed; the message holds its last error.
    """
    # The `nbgrader` command may be missing from PATH; its package is not.
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raised = [
            line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)
        ]
        logged = [line.partition("ERROR] ")[2] for line in lines if "ERROR] " in line]
        reason = (raised or logged or lines or ["no message"])[-1]
        raise GradingError(f"nbgrader {' '.join(arguments[:2])} failed: {reason}")


def lab_names(source: Path) -> list[str]:
    """List the labs in nbgrader's source directory."""
    return sorted(
        path.parent.name
        for path in source.glob("*/*.ipynb")
        if path.stem == path.parent.name
    )


def check_lab(source: Path, lab: str) -> None:
    """Make sure that a lab exists and that its notebook can be read.

    Args:
        source: nbgrader's source directory.
        lab: the name of its folder and of its notebook.

    Raises:
        GradingError: there is no such lab, or its notebook is corrupt.
    """
    # Imported here, because this module is also used without the labs' extra.
    import nbformat

    if lab not in lab_names(source):
        names = ", ".join(lab_names(source)) or "none"
        raise GradingError(
            f"there is no lab {lab!r} in {source.name}/; there are: {names}"
        )
    notebook = source / lab / f"{lab}.ipynb"
    try:
        nbformat.validate(nbformat.read(notebook, as_version=4))
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        place = notebook.relative_to(source.parent)
        raise GradingError(
            f"{place} is not a valid notebook ({reason}); restore it"
        ) from error


def released(coursedir: Any, lab: str) -> list[dict[str, Any]]:
    """Return a lab's cells as nbgrader releases them to students.

    Args:
        coursedir: nbgrader's `CourseDirectory`.
        lab: the name of its folder and of its notebook.
    """
    import nbformat
    from nbgrader import preprocessors

    folder = coursedir.format_path(coursedir.source_directory, ".", lab)
    notebook = nbformat.read(f"{folder}/{lab}.ipynb", as_version=4)
    for step in (
        preprocessors.LockCells,
        preprocessors.ClearSolutions,
        preprocessors.ComputeChecksums,
    ):
        notebook, _ = step(config=coursedir.config).preprocess(notebook, {})
    cells: list[dict[str, Any]] = json.loads(json.dumps(notebook.cells))
    return cells
