"""The gradebook over a term: scores by hand, submissions anew, runs that are stopped,
and the table at the end.

The submissions are the course's own notebooks, so they are trusted, and this needs no
walls.
"""

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from submissions import query

from attention_labs.lab05_self_attention import QUESTIONS
from nbjudge.grading.commands import nbgrader
from scripts.sample import prepare

ROOT = Path(__file__).parents[1]
LAB = "lab05_self_attention"
POINTS = sum(question.points for question in QUESTIONS)
EVE = (
    "notebook_id in (select submitted_notebook.id from submitted_notebook join"
    " submitted_assignment on submitted_notebook.assignment_id ="
    " submitted_assignment.id where student_id = 'eve')"
)


def notebook(kind):
    text = (ROOT / kind / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8")
    return re.sub(r" *### (BEGIN|END) SOLUTION(\\n)?", "", text)


def hand_in(course, student, text):
    folder = course / "gradebook" / "submitted" / student / LAB
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{LAB}.ipynb").write_text(text, encoding="utf-8")


def autograde(course, *options, lab=LAB, patch="", trusted=True):
    """Grade, with something in the grader replaced; give the exit code and what was
    said."""
    code = (
        f"import nbjudge.grading.converter as c\n{patch}\nfrom"
        " nbgrader.apps.nbgraderapp import main; main()"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "autograde",
        lab,
        f"--Autograde.trust_submissions={trusted}",
        *options,
    ]
    done = subprocess.run(
        command,
        cwd=course,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    return done.returncode, done.stderr


def exported(course, *options, to="gradebook/grades.csv"):
    nbgrader(course, "export", *options)
    with (course / to).open(newline="", encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def records(course):
    return {path.stem for path in (course / "gradebook" / "records" / LAB).iterdir()}


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A course in which one student handed in the solution, one nothing but the
    release, and one half a file; and what grading it ended with and said."""
    course = tmp_path_factory.mktemp("a term") / "Köln"
    prepare(ROOT, LAB, course)
    hand_in(course, "ada", notebook("solutions"))
    hand_in(course, "ben, the younger", notebook("labs"))
    hand_in(course, "eve", notebook("solutions")[:5000])
    nbgrader(course, "db", "student", "add", "fay")
    return course, *autograde(course)


@pytest.fixture
def term(first_run, tmp_path):
    """A copy of the graded course, which a test may change."""
    return Path(shutil.copytree(first_run[0], tmp_path / "Köln"))


@pytest.fixture
def marked(term):
    """The same course, in which a person gave 0 points for the half file."""
    query(
        term, f"update grade set manual_score = 0, needs_manual_grade = 0 where {EVE}"
    )
    return term


def test_a_run_says_one_line_for_each_submission(first_run):
    _, code, said = first_run
    assert code == 1
    lines = [line for line in said.splitlines() if "INFO]" not in line]
    assert len(lines) == 1 and "1 of 3 submissions need a person: eve" in lines[0]
    assert "Converting notebook" not in said
    assert all(
        re.search(rf"\d/3 {student}: ", said)
        for student in ("ada", "ben, the younger", "eve")
    )
    (last,) = [line for line in said.splitlines() if " 3/3 " in line]
    assert last.endswith("; 1 need a person so far")


def test_the_table_says_which_scores_are_final(term):
    rows = exported(term)
    assert {
        student: (row["score"], row["status"]) for student, row in rows.items()
    } == {
        "ada": ("23.0", "4 points to be marked"),
        "ben, the younger": ("0.0", "final"),
        "eve": ("", "needs a person"),
        "fay": ("0.0", "nothing graded"),
    }


def test_the_table_goes_where_it_is_told(term):
    assert set(exported(term, "--to=elsewhere.csv", to="elsewhere.csv")) == {
        "ada",
        "ben, the younger",
        "eve",
        "fay",
    }


def test_a_score_by_hand_that_stands_against_the_judges_is_told(marked):
    """It stands, as always with nbgrader: but nobody may overlook that it was for
    something else."""
    code, said = autograde(marked)
    assert code == 0 and "3 graded" in said and "0 need a person" in said
    html = (marked / "gradebook" / "reports" / f"{LAB}.html").read_text(
        encoding="utf-8"
    )
    assert "3 submissions, 2 graded, 0 need a person, 1 marked by a person" in html
    assert exported(marked)["eve"]["status"] == "final"
    hand_in(marked, "eve", notebook("solutions"))
    code, said = autograde(marked)
    (line,) = [line for line in said.splitlines() if "WARNING]" in line]
    assert "eve: points by hand stand for what was handed in before: " in line
    assert "check_split_heads 0, now 3 by the judge" in line
    row = exported(marked)["eve"]
    assert (row["score"], row["status"]) == ("0.0", "look again")
    assert "1/1 eve" in said  # and nobody else was graded again
    query(
        marked,
        f"update grade set manual_score = null where {EVE} and auto_score is null",
    )
    assert exported(marked)["eve"]["status"] == "4 points to be marked, look again"


def test_points_by_hand_stay_final_if_nothing_has_changed(marked):
    autograde(marked, "--force")  # half a file, for which the judge has no points
    assert exported(marked)["eve"]["status"] == "final"
    hand_in(marked, "eve", notebook("solutions"))
    autograde(marked)
    query(
        marked, "update grade set needs_manual_grade = 0 where manual_score is not null"
    )
    before = {student: row["status"] for student, row in exported(marked).items()}
    assert before["eve"] == "final"
    code, said = autograde(marked, "--force")
    after = {student: row["status"] for student, row in exported(marked).items()}
    assert code == 0 and after == before
    other = notebook("solutions").replace("(dim, dim)", "(dim, dim, True)", 1)
    hand_in(marked, "eve", other)
    code, said = autograde(marked)
    assert code == 0 and exported(marked)["eve"]["status"] == "look again"


@pytest.mark.parametrize(
    "error, said",
    [
        ("KeyboardInterrupt", "stopped; run it again"),
        ("OSError(28, 'No space left')", "stopped: [Errno 28] No space"),
    ],
)
def test_a_forced_run_that_is_stopped_goes_on(marked, error, said):
    before = records(marked)
    stop = f"def stop(*_):\n    raise {error}\nc.grade_all = stop"
    code, lines = autograde(marked, "--force", patch=stop)
    assert (
        code == 1
        and said in lines
        and "Traceback" not in lines
        and lines.count("\n") == 1
    )
    assert not records(marked)
    code, lines = autograde(marked)
    assert (
        code == 0
        and records(marked) == before
        and f"/{len(before)} ada: {POINTS} of {POINTS}" in lines
    )


def test_without_walls_nothing_is_graded(term, tmp_path):
    before = records(term)
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'no namespaces here' >&2; exit 1\n")
    broken.chmod(0o755)
    only = f"import os\nos.environ['PATH'] = {str(tmp_path)!r} + ':/bin:/usr/bin'"
    code, said = autograde(term, "--force", patch=only, trusted=False)
    assert code == 1 and said.count("\n") == 1
    assert "there are none: " in said and "; install bubblewrap" in said
    assert "no namespaces here" in said or sys.platform != "linux"
    assert not records(term)
    autograde(term)
    assert records(term) == before


def test_what_cannot_be_written_is_one_line_and_is_graded_again(term):
    broken = "from sqlalchemy.exc import OperationalError\ndef broken(*_):\n"
    broken += (
        "    raise OperationalError('insert', {}, Exception('disk is"
        " full'))\nc.Autograde._write = broken"
    )
    code, said = autograde(term, "--force", patch=broken)
    assert code == 1 and "Traceback" not in said
    assert "ada (not in the gradebook: (builtins.Exception) disk is full)" in said
    _, said = autograde(term)
    assert f"/3 ada: {POINTS} of {POINTS}" in said


def test_a_gradebook_that_another_program_holds_is_waited_for(term):
    database = sqlite3.connect(term / "gradebook" / "gradebook.db")
    database.execute("begin immediate")
    command = [sys.executable, "-m", "nbgrader", "autograde", LAB, "--force"]
    options = ["--student=ada", "--Autograde.trust_submissions=True"]
    said = ""
    with subprocess.Popen(
        [*command, *options], cwd=term, stderr=subprocess.PIPE, text=True
    ) as grading:
        for line in grading.stderr:
            said += line
            if "another program holds it" in line:
                database.close()
    assert grading.returncode == 0 and f"1/1 ada: {POINTS} of {POINTS}" in said
    assert said.count("waiting") == 1


def test_two_runs_at_once_share_the_work(term):
    for path in (term / "gradebook" / "records" / LAB).iterdir():
        path.unlink()
    command = [sys.executable, "-m", "nbgrader", "autograde", LAB]
    options = ["--Autograde.trust_submissions=True", "--Autograde.workers=1"]
    runs = [
        subprocess.Popen([*command, *options], cwd=term, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [run.communicate()[1].decode() for run in runs]
    graded = [re.findall(r"\d/3 (\w+)", text) for text in said]
    assert sorted(graded[0] + graded[1]) == ["ada", "ben", "eve"]
    assert all("lab05_self_attention: 3 submissions, " in text for text in said), said
    assert runs[0].returncode == runs[1].returncode and len(records(term)) == 3


def test_a_gradebook_that_cannot_be_written_is_one_line(term):
    code, said = autograde(
        term, "--force", patch="c.os.access = lambda path, mode: False"
    )
    assert (
        code == 1 and said.count("\n") == 1 and "gradebook.db cannot be written" in said
    )
    assert records(term)


@pytest.mark.parametrize(
    "lab, reason",
    [
        ("lab3", "there is no lab 'lab3' in solutions/; there are: " + LAB),
        (
            "lab99",
            (
                "lab99 is not in the gradebook yet; nbgrader generate_assignment lab99"
                " --force"
            ),
        ),
    ],
)
def test_a_lab_that_cannot_be_graded_is_one_line(term, lab, reason):
    folder = term / "gradebook" / "submitted" / "ada" / lab
    folder.mkdir(parents=True)
    if lab == "lab99":
        (term / "solutions" / lab).mkdir()
        (term / "solutions" / lab / f"{lab}.ipynb").write_text(
            notebook("solutions"), encoding="utf-8"
        )
    code, said = autograde(term, lab=lab)
    assert code == 1 and said.count("\n") == 1 and reason in said
    assert not (term / "gradebook" / "records" / lab).exists()


def overview(course, *options):
    command = [sys.executable, "-m", "nbjudge.grading.overview", *options]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_pages_are_written_anew(term):
    reports = term / "gradebook" / "reports"
    for path in reports.glob("*.html"):
        path.unlink()
    code, said = overview(term)
    assert code == 0 and str(reports / "index.html") in said
    assert "ada" in (reports / "index.html").read_text(encoding="utf-8")
    html = (reports / f"{LAB}.html").read_text(encoding="utf-8")
    claim = QUESTIONS[0].properties[0].claim
    assert re.search(rf"{re.escape(claim)}: \d of 2", html)
    attempts = term / "gradebook" / "attempts" / LAB / "ada.json"
    assert len(json.loads(attempts.read_text(encoding="utf-8"))) == 1


def test_too_small_a_class_is_not_shown(term):
    code, said = overview(term, "--anonymous")
    assert code == 0 and f"{LAB}: fewer than 5 graded submissions" in said
    shown = term / "gradebook" / "reports" / "anonymous"
    assert [path.name for path in shown.iterdir()] == ["index.html"]
    assert "ada" not in (shown / "index.html").read_text(encoding="utf-8")


def test_solutions_in_these_tests_are_without_marks():
    assert "SOLUTION" not in "".join(
        "".join(cell["source"]) for cell in json.loads(notebook("solutions"))["cells"]
    )
