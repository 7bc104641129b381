"""`make scale-check`: where the time of a submission goes, graders that share a gradebook
on PostgreSQL, and a cluster, under load and while parts of them break.

What a part found is kept in _build/scale/COMMIT, so that a run that was stopped goes on
with the next part.
"""

import argparse
import contextlib
import json
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import submissions
from measure.attacks import _share, throughput
from measure.report import ROOT, Row, commit, row, write
from servers import Cluster, Postgres, postgres_programs
from submissions import RELEASED, SOLVED
from test_scale import (
    POINTS,
    SCORES,
    graded_here,
    hand_in,
    handed_in,
    notebook,
    on_server,
    records_of,
    start,
    unlike,
)
from test_trusted import COURSE, setup_of

from nbjudge.grading import judge, worker
from nbjudge.grading.sandbox import process
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove
from nbjudge.grading.sandbox.usage import cpu_used
from nbjudge.grading.worker import Grader

KEPT = ROOT / "_build" / "scale"
WAITING_SECONDS = 60.0


def phases(count) -> list[Row]:
    """Add up the CPU time of each part of a warm submission, right in everything."""
    taken, inside = {}, [0.0]

    def timed(place, name, phase):
        function = getattr(place, name)

        def measured(*arguments):
            began = time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent = time.thread_time() - began
                taken[phase] = taken.get(phase, 0.0) + spent

        setattr(place, name, measured)
        return lambda: setattr(place, name, function)

    def close(box, whole=process.Sandbox.close):
        inside[0] += cpu_used(box.nursery.leader)
        whole(box)

    grader = Grader(COURSE, submissions.LAB, RELEASED["cells"], b"s" * 32, True, LIMITS)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(grader):
        submissions.hand_in(Path(folder), SOLVED)
        grader.grade("warm", Path(folder))
        whole = process.Sandbox.close
        process.Sandbox.close = close
        warm = cpu_used(grader.nursery.leader)
        undo = [
            timed(worker, "take_in", "read what was handed in"),
            timed(judge.Judge, "_run_cells", "wait for the cells"),
            timed(process.wire, "send", "send requests"),
            timed(process.wire, "receive", "read replies"),
            timed(judge, "_checked", "check and clean replies"),
            timed(process.Sandbox, "_watch", "watch memory and time"),
            timed(worker, "notebook", "make the notebook"),
        ]
        began = time.process_time()
        for _ in range(count):
            grader.grade("student", Path(folder))
        spent = time.process_time() - began
        for back in undo:
            back()
        process.Sandbox.close = whole
    student = inside[0] - count * warm
    judging = spent - sum(taken.values())
    taken["the reference's numbers, and the comparison"] = judging
    made = [
        row(f"CPU time to {phase}", 1000 * seconds / count, "ms")
        if not phase.startswith("the ")
        else row(f"CPU time for {phase}", 1000 * seconds / count, "ms")
        for phase, seconds in sorted(taken.items(), key=lambda x: -x[1])
    ]
    return [
        row("CPU time of the judge for a submission", spent / count, "s"),
        *made,
        row("CPU time inside the sandbox for a submission", student / count, "s"),
    ]


LIMITS = Limits()


def shared(base, count, held) -> list[Row]:
    """Grade with two runs at once on PostgreSQL; restart the server, then hold a table."""
    import psycopg

    server = Postgres()
    try:
        course = on_server(base / "shared", server)
        wanted = {}
        for number in range(count):
            hand_in(
                course,
                f"student{number}",
                notebook("solutions" if number % 2 else "labs"),
            )
            wanted[f"student{number}"] = POINTS * (number % 2)
        began = time.monotonic()
        graders = [start(course, "--Autograde.workers=1") for _ in range(2)]
        said = ["", ""]

        def listen(number):
            said[number] = graders[number].stderr.read()

        listeners = [threading.Thread(target=listen, args=(n,)) for n in range(2)]
        for each in listeners:
            each.start()
        _until(lambda: len(records_of(course)) > count // 4, graders)
        server.restart()
        _until(lambda: len(records_of(course)) > count // 2, graders)
        with psycopg.connect(server.url.replace("+psycopg", "")) as holder:
            holder.execute("lock table grade in access exclusive mode")
            time.sleep(held)
            holder.rollback()
        for each in listeners:
            each.join()
        seconds = time.monotonic() - began
        graded = [re.findall(rf"\d/{count} (\w+): ", text) for text in said]
        both = set(graded[0]) & set(graded[1])
        twice = len(graded[0]) + len(graded[1]) - len({*graded[0], *graded[1]})
        found, booked = records_of(course), server.query(SCORES)
        scores = {student: score for student, _, score in booked}
        parts = {number for _, number, _ in booked}
    finally:
        server.close()
    note = f"two graders, a server restarted, a table held for {held:g} s"
    codes = [grader.wait() for grader in graders]
    why = "; ".join(text.strip()[-200:] for text, code in zip(said, codes) if code)
    return [
        row("PostgreSQL: submissions", count, "", note=note),
        row(
            "PostgreSQL: submissions without their record or with another score",
            sum(found.get(s) != p or scores.get(s) != p for s, p in wanted.items()),
            "submissions",
            at_most=0,
        ),
        row(
            "PostgreSQL: submissions graded twice",
            twice,
            "submissions",
            at_most=0,
            note=", ".join(sorted(both)),
        ),
        row(
            "PostgreSQL: submissions with more or fewer marks than the others",
            len(parts) - 1,
            "",
            at_most=0,
        ),
        row(
            "PostgreSQL: runs that failed",
            sum(map(bool, codes)),
            "runs",
            at_most=0,
            note=why,
        ),
        row("PostgreSQL: wall time", seconds, "s"),
    ]


def _until(happened, graders):
    while not happened() and any(grader.poll() is None for grader in graders):
        time.sleep(0.05)


def cluster(base, count, workers) -> list[Row]:
    """Grade on a cluster where nothing breaks.

    A scheduler also takes time while it waits. That is measured afterwards, with
    everything connected, and not counted as a submission's.
    """
    from nbjudge.grading.cluster import Cluster as Grading

    folder = base / f"cluster of {workers}"
    folder.mkdir()
    setup, jobs = setup_of(folder), handed_in(folder, count)
    made, points = Cluster(folder), {}
    try:
        for _ in range(workers):
            made.work()
        scheduler = made.scheduler.pid
        grading = Grading(made.address, setup, 900.0, logging.getLogger())
        for result in grading.grade(jobs):
            points[result["record"]["student"]] = result["record"]["points"]
            if len(points) == 2 * workers:  # each has started what it judges with
                before, began = _spent(scheduler), time.monotonic()
                ours = time.process_time()
        counted = count - 2 * workers
        ours = time.process_time() - ours
        seconds, used = time.monotonic() - began, _spent(scheduler) - before
        memory = [_memory(pid) for pid in (scheduler, os.getpid())]
        judging = [made.workers[0].pid, *submissions.below(made.workers[0].pid)]
        memory.append(sum(_share(Path(f"/proc/{pid}")) for pid in judging) / 1e3)
        before, idle = _spent(scheduler), time.monotonic()
        while time.monotonic() < idle + WAITING_SECONDS:
            grading._call_roll()  # as while submissions are judged
            time.sleep(0.1)
        waiting = (_spent(scheduler) - before) / (time.monotonic() - idle)
        grading.close()
    finally:
        made.close()
    full = sum(question.points for question in submissions.QUESTIONS)
    wrong = [
        job.student
        for number, job in enumerate(jobs)
        if points.get(job.student) != full - 3 * (number % 2)
    ]
    name = f"cluster of {workers}"
    return [
        row(f"{name}: submissions", count, ""),
        row(f"{name}: wrong or missing scores", len(wrong), "scores", at_most=0),
        row(
            f"{name}: CPU time of the scheduler for a submission",
            1000 * (used - waiting * seconds) / counted,
            "ms",
            at_most=10,
            note="beyond what it takes while it waits",
        ),
        row(
            f"{name}: CPU time of the scheduler while it waits",
            1000 * waiting,
            "ms per second",
        ),
        row(
            f"{name}: CPU time of the scheduler in all",
            1000 * used / counted,
            "ms",
            note="for each submission, at the rate of this run",
        ),
        row(
            f"{name}: CPU time of nbgrader's process for a submission",
            1000 * ours / counted,
            "ms",
        ),
        row(f"{name}: submissions per minute", 60 * counted / seconds, "1/min"),
        row(f"{name}: memory of the scheduler at the end", memory[0], "MB"),
        row(f"{name}: memory of nbgrader's process at the end", memory[1], "MB"),
        row(f"{name}: memory of a worker and what it keeps ready", memory[2], "MB"),
    ]


def faults(base, count) -> list[Row]:
    """Kill, stop and restart parts of a cluster, and compare with a local run."""
    from nbjudge.grading.cluster import Cluster as Grading

    folder = base / "faults"
    folder.mkdir()
    setup, jobs = setup_of(folder), handed_in(folder, count)
    wanted = graded_here(jobs[:2], setup)
    made, found, twice = Cluster(folder), {}, 0
    refused, busy = set(), []
    try:
        made.work(PATH="/nonexistent")
        for _ in range(4):
            made.work()
        grading = Grading(made.address, setup, 60.0, logging.getLogger())
        began = time.monotonic()
        for result in grading.grade(jobs):
            record = result["record"]
            twice += record["student"] in found
            found[record["student"]] = record
            refused |= grading.refused.keys()
            if len(found) == 2:
                busy.append(_strike(grading, signal.SIGKILL))
            if len(found) == count // 3:
                busy.append(_strike(grading, signal.SIGSTOP))
            if len(found) == 2 * count // 3:
                made.restart()
                for _ in range(4):
                    made.work()
        seconds = time.monotonic() - began
        grading.close()
    finally:
        made.close()
    odd = unlike(jobs, found, wanted)
    return [
        row("broken cluster: submissions", count, "", note="four workers"),
        row(
            "broken cluster: workers killed or stopped over a submission",
            sum(busy),
            "workers",
            at_least=2,
            note="one of each; a third of the way later, the scheduler is restarted",
        ),
        row(
            "broken cluster: workers without walls that were refused",
            len(refused),
            "workers",
            at_least=1,
        ),
        row(
            "broken cluster: records that are missing, or not those of a local run",
            len(odd),
            "records",
            at_most=0,
            note=", ".join(odd)[:200],
        ),
        row("broken cluster: records beyond one", twice, "records", at_most=0),
        row("broken cluster: wall time", seconds, "s"),
    ]


def _strike(grading, number) -> bool:
    """Send a signal to a worker that has a submission; whether there was one."""
    pids = grading.client.run(os.getpid)
    for address, keys in grading.client.processing().items():
        if any(not key.startswith("test ") for key in keys):
            for pid in (pids[address], *submissions.below(pids[address])):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            return True
    return False


def _spent(pid) -> float:
    """Return the seconds of CPU time of a process, by its clock."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), on Linux


def _memory(pid) -> float:
    """Return the megabytes of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1e3


def measured(name, measure) -> tuple[list[Row], float]:
    """Measure a part, unless that was done at this commit; its rows and seconds."""
    place = KEPT / commit() / f"{name}.json"
    if place.exists():
        kept = json.loads(place.read_text(encoding="utf-8"))
        return [Row(*each) for each in kept["rows"]], kept["seconds"]
    began, load = time.monotonic(), os.getloadavg()[0]
    rows = measure()
    seconds = time.monotonic() - began
    if load > 0.5:
        note = f"load from elsewhere: {load:.1f} on {os.cpu_count()} cores"
        rows = [
            each._replace(note=f"{each.note}; {note}".lstrip("; "))
            if each.unit in ("s", "1/min", "x") and "CPU" not in each.what
            else each
            for each in rows
        ]
    if not commit().endswith("-dirty"):
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = {"rows": [list(each) for each in rows], "seconds": seconds}
        place.write_text(json.dumps(kept), encoding="utf-8")
    return rows, seconds


PARTS = ["phases", "stock", "shared", "faults", "cluster1", "cluster2"]


def main() -> None:
    """Measure; the numbers say how much of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--submissions", type=int, default=1000)
    parser.add_argument("--held", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    chosen = parser.parse_args()
    needed = {"bubblewrap": not prove(Limits()), "postgresql": postgres_programs()}
    if missing := [name for name, there in needed.items() if not there]:
        sys.exit(f"error: on Debian and Ubuntu: apt-get install {' '.join(missing)}")
    logging.basicConfig(level=logging.WARNING)
    rows, seconds, count = [], 0.0, chosen.submissions
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        parts = {
            "phases": lambda: phases(min(count, 20)),
            "stock": lambda: throughput(base, min(count, 60)),
            "shared": lambda: shared(base, max(8, count // 10), chosen.held),
            "faults": lambda: faults(base, max(12, count // 10)),
            "cluster1": lambda: cluster(base, count, 1),
            "cluster2": lambda: cluster(base, count, 2),
        }
        for name in chosen.only:
            print(f"{name} ...", flush=True)
            found, taken = measured(f"{name} {count}", parts[name])
            rows += [*found, row(f"time for {name}", taken, "s")]
            seconds += taken
    write("scale", rows, seconds)
    sys.exit(any(each.holds is False for each in rows))


if __name__ == "__main__":
    main()
