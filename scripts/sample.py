"""Grade sample submissions with nbgrader's stock commands.

`python -m scripts.sample LAB DIRECTORY`.

The directory becomes a small course of its own, with its own gradebook: nothing here
touches a real one.
"""

import csv
import hashlib
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import attention_labs
from nbjudge.grading.commands import GradingError, check_lab, nbgrader
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove


class Score(NamedTuple):
    """A student's score in a lab, in points."""

    student: str
    points: float
    possible: float


def prepare(course: Path, lab: str, into: Path) -> bytes:
    """Make a course directory for one lab, and release the lab there.

    Args:
        course: where nbgrader_config.py and solutions/ are; nothing is written there.
        lab: a name such as lab03_scoring.
        into: an empty or missing directory.

    Returns:
        The released notebook.

    Raises:
        GradingError: no such lab, a corrupt notebook, or nbgrader failed.
    """
    check_lab(course / "solutions", lab)
    shutil.copytree(course / "solutions" / lab, into / "solutions" / lab)
    shutil.copy(course / "nbgrader_config.py", into)
    nbgrader(into, "generate_assignment", lab)
    return (into / "labs" / lab / f"{lab}.ipynb").read_bytes()


def grade(
    course: Path, lab: str, submissions: Mapping[str, bytes], walls: bool = True
) -> list[Score]:
    """Autograde, give feedback and export, as an instructor would.

    Args:
        course: from `prepare`.
        lab: the lab released there.
        submissions: student -> notebook.
        walls: False runs them on this account, as one may with notebooks of one's own.

    Returns:
        One score per student, sorted by name; the export is gradebook/grades.csv in the
        course directory.

    Raises:
        GradingError: nbgrader failed.
    """
    for student, notebook in submissions.items():
        directory = course / "gradebook" / "submitted" / student / lab
        directory.mkdir(parents=True)
        (directory / f"{lab}.ipynb").write_bytes(notebook)
    nbgrader(
        course,
        "autograde",
        lab,
        *[] if walls else ["--Autograde.trust_submissions=True"],
    )
    nbgrader(course, "generate_feedback", lab)
    nbgrader(course, "export")
    with (course / "gradebook" / "grades.csv").open(newline="") as file:
        rows = [
            Score(row["student_id"], float(row["score"]), float(row["max_score"]))
            for row in csv.DictReader(file)
        ]
    return sorted(rows)


def grade_samples(course: Path, lab: str, into: Path) -> tuple[list[Score], bool]:
    """Grade the solution and the untouched release, unless nothing has changed.

    Args:
        course: where nbgrader_config.py and solutions/ are.
        lab: a name such as lab03_scoring.
        into: replaced if anything has changed.

    Returns:
        The scores, and whether they are those of an earlier run.

    Raises:
        GradingError: see `prepare` and `grade`.
    """
    check_lab(course / "solutions", lab)
    solution = (course / "solutions" / lab / f"{lab}.ipynb").read_bytes()
    inputs = hashlib.sha256()
    for content in (
        (course / "nbgrader_config.py").read_bytes(),
        solution,
        *_sources(),
    ):
        inputs.update(content)
    stamp, scores = into / "inputs.sha256", into / "scores.csv"
    if stamp.is_file() and stamp.read_text() == inputs.hexdigest():
        with scores.open(newline="") as file:
            return [
                Score(row[0], float(row[1]), float(row[2])) for row in csv.reader(file)
            ], True
    print(
        f"{lab}: grading two sample submissions with nbgrader (about half a"
        " minute) ...",
        flush=True,
    )
    missing = prove(Limits())
    if missing:
        print(
            f"{lab}: graded without walls, as the samples are the course's own"
            f" notebooks: {missing}",
            flush=True,
        )
    shutil.rmtree(into, ignore_errors=True)
    untouched = prepare(course, lab, into)
    graded = grade(
        into, lab, {"solution": solution, "untouched": untouched}, walls=not missing
    )
    with scores.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(graded)
    stamp.write_text(inputs.hexdigest())
    return graded, False


def _sources() -> list[bytes]:
    package = Path(attention_labs.__file__).parents[1]
    return [path.read_bytes() for path in sorted(package.rglob("*.py"))]


def summary(course: Path, lab: str, scores: list[Score]) -> str:
    """Say what the samples scored, and which points no machine gives."""
    import nbformat

    notebook = nbformat.read(course / "solutions" / lab / f"{lab}.ipynb", as_version=4)
    marks = [
        cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata
    ]
    by_hand = sum(mark.points for mark in marks if mark.grade and mark.solution)
    lines = [
        f"{lab}: sample submission {s.student!r}: {s.points:g} of {s.possible:g}"
        " points\n"
        for s in scores
    ]
    return (
        "".join(lines)
        + f"{lab}: {by_hand:g} of the points are for prose, which a person grades in"
        " formgrader\n"
    )


def main(arguments: list[str]) -> int:
    """Grade the samples of one lab; print the scores and keep them as summary.txt."""
    lab, into = arguments
    try:
        scores, reused = grade_samples(Path.cwd(), lab, Path(into))
    except GradingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = summary(Path.cwd(), lab, scores)
    (Path(into) / "summary.txt").write_text(text)
    print(
        text
        + (
            f"{lab}: nothing changed, so these scores are of an earlier run\n"
            if reused
            else ""
        ),
        end="",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
