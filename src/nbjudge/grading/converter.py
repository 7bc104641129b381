"""nbgrader's autograde converter, with another engine: submissions run behind walls and
a judge outside scores them.

`nbgrader autograde` and formgrader's button make an `Autograde` from their
configuration and start it. `install` puts this one in its place; the gradebook,
feedback, formgrader and export see what they always see.
"""

import contextlib
import glob
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbgrader import preprocessors
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import api, autogradeapp
from nbgrader.converters import autograde
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.utils import parse_utc
from sqlalchemy.exc import SQLAlchemyError
from traitlets import Bool, Float, Integer, List, Unicode
from traitlets.config import Configurable

from nbjudge.grading.batch import Job, failed, grade_all
from nbjudge.grading.commands import GradingError, check_lab
from nbjudge.grading.course import Course, CourseError, load
from nbjudge.grading.intake import (
    FLAGGED,
    GRADED,
    PERSON,
    Unreadable,
    content_of,
    fingerprint,
    shown,
)
from nbjudge.grading.report import page
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove

WAYS_OUT = (
    "install bubblewrap and have the kernel permit namespaces, or grade in a container,"
    " or trust the submissions with --Autograde.trust_submissions=True"
)
AGAIN = "run it again to go on from here (without --force, which begins anew)"


class NbJudge(Configurable):
    """What the judge is told of a course."""

    questions = Unicode(
        "", help="Module that holds QUESTIONS, a dict from names to questions."
    ).tag(config=True)


class SaveGrades(preprocessors.SaveAutoGrades):
    """nbgrader's own, but where a person has to look there is no score, neither zero
    nor full."""

    def _add_score(self, cell: Any, resources: Any) -> None:
        if not resources["nbgrader"]["needs_person"]:
            return super()._add_score(cell, resources)
        name = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(
            name, self.notebook_id, self.assignment_id, self.student_id
        )
        grade.auto_score, grade.needs_manual_grade = None, True
        self.gradebook.db.commit()
        return None


class Autograde(autograde.Autograde):
    """Grade submissions in sandboxes; this process alone writes to the gradebook."""

    trust_submissions = Bool(
        False, help="Run submissions without walls, on your own account."
    ).tag(config=True)
    workers = Integer(
        min(8, os.cpu_count() or 1), help="How many submissions are graded at a time."
    ).tag(config=True)
    cell_seconds = Float(
        Limits().cell, help="CPU time that one cell of a student may take."
    ).tag(config=True)
    question_seconds = Float(
        Limits().question, help="CPU time that one question may take."
    ).tag(config=True)
    patience = Float(
        Limits().patience, help="Seconds on the clock for each of CPU time."
    ).tag(config=True)
    submission_seconds = Float(
        Limits().submission, help="Seconds on the clock for a submission."
    ).tag(config=True)
    formgrader_url = Unicode(
        "http://localhost:8888/formgrader", help="For links in reports."
    ).tag(config=True)
    memory_mb = Integer(
        Limits().memory >> 20, help="Megabytes that one submission may use."
    ).tag(config=True)

    autograde_preprocessors = List(
        [
            preprocessors.LimitOutput,
            SaveGrades,
            preprocessors.AssignLatePenalties,
            preprocessors.CheckCellMetadata,
        ]
    ).tag(config=True)

    def init_notebooks(self) -> None:
        """Find what was handed in; a directory without a notebook is a submission,
        too."""
        excluded = (self.coursedir.student_id_exclude or "").split(",")
        self.jobs = [
            job
            for job in self._handed_in(self.coursedir.student_id)
            if job.student not in excluded
        ]
        if not self.jobs:
            pattern = self._format_source(
                self.coursedir.assignment_id, self.coursedir.student_id
            )
            raise self._stop(f"nothing was handed in: there is no {pattern}")

    def convert_notebooks(self) -> None:
        """Grade everything that has no record yet; see `grade_all`."""
        reason = "" if self.trust_submissions else prove(Limits())
        if reason:
            raise self._stop(
                f"submissions are not run without walls, and there are none: {reason};"
                f" {WAYS_OUT}"
            )
        try:
            with self._alone():
                self._grade()
        except KeyboardInterrupt:
            raise self._stop(f"stopped; {AGAIN}") from None
        except (OSError, SQLAlchemyError) as error:
            raise self._stop(
                f"stopped: {_first_line(error)}; mend that, and {AGAIN}"
            ) from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no second run write to the gradebook; the lock goes with this process,
        however it ends."""
        # here, because Windows has none, and this module is read there by other
        # commands
        import fcntl

        self._state().mkdir(parents=True, exist_ok=True)
        with (self._state() / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._stop(
                    "submissions of this course are being graded already; wait for that"
                    " to end"
                ) from None
            yield

    def _grade(self) -> None:
        lab = self.coursedir.assignment_id
        self._check(lab)
        setup = {
            "course": self._course().module,
            "lab": lab,
            "source": self._released(lab),
            "secret": self._secret().hex(),
            "walls": not self.trust_submissions,
            "kept": str(self._kept()),
            "limits": (
                Limits(
                    cell=self.cell_seconds,
                    question=self.question_seconds,
                    patience=self.patience,
                    submission=self.submission_seconds,
                    memory=self.memory_mb << 20,
                )._asdict()
            ),
        }
        clashing = clashes(job.student for job in self._handed_in("*"))
        # first of all, so that a run that is stopped has forgotten none of them
        if self.force:
            for job in self.jobs:
                self._record_path(job.student).unlink(missing_ok=True)
        jobs = [job for job in self.jobs if not self._is_done(job)]
        todo = [job for job in jobs if job.student not in clashing]
        records = [self._record_of(job) for job in self.jobs if job not in jobs]
        for job in jobs:
            if job.student in clashing:
                records.append(self._finish(failed(job, lab, clashing[job.student])))
        so_far = sum(map(self._is_waiting, records))
        for number, result in enumerate(grade_all(todo, setup, self.workers), 1):
            records.append(self._finish(result))
            so_far += records[-1]["status"] == PERSON
            self._say(number, len(todo), records[-1], so_far, result["seconds"])
        self._report(lab)
        waiting = [record for record in records if self._is_waiting(record)]
        flagged = sum(record["status"] == FLAGGED for record in records)
        self.log.info(
            "%s: %d submissions, %d graded (%d with a flag), %d need a person",
            *(lab, len(records), len(records) - len(waiting), flagged, len(waiting)),
        )
        if waiting:
            names = ", ".join(
                f"{shown(record['student'])} ({record['reason']})" for record in waiting
            )
            raise self._stop(
                f"{len(waiting)} of {len(records)} submissions need a person: {names}"
            )

    # --- one submission ---------------------------------------------------------------

    def _finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write a result to the gradebook, and only then its record: what has no record
        is graded again."""
        record = result["record"]
        if result["notebook"] is None:
            self._clear_scores(record)
        else:
            level = self.log.level
            if getattr(self.parent, "log_level", logging.INFO) > logging.DEBUG:
                # nbgrader's own lines on every file would bury the progress
                self.log.setLevel(logging.WARNING)
            try:
                self._write(record, result["notebook"])
            except Exception as error:
                reason = _first_line(error)
                self.log.debug("%s: %s", record["student"], reason, exc_info=True)
                record = {
                    **record,
                    "status": PERSON,
                    "points": None,
                    "folder": "",
                    "reason": f"not in the gradebook: {reason}",
                }
                # what could not be written may not be cleared, either
                with contextlib.suppress(Exception):
                    self._clear_scores(record)
            finally:
                self.log.setLevel(level)
        path = self._record_path(record["student"])
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps(record, indent=1, ensure_ascii=True).encode())
        return dict(record)

    def _write(self, record: dict[str, Any], notebook: dict[str, Any]) -> None:
        student, lab = record["student"], record["lab"]
        self._record_path(student).unlink(missing_ok=True)
        folder = Path(
            self.coursedir.format_path(
                self.coursedir.autograded_directory, student, lab
            )
        )
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        when = self._handed_in_at(record)
        # no file of a student's is copied
        ignored, self.coursedir.ignore = self.coursedir.ignore, ["*"]
        self.coursedir.get_existing_timestamp = lambda _: when
        self.notebooks = [str(folder / f"{lab}.ipynb")]
        try:
            super().init_assignment(lab, student)
        finally:
            self.coursedir.ignore = ignored
            del self.coursedir.get_existing_timestamp
        nbformat.write(nbformat.from_dict(notebook), folder / f"{lab}.ipynb")
        self._needs_person = record["status"] == PERSON
        self._sanitizing = False
        self._init_preprocessors()
        try:
            BaseConverter.convert_single_notebook(self, self.notebooks[0])
        finally:
            self._sanitizing = True
        self.set_permissions(lab, student)

    def _handed_in_at(self, record: dict[str, Any]) -> datetime | None:
        """Read the time that came with a submission; nbgrader would wait for a pipe,
        and break at what is no time."""
        path = Path(
            self._format_source(record["lab"], record["student"]), "timestamp.txt"
        )
        if not os.path.lexists(path):
            return None
        try:
            text = content_of(path).decode()[:100].strip()
            return parse_utc(text) if text else None
        except (Unreadable, ValueError, OverflowError) as problem:
            record["status"] = (
                FLAGGED if record["status"] == GRADED else record["status"]
            )
            record["flags"].append(
                f"timestamp.txt holds no time: {shown(str(problem))}"
            )
            return None

    def _clear_scores(self, record: dict[str, Any]) -> None:
        """Leave no score of a part of this submission, and none of an earlier one."""
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            with contextlib.suppress(MissingEntry, UnicodeEncodeError):
                submission = gradebook.find_submission(record["lab"], record["student"])
                for grade in (
                    grade
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                ):
                    grade.auto_score, grade.needs_manual_grade = None, True
                gradebook.db.commit()

    def init_single_notebook_resources(self, notebook_filename: str) -> dict[str, Any]:
        """Tell `SaveGrades` whether there is a score."""
        resources: dict[str, Any] = super().init_single_notebook_resources(
            notebook_filename
        )
        resources["nbgrader"]["needs_person"] = self._needs_person
        return resources

    # --- what was done ----------------------------------------------------------------

    def _handed_in(self, students: str) -> list[Job]:
        folders = sorted(
            glob.glob(
                self._format_source(self.coursedir.assignment_id, students),
                include_hidden=True,
            )
        )
        pattern = self._format_source(
            re.escape(self.coursedir.assignment_id), "(?P<student>.*)", escape=True
        )
        return [
            Job(match["student"], Path(folder))
            for folder in folders
            if (match := re.match(pattern, folder, re.DOTALL))
        ]

    def _course(self) -> Course:
        """Import the course's questions, and stop if they cannot be used."""
        try:
            return load(NbJudge(parent=self).questions)
        except CourseError as error:
            raise self._stop(str(error)) from None

    def _released(self, lab: str) -> list[dict[str, Any]]:
        """Return the lab's cells as its release has them."""
        path = self.coursedir.format_path(self.coursedir.source_directory, ".", lab)
        notebook = nbformat.read(f"{path}/{lab}.ipynb", as_version=4)
        for step in (
            preprocessors.LockCells,
            preprocessors.ClearSolutions,
            preprocessors.ComputeChecksums,
        ):
            notebook, _ = step(parent=self).preprocess(notebook, {})
        cells: list[dict[str, Any]] = json.loads(json.dumps(notebook.cells))
        return cells

    def _stop(self, reason: str) -> Exception:
        """Say why, as nbgrader's command itself does not."""
        self.log.error(reason)
        return NbGraderException(reason)

    def _say(
        self, number: int, of: int, record: dict[str, Any], waiting: int, seconds: float
    ) -> None:
        outcome = (
            "needs a person"
            if record["status"] == PERSON
            else f"{record['points']:g} of {record['possible']}"
        )
        flags = f", {len(record['flags'])} flags" if record["flags"] else ""
        so_far = f"; {waiting} need a person so far" if waiting else ""
        student = shown(record["student"])
        self.log.info(
            "%d/%d %s: %s%s (%.1f s)%s",
            number,
            of,
            student,
            outcome,
            flags,
            seconds,
            so_far,
        )
        if by_hand := self._by_hand(record):
            self.log.warning(
                "%s: points by hand stand for what was handed in before: %s",
                student,
                "; ".join(by_hand),
            )

    def _report(self, lab: str) -> None:
        """Write the instructor's page on everything that has a record, graded in this
        run or before."""
        found = [
            record for job in self._handed_in("*") if (record := self._record_of(job))
        ]
        waiting = [record for record in found if self._is_waiting(record)]
        path = self._state() / "reports" / f"{lab}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, page(lab, found, waiting, self.formgrader_url).encode())
        self.log.info("%s: the report is at %s", lab, path)

    def _check(self, lab: str) -> None:
        """Stop if this is no lab, or none of the gradebook's."""
        try:
            check_lab(Path(self.coursedir.root, self.coursedir.source_directory), lab)
        except GradingError as error:
            raise self._stop(str(error)) from None
        database = self.coursedir.db_url.removeprefix("sqlite:///")
        if os.path.exists(database) and not os.access(database, os.W_OK):
            raise self._stop(
                f"{database} cannot be written; make it yours, then run this again"
            )
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            with contextlib.suppress(MissingEntry):
                gradebook.find_assignment(lab)
                return
        raise self._stop(
            f"{lab} is not in the gradebook yet; nbgrader generate_assignment {lab}"
            " --force"
        )

    def _by_hand(self, record: dict[str, Any]) -> list[str]:
        """List the scores given by hand that stand in place of others which the judge
        has given now."""
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            with contextlib.suppress(MissingEntry, UnicodeEncodeError):
                submission = gradebook.find_submission(record["lab"], record["student"])
                return [
                    f"{grade.name} {grade.manual_score:g}, now {grade.auto_score:g} by"
                    " the judge"
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                    if None not in (grade.manual_score, grade.auto_score)
                    and grade.manual_score != grade.auto_score
                ]
        return []

    def _is_waiting(self, record: dict[str, Any]) -> bool:
        """Whether it needs a person, and none has looked since."""
        if record["status"] != PERSON:
            return False
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            try:
                return bool(
                    gradebook.find_submission(
                        record["lab"], record["student"]
                    ).needs_manual_grade
                )
            except (MissingEntry, UnicodeEncodeError):
                # a name that is in no encoding is in no gradebook
                return True

    def _state(self) -> Path:
        return Path(self.coursedir.root) / "gradebook"

    def _record_path(self, student: str) -> Path:
        name = "".join(
            c if c.isalnum() and c.isascii() or c in "-_." else f"%{ord(c):x}."
            for c in student
        )
        if len(name) > 200:  # more than a file's name may have
            name = (
                name[:100]
                + hashlib.sha256(student.encode("utf-8", "surrogateescape")).hexdigest()
            )
        return self._state() / "records" / self.coursedir.assignment_id / f"{name}.json"

    def _record_of(self, job: Job) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(
                self._record_path(job.student).read_bytes()
            )
        except (OSError, ValueError):
            return {}
        return record

    def _is_done(self, job: Job) -> bool:
        record = self._record_of(job)
        return bool(record) and record["folder"] == fingerprint(job.folder)

    def _kept(self) -> Path:
        """Return where the bytes that were handed in stay, each under its hash."""
        path = self._state() / "kept"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _secret(self) -> bytes:
        """Return the secret of the course, made once."""
        path = self._state() / "secret"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, secrets.token_hex(32).encode())
        return bytes.fromhex(path.read_text())


def install() -> None:
    """Let nbgrader's command and formgrader's button use this converter."""
    autogradeapp.Autograde = api.Autograde = Autograde


def clashes(students: Iterable[str]) -> dict[str, str]:
    """Find names that could be taken for one another, or for something else.

    Returns:
        Name -> what is wrong with it, for those with which something is wrong.
    """
    alike: dict[str, list[str]] = {}
    for student in students:
        alike.setdefault(unicodedata.normalize("NFKC", student).casefold(), []).append(
            student
        )
    found = {}
    for names in alike.values():
        for name in names:
            scripts = {unicodedata.name(c, "?").split()[0] for c in name if c.isalpha()}
            if not name.isprintable() or name != name.strip():
                found[name] = "the folder's name has characters that cannot be seen"
            elif set(name) & set('<>&"\\'):
                # formgrader puts names into its pages as they are
                found[name] = (
                    "the folder's name has characters that are code in a web page"
                )
            elif name[0] in ".=+-@":
                # nbgrader passes by what is hidden, and writes names into tables as
                # they are
                found[name] = (
                    "the folder's name begins as hidden files or formulas in a table do"
                )
            elif len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1:
                found[name] = "the folder's name mixes alphabets"
            elif len(names) > 1:
                found[name] = (
                    "folders whose names look alike:"
                    f" {', '.join(map(shown, sorted(names)))}"
                )
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    made = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(made, path)
