"""Grade many submissions on this machine: a queue of jobs, and replaceable workers.

`concurrent.futures` has pools of processes, but if a process is killed, its pool breaks
and all remaining work is lost. Here the process is started again, and no work is lost.
To grade on other machines, see `cluster`.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nbjudge.grading.record import PERSON
from nbjudge.grading.sandbox.proof import NoWalls

# How often a submission is tried if the grading process ends.
ATTEMPTS = 3
# How a grading process starts: searching what it imports for garbage would take a third
# of the time.
START = "import gc; gc.disable(); from nbjudge.grading.worker import main; main()"
# How long to wait for submissions that another run holds.
PAUSE_SECONDS = 0.2


class Job(NamedTuple):
    """A submission to grade."""

    student: str
    folder: Path

    def message(self) -> dict[str, str]:
        """Make the message that a grading process gets about the submission."""
        return {"student": self.student, "folder": str(self.folder)}


def grade_all(
    jobs: Iterable[Job | None], setup: Mapping[str, Any], workers: int
) -> Iterator[dict[str, Any]]:
    """Grade submissions in processes that know nothing of the gradebook.

    Args:
        jobs: the submissions to grade; None where there is nothing to do at the moment.
        setup: what every grading process gets first: lab, source, secret, walls,
            limits.
        workers: the number of grading processes.

    Yields:
        What `Grader.grade` returns, in the order in which it is finished.

    Raises:
        NoWalls: submissions cannot be isolated here.
    """
    waiting, pulling = iter(jobs), threading.Lock()
    done: queue.SimpleQueue[dict[str, Any] | Exception | None] = queue.SimpleQueue()
    threads = max(workers, 1)
    for _ in range(threads):
        # daemons, so that stopping the batch does not wait for them
        work = (waiting, pulling, done, setup)
        threading.Thread(target=_work, args=work, daemon=True).start()
    while threads:
        result = done.get()
        threads -= result is None
        if isinstance(result, Exception):
            raise result
        if result is not None:
            yield result


def _work(
    waiting: Iterator[Job | None],
    pulling: threading.Lock,
    done: queue.SimpleQueue[dict[str, Any] | Exception | None],
    setup: Mapping[str, Any],
) -> None:
    worker = None
    try:
        while True:
            with pulling:
                job = next(waiting)
            if job is None:
                time.sleep(PAUSE_SECONDS)
                continue
            worker, result = attempt(worker, setup, job.message())
            error = result.get("problem")
            done.put(failed(job, setup["lab"], error) if error else result)
    except StopIteration:
        done.put(None)
    except Exception as error:
        done.put(error)
    if worker is not None:
        worker.close()


def attempt(
    worker: "Worker | None", setup: Mapping[str, Any], message: Mapping[str, Any]
) -> tuple["Worker", dict[str, Any]]:
    """Have a process grade a submission; start a new one if the process ends.

    Args:
        worker: a process with this setup; None starts one.
        setup: what it gets first.
        message: the submission.

    Returns:
        The process for the next submission, and the result; if the process ended each
        time, the result is {"problem": why}.
    """
    worker, error = worker or Worker(setup), ""
    for _ in range(ATTEMPTS):
        if result := worker.ask(message):
            if reason := result.get("no walls"):
                raise NoWalls(reason)
            return worker, result
        error = f"the grader itself failed: {worker.last_words()}"
        worker = Worker(setup)
    return worker, {"problem": error}


def failed(job: Job, lab: str, reason: str) -> dict[str, Any]:
    """Make the result of a submission that could not be graded at all."""
    record: dict[str, Any] = {"student": job.student, "lab": lab, "reason": reason}
    record.update(folder="", sha256="", status=PERSON, points=None, possible=None)
    record.update(questions=[], flags=[])
    return {"record": record, "notebook": None, "seconds": 0.0}


class Worker:
    """A grading process.

    Args:
        setup: what it gets first.
    """

    def __init__(self, setup: Mapping[str, Any]):
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # the questions may be on a path that only nbgrader_config.py adds
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._say(setup)

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Hand over a submission; return the result, or None if the process ended."""
        self._say(message)
        assert self._process.stdout is not None
        try:
            result: dict[str, Any] = json.loads(self._process.stdout.readline())
            return result
        except ValueError:
            return None

    def last_words(self) -> str:
        """Kill the process and return the last line that it wrote."""
        self._process.kill()
        self._process.communicate()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self._errors.close()
        return lines[-1][:200] if lines else "it was killed"

    def close(self) -> None:
        """Let the process finish, and wait for it."""
        self._process.communicate()
        self._errors.close()

    def _say(self, message: Any) -> None:
        assert self._process.stdin is not None
        # if the process has ended, `ask` notices that no answer comes
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
