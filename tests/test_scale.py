"""A gradebook on PostgreSQL, graders beside each other, and a cluster that grades.

What is handed in are the course's own notebooks, so that it is trusted; the cluster has
walls. Without PostgreSQL or Dask these tests skip by name.
"""

import csv
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import submissions
from servers import Cluster, Postgres, postgres_programs
from submissions import SOLVED
from test_gradebook import LAB, POINTS, ROOT, hand_in, notebook
from test_trusted import formgrader, setup_of, walls  # noqa: F401

from nbjudge.grading.batch import Job, grade_all
from nbjudge.grading.claims import claims
from nbjudge.grading.cluster import REFUSED_SECONDS, ClusterError
from nbjudge.grading.cluster import Cluster as Client
from nbjudge.grading.commands import nbgrader
from nbjudge.grading.gradebook import GradebookWriter

TRUST = "--Autograde.trust_submissions=True"
SCORES = """
    select submitted_assignment.student_id, count(*), sum(grade.auto_score) from grade
    join submitted_notebook on submitted_notebook.id = grade.notebook_id
    join submitted_assignment on submitted_assignment.id =
    submitted_notebook.assignment_id
    group by submitted_assignment.student_id
"""


def needs(*modules):
    missing = [each for each in modules if importlib.util.find_spec(each) is None]
    if "psycopg" in modules and postgres_programs() is None:
        missing.append("PostgreSQL (Debian: apt-get install postgresql)")
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")


on_postgres = needs("psycopg")
on_dask = needs("distributed")


@pytest.fixture(scope="module")
def server():
    made = Postgres(fsync="off")
    yield made
    made.close()


def on_server(course, server):
    """Make a course whose gradebook is on the server."""
    shutil.copytree(ROOT / "solutions" / LAB, course / "solutions" / LAB)
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    config += f"\nc.CourseDirectory.db_url = {server.url!r}\n"
    (course / "nbgrader_config.py").write_text(config, encoding="utf-8")
    nbgrader(course, "generate_assignment", LAB)
    return course


@pytest.fixture(scope="module")
def term(server, tmp_path_factory):
    """A course with four students, of whom half handed in the solution."""
    course = on_server(tmp_path_factory.mktemp("term") / "course", server)
    for number in range(4):
        kind = "solutions" if number % 2 else "labs"
        hand_in(course, f"student{number}", notebook(kind))
    return course


def start(course, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "nbgrader", "autograde", LAB, TRUST, *options],
        cwd=course,
        stderr=subprocess.PIPE,
        text=True,
    )


WANTED = {f"student{n}": POINTS * (n % 2) for n in range(4)}


def records_of(course):
    paths = (course / "gradebook" / "records" / LAB).glob("*.json")
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return {record["student"]: record["points"] for record in found}


@on_postgres
def test_graders_share_a_gradebook_on_a_server_that_is_restarted(server, term):
    """One is a person's Formgrader, which grades a submission and lists the others."""
    with formgrader(term) as ask:
        grader = start(term, "--Autograde.workers=1")
        asked = threading.Thread(
            target=ask, args=(f"api/submission/{LAB}/student3/autograde", b"")
        )
        asked.start()
        while not records_of(term):
            assert grader.poll() is None
            time.sleep(0.05)
        server.restart()
        said = grader.communicate()[1]
        asked.join()
        listed = json.loads(ask(f"api/submissions/{LAB}"))
    assert grader.returncode == 0, said
    log = (term / "server.log").read_text(encoding="utf-8")
    by = re.findall(r"\d/[14] (\w+): ", said + log)
    assert sorted(by) == sorted(WANTED), "one was graded twice"
    assert records_of(term) == WANTED
    counts = {student: (n, score) for student, n, score in server.query(SCORES)}
    assert {student: score for student, (_, score) in counts.items()} == WANTED
    assert len({n for n, _ in counts.values()}) == 1
    assert {each["student"]: each["score"] for each in listed} == WANTED


@on_postgres
def test_a_table_that_another_program_holds_is_waited_for(server, term):
    import psycopg

    coursedir = SimpleNamespace(db_url=server.url, course_id="attention")
    said = []
    with psycopg.connect(server.url.replace("+psycopg", "")) as holder:
        holder.execute("lock table student in access exclusive mode")

        def warn(text):
            said.append(text)
            holder.rollback()

        writer = SimpleNamespace(coursedir=coursedir, log=SimpleNamespace(warning=warn))
        assert sorted(GradebookWriter.roster(writer)) == sorted(WANTED)
    assert len(said) == 1 and "another program holds it" in said[0]


@on_postgres
def test_feedback_and_the_table_come_from_the_server(server, term):
    nbgrader(term, "generate_feedback", LAB)
    nbgrader(term, "export")
    with (term / "gradebook" / "grades.csv").open(newline="") as file:
        rows = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert rows == WANTED
    pages = (term / "gradebook" / "feedback").rglob(f"{LAB}.html")
    assert len(list(pages)) == 4
    assert not list(term.rglob("*.db"))


@on_postgres
def test_a_server_that_does_not_answer_is_one_line(server, term):
    with start(
        term, "--CourseDirectory.db_url=postgresql+psycopg:///x?host=/no"
    ) as run:
        said = run.stderr.read()
    assert run.returncode == 1 and said.count("\n") == 1, said
    assert "stopped: " in said and "/no" in said


@on_postgres
def test_a_claim_on_the_server_is_one_runs(server, tmp_path):
    """Also when the server has forgotten whose it was."""
    first, second = (claims(server.url, "course", tmp_path) for _ in range(2))
    assert first.take("lab", "ada") and not second.take("lab", "ada")
    assert second.take("lab", "ben") and second.take("other lab", "ada")
    server.stop()
    taken = []
    taking = threading.Thread(target=lambda: taken.append(second.take("lab", "ada")))
    taking.start()
    time.sleep(1.5)
    assert taking.is_alive() and not taken
    server.start()
    taking.join(60)
    assert taken == [True]
    kept = threading.Thread(target=first.keep, args=("lab", "ada"))
    kept.start()
    kept.join(0.5)
    assert kept.is_alive(), "two hold the same claim"
    second.release("lab", "ada")
    kept.join(30)
    assert not kept.is_alive() and not second.take("lab", "ada")
    first.close()
    second.keep("lab", "ada")
    second.close()


def test_a_claim_on_a_file_is_one_runs(tmp_path):
    first, second = (claims("sqlite:///x.db", "course", tmp_path) for _ in range(2))
    assert first.take("lab", "ada") and not second.take("lab", "ada")
    assert second.take("lab", "ben")
    first.release("lab", "ada")
    assert second.take("lab", "ada")
    second.close()
    assert first.take("lab", "ada")
    first.close()


# --- a cluster ------------------------------------------------------------------------


def handed_in(folder, count):
    """Give every second student the wrong answer to one question.

    No two hand in the same bytes, which a cluster would judge once.
    """
    jobs = [Job(f"student{n}", folder / f"student{n}") for n in range(count)]
    for number, job in enumerate(jobs):
        job.folder.mkdir()
        answer = submissions.WRONG if number % 2 else submissions.RIGHT
        mine = submissions.with_dot(SOLVED, f"{answer}# {job.student}\n")
        submissions.hand_in(job.folder, mine)
    return jobs


def graded_here(jobs, setup):
    return {r["record"]["student"]: r["record"] for r in grade_all(jobs, setup, 1)}


def unlike(jobs, found, wanted):
    """List the students whose record is not that of the first two, graded here."""
    own = {"student", "folder", "sha256"}

    def rest(record):
        return {name: value for name, value in record.items() if name not in own}

    like = [rest(wanted[job.student]) for job in jobs[:2]]
    return [
        job.student
        for number, job in enumerate(jobs)
        if rest(found.get(job.student, {})) != like[number % 2]
    ]


@on_dask
def test_a_cluster_that_breaks_gives_the_scores_of_a_local_run(
    walls,  # noqa: F811
    tmp_path,
    caplog,
):
    """The scheduler is restarted and a worker killed while they have a submission, and
    another worker has no walls."""
    from nbjudge.grading.cluster import Cluster as Grading

    setup = setup_of(tmp_path)
    jobs = handed_in(tmp_path, 3)
    wanted = graded_here(jobs[:2], setup)
    cluster = Cluster(tmp_path)
    try:
        cluster.work(PATH="/nonexistent")
        cluster.work()
        grading = Grading(cluster.address, setup, 20.0, logging.getLogger())
        found, done = {}, grading.grade(jobs)
        for result in done:
            student = result["record"]["student"]
            assert student not in found
            found[student] = result["record"]
            if len(found) == 1:
                cluster.restart()
                for worker in cluster.workers:
                    worker.kill()
                cluster.work()
        grading.close()
    finally:
        cluster.close()
    assert len(found) == 3
    assert "it has no walls: bubblewrap (bwrap) is not installed" in caplog.text
    assert not unlike(jobs, found, wanted)
    assert "Traceback" not in caplog.text


@pytest.fixture
def pair(tmp_path):
    """Two workers in this process, and who grades on them; give what makes it."""
    from distributed import LocalCluster

    from nbjudge.grading.cluster import Cluster as Grading

    made = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        local_directory=tmp_path,
    )
    setup = {**setup_of(tmp_path), "walls": False}
    begun = []

    def begin(straggler_seconds):
        log = logging.getLogger()
        begun.append(Grading(made.scheduler_address, setup, straggler_seconds, log))
        return begun[-1]

    yield begin
    for grading in begun:
        grading.close()
    made.close()


def replace(function, monkeypatch):
    """Put a function in place of the cluster's, also where it is pickled by name."""
    function.__module__, function.__qualname__ = (
        "nbjudge.grading.cluster",
        function.__name__,
    )
    monkeypatch.setattr(f"nbjudge.grading.cluster.{function.__name__}", function)


@on_dask
def test_a_straggler_goes_to_the_worker_that_does_not_have_it(
    pair, tmp_path, monkeypatch
):
    from distributed import get_worker

    stuck, had, copies = threading.Event(), [], []

    def judge(setup, intake):
        had.append((get_worker().address, intake["folder"]))
        if had[-1][0] == had[0][0]:
            stuck.wait(30)
        return {"ran": [], "verdicts": []}

    replace(judge, monkeypatch)
    grading = pair(1.0)

    def submit(*what, whole=grading.client.submit, **how):
        if re.fullmatch(r"\w{64} \d+", how["key"]):
            copies.append(how["workers"])
        return whole(*what, **how)

    monkeypatch.setattr(grading.client, "submit", submit)
    found = [r["record"]["student"] for r in grading.grade(handed_in(tmp_path, 4))]
    stuck.set()
    assert sorted(found) == [f"student{n}" for n in range(4)]
    others = {folder for address, folder in had if address != had[0][0]}
    assert len(others) == 4
    assert copies and not any(had[0][0] in workers for workers in copies)


@on_dask
def test_what_a_killed_worker_had_is_judged_by_another(tmp_path, monkeypatch):
    from nbjudge.grading.cluster import Cluster as Grading

    begun = tmp_path / "begun"
    begun.mkdir()

    def judge(setup, intake, folder=begun):
        """Say that this worker has begun, and judge only if it is not the first."""
        import os
        import time

        first = not [*folder.iterdir()]
        (folder / str(os.getpid())).touch()
        while first:
            time.sleep(0.1)
        return {"ran": [], "verdicts": []}

    monkeypatch.setattr("nbjudge.grading.cluster.judge", judge)
    monkeypatch.setattr("nbjudge.grading.cluster.refusal", lambda *test: "")
    jobs, cluster = handed_in(tmp_path, 4), Cluster(tmp_path)

    def kill():
        while not (workers := [*begun.iterdir()]):
            time.sleep(0.05)
        cluster.work()
        os.kill(int(workers[0].name), signal.SIGKILL)

    try:
        cluster.work()
        grading = Grading(cluster.address, setup_of(tmp_path), 900.0, logging.root)
        killing = threading.Thread(target=kill)
        killing.start()
        found = [result["record"]["student"] for result in grading.grade(jobs)]
        killing.join()
        grading.close()
    finally:
        cluster.close()
    assert sorted(found) == [job.student for job in jobs]


@on_dask
def test_what_failed_waits_for_a_worker_that_may_have_it(pair, tmp_path, monkeypatch):
    """Also when there is none at the moment but one that was refused."""
    from distributed import get_worker

    first, tried = [], []

    def refusal(*test):
        first.append(get_worker().address)
        return "it is unfit" if first[0] == first[-1] else ""

    def judge(setup, intake):
        tried.append((get_worker().address, intake["folder"]))
        if [folder for _, folder in tried].count(intake["folder"]) == 1:
            return {"problem": "it failed"}
        return {"ran": [], "verdicts": []}

    replace(refusal, monkeypatch)
    replace(judge, monkeypatch)
    grading = pair(60.0)

    def failure(*of, whole=grading._failure):
        grading.admitted.clear()  # until the roll is called again
        return whole(*of)

    monkeypatch.setattr(grading, "_failure", failure)
    found = list(grading.grade(handed_in(tmp_path, 4)))
    assert len(found) == 4 and len(tried) == 8
    assert first[0] not in {address for address, _ in tried}


@pytest.mark.plain
def test_a_cluster_whose_workers_may_all_not_grade_is_given_up(monkeypatch):
    asked, now = [], [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def submit(*what, workers, **how):
        asked.extend(workers)
        return SimpleNamespace(
            done=lambda: True, exception=lambda **_: None, result=lambda **_: "no walls"
        )

    cluster = SimpleNamespace(
        client=SimpleNamespace(nthreads=lambda: {"w1": 2, "w2": 1}, submit=submit),
        **dict(admitted=set(), refused={}, tests={}, threads={}, test=("secret",)),
        **dict(copies=0, served=False, usable=100.0, roll_call=0.0),
        **dict(address="tcp://there", log=logging.getLogger()),
    )
    for now[0] in (100.0, 100.5, 102.0, 100.0 + REFUSED_SECONDS):
        Client._call_roll(cluster)
    assert sorted(asked) == ["w1", "w2"] and [*cluster.refused.values()] == [
        "no walls",
        "no walls",
    ]
    assert cluster.roll_call > now[0]
    now[0] += 2
    with pytest.raises(ClusterError, match="no worker of tcp://there .*: no walls"):
        Client._call_roll(cluster)
