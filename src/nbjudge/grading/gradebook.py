"""Write results into nbgrader's database, and read scores: which are final, which wait.

nbgrader's own converter and preprocessors do the writing. This module decides what they
get, and what of it is a score.
"""

import contextlib
import logging
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbgrader import preprocessors
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import autograde
from nbgrader.converters.base import BaseConverter
from nbgrader.utils import parse_utc

from nbjudge.grading.batch import Job
from nbjudge.grading.claims import Claims
from nbjudge.grading.database import first_line, patient
from nbjudge.grading.exchange import keep_for_exchange
from nbjudge.grading.files import (
    TIMESTAMP,
    Unreadable,
    content_of,
    fingerprint,
    printable,
)
from nbjudge.grading.record import FLAGGED, GRADED, PERSON
from nbjudge.grading.state import State


class SaveGrades(preprocessors.SaveAutoGrades):
    """nbgrader's own, with two differences.

    If a person must look, there is no score, not even zero. And points by hand stay
    final if neither the notebook nor the judge's points have changed.
    """

    def _add_score(self, cell: Any, resources: Any) -> None:
        name = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(
            name, self.notebook_id, self.assignment_id, self.student_id
        )
        was_final, points = not grade.needs_manual_grade, grade.auto_score
        if resources["nbgrader"]["needs_person"]:
            grade.auto_score, grade.needs_manual_grade = None, True
        else:
            super()._add_score(cell, resources)
        if resources["nbgrader"]["is_same"] and was_final:
            grade.needs_manual_grade = grade.auto_score != points
        self.gradebook.db.commit()


class GradebookWriter(autograde.Autograde):
    """Converter that writes a submission's notebook, scores and record.

    Attributes:
        claims: the claims of this run; a submission is written only while it is
            claimed.
    """

    claims: Claims

    @property
    def state(self) -> State:
        """The files that the course keeps on disk."""
        return State(Path(self.coursedir.root))

    def graded(self, job: Job, lab: str) -> dict[str, Any]:
        """Return the record of what is handed in at present; empty if there is none."""
        record = self.state.record(lab, job.student)
        is_of_this = record and record["folder"] == fingerprint(job.folder)
        return record if is_of_this else {}

    def by_another_run(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record that another run has written; empty if none has.

        That happens if a server was restarted, and has forgotten who had claimed it.
        """
        lab, student = record["lab"], record["student"]
        self.claims.keep(lab, student)
        found = self.state.record(lab, student)
        if not found or not record["folder"] or found["folder"] != record["folder"]:
            return {}
        self.claims.release(lab, student)
        return found

    def claimed(
        self, jobs: Iterable[Job], lab: str, records: list[dict[str, Any]]
    ) -> Iterator[Job | None]:
        """Claim submissions; those that another run is grading come last.

        Args:
            jobs: the submissions to grade.
            lab: name of the lab.
            records: gets the records of submissions that another run has graded.

        Yields:
            A submission to grade; None if there is none at the moment.
        """
        waiting = deque(jobs)
        while waiting:
            left = len(waiting)
            for job in [waiting.popleft() for _ in range(left)]:
                if not self.claims.take(lab, job.student):
                    waiting.append(job)
                elif record := self.graded(job, lab):
                    self.claims.release(lab, job.student)
                    records.append(record)
                else:
                    yield job
            if len(waiting) == left:
                yield None

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write a result to the gradebook, and only then its record.

        A submission without a record is graded again.
        """
        record = result["record"]
        self.claims.keep(record["lab"], record["student"])
        if result["notebook"] is None:
            self._clear_scores(record)
        else:
            level = self.log.level
            if getattr(self.parent, "log_level", logging.INFO) > logging.DEBUG:
                # nbgrader's own messages about every file would hide the progress
                self.log.setLevel(logging.WARNING)
            try:
                self._write(record, result["notebook"])
            except Exception as error:
                reason = first_line(error)
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
        self.state.write_record(record)
        self.claims.release(record["lab"], record["student"])
        return dict(record)

    @patient
    def _write(self, record: dict[str, Any], notebook: dict[str, Any]) -> None:
        student, lab = record["student"], record["lab"]
        self.claims.keep(lab, student)
        self.state.forget(lab, student)
        graded = self.coursedir.autograded_directory
        folder = Path(self.coursedir.format_path(graded, student, lab))
        attempts = self.state.attempts(lab, student)
        self._is_same = bool(attempts) and attempts[-1]["sha256"] == record["sha256"]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        when = self._handed_in_at(record)
        # copy no file of the student
        ignored, self.coursedir.ignore = self.coursedir.ignore, ["*"]
        self.coursedir.get_existing_timestamp = lambda _: when
        self.notebooks = [str(folder / f"{lab}.ipynb")]
        try:
            super().init_assignment(lab, student)
        finally:
            self.coursedir.ignore = ignored
            del self.coursedir.get_existing_timestamp
        keep_for_exchange(Path(self._format_source(lab, student)), folder, when)
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
        """Read the time that came with a submission.

        nbgrader would wait for a pipe, and fail on text that is not a time.
        """
        path = Path(self._format_source(record["lab"], record["student"]), TIMESTAMP)
        content = content_of(path) if os.path.lexists(path) else b""
        try:
            if isinstance(content, Unreadable):
                raise content
            text = content.decode()[:100].strip()
            return parse_utc(text) if text else None
        except (Unreadable, ValueError, OverflowError) as problem:
            if record["status"] == GRADED:
                record["status"] = FLAGGED
            reason = printable(str(problem))
            flag = f"timestamp.txt holds no time: {reason}"
            record["flags"] += [flag] if flag not in record["flags"] else []
            return None

    @contextlib.contextmanager
    def _in_gradebook(self, record: dict[str, Any]) -> Iterator[Any]:
        """Find a submission in the gradebook; None if it is not there.

        A name that cannot be encoded is in no gradebook.
        """
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            found = None
            with contextlib.suppress(MissingEntry, UnicodeEncodeError):
                found = gradebook.find_submission(record["lab"], record["student"])
            yield found
            gradebook.db.commit()

    @patient
    def _clear_scores(self, record: dict[str, Any]) -> None:
        """Clear all scores: no partial and no earlier ones may remain."""
        with self._in_gradebook(record) as submission:
            for grade in _grades(submission):
                grade.auto_score, grade.needs_manual_grade = None, True

    def init_single_notebook_resources(self, notebook_filename: str) -> dict[str, Any]:
        """Tell `SaveGrades` whether there is a score, and whether it may be final."""
        resources: dict[str, Any] = super().init_single_notebook_resources(
            notebook_filename
        )
        resources["nbgrader"]["needs_person"] = self._needs_person
        resources["nbgrader"]["is_same"] = self._is_same
        return resources

    @patient
    def by_hand(self, record: dict[str, Any]) -> list[str]:
        """List the scores given by hand that replace different scores by the judge."""
        with self._in_gradebook(record) as submission:
            return [
                f"{grade.name} {grade.manual_score:g}, now {grade.auto_score:g} by the"
                " judge"
                for grade in _grades(submission)
                if None not in (grade.manual_score, grade.auto_score)
                and grade.manual_score != grade.auto_score
            ]

    @patient
    def roster(self) -> list[str]:
        """List the students in the gradebook."""
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            return [student.id for student in gradebook.students]

    @patient
    def is_waiting(self, record: dict[str, Any]) -> bool:
        """Return whether a submission needs a person, and none has looked since."""
        if record["status"] != PERSON:
            return False
        with self._in_gradebook(record) as submission:
            return submission is None or bool(submission.needs_manual_grade)


def _grades(submission: Any) -> list[Any]:
    """List the grades of a submission in the gradebook, if it is there."""
    books = submission.notebooks if submission is not None else ()
    return [grade for notebook in books for grade in notebook.grades]
