"""One grading process: jobs come in as lines of JSON, results go out the same way. It
never touches the gradebook."""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbjudge.evaluation import evaluate
from nbjudge.feedback import Grade
from nbjudge.grading.course import Course, load
from nbjudge.grading.intake import Intake, take_in
from nbjudge.grading.judge import Answered, Judge, Ran, seed_of
from nbjudge.grading.record import (
    cells_to_run,
    imports_of,
    notebook,
    questions_of,
    summary,
)
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.processes import Nursery, Sandbox, SandboxError
from nbjudge.question import Reply

# A sandbox that fails although no student's code is to blame is tried again.
ATTEMPTS = 3


class Grader:
    """Grades submissions of one lab.

    Args:
        course: whose questions it asks.
        lab: its name.
        source: its cells, as released.
        secret: of the course.
        walls: False runs submissions as this user.
        limits: what one submission may use.
        kept: directory for what was handed in, by hash; None keeps nothing.
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
        self.asked = questions_of(source, course.questions)
        self.preload = imports_of(source, course.module)
        self.nursery: Nursery | None = None

    def grade(self, student: str, folder: Path) -> dict[str, Any]:
        """Grade one submission.

        Args:
            student: who handed it in.
            folder: what was handed in.
        """
        began = time.monotonic()
        intake = take_in(folder, self.lab, self.source)
        self._keep(intake)
        ran: list[Ran] = []
        answered: list[Answered] = []
        if not intake.problem and intake.sha256:
            ran, answered = self._judge(intake)
        elif not intake.problem:
            answered = [self._nothing(asked.question, intake) for asked in self.asked]
        record = summary(
            student,
            self.lab,
            intake,
            ran,
            self.asked,
            answered,
            self.course.questions,
        )
        return {
            "record": record,
            "notebook": notebook(intake, record, ran, answered),
            "seconds": round(time.monotonic() - began, 3),
        }

    def sandbox(self) -> Sandbox:
        """Return a fresh sandbox."""
        if self.nursery is None:
            questions = [asked.question for asked in self.asked]
            self.nursery = Nursery(
                self.course.module, questions, self.preload, self.limits, self.walls
            )
        return self.nursery.sandbox()

    def close(self) -> None:
        """End what sandboxes are forked from."""
        if self.nursery is not None:
            self.nursery.close()
            self.nursery = None

    def _judge(self, intake: Intake) -> tuple[list[Ran], list[Answered]]:
        cells = cells_to_run(intake.cells)
        for _ in range(ATTEMPTS):
            try:
                judge = Judge(
                    self.course,
                    cells,
                    self.asked,
                    self.sandbox,
                    self.limits,
                    self._seed(intake),
                )
                return judge.run()
            except SandboxError as error:  # nothing that the student did
                self.close()
                problem = str(error)
        intake.problem, intake.folder = problem, ""
        return [], []

    def _keep(self, intake: Intake) -> None:
        if (
            self.kept is not None
            and intake.sha256
            and not (self.kept / intake.sha256).exists()
        ):
            made = self.kept / f"{intake.sha256}.{os.getpid()}"
            made.write_bytes(intake.content)
            made.replace(self.kept / intake.sha256)

    def _seed(self, intake: Intake) -> Callable[[str], int]:
        return lambda question: seed_of(self.secret, intake.sha256, question)

    def _nothing(self, name: str, intake: Intake) -> Answered:
        question = self.course.questions[name]
        results = evaluate(question, lambda request: Reply(error=intake.flags[-1]))
        grade = Grade(question, results, self.course.book)
        return Answered(float(grade), grade._repr_html_(), grade.as_text(), (), "")


def main() -> None:
    """Serve: the first line says what lab, every further one names a submission."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)  # end when the batch ends, however it ends
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    limits, secret = Limits(**setup["limits"]), bytes.fromhex(setup["secret"])
    grader = Grader(
        load(setup["course"]),
        setup["lab"],
        setup["source"],
        secret,
        setup["walls"],
        limits,
        Path(setup["kept"]),
    )
    for line in sys.stdin:
        job = json.loads(line)
        result = grader.grade(job["student"], Path(job["folder"]))
        answers.write(json.dumps(result) + "\n")
        answers.flush()
    grader.close()


if __name__ == "__main__":
    main()
