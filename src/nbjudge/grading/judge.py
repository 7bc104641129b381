"""The judge, outside the sandbox: it sends requests, checks replies and gives points.

Nothing that comes back from the sandbox can set a score. nbgrader itself scores what
the notebook's own kernel reports, which is what the student's code reports.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nbjudge.evaluation import evaluate
from nbjudge.feedback import Book, Grade
from nbjudge.grading import wire
from nbjudge.grading.course import Course
from nbjudge.grading.lab import CodeCell, GradedCell
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.process import Ended, Sandbox, Trouble
from nbjudge.grading.sandbox.text import one_text
from nbjudge.question import Question, Reply, Request, Result

# A submission gets no more sandboxes than these, if it keeps breaking its process.
MOST_SANDBOXES = 24
REPLY = Reply.__annotations__
NO_ANSWER = "it sent something that is no answer"


class CellOutcome(NamedTuple):
    """The result of running a cell.

    Attributes:
        cell: the cell.
        printed: what the cell printed.
        error: the error in one line; empty if there was none.
        broken: whether the cell ended the process, and was left out.
    """

    cell: CodeCell
    printed: str
    error: str
    broken: bool = False


class Verdict(NamedTuple):
    """The judge's result for one question.

    Attributes:
        points: the points earned.
        html: the table that the student sees.
        mistakes: names of the mistakes that the answer looks like.
        trouble: why there was no answer; empty if there was one.
        held: for each property of the question, whether it holds.
    """

    points: float
    html: str
    mistakes: tuple[str, ...]
    trouble: str
    held: tuple[bool, ...] = ()


def seed_of(secret: bytes, question: str) -> int:
    """Derive the seed of a question's inputs, unpredictable without the secret.

    All submissions get the same inputs, so that the same answer always earns the same.
    """
    digest = hmac.digest(secret, question.encode(), hashlib.sha256)
    return int.from_bytes(digest[:6])


class Judge:
    """The judge of one submission.

    Args:
        course: the course that the questions belong to.
        cells: the student's cells, in order.
        asked: the graded cells.
        sandboxes: returns a fresh sandbox.
        limits: what the submission may use.
        seed: question -> seed.
    """

    def __init__(
        self,
        course: Course,
        cells: Sequence[CodeCell],
        asked: Sequence[GradedCell],
        sandboxes: Callable[[], Sandbox],
        limits: Limits,
        seed: Callable[[str], int],
    ):
        self.course, self.cells, self.asked = course, cells, asked
        self.sandboxes, self.limits, self.seed = sandboxes, limits, seed
        self.ran = {cell: CellOutcome(cell, "", "not run") for cell in cells}
        # broken: cells that ended the process; suspects: cells in which it ended once,
        # possibly for another reason
        self.broken: set[CodeCell] = set()
        self.suspects: set[CodeCell] = set()
        self.sandbox: Sandbox | None = None
        self.used: list[Sandbox] = []
        self.end = time.monotonic() + limits.submission

    def deadline(self, sandbox: Sandbox, seconds: float) -> float:
        """Grant a sandbox CPU time, and return the clock time by which it must answer.

        Raises:
            Trouble: the submission has used up its time.
        """
        now = time.monotonic()
        if now > self.end:
            raise Trouble(
                f"the {self.limits.submission:.0f} s for the whole submission are"
                " used up"
            )
        idle = 4 * self.limits.idle - sum(box.idle for box in self.used)
        if idle <= 0:
            raise Trouble(
                f"the {4 * self.limits.idle:g} s for which a submission may do nothing"
                " are used up"
            )
        sandbox.allow(seconds, min(idle, self.limits.idle))
        return min(now + self.limits.patience * seconds, self.end)

    def run(self) -> tuple[list[CellOutcome], list[Verdict]]:
        """Run the cells and ask every question."""
        try:
            verdicts = [self._ask(asked) for asked in self.asked]
            return [self.ran[cell] for cell in self.cells], verdicts
        finally:
            if self.sandbox is not None:
                self.sandbox.close()

    def _ask(self, asked: GradedCell) -> Verdict:
        question, seed = (
            self.course.questions[asked.question],
            self.seed(asked.question),
        )
        answer = SandboxedAnswer(self, asked)
        results = evaluate(question, answer, seed)
        if answer.ended:  # if it ends again, the answer is to blame
            answer = SandboxedAnswer(self, asked)
            results = evaluate(question, answer, seed)
        answer.close()
        return verdict_of(question, results, self.course.book, answer.trouble)

    def running(self) -> Sandbox:
        """Return a sandbox in which all cells that do not break it have run.

        Raises:
            Trouble: there is none, and there will be none.
        """
        while self.sandbox is None:
            if len(self.used) == MOST_SANDBOXES:
                raise Trouble(
                    f"the process broke down {MOST_SANDBOXES} times; no more was tried"
                )
            sandbox = self.sandboxes()
            self.used.append(sandbox)
            if self._run_cells(sandbox):
                self.sandbox = sandbox
        return self.sandbox

    def _run_cells(self, sandbox: Sandbox) -> bool:
        """Run the cells that break nothing; return whether all of them ran."""
        for cell in self.cells:
            if cell in self.broken:
                continue
            data = {
                "name": cell.name,
                "source": cell.source,
                "seed": self.seed("inside"),
            }
            try:
                limit = self.deadline(sandbox, self.limits.cell)
                frame = sandbox.call("cell", data, limit)
            except Trouble as trouble:
                sandbox.close()
                if isinstance(trouble, Ended) and cell not in self.suspects:
                    self.suspects.add(cell)
                else:
                    self.broken.add(cell)
                    error = f"{trouble}; the cell was left out"
                    self.ran[cell] = CellOutcome(cell, sandbox.text(), error, True)
                return False
            said = frame.data if frame.kind == "ran" else None
            error = one_text(said, 400) if isinstance(said, str) else "no answer"
            self.ran[cell] = CellOutcome(cell, sandbox.text(), error)
        return True


class SandboxedAnswer:
    """A connection to an answer in a sandbox: requests go in, replies come out.

    If there is trouble, the reply says so in its error.

    Args:
        judge: the judge whose sandbox is used.
        asked: the graded cell to check.
    """

    def __init__(self, judge: Judge, asked: GradedCell):
        self.judge, self.asked = judge, asked
        # not the seed of the inputs: this one is visible in the sandbox
        self.seed = judge.seed(f"inside {asked.question}")
        self.trouble, self.ended = "", False
        self.calls, self.deadline = 0, 0.0
        self.sandbox: Sandbox | None = None

    def __call__(self, request: Request) -> Reply:
        """Send a request to the sandbox and return the reply."""
        if not self.trouble:
            try:
                return self._reply(request)
            except Trouble as trouble:
                self.trouble, self.ended = str(trouble), isinstance(trouble, Ended)
                self._give_up()
        return Reply(error=self.trouble)

    def close(self) -> None:
        """Tell the answer's process that the question is finished."""
        if self.sandbox is not None and not self.trouble:
            try:
                if self.sandbox.call("done", None, self.deadline).kind != "ended":
                    raise Trouble(NO_ANSWER)
            except Trouble:
                self._give_up()

    def _reply(self, request: Request) -> Reply:
        name, limits = self.asked.question, self.judge.limits
        if self.sandbox is None:
            self.sandbox = self.judge.running()
            self.deadline = self.judge.deadline(self.sandbox, limits.question)
            handed = {"name": name, "thing": self.asked.thing}
            self.sandbox.send("question", handed, self.deadline)
        self.calls += 1
        ask = {"call": self.calls, "seed": self.seed, "request": request.plain()}
        kind, answer = self.sandbox.call("ask", ask, self.deadline)
        if kind == "ended":
            code = answer if isinstance(answer, int) else 0
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            raise Ended(f"the process ended {how}")
        return _checked(kind, answer, self.calls)

    def _give_up(self) -> None:
        if self.judge.sandbox is not None:
            self.judge.sandbox.close()
            self.judge.sandbox = None


def verdict_of(
    question: Question, results: list[Result], book: Book, trouble: str = ""
) -> Verdict:
    """Make the verdict on a question.

    Args:
        question: the question.
        results: one result per property of the question.
        book: the book that the feedback refers to.
        trouble: why there was no answer; empty if there was one.
    """
    grade = Grade(question, results, book)
    mistakes = tuple(dict.fromkeys(r.mistake.name for r in results if r.mistake))
    held = tuple(r.finding is None for r in results)
    return Verdict(float(grade), grade._repr_html_(), mistakes, trouble, held)


def _checked(kind: str, answer: Any, call: int) -> Reply:
    """Turn what came back into a reply, if it is a valid one."""
    match kind, answer:
        case "reply", {"call": int() as number, "reply": dict() as reply} if (
            number == call
            and reply.keys() == REPLY.keys()
            and all(wire.fits(reply[name], hint) for name, hint in REPLY.items())
        ):
            said = {
                name: one_text(reply[name], 300).replace("\n", " ")
                for name in ("error", "where")
            }
            return Reply(**{**reply, **said})
    raise Trouble(NO_ANSWER)
