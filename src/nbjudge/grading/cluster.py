"""Submissions graded on other machines, over Dask distributed.

Workers get a submission as bytes and send back what became of its cells and questions;
folders, gradebook and records are here alone. What a worker, the scheduler or the
network loses is handed in again under the same hash. A submission has one result
whatever happens: this takes the first that comes.
"""

import contextlib
import hashlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from distributed import Client, Future

import nbjudge
from nbjudge.grading.batch import ATTEMPTS, Job, Worker, attempt, failed
from nbjudge.grading.claims import AWAY_SECONDS
from nbjudge.grading.course import load
from nbjudge.grading.files import printable
from nbjudge.grading.intake import Intake
from nbjudge.grading.judge import CellOutcome, Verdict
from nbjudge.grading.lab import CodeCell
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove
from nbjudge.grading.worker import Grader

LOOK_SECONDS = 0.02
ROLL_CALL_SECONDS = 1.0
# For a scheduler none of whose workers has ever been fit to grade.
REFUSED_SECONDS = 60.0


class ClusterError(OSError):
    """The cluster cannot grade; the message says why in one line."""


# --- on a worker ----------------------------------------------------------------------

_idle: dict[str, list[Worker]] = {}
_using = threading.Lock()


def judge(setup: str, intake: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a submission, in a process that is kept for the next one.

    Args:
        setup: of the lab, as JSON.
        intake: see `Intake.plain`.

    Returns:
        What the process said; see `nbjudge.grading.worker`.
    """
    with _using:
        for other in _idle.keys() - {setup}:  # of another lab, or another run
            for worker in _idle.pop(other):
                worker.close()
        idle = _idle.setdefault(setup, [])
        found = idle.pop() if idle else None
    worker, result = attempt(found, json.loads(setup), {"intake": intake})
    with _using:
        _idle.setdefault(setup, []).append(worker)
    return result


def refusal(course: str, walls: bool, code: str) -> str:
    """Say why a worker may not grade, in one line; empty if it may.

    Args:
        course: the module of the questions.
        walls: whether there have to be any.
        code: what `code_of` says where grades are written.
    """
    if code_of(course) != code:
        return "its course, judge or torch is another version"
    reason = prove(Limits()) if walls else ""
    return reason and f"it has no walls: {reason}"


def code_of(course: str) -> str:
    """Hash what a score depends on: the course's packages, this one, and torch's
    version.
    """  # noqa: D205
    total = hashlib.sha256(torch.__version__.encode())
    packages = [Path(nbjudge.__file__).parent, *load(course).places().values()]
    for place in packages:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


# --- where grades are written ---------------------------------------------------------


class _Task:
    """A submission that is being judged somewhere.

    Attributes:
        allowed: the workers that it was given to.
        futures: of the same judgement, one for each that was handed in.
    """

    def __init__(self, job: Job, intake: Intake, setup: str):
        self.job, self.intake, self.began = job, intake, time.monotonic()
        self.plain = intake.plain()
        text = setup + json.dumps(self.plain, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        self.failures, self.allowed = 0, set[str]()
        self.futures: list[Future] = []

    def release(self) -> None:
        """Have the cluster forget it."""
        for future in self.futures:
            future.release()
        self.futures = []


class Cluster:
    """The workers of a scheduler, and what they are doing for us.

    Args:
        address: of the scheduler.
        setup: of the lab; see `grade_all`.
        straggler_seconds: after which a submission is given to a second worker.
        log: for what the instructor should know.
    """

    def __init__(
        self,
        address: str,
        setup: Mapping[str, Any],
        straggler_seconds: float | int,
        log: logging.Logger,
    ):
        self.address, self.log = address, log
        self.straggler_seconds = straggler_seconds
        self.setup = json.dumps({**setup, "kept": ""}, sort_keys=True)
        self.test = setup["course"], setup["walls"], code_of(setup["course"])
        self.grader = Grader(
            load(setup["course"]),
            setup["lab"],
            setup["source"],
            bytes.fromhex(setup["secret"]),
            setup["walls"],
            Limits(**setup["limits"]),
            Path(setup["kept"]),
        )
        self.tasks: list[_Task] = []
        self.again: deque[_Task] = deque()
        self.copies, self.served = 0, False
        # what it says of a lost connection is a page; this says it in a line
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._connect(time.monotonic())

    def grade(self, jobs: Iterable[Job | None]) -> Iterator[dict[str, Any]]:
        """Grade submissions; see `grade_all`.

        Raises:
            ClusterError: for too long there was no scheduler, or no worker that may
                grade.
        """
        coming, more = iter(jobs), True
        while more or self.tasks or self.again:
            try:
                self._call_roll()
                while len(self.tasks) < self._room() and (more or self.again):
                    if self.again:
                        self._submit(self.again.popleft(), self.admitted)
                        continue
                    job = next(coming, _END)
                    more = job is not _END
                    if not isinstance(job, Job):
                        break
                    try:
                        intake = self.grader.take_in(job.folder)
                    except Exception as error:  # whatever was handed in
                        reason = f"the grader itself failed: {error}"
                        yield failed(job, self.grader.lab, reason)
                        continue
                    self._submit(_Task(job, intake, self.setup), self.admitted)
                for task in list(self.tasks):
                    if result := self._look(task):
                        self.tasks.remove(task)
                        task.release()
                        yield result
            except (OSError, TimeoutError) as error:
                if isinstance(error, ClusterError):
                    raise
                self._lost(str(error))
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Let the cluster go; what it still does for us is forgotten there."""
        with contextlib.suppress(Exception):  # it may have gone before
            self.client.close(timeout=2)

    def _connect(self, since: float | int) -> None:
        while True:
            try:
                self.client = Client(
                    self.address, timeout=5, set_as_default=False, name="nbjudge"
                )
                break
            except (OSError, TimeoutError, ValueError) as error:
                first = since + AWAY_SECONDS if hasattr(self, "client") else 0.0
                if time.monotonic() > first:
                    raise ClusterError(
                        f"no Dask scheduler answers at {self.address} ({error})"
                    ) from error
        self.threads: dict[str, int] = {}
        self.admitted, self.refused = set[str](), dict[str, str]()
        self.tests: dict[str, Future] = {}
        self.roll_call, self.usable = 0.0, time.monotonic()

    def _lost(self, reason: str) -> None:
        """Begin anew with a scheduler that has gone, and forgotten everything."""
        self.log.warning("the scheduler has gone (%s); waiting for it", reason)
        began = time.monotonic()
        self.close()
        self._connect(began)
        for task in self.tasks:
            task.futures = []
        self.again.extend(self.tasks)
        self.tasks = []

    def _call_roll(self) -> None:
        """See which workers there are, and test new ones."""
        now = time.monotonic()
        if now < self.roll_call:
            return
        self.roll_call = now + ROLL_CALL_SECONDS
        self.threads = dict(self.client.nthreads())
        self.admitted &= self.threads.keys()
        for worker in self.threads.keys() - self.tests.keys():
            self.tests[worker] = self.client.submit(
                refusal,
                *self.test,
                workers=[worker],
                key=f"test {worker} {self.test[-1]} {self.copies}",
                pure=False,
            )
        for worker in self.tests.keys() - self.threads.keys():
            del self.tests[worker]
        for worker, test in self.tests.items():
            if worker in self.admitted or worker in self.refused or not test.done():
                continue
            error = test.exception(timeout=5)
            reason = repr(error) if error else test.result(timeout=5)
            if reason:
                self.refused[worker] = printable(reason)
                self.log.warning(
                    "%s gets no submission: %s", worker, self.refused[worker]
                )
            else:
                self.admitted.add(worker)
        testing = any(not test.done() for test in self.tests.values())
        self.served |= bool(self.admitted)
        hopeless = self.refused and not self.served
        if self.admitted or testing:
            self.usable = now
        elif now - self.usable > (REFUSED_SECONDS if hopeless else AWAY_SECONDS):
            reasons = "; ".join(sorted({*self.refused.values()})) or "there are none"
            raise ClusterError(f"no worker of {self.address} may grade: {reasons}")

    def _room(self) -> int:
        """Count the submissions that may be with the cluster at a time."""
        return 2 * sum(self.threads.get(worker, 0) for worker in self.admitted)

    def _submit(self, task: _Task, workers: set[str]) -> None:
        """Hand a submission in to one of these; a further time under a further name.

        Under the same one, the scheduler would go on waiting for the workers of the
        first time.
        """
        again = f" {self.copies}" if task.allowed else ""
        self.copies += bool(again)
        task.allowed, task.began = task.allowed | workers, time.monotonic()
        task.futures.append(
            self.client.submit(
                judge,
                self.setup,
                task.plain,
                workers=sorted(workers),
                key=f"{task.hash}{again}",
                pure=False,
            )
        )
        if task not in self.tasks:
            self.tasks.append(task)

    def _look(self, task: _Task) -> dict[str, Any] | None:
        """Return a submission's result, if there is one; mend what went wrong."""
        for future in task.futures:
            if future.status == "finished":
                said = future.result(timeout=60)
                if "problem" not in said:
                    return self._result(task, said)
                return self._failure(task, said["problem"])
            if future.status == "error":
                return self._failure(task, repr(future.exception(timeout=60)))
            if future.status in ("cancelled", "lost"):
                raise OSError("it has forgotten a submission")
        if not task.allowed & self.admitted and self.admitted:
            task.release()
            self._submit(task, self.admitted)
        elif time.monotonic() - task.began > self.straggler_seconds:
            task.began = time.monotonic()
            if others := self.admitted - self._having(task):
                self._submit(task, others)
        return None

    def _having(self, task: _Task) -> set[str]:
        """Return the workers that a submission waits or runs on."""
        keys = {future.key for future in task.futures}
        doing = self.client.processing()
        return {worker for worker, has in doing.items() if keys & {*has}}

    def _failure(self, task: _Task, reason: str) -> dict[str, Any] | None:
        task.failures += 1
        task.release()
        if task.failures == ATTEMPTS:
            reason = f"the grader itself failed: {printable(reason)}"
            return failed(task.job, self.grader.lab, reason)
        # not at once: there may be no worker now that may have it
        self.tasks.remove(task)
        self.again.append(task)
        return None

    def _result(self, task: _Task, said: dict[str, Any]) -> dict[str, Any]:
        ran = [CellOutcome(CodeCell(*cell), *more) for cell, *more in said["ran"]]
        verdicts = [
            Verdict(points, html, tuple(mistakes), trouble, tuple(held))
            for points, html, mistakes, trouble, held in said["verdicts"]
        ]
        seconds = time.monotonic() - task.began
        return self.grader.result(task.job.student, task.intake, ran, verdicts, seconds)


_END = object()
