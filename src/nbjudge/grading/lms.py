"""nbgrader's plugins for Moodle and Canvas: collect their archives, export to them.

`nbgrader zip_collect LAB` reads Moodle's or Canvas's archive from
downloaded/LAB/archive/. `nbgrader export --exporter=nbjudge.grading.lms.Upload` fills
in the platform's own table from downloaded/LAB/, to be uploaded to the platform, and
packs Moodle's feedback. The code that reads tables and names is in `platforms`.
"""

import csv
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin, ExtractorPlugin, FileNameCollectorPlugin
from nbgrader.utils import unzip
from traitlets import Unicode

from nbjudge.grading.commands import GradingError
from nbjudge.grading.export import FINAL, rows_of
from nbjudge.grading.files import HIDDEN, printable
from nbjudge.grading.platforms import (
    Named,
    Person,
    Roster,
    Table,
    is_canvas,
    moodle_number,
    named,
    plain,
    students_of,
    worksheet,
)

# Moodle's column names, in English and German.
GRADE = ("Grade", "Bewertung")
MOST = ("Maximum Grade", "Maximum grade", "Bestwertung")
CANVAS_KEPT = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def people_of(gradebook: Gradebook) -> list[Person]:
    """Read the roster from nbgrader's gradebook."""
    return [
        Person(
            student.id,
            student.first_name or "",
            student.last_name or "",
            student.email or "",
            student.lms_user_id or "",
        )
        for student in gradebook.students
    ]


class Extractor(ExtractorPlugin):
    """Unpack the platform's archives, but not a student's own: the judge does that."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Unpack every archive in a folder; copy other files.

        Args:
            archive_path: where the archives are.
            extracted_path: where their files go.
        """
        for path in sorted(Path(archive_path).iterdir()):
            if path.suffix.lower() == ".zip":
                unzip(
                    str(path),
                    extracted_path,
                    zip_ext=[path.suffix],
                    create_own_folder=True,
                )
            elif path.is_file():
                shutil.copy(path, extracted_path)


class Collector(FileNameCollectorPlugin):
    """Find the student of each file, from the roster and Moodle's grading worksheet.

    Everything that a student handed in is collected under its own name. If a student
    has two files with the same name, the one from the later attempt counts, or the one
    from the archive whose name comes last. Files that belong to nobody are reported and
    left out.
    """

    def collect(self, submitted_file: str) -> dict[str, Any] | None:
        """Return the student of a file, and the file's name.

        Args:
            submitted_file: path of the file.

        Returns:
            `student_id` and `file_id`; None if it is left out.
        """
        if not hasattr(self, "_kept"):
            self._kept = self._plan()
        found = self._kept.get(submitted_file)
        return {"student_id": found[0], "file_id": found[1]} if found else None

    def _plan(self) -> dict[str, tuple[str, str]]:
        """Decide for all files at once: path -> student and name."""
        app = self.parent
        top = Path(app._format_collect_path(app.extracted_directory))
        lab, coursedir = app.coursedir.assignment_id, app.coursedir
        try:
            table = worksheet(top.parent)
        except GradingError as error:
            app.fail(str(error))
        numbers = students_of(table[1]) if table else {}
        with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
            roster = Roster(people_of(gradebook), numbers)
        chosen: dict[tuple[str, str], tuple[tuple[str, int], str]] = {}
        for path in sorted(p for p in top.rglob("*") if p.is_file()):
            parts = path.relative_to(top).parts
            if any(part.startswith(HIDDEN) for part in parts):
                continue
            if (its := self._whose(parts, lab, roster)) is None:
                continue
            student, found = its
            key, order = (student, found.file), (parts[0], found.order)
            earlier = chosen.get(key)
            if earlier:
                left = str(path) if order < earlier[0] else earlier[1]
                self.log.warning(
                    "%s: left out, there is a later one: %s", student, left
                )
            if not earlier or order >= earlier[0]:
                chosen[key] = order, str(path)
        return {path: key for key, (_, path) in chosen.items()}

    def _whose(
        self, parts: tuple[str, ...], lab: str, roster: Roster
    ) -> tuple[str, Named] | None:
        where = printable("/".join(parts))
        if (found := named(parts, lab)) is None or not found.file:
            self.log.error("%s: named as neither Moodle nor Canvas names files", where)
            return None
        try:
            student = roster.student(found)
        except GradingError as error:
            self.log.error("%s: %s", where, error)
            return None
        if found.canvas and student not in roster.called(found.name):
            self.log.warning(
                "%s: the work of %s, collected for %s alone",
                where,
                printable(found.name),
                student,
            )
        return student, found


class Upload(ExportPlugin):
    """Fill in the final scores in the platform's own table; pack Moodle's feedback.

    Moodle takes back its grading worksheet, Canvas its gradebook. The table of a lab is
    in downloaded/LAB/; the completed one goes to gradebook/upload/LAB.csv. If a student
    has no final score, the cell stays as it was. For Moodle, the feedback pages of the
    students with a final score go to gradebook/upload/LAB_feedback.zip.
    """

    downloaded = Unicode(
        "downloaded", help="The folder with a folder for each lab."
    ).tag(config=True)

    def export(self, gradebook: Gradebook) -> None:
        """Write a table for each lab that has one.

        Args:
            gradebook: where the scores are.
        """
        root = Path(self.parent.coursedir.root)
        labs = {*map(str, self.assignment)}
        for lab in gradebook.assignments:
            if labs and lab.name not in labs:
                continue
            try:
                if (table := worksheet(root / self.downloaded / lab.name)) is None:
                    continue
                to = root / "gradebook" / "upload" / f"{lab.name}.csv"
                self._fill(gradebook, lab, table, to)
            except GradingError as error:
                self.parent.fail(str(error))

    def _fill(
        self, gradebook: Gradebook, lab: Any, found: tuple[Path, Table], to: Path
    ) -> None:
        path, table = found
        for line in table.odd:
            self.log.error("%s", line)
        scores = {
            row["student_id"]: row
            for row in rows_of(gradebook, lab, gradebook.students)
        }
        final = {
            student: row["score"]
            for student, row in scores.items()
            if row["status"] == FINAL
        }
        people = people_of(gradebook)
        in_moodle = None if is_canvas(table.head) else _in_worksheet(table, people)
        if in_moodle is None:
            rows, known = _canvas(path, table, lab, people, final)
        else:
            rows, known = _moodle(path, table, lab, in_moodle, final)
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        self.log.info("%s: %d scores for the platform, in %s", lab.name, len(known), to)
        for student in sorted({*final} - known):
            self.log.warning(
                "%s: %s has a score, but no row in %s", lab.name, student, path
            )
        if waiting := sorted(s for s in scores if s not in final):
            names = ", ".join(waiting)
            self.log.warning("%s: no final score, left as it was: %s", lab.name, names)
        if in_moodle is not None:
            self._pack(lab.name, table, in_moodle, final, to)

    def _pack(
        self,
        lab: str,
        table: Table,
        students: list[str],
        final: dict[str, float | int],
        table_to: Path,
    ) -> None:
        """Pack the feedback pages in folders with the names that Moodle expects.

        Moodle reads a folder's name as NAME_NUMBER_assignfeedback_file.
        """
        to = table_to.with_name(f"{lab}_feedback.zip")
        to.unlink(missing_ok=True)
        coursedir = self.parent.coursedir
        pages: dict[str, Path] = {}
        without: list[str] = []
        for (_, row), student in zip(table.rows, students):
            if student not in final:
                continue
            name = re.sub(r"[_/\\]", " ", row[1])
            into = f"{name}_{moodle_number(row[0])}_assignfeedback_file"
            folder = coursedir.format_path(coursedir.feedback_directory, student, lab)
            found = sorted(Path(folder).glob("*.html"))
            pages |= {f"{into}/{page.name}": page for page in found}
            without += [] if found else [student]
        if without:
            self.log.warning(
                "%s: no feedback page to pack for %s; run nbgrader generate_feedback"
                " %s, and export again",
                lab,
                ", ".join(sorted(without)),
                lab,
            )
        if not pages:
            return
        with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
            for where, page in pages.items():
                archive.write(page, where)
        self.log.info("%s: feedback pages for Moodle, in %s: %d", lab, to, len(pages))


Filled = tuple[list[list[str]], set[str]]


def _in_worksheet(table: Table, people: list[Person]) -> list[str]:
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


def _moodle(
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


def _canvas(
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
