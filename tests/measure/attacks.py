"""`make attacks`: everything that may be handed in, graded by nbgrader's own command,
and what came of it."""

import argparse
import contextlib
import copy
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import submissions
from measure.report import Row, row, write
from submissions import RELEASED, SOLVED, read, records, scores

from nbjudge.grading.batch import Job, Worker
from nbjudge.grading.commands import nbgrader
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.nursery import Nursery
from nbjudge.grading.sandbox.proof import prove
from scripts.sample import prepare

ROOT = Path(__file__).parents[2]
LAB = submissions.LAB
ON_TWO_CORES = ["--Autograde.workers=2"]
# An endless loop is one after six seconds, too.
SHORT = [
    "--Autograde.cell_seconds=6",
    "--Autograde.question_seconds=6",
    "--Autograde.patience=20",
]


# A module that Python imports first of all.
JUMPS = """import itertools, time
_days, _time = itertools.cycle((0, 86400, -86400)), time.time
time.time = lambda: _time() + next(_days)
"""


def autograde(course, *arguments, wait=True, lab=LAB, clock=False, own_group=False):
    command = [sys.executable, "-m", "nbgrader", "autograde", lab, *arguments]
    (course / "clock").mkdir(exist_ok=True)
    (course / "clock" / "sitecustomize.py").write_text(JUMPS)
    path = [str(course / "clock")] * clock + [os.environ.get("PYTHONPATH", "")]
    started = subprocess.Popen(
        command,
        cwd=course,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        start_new_session=own_group,
    )
    return started.communicate()[1] if wait else started


def folder_of(course, student, lab=LAB):
    folder = course / "gradebook" / "submitted" / student / lab
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def new_course(base, name):
    course = base / name
    prepare(ROOT, LAB, course)
    return course


def attacks(base) -> list[Row]:
    """Hand in every row of the list at once, and a good submission before and after
    it."""
    course = new_course(base, "attacks")
    rows = [each for each in submissions.ROWS if each.lab == LAB]
    for each in rows:
        each.make(
            folder_of(course, each.name), copy.deepcopy(SOLVED), copy.deepcopy(RELEASED)
        )
    for name in ("0_first", "zz_last", *submissions.names(course)):
        submissions.hand_in(folder_of(course, name), SOLVED)
    secret = "canary-" + os.urandom(8).hex()
    os.environ["CANARY"] = secret
    began = time.monotonic()
    said = autograde(course, *ON_TWO_CORES, *SHORT)
    seconds = time.monotonic() - began
    found, booked = records(course), scores(course)
    wrong = {
        each.name: verdict
        for each in rows
        if (verdict := submissions.verdict(each, found.get(each.name)))
    }
    for name, needed in submissions.names(course).items():
        if needed not in found.get(name, {}).get("reason", ""):
            wrong[name] = str(found.get(name))
    for name in ("0_first", "zz_last"):
        if found.get(name, {}).get("points") != found.get(name, {}).get("possible"):
            wrong[name] = str(found.get(name))
    numbers = {each.number for each in rows if each.number < submissions.OWN} | {71}
    submitted = {path.name for path in (course / "gradebook" / "submitted").iterdir()}
    disagree = [
        n
        for n, record in found.items()
        if n in booked and booked[n] != record["points"]
    ]
    nbgrader(course, "generate_feedback", LAB)
    nbgrader(course, "export")
    differ = []
    for workers in (1, 8):
        for path in (course / "gradebook" / "records" / LAB).glob("*.json"):
            path.unlink()
        autograde(course, f"--Autograde.workers={workers}", *SHORT)
        again = records(course)
        differ += [
            f"{name} with {workers}"
            for name in submitted
            if _score(again.get(name)) != _score(found.get(name))
        ]
    kept = {path.name for path in (course / "gradebook" / "kept").iterdir()}
    seen = "".join(
        path.read_text(errors="replace")
        for place in ("autograded", "feedback")
        for path in (course / "gradebook" / place).rglob("*")
        if path.is_file()
    )
    canaries = [secret, str(course), sys.prefix, "BEGIN SOLUTION", str(ROOT / "src")]
    canaries.append((course / "gradebook" / "secret").read_text())
    leaked = submissions.leaks(seen, canaries)
    survivors = [
        p
        for p in Path("/proc").glob("[0-9]*/cmdline")
        if b"sandbox.server" in _bytes(p)
    ]
    summary = re.search(
        r"(\d+) submissions, (\d+) graded .*, (\d+) need a person", said
    )
    for name, verdict in wrong.items():
        print(f"  {name}: {verdict}")
    right = len(submitted) - len(wrong)
    unkept = {record["sha256"] for record in found.values()} - kept - {""}
    return [
        row(
            "submissions with the result that their row names",
            right,
            "submissions",
            len(submitted),
            note=_list(wrong),
        ),
        row(
            "rows of the list covered by these",
            len(numbers),
            "rows",
            71,
            note="row 72 is measured with the kills",
        ),
        row(
            "submissions beyond the list among these",
            sum(each.number >= submissions.OWN for each in rows),
            "",
        ),
        row(
            "I1 the batch goes on, and counts who needs a person",
            bool(summary),
            "runs",
            1,
            note=_found(summary, said),
        ),
        row("I2 records, one per submission", len(found), "records", len(submitted)),
        row(
            "I3 scores in the gradebook that are not the record's",
            len(disagree),
            "scores",
            at_most=0,
            note=_list(disagree),
        ),
        row("I4 processes left behind", len(survivors), "processes", at_most=0),
        row(
            "I5 wall time for all of them",
            seconds,
            "s",
            note="two workers, limits of 6 s",
        ),
        row(
            "I6 secrets, solutions, paths in what students see",
            len(leaked),
            "strings",
            at_most=0,
            note=_list(leaked),
        ),
        row(
            "I7 scores that differ with one or eight workers",
            len(differ),
            "scores",
            at_most=0,
            note=_list(differ),
        ),
        row(
            "I8 submitted notebooks not kept under their hash",
            len(unkept),
            "notebooks",
            at_most=0,
        ),
    ]


def elsewhere(base) -> list[Row]:
    """Hand in forged replies of every kind: those of the other labs, beside their
    solutions."""
    course, wrong, total = base / "elsewhere", {}, 0
    for lab in sorted({each.lab for each in submissions.ROWS} - {LAB}):
        prepare(ROOT, lab, course)
        solved, rows = (
            read("solutions", lab),
            [each for each in submissions.ROWS if each.lab == lab],
        )
        submissions.hand_in(folder_of(course, "solution", lab), solved, f"{lab}.ipynb")
        for each in rows:
            each.make(
                folder_of(course, each.name, lab),
                copy.deepcopy(solved),
                read("labs", lab),
            )
        autograde(course, *ON_TWO_CORES, lab=lab)
        found = records(course, lab)
        whole = found.get("solution", {})
        if not whole or whole["points"] != whole["possible"]:
            wrong[f"solution of {lab}"] = str(whole)
        wrong.update(
            (each.name, said)
            for each in rows
            if (said := submissions.verdict(each, found.get(each.name)))
        )
        total += 1 + len(rows)
    for name, said in wrong.items():
        print(f"  {name}: {said}")
    what = "submissions of the other labs with the result that their row names"
    return [row(what, total - len(wrong), "submissions", total, note=_list(wrong))]


def _score(record):
    """Return the part of a record that is the score, to the byte."""
    return (
        json.dumps([record["status"], record["points"], record["questions"]])
        if record
        else None
    )


def _list(names):
    return ", ".join(names)[:200]


def _found(match, text):
    return match.group(0) if match else text[-200:]


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def fuzz(base, count) -> list[Row]:
    """Break the solution at random, hand all of it in at once, and count the
    records."""
    from test_trusted import fuzzed

    course, generator = new_course(base, "fuzz"), random.Random(1)
    for number in range(count):
        (folder_of(course, f"student{number}") / f"{LAB}.ipynb").write_bytes(
            fuzzed(generator, SOLVED)
        )
    began = time.monotonic()
    said = autograde(course, *ON_TWO_CORES)
    seconds = time.monotonic() - began
    found = records(course)
    failed = [
        r["student"]
        for r in found.values()
        if "grader itself" in r["reason"] or "not in the" in r["reason"]
    ]
    return [
        row(
            "fuzzed notebooks with a record",
            len(found),
            "records",
            at_least=count,
            note="" if found else said[-200:],
        ),
        row(
            "fuzzed notebooks that the grader itself failed on",
            len(failed),
            "records",
            at_most=0,
            note=_list(failed),
        ),
        row(
            "fuzzed notebooks per minute",
            60 * count / seconds,
            "1/min",
            note="two workers",
        ),
    ]


def kills(base, count) -> list[Row]:
    """Kill judges, runners, the writer, and at last all of a batch, start it again, and
    look at the records.

    The writer is the batch's own process. Every third round a submission is replaced
    while it runs.
    """
    course, generator = new_course(base, "kills"), random.Random(2)
    full = sum(q.points for q in submissions.QUESTIONS)
    wanted = {}
    for number in range(6):
        wrong = number % 2
        submissions.hand_in(
            folder_of(course, f"student{number}"),
            submissions.with_dot(SOLVED, submissions.WRONG) if wrong else SOLVED,
        )
        wanted[f"student{number}"] = full - 3 * wrong
    began = time.monotonic()
    autograde(course, *ON_TWO_CORES)
    whole, bad, victims, attempt = time.monotonic() - began, [], {}, 0
    while sum(victims.values()) < count:
        attempt += 1
        for path in (course / "gradebook" / "records" / LAB).glob("*.json"):
            path.unlink()
        batch = autograde(course, *ON_TWO_CORES, wait=False)
        # before that there is nobody but the writer
        time.sleep(whole * generator.uniform(0.3, 0.6))
        for victim in (
            *generator.sample(["judge", "runner"], 2),
            generator.choice(["writer", "whole batch"]),
        ):
            time.sleep(whole * generator.uniform(0.0, 0.2))
            if hit := _kill(batch.pid, victim, generator):
                victims[hit] = victims.get(hit, 0) + 1
        if attempt % 3 == 2:
            submissions.hand_in(
                folder_of(course, "student1"),
                {**SOLVED, "metadata": {"attempt": attempt}},
            )
            wanted["student1"] = full
        batch.communicate()
        if batch.returncode or attempt % 3 == 2:
            half = records(course)
            if any(
                n != "student1" and r["points"] != wanted[n] for n, r in half.items()
            ):
                bad.append(f"round {attempt}, before it was started again: {half}")
            autograde(course, *ON_TWO_CORES)
        found, booked = records(course), scores(course)
        if {n: r["points"] for n, r in found.items()} != wanted or booked != wanted:
            bad.append(f"round {attempt}: {booked}")
    for each in bad:
        print(f"  {each}")
    note = ", ".join(f"{n} x {what}" for what, n in sorted(victims.items()))
    return [
        row(
            "kill -9 at random moments",
            sum(victims.values()),
            "kills",
            at_least=count,
            note=note,
        ),
        row(
            "rounds of them after which a record or a score was not right",
            len(bad),
            "rounds",
            at_most=0,
            note=f"{attempt} rounds, 6 submissions each",
        ),
    ]


def _kill(batch, victim, generator) -> str:
    """Kill the batch, or one of the processes below it, or all; says what was hit, if
    anything was."""
    marks = {"judge": b"grading.worker", "runner": b"sandbox.server"}
    below = [
        pid
        for pid in submissions.below(batch)
        if marks.get(victim, b"grading.") in _bytes(Path(f"/proc/{pid}/cmdline"))
    ]
    if victim in marks:
        chosen = [generator.choice(below)] if below else []
    else:
        chosen = [batch] + below * (victim == "whole batch")
    hit = ""
    for pid in chosen:
        # A process that has ended and was not waited for can be sent a signal, too.
        if _bytes(Path(f"/proc/{pid}/cmdline")):
            os.kill(pid, signal.SIGKILL)
            hit = victim
    return hit


def accidents(base) -> list[Row]:
    """Grade while something happens that is nobody's attack: the disk is full, there
    are two runs, the clock jumps, another program holds the gradebook, a person has
    marked, somebody presses Ctrl-C."""
    course, full = new_course(base, "accidents"), submissions.QUESTIONS
    wanted = {}

    def hand_in(number, attempt):
        wrong = number % 2
        made = submissions.with_dot(SOLVED, submissions.WRONG) if wrong else SOLVED
        submissions.hand_in(
            folder_of(course, f"student{number}"),
            {**made, "metadata": {**made["metadata"], "attempt": attempt}},
        )
        wanted[f"student{number}"] = sum(q.points for q in full) - 3 * wrong

    for number in range(4):
        hand_in(number, attempt=1)

    def again():
        nbgrader(course, "export")
        return "look again" in (course / "gradebook" / "grades.csv").read_text()

    def off(said, *needed):
        """Say what is not as it should be, and have all graded anew the next time."""
        found = {name: record["points"] for name, record in records(course).items()}
        odd = [f"{found}"] * (found != wanted) + [f"{scores(course)}"] * (
            scores(course) != wanted
        )
        odd += [said[-200:]] * (not all(text in said for text in needed))
        for path in (course / "gradebook" / "records" / LAB).glob("*.json"):
            path.unlink()
        return odd

    def told(what, odd):
        return row(what, len(odd), "things", at_most=0, note=_list(odd))

    runs = [autograde(course, *ON_TWO_CORES, wait=False) for _ in range(2)]
    said = [run.communicate()[1] for run in runs]
    rows = [told("wrong after two runs at once", off("".join(said)))]
    odd = off(autograde(course, *ON_TWO_CORES, clock=True))
    rows.append(told("wrong with a clock that jumps by a day at each look", odd))
    with _held(course, 60):
        odd = off(autograde(course, *ON_TWO_CORES), "another program holds")
    rows.append(told("wrong after the gradebook was held for 60 s", odd))
    submissions.query(
        course,
        "update grade set manual_score = 1 where id in"
        " (select id from grade where auto_score is not null limit 1)",
    )
    odd = off(autograde(course, *ON_TWO_CORES))
    odd += ["nothing has changed, but a score is to be looked at again"] * again()
    for number in range(4):
        hand_in(number, attempt=2)
    odd += off(autograde(course, *ON_TWO_CORES), "points by hand stand")
    odd += ["no score is to be looked at again"] * (not again())
    rows.append(told("wrong after a mark by hand and grading anew", odd))
    odd = _on_a_full_disk(course)
    rows.append(told("wrong after a disk that was full", odd + off("")))
    rows.append(
        row(
            "Ctrl-C to the last process of a fork bomb",
            _interrupted(base),
            "s",
            at_most=20,
            note="by the clock it has 100 s",
        )
    )
    return [*rows, *_sizes(base)]


@contextlib.contextmanager
def _held(course, seconds):
    """Hold the gradebook for so long, from now on."""
    database = sqlite3.connect(
        course / "gradebook" / "gradebook.db", check_same_thread=False
    )
    database.execute("begin immediate")
    timer = threading.Timer(seconds, database.close)
    timer.start()
    yield
    timer.join()


def _on_a_full_disk(course):
    """Grade with the gradebook on a disk that is full, and again when there is room."""
    script = """
        mount -t tmpfs none "$1" && cp -a gradebook/. "$1" && mount --bind "$1" gradebook
        size=$(du -sk gradebook | cut -f1)
        mount -o remount,size=$((size + 64))k "$1"
        head -c 1M /dev/zero 2> /dev/null > gradebook/filler
        "$2" -m nbgrader autograde "$3" --Autograde.trust_submissions=True
        rm gradebook/filler
        mount -o remount,size=1g "$1"
        "$2" -m nbgrader autograde "$3" --Autograde.trust_submissions=True
        umount gradebook && cp -a "$1/." gradebook
    """
    private = ["unshare", "--mount", *["--map-root-user"] * (os.getuid() != 0)]
    with tempfile.TemporaryDirectory() as place:
        command = [*private, "sh", "-c", script, "sh", place, sys.executable, LAB]
        done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    first = done.stderr.partition("the report is at")[0]
    odd = [done.stderr[-200:]] * (done.returncode != 0)
    odd += ["a traceback"] * ("Traceback" in done.stderr)
    return odd + [f"the disk was not full: {first}"] * (
        "stopped: [Errno 28]" not in first
    )


def _interrupted(base):
    """Press Ctrl-C in a fork bomb; returns the seconds until nothing of it is left."""
    course = new_course(base, "interrupted")
    (bomb,) = [each for each in submissions.ROWS if each.name == "fork_bomb"]
    bomb.make(folder_of(course, "bomb"), copy.deepcopy(SOLVED), None)
    batch, inside = autograde(course, wait=False, own_group=True), []
    while len(inside) < 40 and batch.poll() is None:
        inside = [
            pid
            for pid in submissions.below(batch.pid)
            if b"sandbox.server" in _bytes(Path(f"/proc/{pid}/cmdline"))
        ]
    began = time.monotonic()
    os.killpg(batch.pid, signal.SIGINT)
    batch.communicate()
    while any(_bytes(Path(f"/proc/{pid}/cmdline")) for pid in inside):
        time.sleep(0.05)
    return time.monotonic() - began


def _sizes(base):
    """Grade a notebook that sleeps in every cell, and one that prints in every cell."""
    course = new_course(base, "sizes")
    sleeps = [submissions.code("import time\ntime.sleep(60)")] * 40
    submissions.hand_in(
        folder_of(course, "sleeper"), {**SOLVED, "cells": sleeps + SOLVED["cells"]}
    )
    began = time.monotonic()
    autograde(course)
    seconds = time.monotonic() - began
    (prints,) = [r for r in submissions.ROWS if r.name == "prints_in_every_cell"]
    prints.make(folder_of(course, "printer"), copy.deepcopy(SOLVED), None)
    autograde(course)
    nbgrader(course, "generate_feedback", LAB)
    pages = (course / "gradebook" / "feedback" / "printer").rglob("*.html")
    megabytes = max((page.stat().st_size / 1e6 for page in pages), default=None)
    code = (
        "import resource; from nbjudge.grading.notebooks import read_cells\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3\n"
        "content = b'[' + b'[],' * 6_000_000 + b'1]'; before = most()\n"
        "try: read_cells(content, [])\nexcept Exception: print(most() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return [
        row(
            "a notebook of 40 cells that sleep for a minute", seconds, "s", at_most=120
        ),
        row("the page of 1900 cells that print", megabytes, "MB", at_most=4),
        row(
            "memory that 18 MB of empty lists take",
            float(done.stdout),
            "MB",
            at_most=60,
        ),
    ]


def throughput(base, count) -> list[Row]:
    """Grade the same submissions with ours, with stock nbgrader, and with ours again.

    Cells that only show something are not handed in: ours would skip them, and stock
    would train the lab's models.
    """
    course = new_course(base, "throughput")
    solved = {
        **SOLVED,
        "cells": [cell for cell in SOLVED["cells"] if not cell["metadata"].get("show")],
    }
    for number in range(count):
        notebook = (
            submissions.with_dot(solved, submissions.WRONG)
            if number % 3 == 0
            else solved
        )
        submissions.hand_in(folder_of(course, f"student{number:02}"), notebook)
    config = course / "nbgrader_config.py"
    text = config.read_text()

    def timed(ours):
        config.write_text(text if ours else text.replace("install()\n", ""))
        for place in ("gradebook.db", "autograded", "records"):
            path = course / "gradebook" / place
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        nbgrader(course, "generate_assignment", LAB, "--force")
        began, before = time.monotonic(), _used()
        said = autograde(course, *(ON_TWO_CORES if ours else []))
        return time.monotonic() - began, _used() - before, scores(course), said

    first, stock, second = timed(ours=True), timed(ours=False), timed(ours=True)
    same = sum(first[2].get(name) == score for name, score in stock[2].items())
    per_minute, stock_per_minute = (
        60 * count * 2 / (first[0] + second[0]),
        60 * count / stock[0],
    )
    return [
        row(
            "submissions per minute, ours",
            per_minute,
            "1/min",
            note=f"{count} submissions, two workers; one run before stock's, one after",
        ),
        row(
            "submissions per minute, stock nbgrader autograde",
            stock_per_minute,
            "1/min",
            note=f"the same submissions, {same} with the same score"
            + ("" if same else stock[3][-150:]),
        ),
        row("ours against stock", per_minute / stock_per_minute, "x", at_least=5),
        row(
            "CPU time of a submission, ours",
            (first[1] + second[1]) / 2 / count,
            "s",
            note="without what runs in the sandbox",
        ),
        row("CPU time of a submission, stock", stock[1] / count, "s"),
    ]


def _used() -> float:
    """Return the CPU seconds of all that was started here and has ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def walls_cost(count=15) -> list[Row]:
    """Time forking a process with and without walls, taking turns."""
    open_, walled = (
        Nursery("attention_labs", ["dot"], [], Limits(), walls)
        for walls in (False, True)
    )
    taken = {False: [], True: []}
    try:
        for _ in range(count):
            for nursery in (open_, walled):
                began = time.perf_counter()
                box = nursery.sandbox()
                box.call(
                    "cell", {"name": "", "source": "", "seed": 0}, time.monotonic() + 60
                )
                box.close()
                taken[nursery is walled].append(time.perf_counter() - began)
    finally:
        open_.close()
        walled.close()
    seconds, memory = _one_worker()
    cost = statistics.median(taken[True]) - statistics.median(taken[False])
    return [
        row(
            "what the walls cost a submission",
            cost,
            "s",
            at_most=0.1,
            note="median of a fork with less one without",
        ),
        row(
            "one submission, from its files to its record",
            seconds,
            "s",
            note="warm, one worker",
        ),
        row(
            "most memory of a worker while it grades",
            memory,
            "MB",
            note=(
                "judge, runner and the student's processes, pages that they share once"
            ),
        ),
    ]


def _one_worker() -> tuple[float, float]:
    """Grade the solution with one worker; returns the median of its seconds and the
    most megabytes that it had."""
    setup = {
        "course": "attention_labs",
        "lab": LAB,
        "source": RELEASED["cells"],
        "secret": "00" * 32,
        "walls": True,
    }
    with tempfile.TemporaryDirectory() as directory:
        submissions.hand_in(Path(directory), SOLVED)
        worker = Worker({**setup, "kept": directory, "limits": Limits()._asdict()})
        job = Job("student", Path(directory)).message()
        most, done = [0], threading.Event()

        def watch():
            while not done.wait(0.05):
                pids = [worker._process.pid, *submissions.below(worker._process.pid)]
                most.append(sum(_share(Path(f"/proc/{pid}")) for pid in pids))

        watcher = threading.Thread(target=watch)
        worker.ask(job)
        seconds = [worker.ask(job)["seconds"] for _ in range(5)]
        watcher.start()
        worker.ask(job)
        done.set()
        watcher.join()
        worker.close()
    return statistics.median(seconds), max(most) / 1e3


def _share(process) -> int:
    """Return a process's share of the memory that it uses, in kilobytes."""
    return int(
        (
            re.findall(
                rb"^Pss:\s+(\d+)", _bytes(process / "smaps_rollup"), re.MULTILINE
            )
            or [0]
        )[0]
    )


PARTS = ["walls", "throughput", "attacks", "elsewhere", "accidents", "fuzz", "kills"]


def main() -> None:
    """Measure; the numbers say how much of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fuzzed", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    chosen = parser.parse_args()
    # in the background of a shell, Ctrl-C would be ignored by all that is started
    signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = prove(Limits())
    if missing:
        sys.exit(
            f"error: no walls here: {missing}; on Debian and Ubuntu: apt-get install"
            " bubblewrap"
        )
    began, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        parts = {
            "attacks": lambda: attacks(base),
            "elsewhere": lambda: elsewhere(base),
            "accidents": lambda: accidents(base),
            "walls": walls_cost,
            "throughput": lambda: throughput(base, chosen.submissions),
            "fuzz": lambda: fuzz(base, chosen.fuzzed),
            "kills": lambda: kills(base, chosen.kills),
        }
        for name in chosen.only:
            print(f"{name} ...", flush=True)
            started = time.monotonic()
            rows += parts[name]()
            rows.append(row(f"time for {name}", time.monotonic() - started, "s"))
    write("attacks", rows, time.monotonic() - began)
    sys.exit(any(each.holds is False for each in rows))


if __name__ == "__main__":
    main()
