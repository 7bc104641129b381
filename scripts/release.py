"""Make the students' notebooks: `python -m scripts.release [LAB ...]`."""

import shutil
import sys
import tempfile
from pathlib import Path

from nbjudge.grading.commands import GradingError, check_lab, lab_names, nbgrader

# What nbgrader leaves in place of a solution.
EMPTY = {"code": "raise NotImplementedError", "markdown": "YOUR ANSWER HERE"}


class HasAnswers(GradingError):
    """A release that somebody has worked in."""


def generate(course: Path, into: Path, lab: str = "*") -> None:
    """Make one lab's release, or those of all labs.

    nbgrader takes longer to start than for a lab.

    Args:
        course: where nbgrader_config.py and solutions/ are.
        into: a directory that does not hold them yet.
        lab: a name such as lab03_scoring, or * for all.

    Raises:
        GradingError: no such lab, a corrupt notebook, or nbgrader failed.
    """
    for name in lab_names(course / "solutions") if lab == "*" else [lab]:
        check_lab(course / "solutions", name)
    nbgrader(
        course,
        "generate_assignment",
        lab,
        f"--CourseDirectory.release_directory={into}",
        "--GenerateAssignment.no_database=True",
        "--SaveCells.enabled=False",  # without this, no_database fails
    )


def release(course: Path, lab: str, into: Path) -> bool:
    """Make one lab's release and put it in its place; see `generate` and `replace`.

    Args:
        course: where nbgrader_config.py and solutions/ are.
        lab: a name such as lab03_scoring.
        into: the directory that holds the lab's directory, labs/ as a rule.

    Returns:
        Whether anything in the release changed.
    """
    with tempfile.TemporaryDirectory() as staging:
        generate(course, Path(staging), lab)
        return replace(into / lab, Path(staging) / lab)


def replace(old: Path, made: Path) -> bool:
    """Put a complete release in the place of the one before.

    Students work in labs/, so a notebook there with answers in it is never replaced.

    Args:
        old: the lab's directory in labs/, if it is there.
        made: the new one.

    Returns:
        Whether anything changed.

    Raises:
        HasAnswers: there is a release with answers in it, and it is not what was made
            now.
    """
    if old.is_dir() and _files(made) == _files(old):
        return False
    if any(_has_answers(notebook) for notebook in old.glob("*.ipynb")):
        raise HasAnswers(f"{old.parent.name}/{old.name} has answers in it")
    shutil.rmtree(old, ignore_errors=True)
    # nbgrader's copies are read-only
    shutil.copytree(made, old, copy_function=shutil.copyfile)
    return True


def _files(directory: Path) -> dict[str, bytes]:
    paths = (
        p
        for p in directory.rglob("*")
        if p.is_file() and ".ipynb_checkpoints" not in p.parts
    )
    return {str(p.relative_to(directory)): p.read_bytes() for p in paths}


def _has_answers(notebook: Path) -> bool:
    """Whether somebody has run a cell, or written where the lab asks for it."""
    import nbformat

    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except Exception:
        return True  # whatever it is, it is not a release
    asks = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
    run = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    return bool(run) or any(EMPTY[cell.cell_type] not in cell.source for cell in asks)


def main(arguments: list[str]) -> int:
    """Release the labs named, or all of them, into labs/."""
    course = Path.cwd()
    try:
        with tempfile.TemporaryDirectory() as staging:
            for lab in arguments or ["*"]:
                generate(course, Path(staging), lab)
            for made in sorted(Path(staging).iterdir()):
                try:
                    changed = replace(course / "labs" / made.name, made)
                    how = (
                        "made from solutions/"
                        if changed
                        else "reused, solutions/ would give the same"
                    )
                    print(f"labs/{made.name}: {how}")
                except HasAnswers as error:
                    print(f"{error}: kept as it is; move it away if you want a new one")
    except GradingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
