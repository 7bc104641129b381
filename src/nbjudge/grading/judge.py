"""The judge: outside the walls, with the references, it asks and decides. Nothing that
comes back can set a score."""

import dataclasses
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nbjudge.evaluation import evaluate
from nbjudge.feedback import Grade
from nbjudge.grading import wire
from nbjudge.grading.course import Course
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.processes import Ended, Sandbox, Trouble, plain_text
from nbjudge.question import Reply, Request

# A submission that breaks its process so often is given no further one.
MOST_SANDBOXES = 24
REPLY = Reply.__annotations__


class Cell(NamedTuple):
    """A cell to run: what it is called in messages, and its code."""

    name: str
    source: str


class Asked(NamedTuple):
    """A graded cell: its grade id, the question, and the expression that is handed
    over."""

    cell: str
    question: str
    thing: str


class Ran(NamedTuple):
    """What became of a cell.

    Attributes:
        name: of the cell.
        printed: what it wrote.
        error: one line, empty if it ran through.
        broken: whether it took the process with it, and was left out.
    """

    name: str
    printed: str
    error: str
    broken: bool = False


class Answered(NamedTuple):
    """What became of a question.

    Attributes:
        points: earned.
        html: the table that the student sees.
        text: the same as text.
        mistakes: names of the mistakes that it looks like.
        trouble: why there was no answer, if there was none.
    """

    points: float
    html: str
    text: str
    mistakes: tuple[str, ...]
    trouble: str


def seed_of(secret: bytes, submission: str, question: str) -> int:
    """Draw the seed of a question's inputs, which nobody can foresee without the secret
    of the course."""
    return int.from_bytes(
        hmac.digest(secret, f"{submission}/{question}".encode(), hashlib.sha256)[:6]
    )


class Judge:
    """Judges one submission.

    Args:
        course: whose questions they are.
        cells: the student's cells, in order.
        asked: the graded cells.
        sandboxes: gives a fresh sandbox.
        limits: what the submission may use.
        seed: question -> seed.
    """

    def __init__(
        self,
        course: Course,
        cells: Sequence[Cell],
        asked: Sequence[Asked],
        sandboxes: Callable[[], Sandbox],
        limits: Limits,
        seed: Callable[[str], int],
    ):
        self.course, self.cells, self.asked = course, cells, asked
        self.sandboxes, self.limits, self.seed = sandboxes, limits, seed
        self.ran: dict[int, Ran] = {}
        self.broken: set[int] = set()  # cells that took the process with them
        # cells in which it ended once: something else may have ended it
        self.suspects: set[int] = set()
        self.sandbox: Sandbox | None = None
        self.used = 0
        self.end = time.monotonic() + limits.submission

    def deadline(self, sandbox: Sandbox, seconds: float) -> float:
        """Give a sandbox so much CPU time, and return when on the clock something has
        to be done.

        Raises:
            Trouble: the submission has had its time.
        """
        now = time.monotonic()
        if now > self.end:
            raise Trouble(
                f"the {self.limits.submission:.0f} s for the whole submission are"
                " used up"
            )
        sandbox.allow(seconds)
        return min(now + self.limits.patience * seconds, self.end)

    def run(self) -> tuple[list[Ran], list[Answered]]:
        """Run the cells and ask every question."""
        try:
            answered = [self._ask(asked) for asked in self.asked]
            return [
                self.ran.get(i, Ran(cell.name, "", "not run"))
                for i, cell in enumerate(self.cells)
            ], answered
        finally:
            if self.sandbox is not None:
                self.sandbox.close()

    def _ask(self, asked: Asked) -> Answered:
        question = self.course.questions[asked.question]
        door = Door(self, asked)
        results = evaluate(question, door, self.seed(asked.question))
        if door.ended:  # twice is the answer's own doing
            door = Door(self, asked)
            results = evaluate(question, door, self.seed(asked.question))
        door.close()
        grade = Grade(question, results, self.course.book)
        mistakes = tuple(dict.fromkeys(r.mistake.name for r in results if r.mistake))
        return Answered(
            float(grade), grade._repr_html_(), grade.as_text(), mistakes, door.trouble
        )

    def running(self) -> Sandbox:
        """Return a sandbox in which all cells have run that do not break it.

        Raises:
            Trouble: there is none, and will be none.
        """
        while self.sandbox is None:
            if self.used == MOST_SANDBOXES:
                raise Trouble(
                    f"the process broke down {self.used} times; no more was tried"
                )
            self.used += 1
            sandbox = self.sandboxes()
            if self._run_cells(sandbox):
                self.sandbox = sandbox
        return self.sandbox

    def _run_cells(self, sandbox: Sandbox) -> bool:
        for i, cell in enumerate(self.cells):
            if i in self.broken:
                continue
            try:
                data = {
                    "name": cell.name,
                    "source": cell.source,
                    "seed": self.seed("inside"),
                }
                frame = sandbox.call(
                    "cell", data, self.deadline(sandbox, self.limits.cell)
                )
            except Trouble as trouble:
                sandbox.close()
                if isinstance(trouble, Ended) and i not in self.suspects:
                    self.suspects.add(i)
                    return False
                self.broken.add(i)
                self.ran[i] = Ran(
                    cell.name,
                    sandbox.text(),
                    f"{trouble}; the cell was left out",
                    broken=True,
                )
                return False
            error = (
                frame.data
                if frame.kind == "ran" and isinstance(frame.data, str)
                else "no answer"
            )
            self.ran[i] = Ran(
                cell.name,
                sandbox.text(),
                plain_text(error.encode("utf-8", "replace"), 400),
            )
        return True


class Door:
    """The door to one answer: requests go in, replies come out, and trouble is a reply
    like any other.

    Args:
        judge: whose sandbox to use.
        asked: what is handed over.
    """

    def __init__(self, judge: Judge, asked: Asked):
        self.judge, self.asked, self.trouble, self.ended, self.calls = (
            judge,
            asked,
            "",
            False,
            0,
        )
        self.sandbox: Sandbox | None = None
        self.deadline = 0.0

    def __call__(self, request: Request) -> Reply:
        """Send a request on and bring the reply back."""
        if not self.trouble:
            try:
                return self._reply(request)
            except Trouble as trouble:
                self.trouble, self.ended = str(trouble), isinstance(trouble, Ended)
                self._give_up()
        return Reply(error=self.trouble)

    def close(self) -> None:
        """Tell the answer's process that it is done."""
        if self.sandbox is not None and not self.trouble:
            try:
                if self.sandbox.call("done", None, self.deadline).kind != "ended":
                    raise Trouble("it sent something that is no answer")
            except Trouble:
                self._give_up()

    def _reply(self, request: Request) -> Reply:
        if self.sandbox is None:
            self.sandbox = self.judge.running()
            self.deadline = self.judge.deadline(
                self.sandbox, self.judge.limits.question
            )
            data = {"name": self.asked.question, "thing": self.asked.thing}
            self.sandbox.send("question", data, self.deadline)
        self.calls += 1
        fields = {
            field.name: getattr(request, field.name)
            for field in dataclasses.fields(request)
        }
        # not that of the inputs: it is known in there
        seed = self.judge.seed(f"inside {self.asked.question}")
        kind, answer = self.sandbox.call(
            "ask", {"call": self.calls, "seed": seed, "request": fields}, self.deadline
        )
        if kind == "ended":
            code = answer if isinstance(answer, int) else 0
            raise Ended(
                "the process ended"
                f" {f'by signal {-code}' if code < 0 else f'with code {code}'}"
            )
        return _checked(kind, answer, self.calls)

    def _give_up(self) -> None:
        if self.judge.sandbox is not None:
            self.judge.sandbox.close()
            self.judge.sandbox = None


def _checked(kind: str, answer: Any, call: int) -> Reply:
    """Make a reply of what came back, if it is one."""
    if kind != "reply" or not isinstance(answer, dict) or answer.get("call") != call:
        raise Trouble("it sent something that is no answer")
    reply = answer.get("reply")
    if not isinstance(reply, dict) or set(reply) != set(REPLY):
        raise Trouble("it sent something that is no answer")
    if not all(wire.fits(reply[name], hint) for name, hint in REPLY.items()):
        raise Trouble("it sent something that is no answer")
    return Reply(
        **{
            **reply,
            "error": (
                plain_text(reply["error"].encode("utf-8", "replace"), 300).replace(
                    "\n", " "
                )
            ),
        }
    )
