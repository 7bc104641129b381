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
from nbjudge.grading.filling import fill_canvas, fill_moodle, in_worksheet
from nbjudge.grading.platforms import (
    Named,
    Person,
    Roster,
    Table,
    is_canvas,
    moodle_number,
    named,
    students_of,
    worksheet,
)


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
        in_moodle = None if is_canvas(table.head) else in_worksheet(table, people)
        if in_moodle is None:
            rows, known = fill_canvas(path, table, lab, people, final)
        else:
            rows, known = fill_moodle(path, table, lab, in_moodle, final)
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
