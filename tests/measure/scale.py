"""`make scale-check`: where the time of a submission goes, graders that share a gradebook
on PostgreSQL, and a cluster, under load and while parts of them break."""

import argparse
import contextlib
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
from measure.attacks import throughput
from measure.report import Row, row, write
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
)
from test_trusted import COURSE, setup_of

from nbjudge.grading import judge, worker
from nbjudge.grading.sandbox import process
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove
from nbjudge.grading.sandbox.usage import cpu_used
from nbjudge.grading.worker import Grader

TICKS = os.sysconf("SC_CLK_TCK")


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
    note = f"two graders, a server restarted, a table held for {held} s"
    codes = [grader.wait() for grader in graders]
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
        row("PostgreSQL: runs that failed", sum(map(bool, codes)), "runs", at_most=0),
        row("PostgreSQL: wall time", seconds, "s"),
    ]


def _until(happened, graders):
    while not happened() and any(grader.poll() is None for grader in graders):
        time.sleep(0.05)


def cluster(base, count, workers) -> list[Row]:
    """Grade on a cluster where nothing breaks."""
    from nbjudge.grading.cluster import Cluster as Grading

    folder = base / f"cluster of {workers}"
    folder.mkdir()
    setup, jobs = setup_of(folder), handed_in(folder, count)
    made = Cluster(folder)
    try:
        for _ in range(workers):
            made.work()
        grading = Grading(made.address, setup, 900.0, logging.getLogger())
        results = grading.grade(jobs)
        points, used = {}, 0.0
        for result in results:
            points[result["record"]["student"]] = result["record"]["points"]
            if len(points) == 2 * workers:  # each has started what it judges with
                before, began = _spent(made.scheduler.pid), time.monotonic()
                ours = time.process_time()
        counted = count - 2 * workers
        used = _spent(made.scheduler.pid) - before
        ours = time.process_time() - ours
        seconds = time.monotonic() - began
        memory = _memory(made.scheduler.pid)
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
            1000 * used / counted,
            "ms",
            at_most=10,
        ),
        row(
            f"{name}: CPU time of nbgrader's process for a submission",
            1000 * ours / counted,
            "ms",
        ),
        row(f"{name}: submissions per minute", 60 * counted / seconds, "1/min"),
        row(f"{name}: memory of the scheduler at the end", memory, "MB"),
    ]


def faults(base, count) -> list[Row]:
    """Kill, stop and restart parts of a cluster, and compare with a local run."""
    from nbjudge.grading.cluster import Cluster as Grading

    folder = base / "faults"
    folder.mkdir()
    setup, jobs = setup_of(folder), handed_in(folder, count)
    wanted = graded_here(jobs[:2], setup)
    made, found, twice = Cluster(folder), {}, 0
    told = logging.getLogger("faults")
    try:
        made.work(PATH="/nonexistent")
        first = made.work()
        second = made.work()
        grading = Grading(made.address, setup, 60.0, told)
        began = time.monotonic()
        for result in grading.grade(jobs):
            record = result["record"]
            twice += record["student"] in found
            found[record["student"]] = record
            if len(found) == 1:
                first.kill()
                made.work()
            if len(found) == count // 3:
                for pid in (second.pid, *submissions.below(second.pid)):
                    os.kill(pid, signal.SIGSTOP)
            if len(found) == 2 * count // 3:
                made.restart()
                made.work()
                made.work()
        seconds = time.monotonic() - began
        grading.close()
    finally:
        made.close()
    odd = []
    for number, job in enumerate(jobs):
        like = wanted[jobs[number % 2].student]
        if {**found.get(job.student, {}), "student": like["student"]} != like:
            odd.append(job.student)
    note = "a worker killed, one stopped, one without walls; the scheduler restarted"
    return [
        row("broken cluster: submissions", count, "", note=note),
        row(
            "broken cluster: records that are not those of a local run",
            len(odd),
            "records",
            at_most=0,
            note=", ".join(odd)[:200],
        ),
        row("broken cluster: records beyond one", twice, "records", at_most=0),
        row("broken cluster: wall time", seconds, "s"),
    ]


def _spent(pid) -> float:
    """Return the seconds of CPU time of a process."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return sum(map(int, text.rpartition(")")[2].split()[11:13])) / TICKS


def _memory(pid) -> float:
    """Return the megabytes of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1e3


PARTS = ["phases", "stock", "shared", "cluster1", "cluster2", "faults"]


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
    began, rows, count = time.monotonic(), [], chosen.submissions
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        parts = {
            "phases": lambda: phases(min(count, 20)),
            "stock": lambda: throughput(base, min(count, 30)),
            "shared": lambda: shared(base, max(8, count // 10), chosen.held),
            "cluster1": lambda: cluster(base, count, 1),
            "cluster2": lambda: cluster(base, count, 2),
            "faults": lambda: faults(base, count),
        }
        for name in chosen.only:
            print(f"{name} ...", flush=True)
            rows += parts[name]()
    write("scale", rows, time.monotonic() - began)
    sys.exit(any(each.holds is False for each in rows))


if __name__ == "__main__":
    main()
