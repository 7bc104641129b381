"""Many submissions at once: a few grading processes, and one stream of results."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attention_course.grader.intake import PERSON

# A grading process that ends on a submission is started anew for it, so often.
ATTEMPTS = 3


class Job(NamedTuple):
    """A submission to grade."""

    student: str
    folder: Path


def grade_all(jobs: Sequence[Job], setup: Mapping[str, Any], workers: int) -> Iterator[dict[str, Any]]:
    """Grade submissions, each in a process that knows nothing of the gradebook.

    Args:
        jobs: what to grade.
        setup: what every grading process is told first: lab, source, secret, walls, limits.
        workers: how many grading processes.

    Yields:
        What `Grader.grade` returns, in the order in which they are done.
    """
    waiting: queue.Queue[Job] = queue.Queue()
    for job in jobs:
        waiting.put(job)
    done: queue.Queue[dict[str, Any]] = queue.Queue()
    workers = max(1, min(workers, len(jobs)))
    threads = [threading.Thread(target=_work, args=(waiting, done, setup), daemon=True)
               for _ in range(workers)]  # fmt: skip
    for thread in threads:
        thread.start()
    for _ in jobs:
        yield done.get()


def _work(waiting: "queue.Queue[Job]", done: "queue.Queue[dict[str, Any]]", setup: Any) -> None:
    process: subprocess.Popen[str] | None = None
    while True:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            break
        result, error = None, ""
        for _ in range(ATTEMPTS):
            process = process or _start(setup)
            result, error = _one(process, job)
            if result is not None:
                break
            process.kill()
            process.wait()
            process = None
        done.put(result or failed(job, setup, f"the grader itself failed: {error}"))
    if process is not None:
        process.communicate()


def failed(job: Job, setup: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Make the result of a submission that could not be graded at all."""
    record = {"student": job.student, "lab": setup["lab"], "folder": "", "sha256": "", "status": PERSON, "reason": reason,
              "points": None, "possible": None, "questions": [], "flags": []}  # fmt: skip
    return {"record": record, "notebook": None, "seconds": 0.0}


def _start(setup: Mapping[str, Any]) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "attention_course.grader.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(setup) + "\n")
    except OSError:
        pass  # it has ended: the first job will tell
    return process


def _one(process: "subprocess.Popen[str]", job: Job) -> tuple[dict[str, Any] | None, str]:
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        process.stdin.write(json.dumps({"student": job.student, "folder": str(job.folder)}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline()), ""
    except (OSError, ValueError):
        process.kill()
        lines = process.stderr.read().strip().splitlines()
        return None, (lines or ["it was killed"])[-1][:200]
