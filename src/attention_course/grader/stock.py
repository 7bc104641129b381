"""Run nbgrader's commands in a course directory, and say in one line what went
wrong."""

import re
import subprocess
import sys
from pathlib import Path


class GradingError(Exception):
    """Something that the instructor has to mend; the message is one line."""


def nbgrader(course: Path, *arguments: str) -> None:
    """Run an nbgrader command in a course directory.

    Args:
        course: where nbgrader_config.py and the notebooks are.
        arguments: as on the command line.

    Raises:
        GradingError: nbgrader failed; the message holds its last error.
    """
    # `nbgrader` itself may be missing from PATH, its package is not.
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


def lab_names(course: Path) -> list[str]:
    """List the labs that have a solution."""
    return sorted(
        path.parent.name
        for path in (course / "solutions").glob("*/*.ipynb")
        if path.stem == path.parent.name
    )


def check_lab(course: Path, lab: str) -> None:
    """Make sure that a lab is there and that its notebook can be read.

    Args:
        course: where solutions/ is.
        lab: a name such as lab03_scoring.

    Raises:
        GradingError: there is no such lab, or its notebook is corrupt.
    """
    # here, because it is not needed to import this module without the labs' extra
    import nbformat

    if lab not in lab_names(course):
        raise GradingError(
            f"there is no lab {lab!r} in solutions/; there are:"
            f" {', '.join(lab_names(course)) or 'none'}"
        )
    notebook = course / "solutions" / lab / f"{lab}.ipynb"
    try:
        nbformat.validate(nbformat.read(notebook, as_version=4))
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise GradingError(
            f"{notebook.relative_to(course)} is not a valid notebook ({reason});"
            " restore it"
        ) from error
