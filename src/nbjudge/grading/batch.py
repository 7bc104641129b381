"""Many submissions at once: a queue of jobs, and workers that are started and replaced.

`concurrent.futures` has pools of processes, but one that is killed breaks its pool, and
all that it still had to do is lost. Here it is started anew, and none is lost.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nbjudge.grading.record import PERSON

# A grading process that ends on a submission is started anew for it, so often.
ATTEMPTS = 3


class Job(NamedTuple):
    """A submission to grade."""

    student: str
    folder: Path


def grade_all(
    jobs: Sequence[Job], setup: Mapping[str, Any], workers: int
) -> Iterator[dict[str, Any]]:
    """Grade submissions, each in a process that knows nothing of the gradebook.

    Args:
        jobs: what to grade.
        setup: what every grading process is told first: lab, source, secret, walls,
            limits.
        workers: how many grading processes.

    Yields:
        What `Grader.grade` returns, in the order in which they are done.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    done: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for _ in range(min(max(workers, 1), len(jobs))):
        # a daemon: who stops the batch does not wait for it
        work = threading.Thread(target=_work, args=(waiting, done, setup), daemon=True)
        work.start()
    for _ in jobs:
        yield done.get()


def _work(
    waiting: queue.SimpleQueue[Job],
    done: queue.SimpleQueue[dict[str, Any]],
    setup: Mapping[str, Any],
) -> None:
    worker, error = Worker(setup), ""
    with contextlib.suppress(queue.Empty):
        while True:
            job = waiting.get_nowait()
            for _ in range(ATTEMPTS):
                if result := worker.grade(job):
                    break
                error = f"the grader itself failed: {worker.last_words()}"
                worker = Worker(setup)
            done.put(result or failed(job, setup["lab"], error))
    worker.close()


def failed(job: Job, lab: str, reason: str) -> dict[str, Any]:
    """Make the result of a submission that could not be graded at all."""
    record: dict[str, Any] = {"student": job.student, "lab": lab, "reason": reason}
    record.update(folder="", sha256="", status=PERSON, points=None, possible=None)
    record.update(questions=[], flags=[])
    return {"record": record, "notebook": None, "seconds": 0.0}


class Worker:
    """A grading process.

    Args:
        setup: what it is told first.
    """

    def __init__(self, setup: Mapping[str, Any]):
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nbjudge.grading.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # the questions may be where only nbgrader_config.py looks
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._say(setup)

    def grade(self, job: Job) -> dict[str, Any] | None:
        """Grade a submission; None if the process has ended on it."""
        self._say({"student": job.student, "folder": str(job.folder)})
        assert self._process.stdout is not None
        try:
            result: dict[str, Any] = json.loads(self._process.stdout.readline())
            return result
        except ValueError:
            return None

    def last_words(self) -> str:
        """End it and return the last line that it wrote."""
        self._process.kill()
        self._process.communicate()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self._errors.close()
        return lines[-1][:200] if lines else "it was killed"

    def close(self) -> None:
        """Let it finish."""
        self._process.communicate()
        self._errors.close()

    def _say(self, message: Any) -> None:
        assert self._process.stdin is not None
        # it has ended: no answer will come, and that is noticed
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
