"""Fill points into Moodle's grading worksheet and Canvas's table of grades.

The code that reads these tables is in `platforms`, nbgrader's plugin in `lms`.
"""

from pathlib import Path
from typing import Any

from nbjudge.grading.commands import GradingError
from nbjudge.grading.platforms import (
    Named,
    Person,
    Roster,
    Table,
    moodle_number,
    plain,
    students_of,
)

# Moodle's column names, in English and German.
GRADE = ("Grade", "Bewertung")
MOST = ("Maximum Grade", "Maximum grade", "Bestwertung")
CANVAS_KEPT = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")

Filled = tuple[list[list[str]], set[str]]


def in_worksheet(table: Table, people: list[Person]) -> list[str]:
    """Find the student of each row; "" for a guest, or for someone who has left."""
    roster = Roster(people, students_of(table))
    students = []
    for _, row in table.rows:
        name = row[1] if len(row) > 1 else ""
        try:
            found = roster.student(Named(name, moodle_number(row[0]), "", 0, False))
        except GradingError:
            found = ""
        students.append(found)
    return students


def fill_moodle(
    path: Path,
    table: Table,
    lab: Any,
    students: list[str],
    final: dict[str, float | int],
) -> Filled:
    """Fill in the grade column of Moodle's grading worksheet."""
    column = _column(path, table, GRADE)
    most = _column(path, table, MOST)
    rows, known = [table.head], set[str]()
    for (line, row), student in zip(table.rows, students):
        _same_points(f"{path}, line {line}", row[most], lab)
        if student in final:
            row = [*row[:column], f"{final[student]:g}", *row[column + 1 :]]
            known.add(student)
        rows.append(row)
    return rows, known


def fill_canvas(
    path: Path,
    table: Table,
    lab: Any,
    people: list[Person],
    final: dict[str, float | int],
) -> Filled:
    """Keep the columns that Canvas asks for, and fill in the column of the lab."""
    called = [
        name
        for name in table.head
        if name.endswith(")") and plain(name.rpartition("(")[0]) == plain(lab.name)
    ]
    if len(called) != 1:
        raise GradingError(
            f"{path} needs one column for {lab.name}; it has: {', '.join(table.head)}"
        )
    column = table.head.index(called[0])
    kept = [table.head.index(name) for name in CANVAS_KEPT if name in table.head]
    ids = {person.number: person.id for person in people if person.number}
    at = table.head.index("ID")
    rows, known = [[table.head[i] for i in [*kept, column]]], set[str]()
    for line, row in table.rows:
        student = ids.get(row[at].strip(), "")
        if row[0].strip() == "Points Possible":
            _same_points(f"{path}, line {line}", row[column], lab)
        grade = f"{final[student]:g}" if student in final else row[column]
        known |= {student} & {*final}
        rows.append([*(row[i] for i in kept), grade])
    return rows, known


def _column(path: Path, table: Table, names: tuple[str, ...]) -> int:
    for name in names:
        if name in table.head:
            return table.head.index(name)
    raise GradingError(
        f"{path} has no column {names[0]}; it has: {', '.join(table.head)}. Download"
        " Moodle's grading worksheet in English"
    )


def _same_points(where: str, cell: str, lab: Any) -> None:
    """Stop if the platform has another maximum: a grade would mean something else."""
    try:
        most = float(cell.replace(",", "."))
    except ValueError:
        return
    if most != lab.max_score:
        raise GradingError(
            f"{where}: the platform counts up to {most:g} points, the lab up to"
            f" {lab.max_score:g}; set {lab.max_score:g} there, and download it again"
        )
