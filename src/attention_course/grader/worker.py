"""One grading process: jobs come in as lines of JSON, results go out the same way. It never touches the gradebook."""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attention_course.grader.intake import Intake, take_in
from attention_course.grader.judge import Answered, Judge, seed_of
from attention_course.grader.record import cells_to_run, imports_of, notebook, questions_of, summary
from attention_course.grader.sandbox import Sandbox, SandboxError
from attention_course.grader.walls import Limits
from attention_course.questions import QUESTIONS, Grade
from attention_course.questions.core import Reply, evaluate


class Grader:
    """Grades submissions of one lab.

    Args:
        lab: its name.
        source: its cells, as released.
        secret: of the course.
        walls: False runs submissions as this user.
        limits: what one submission may use.
    """

    def __init__(self, lab: str, source: list[dict[str, Any]], secret: bytes, walls: bool, limits: Limits):
        self.lab, self.source, self.secret, self.walls, self.limits = lab, source, secret, walls, limits
        self.asked, self.preload = questions_of(source), imports_of(source)
        self.next: Sandbox | None = None

    def grade(self, student: str, folder: Path, last: bool) -> dict[str, Any]:
        """Grade one submission.

        Args:
            student: who handed it in.
            folder: what was handed in.
            last: whether no sandbox need be started for the next one.
        """
        began = time.monotonic()
        intake = take_in(folder, self.lab, self.source)
        ran, answered = [], []  # type: list[Any], list[Answered]
        if not intake.problem and intake.sha256:
            try:
                judge = Judge(cells_to_run(intake.cells), self.asked, self.sandbox, self.limits, self.seeds(intake))
                if not last:
                    judge.while_waiting = self.start_next
                ran, answered = judge.run()
            except SandboxError as error:
                intake.problem = str(error)
        elif not intake.problem:
            answered = [self._nothing(asked.question, intake) for asked in self.asked]
        record = summary(student, self.lab, intake, self.asked, answered)
        return {
            "record": record,
            "notebook": notebook(intake, record, ran, answered),
            "seconds": round(time.monotonic() - began, 3),
        }

    def seeds(self, intake: Intake) -> Callable[[str], int]:
        """Make the function from question to seed for one submission."""
        return lambda question: seed_of(self.secret, intake.sha256, question)

    def sandbox(self) -> Sandbox:
        """Return a sandbox, started ahead if there is one."""
        ready, self.next = self.next, None
        return ready or self._start()

    def start_next(self) -> None:
        """Start the sandbox for the next submission."""
        self.next = self.next or self._start()

    def close(self) -> None:
        """End what was started ahead."""
        if self.next is not None:
            self.next.close()

    def _start(self) -> Sandbox:
        return Sandbox([asked.question for asked in self.asked], self.preload, self.limits, self.walls)

    def _nothing(self, name: str, intake: Intake) -> Answered:
        results = evaluate(QUESTIONS[name], lambda request: Reply(error=intake.flags[-1]))
        grade = Grade(QUESTIONS[name], results)
        return Answered(float(grade), grade._repr_html_(), grade.as_text(), (), "")


def main() -> None:
    """Serve: the first line says what lab, every further one names a submission."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)  # end when the batch ends, however it ends
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    grader = Grader(
        setup["lab"], setup["source"], bytes.fromhex(setup["secret"]), setup["walls"], Limits(**setup["limits"])
    )
    for line in sys.stdin:
        job = json.loads(line)
        result = grader.grade(job["student"], Path(job["folder"]), job["last"])
        answers.write(json.dumps(result) + "\n")
        answers.flush()
    grader.close()


if __name__ == "__main__":
    main()
