"""nbgrader's autograde converter, replaced by ours, and its settings (`c.NbJudge`).

`nbgrader autograde` and formgrader's button create an `Autograde` from their
configuration and run it. `install` puts this class in its place; for the gradebook,
feedback, formgrader and export, nothing changes. The class that writes the results is
in `gradebook`.
"""

import contextlib
import functools
import gc
import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbgrader.api
from nbgrader import preprocessors
from nbgrader.apps import api, autogradeapp
from nbgrader.converters.base import NbGraderException
from sqlalchemy.exc import SQLAlchemyError
from traitlets import Bool, Float, Integer, List, Unicode
from traitlets.config import Configurable

from nbjudge.grading.batch import Job, failed, grade_all
from nbjudge.grading.claims import claims
from nbjudge.grading.commands import GradingError, check_lab, released
from nbjudge.grading.course import Course, CourseError, load
from nbjudge.grading.course_report import course_page
from nbjudge.grading.database import check_gradebook, first_line, patient
from nbjudge.grading.figures import EVERYTHING, Shown
from nbjudge.grading.files import printable
from nbjudge.grading.gradebook import GradebookWriter, SaveGrades
from nbjudge.grading.names import clashes
from nbjudge.grading.record import FLAGGED, PERSON
from nbjudge.grading.report import Lab, page
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import NoWalls, lacking

WAYS_OUT = (
    "install bubblewrap and have the kernel permit namespaces, or grade in a container,"
    " or trust the submissions with --Autograde.trust_submissions=True"
)
AGAIN = "run it again to go on from here (without --force, which begins anew)"


class NbJudge(Configurable):
    """Settings that describe a course to the judge."""

    questions = Unicode(
        "", help="Module that holds QUESTIONS, a dict from names to questions."
    ).tag(config=True)
    scheduler = Unicode(
        "",
        help="Address of a Dask scheduler, whose workers grade; empty: this machine.",
    ).tag(config=True)
    straggler_seconds = Float(
        300.0, help="After which another worker of the cluster gets a submission, too."
    ).tag(config=True)


class Autograde(GradebookWriter):
    """Grade submissions in sandboxes; only this process writes to the gradebook."""

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
    idle_seconds = Float(
        Limits().idle,
        help="Seconds on the clock that a cell or a question may wait and do nothing.",
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
        """Find what was handed in, including directories without a notebook."""
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
        try:
            alone = not (self.trust_submissions or NbJudge(parent=self).scheduler)
            if alone and (reason := lacking()):
                raise NoWalls(reason)
            self.claims = claims(
                self.coursedir.db_url, self.coursedir.course_id, self.state.claimed()
            )
            with contextlib.closing(self.claims):
                self._grade(self.coursedir.assignment_id)
        except ImportError as error:
            raise self._stop(
                f"c.CourseDirectory.db_url needs a driver: {error}; PostgreSQL's is"
                " installed with pip install 'psycopg[binary]'"
            ) from None
        except NoWalls as error:
            raise self._stop(
                f"submissions are not run without walls, and there are none: {error};"
                f" {WAYS_OUT}"
            ) from None
        except KeyboardInterrupt:
            raise self._stop(f"stopped; {AGAIN}") from None
        except (OSError, SQLAlchemyError) as error:
            raise self._stop(
                f"stopped: {first_line(error)}; mend that, and {AGAIN}"
            ) from error

    def _grade(self, lab: str) -> None:
        self._check(lab)
        setup = self._setup(lab)
        clashing = clashes(job.student for job in self._handed_in("*"))
        # first of all, so that even a run that is stopped has removed every record
        for job in self.jobs if self.force else ():
            self.state.forget(lab, job.student)
        records, todo = [], []
        for job in self.jobs:
            if record := self.graded(job, lab):
                records.append(record)
            elif job.student in clashing:
                records.append(self.finish(failed(job, lab, clashing[job.student])))
            else:
                todo.append(job)
        so_far = sum(map(self.is_waiting, records))
        jobs = self.claimed(todo, lab, records)
        for number, result in enumerate(self._results(jobs, setup), 1):
            if record := self.by_another_run(result["record"]):
                records.append(record)
                continue
            records.append(self.finish(result))
            so_far += records[-1]["status"] == PERSON
            self._say(f"{number}/{len(todo)}", records[-1], so_far, result["seconds"])
        path = self.report(lab).with_name(f"{lab}.html")
        self.log.info("%s: the report is at %s", lab, path)
        waiting = [record for record in records if self.is_waiting(record)]
        flagged = sum(record["status"] == FLAGGED for record in records)
        self.log.info(
            "%s: %d submissions, %d graded (%d with a flag), %d need a person",
            *(lab, len(records), len(records) - len(waiting), flagged, len(waiting)),
        )
        if waiting:
            names = ", ".join(
                f"{printable(r['student'])} ({r['reason']})" for r in waiting
            )
            raise self._stop(
                f"{len(waiting)} of {len(records)} submissions need a person: {names}"
            )

    def _results(
        self, jobs: Iterable[Job | None], setup: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Grade here, or on the cluster that the configuration names."""
        settings = NbJudge(parent=self)
        if not settings.scheduler:
            yield from grade_all(jobs, setup, self.workers)
            return
        try:
            from nbjudge.grading.cluster import Cluster
        except ImportError as error:
            raise self._stop(
                f"c.NbJudge.scheduler needs Dask: {error}; pip install distributed"
            ) from None
        cluster = Cluster(
            settings.scheduler, setup, settings.straggler_seconds, self.log
        )
        with contextlib.closing(cluster):
            yield from cluster.grade(jobs)

    def _setup(self, lab: str) -> dict[str, Any]:
        """Return what every grading process gets first."""
        limits = Limits(
            cell=self.cell_seconds,
            question=self.question_seconds,
            patience=self.patience,
            idle=self.idle_seconds,
            submission=self.submission_seconds,
            memory=self.memory_mb << 20,
        )
        return {
            "course": self._course().module,
            "lab": lab,
            "source": released(self.coursedir, lab),
            "secret": self.state.secret(),
            "walls": not self.trust_submissions,
            "kept": str(self.state.kept()),
            "limits": limits._asdict(),
        }

    def _course(self) -> Course:
        try:
            return load(NbJudge(parent=self).questions)
        except CourseError as error:
            raise self._stop(str(error)) from None

    def _handed_in(self, students: str, lab: str = "") -> list[Job]:
        lab = lab or self.coursedir.assignment_id
        folders = sorted(
            glob.glob(self._format_source(lab, students), include_hidden=True)
        )
        pattern = self._format_source(re.escape(lab), "(?P<student>.*)", escape=True)
        return [
            Job(match["student"], Path(folder))
            for folder in folders
            if (match := re.match(pattern, folder, re.DOTALL))
        ]

    def _stop(self, reason: str) -> Exception:
        """Log the reason, because nbgrader's command does not; return an exception."""
        self.log.error(reason)
        return NbGraderException(reason)

    def _say(
        self, number: str, record: dict[str, Any], waiting: int, seconds: float
    ) -> None:
        person = record["status"] == PERSON
        outcome = "needs a person"
        if not person:
            outcome = f"{record['points']:g} of {record['possible']}"
        flags = f", {len(record['flags'])} flags" if record["flags"] else ""
        so_far = f"; {waiting} need a person so far" if waiting else ""
        student = printable(record["student"])
        line = f"{number} {student}: {outcome}{flags} ({seconds:.1f} s){so_far}"
        self.log.info("%s", line)
        if by_hand := self.by_hand(record):
            self.log.warning(
                "%s: points by hand stand for what was handed in before: %s",
                student,
                "; ".join(by_hand),
            )

    def report(self, lab: str = "", shown: Shown = EVERYTHING) -> Path:
        """Write the instructor's pages on all records, whichever run wrote them.

        Args:
            lab: write only this lab's page, and the page of the course.
            shown: which groups of students may be distinguished.

        Returns:
            The path of the course's page.
        """
        course, roster = self._course(), self.roster()
        labs = [self._lab(name, roster) for name in self.state.labs()]
        for each in [x for x in labs if shown.hides and len(x.graded) < shown.smallest]:
            self.log.warning(
                "%s: fewer than %d graded submissions; nothing of it can be shown",
                *(each.name, shown.smallest),
            )
            labs.remove(each)
        folder = "anonymous/" if shown.hides else ""
        for each in labs:
            if lab in ("", each.name):
                html = page(each, course, self.formgrader_url, shown)
                self.state.write_report(folder + each.name, html)
        html = course_page(labs, course, self.formgrader_url, shown)
        return self.state.write_report(f"{folder}index", html)

    def _lab(self, name: str, roster: list[str]) -> Lab:
        """Collect the results of a lab; submissions that were removed do not count."""
        students = [job.student for job in self._handed_in("*", name)]
        found = [r for each in students if (r := self.state.record(name, each))]
        waiting = [record for record in found if self.is_waiting(record)]
        attempts = {each: self.state.attempts(name, each) for each in students}
        return Lab(name, found, waiting, attempts, sorted({*roster} - {*students}))

    @patient
    def _check(self, lab: str) -> None:
        """Stop if there is no such lab, or if the gradebook does not hold it."""
        try:
            check_lab(Path(self.coursedir.root, self.coursedir.source_directory), lab)
            check_gradebook(self.coursedir.db_url, self.coursedir.course_id, lab)
        except GradingError as error:
            raise self._stop(str(error)) from None


def install() -> None:
    """Make nbgrader's command and formgrader's button use this converter."""
    autogradeapp.Autograde = api.Autograde = Autograde
    # nbgrader opens the gradebook eight times for a submission; an engine that is kept
    # need not compile the same statements each time
    nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)
    # otherwise, Python would search all that was imported when the command ends
    gc.freeze()
    if "nbgrader.server_extensions.formgrader.formgrader" in sys.modules:
        # only where formgrader is served, because the import brings a server with it
        from nbjudge.grading.formgrader import link

        link()
