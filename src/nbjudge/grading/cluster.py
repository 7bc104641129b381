"""Grade submissions on other machines, with Dask distributed.

Workers get a submission as bytes and send back the results of its cells and questions;
folders, gradebook and records exist only here. If a worker, the scheduler or the
network loses a submission, it is sent again under the same hash. Each submission has
only one result: the first that arrives. To grade on this machine, see `batch`.
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
# How long to wait if no worker of the scheduler has ever been fit to grade.
REFUSED_SECONDS = 60.0


class ClusterError(OSError):
    """The cluster cannot grade; the message says why in one line."""


# --- on a worker ----------------------------------------------------------------------

_idle: dict[str, list[Worker]] = {}
_using = threading.Lock()


def judge(setup: str, intake: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a submission in a process that is kept for the next one.

    Args:
        setup: the setup of the lab, as JSON.
        intake: see `Intake.plain`.

    Returns:
        What the process returned; see `nbjudge.grading.worker`.
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
    """Return why a worker may not grade, in one line; empty if it may.

    Args:
        course: the module of the questions.
        walls: whether it has to isolate submissions.
        code: the hash that `code_of` returns where grades are written.
    """
    if code_of(course) != code:
        return "its course, judge or torch is another version"
    reason = prove(Limits()) if walls else ""
    return reason and f"it has no walls: {reason}"


def code_of(course: str) -> str:
    """Hash what scores depend on: course packages, nbjudge, and torch's version."""
    total = hashlib.sha256(torch.__version__.encode())
    packages = [Path(nbjudge.__file__).parent, *load(course).places().values()]
    for place in packages:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


# --- where grades are written ---------------------------------------------------------


class _Task:
    """A submission that is being judged on the cluster.

    Attributes:
        allowed: the workers that it was given to.
        futures: one for each time it was sent, all for the same judgment.
    """

    def __init__(self, job: Job, intake: Intake, setup: str):
        self.job, self.intake, self.began = job, intake, time.monotonic()
        self.plain = intake.plain()
        text = setup + json.dumps(self.plain, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        self.failures, self.allowed = 0, set[str]()
        self.futures: list[Future] = []

    def release(self) -> None:
        """Let the cluster forget the submission."""
        for future in self.futures:
            future.release()
        self.futures = []


class Cluster:
    """The workers of a scheduler, and the submissions that they are judging for us.

    Args:
        address: address of the scheduler.
        setup: the setup of the lab; see `grade_all`.
        straggler_seconds: seconds after which a submission is given to a second worker.
        log: for messages to the instructor.
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
        # its messages about a lost connection fill a page; ours is one line
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._connect(time.monotonic())

    def grade(self, jobs: Iterable[Job | None]) -> Iterator[dict[str, Any]]:
        """Grade submissions; see `grade_all`.

        Raises:
            ClusterError: for too long, there was no scheduler, or no worker that may
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
        """Disconnect; the cluster forgets what it is still doing for us."""
        with contextlib.suppress(Exception):  # it may already be gone
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
        """Start again after the scheduler has gone and forgotten everything."""
        self.log.warning("the scheduler has gone (%s); waiting for it", reason)
        began = time.monotonic()
        self.close()
        self._connect(began)
        for task in self.tasks:
            task.futures = []
        self.again.extend(self.tasks)
        self.tasks = []

    def _call_roll(self) -> None:
        """Find out which workers there are, and test new ones."""
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
        """Return the number of submissions that may be on the cluster at a time."""
        return 2 * sum(self.threads.get(worker, 0) for worker in self.admitted)

    def _submit(self, task: _Task, workers: set[str]) -> None:
        """Send a submission to some workers; if sent again, it gets a new name.

        Under the old name, the scheduler would keep waiting for the first workers.
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
        """Return a submission's result, if there is one; send it again if needed."""
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
        """Return the workers on which a submission is waiting or running."""
        keys = {future.key for future in task.futures}
        doing = self.client.processing()
        return {worker for worker, has in doing.items() if keys & {*has}}

    def _failure(self, task: _Task, reason: str) -> dict[str, Any] | None:
        task.failures += 1
        task.release()
        if task.failures == ATTEMPTS:
            reason = f"the grader itself failed: {printable(reason)}"
            return failed(task.job, self.grader.lab, reason)
        # not at once: there may be no suitable worker at the moment
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
