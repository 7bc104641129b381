"""One grading process of `batch`: jobs as JSON lines on stdin, results on stdout.

It never touches the gradebook.
"""

import contextlib
import ctypes
import functools
import gc
import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from nbjudge.evaluation import evaluate
from nbjudge.grading.course import Course, load
from nbjudge.grading.intake import Intake, take_in
from nbjudge.grading.judge import CellOutcome, Judge, Verdict, seed_of, verdict_of
from nbjudge.grading.lab import code_cells, graded_cells, imports_of
from nbjudge.grading.record import notebook, summary
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.nursery import Nursery
from nbjudge.grading.sandbox.process import Sandbox, SandboxError
from nbjudge.grading.sandbox.proof import NoWalls, prove_of
from nbjudge.question import Reply

# How often to try if a sandbox fails and no student's code is to blame.
ATTEMPTS = 3


class Grader:
    """Grader of the submissions of one lab.

    Args:
        course: the course that the questions belong to.
        lab: name of the lab.
        source: its cells, as released.
        secret: the secret of the course.
        walls: whether to isolate submissions; False runs them as this user.
        limits: what one submission may use.
        kept: directory that keeps what was handed in, by hash; None keeps nothing.
    """

    def __init__(
        self,
        course: Course,
        lab: str,
        source: list[dict[str, Any]],
        secret: bytes,
        walls: bool,
        limits: Limits,
        kept: Path | None = None,
    ):
        self.course, self.lab, self.source, self.secret = course, lab, source, secret
        self.walls, self.limits, self.kept = walls, limits, kept
        self.asked = graded_cells(source, course.questions)
        self.preload = imports_of(source)
        self.nursery: Nursery | None = None
        self.proven = not walls

    def grade(self, student: str, folder: Path) -> dict[str, Any]:
        """Grade one submission.

        Args:
            student: who handed it in.
            folder: what was handed in.
        """
        began = time.monotonic()
        intake = self.take_in(folder)
        try:
            judged = self.judge(intake)
        except SandboxError as error:  # not the student's fault
            judged = [], []
            intake.problem, intake.folder = str(error), ""
        return self.result(student, intake, *judged, time.monotonic() - began)

    def take_in(self, folder: Path) -> Intake:
        """Read a submission, and keep what was handed in."""
        intake = take_in(folder, self.lab, self.source)
        self._keep(intake)
        return intake

    def result(
        self,
        student: str,
        intake: Intake,
        ran: list[CellOutcome],
        verdicts: list[Verdict],
        seconds: float,
    ) -> dict[str, Any]:
        """Return the result of a submission: its record, and a notebook to show."""
        questions = self.course.questions
        verdicts = [
            verdict._replace(
                points=cell.worth(verdict.points, questions[cell.question].points)
            )
            for cell, verdict in zip(self.asked, verdicts)
        ]
        record = summary(student, self.lab, intake, ran, self.asked, verdicts)
        return {
            "record": record,
            "notebook": notebook(intake, record, ran, verdicts),
            "seconds": round(seconds, 3),
        }

    def sandbox(self) -> Sandbox:
        """Return a fresh sandbox.

        Raises:
            NoWalls: it would not isolate a submission.
        """
        if self.nursery is None:
            questions = [asked.question for asked in self.asked]
            self.nursery = Nursery(
                self.course.module, questions, self.preload, self.limits, self.walls
            )
        if not self.proven:
            if reason := prove_of(self.nursery):
                raise NoWalls(reason)
            self.proven = True
        return self.nursery.sandbox()

    def close(self) -> None:
        """End the process that sandboxes are forked from."""
        if self.nursery is not None:
            self.nursery.close()
            self.nursery = None

    def judge(self, intake: Intake) -> tuple[list[CellOutcome], list[Verdict]]:
        """Run a submission and ask its questions.

        Raises:
            SandboxError: there is no sandbox, even after further tries.
            NoWalls: there has never been one, or it would not isolate a submission.
        """
        if intake.problem:
            return [], []
        if not intake.content:
            return [], [self._nothing(a.question, intake) for a in self.asked]
        cells = code_cells(intake.cells)
        seed = functools.partial(seed_of, self.secret)
        left = ATTEMPTS
        while True:
            judge = Judge(
                self.course, cells, self.asked, self.sandbox, self.limits, seed
            )
            try:
                return judge.run()
            except SandboxError as error:
                self.close()
                left -= 1
                if not left and not self.proven:
                    raise NoWalls(str(error)) from error
                if not left:
                    raise

    def _nothing(self, name: str, intake: Intake) -> Verdict:
        question = self.course.questions[name]
        results = evaluate(question, lambda request: Reply(error=intake.flags[-1]))
        return verdict_of(question, results, self.course.book)

    def _keep(self, intake: Intake) -> None:
        path = self.kept / intake.sha256 if self.kept and intake.content else None
        if path is not None and not path.exists():
            # graders on several machines may share the folder and the process id
            made = path.with_suffix(f".{secrets.token_hex(4)}")
            made.write_bytes(intake.content)
            made.replace(path)


def _answer(grader: Grader, job: dict[str, Any]) -> dict[str, Any]:
    """Grade what is in a folder, or judge what another machine has read."""
    if "folder" in job:
        return grader.grade(job["student"], Path(job["folder"]))
    try:
        ran, verdicts = grader.judge(Intake.from_plain(job["intake"]))
    except SandboxError as error:
        return {"problem": str(error)}
    return {"ran": ran, "verdicts": verdicts}


def main() -> None:
    """Serve: the first line describes the lab, every other one is a submission."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)  # end when the batch ends, however it ends
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    grader = Grader(
        load(setup["course"]),
        setup["lab"],
        setup["source"],
        bytes.fromhex(setup["secret"]),
        setup["walls"],
        Limits(**setup["limits"]),
        Path(setup["kept"]),
    )
    gc.freeze()
    gc.enable()
    with contextlib.closing(grader):  # also when it is interrupted
        for line in sys.stdin:
            try:
                result = _answer(grader, json.loads(line))
            except NoWalls as error:
                result = {"no walls": str(error)}
            print(json.dumps(result), file=answers, flush=True)
