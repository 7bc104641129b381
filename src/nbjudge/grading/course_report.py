"""The instructor's HTML page on the whole course: all labs, side by side."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from nbjudge.feedback import rendered
from nbjudge.grading import figures, plots
from nbjudge.grading.course import Course
from nbjudge.grading.figures import EVERYTHING, Record, Shown
from nbjudge.grading.files import printable
from nbjudge.grading.report import Cell, Lab, Section, as_html, persons, told

MOST = 20  # mistakes


def course_page(
    labs: Sequence[Lab], course: Course, formgrader: str, shown: Shown = EVERYTHING
) -> str:
    """Make the page on all labs.

    Args:
        labs: the data of each lab.
        course: the course that the questions belong to.
        formgrader: address of formgrader.
        shown: which groups may be distinguished.
    """
    made = [
        (lab.name, each)
        for lab in labs
        for each in figures.mistakes(lab.graded, course.questions)
    ]
    made.sort(key=lambda row: -row[1].students / row[1].of)
    rows = [(lab, *row) for lab, each in made for row in told([each], course, shown)]
    head = ("lab", "question", "looks like", "students", "read")
    words = "Those with the largest share of the students who answered the question."
    mistakes = Section("Mistakes", words, tables=[(head, rows[:MOST])])
    sections = [_labs(labs, shown), mistakes]
    links = []
    if not shown.hides:
        sections.insert(0, persons(labs, formgrader))
        sections.append(_students(labs, formgrader))
        links.append((f"{formgrader}/manage_assignments", "formgrader"))
    return as_html("The course at a glance", f"{len(labs)} labs", sections, links)


def _labs(labs: Sequence[Lab], shown: Shown) -> Section:
    rows = []
    for lab in labs:
        where = rendered("link", address=f"{quote(lab.name)}.html", text=lab.name)
        row: list[Any] = [where, len(lab.graded)]
        if not shown.hides:
            shares = _shares(lab)
            mean = f"{sum(shares) / len(shares):.0f} %" if shares else ""
            stuck = sum(bool(figures.stuck(each)) for each in lab.attempts.values())
            row += [mean, len(lab.waiting), len(lab.missing), stuck]
        rows.append(row)
    head: tuple[str, ...] = ("lab", "graded")
    if shown.hides:
        return Section("Labs", tables=[(head, rows)])
    head += ("mean", "need a person", "handed in nothing", "stuck on a question")
    plot = plots.shares([(lab.name, _shares(lab)) for lab in labs])
    words = "Each dot is a student's share of the points that the judge gives."
    return Section("Labs", words, plot, [(head, rows)])


def _shares(lab: Lab) -> list[float | int]:
    return [100 * r["points"] / r["possible"] for r in lab.graded if r["possible"]]


def _students(labs: Sequence[Lab], formgrader: str) -> Section:
    """Show each student's share of the points of all labs, the fewest points first."""
    found: dict[str, dict[str, Record]] = {}
    for lab in labs:
        for student in lab.missing:
            found.setdefault(student, {})
        for record in lab.records:
            found.setdefault(record["student"], {})[lab.name] = record
    rows = sorted(
        (_sum(records.values()), student, records) for student, records in found.items()
    )
    table = [
        (
            printable(student),
            f"{points:g}",
            *(_of_lab(records.get(lab.name)) for lab in labs),
        )
        for points, student, records in rows
    ]
    words = "The points of each lab in percent, and in all; the fewest points first."
    head = ("student", "points", *(lab.name for lab in labs))
    return Section("Students", words, tables=[(head, table)])


def _sum(records: Iterable[Record]) -> float | int:
    return sum(record["points"] or 0 for record in records)


def _of_lab(record: Record | None) -> Any:
    if record is None:
        return "–"
    if record["points"] is None:
        return "needs a person"
    share = 100 * record["points"] / record["possible"] if record["possible"] else 0
    return Cell(
        f"{share:.0f}", 100 - share, f"{record['points']:g} of {record['possible']}"
    )
