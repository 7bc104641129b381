"""A course of somebody else: plain torch, stock nbgrader commands, and nothing of this
course in reach."""

import copy
import csv
import json
import shutil
from pathlib import Path

import bare
import pytest

from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove
from scripts.nbjudge_wheel import build

ROOT = Path(__file__).parents[1]
SOURCE = "source/tables/tables.ipynb"
RELEASE = "release/tables/tables.ipynb"
GUIDE = (ROOT / "book" / "write_a_lab.md").read_text()
CELLS = json.loads((ROOT / "tests" / "other_course" / SOURCE).read_text())["cells"]


def nbgrader(environment, course, *command):
    """Run a command of nbgrader, which may not import from where it is run: its own
    script would not, either."""
    bare.run(environment, "-m", "nbgrader", *command, cwd=course, PYTHONSAFEPATH="1")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with torch, nbgrader and the judge's wheel."""
    folder = tmp_path_factory.mktemp("bare")
    return bare.make(folder / "bare", build(ROOT, folder))


@pytest.fixture(scope="module")
def course(tmp_path_factory, environment):
    """The course, released."""
    folder = tmp_path_factory.mktemp("other") / "course"
    shutil.copytree(ROOT / "tests" / "other_course", folder)
    nbgrader(environment, folder, "generate_assignment", "tables")
    return folder


@pytest.fixture(scope="module")
def graded(environment, course):
    """The course when three students have been graded: name -> row of the table."""
    right, untouched = (
        json.loads((course / path).read_text()) for path in (SOURCE, RELEASE)
    )
    wrong = copy.deepcopy(right)
    (cell,) = (x for x in wrong["cells"] if x["id"] == "standardize")
    cell["source"] = [line.replace("std(0)", "var(0)") for line in cell["source"]]
    handed_in = {"right": right, "wrong": wrong, "untouched": untouched}
    for student, notebook in handed_in.items():
        folder = course / "submitted" / student / "tables"
        folder.mkdir(parents=True)
        (folder / "tables.ipynb").write_text(json.dumps(notebook))
        shutil.copy(course / "questions.py", folder)
    trusted = ["--Autograde.trust_submissions=True"] if prove(Limits()) else []
    nbgrader(environment, course, "autograde", "tables", *trusted)
    nbgrader(environment, course, "generate_feedback", "tables")
    nbgrader(environment, course, "export")
    with (course / "grades.csv").open(newline="") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", ["attention_course", "attention_labs"])
def test_nothing_of_this_course_can_be_imported(environment, course, name):
    said = bare.run(environment, "-c", f"import {name}", cwd=course, ok=False)
    assert f"No module named '{name}'" in said


def test_what_is_released_has_no_solution(course):
    assert "BEGIN SOLUTION" in (course / SOURCE).read_text()
    released = (course / RELEASE).read_text()
    assert "NotImplementedError" in released
    assert "table.std" not in released and "z.T" not in released


def test_a_student_checks_an_answer(environment, course, tmp_path):
    """In the folder that is handed out: the notebook, and the questions beside it."""
    shutil.copy(course / RELEASE, tmp_path)
    shutil.copy(course / "questions.py", tmp_path)
    cells = json.loads((tmp_path / "tables.ipynb").read_text())["cells"]
    code = ["".join(x["source"]) for x in cells if x["cell_type"] == "code"]
    code[2] = f"print({code[2]}.as_text())"
    said = bare.run(environment, "-c", "\n".join(code[:3]), cwd=tmp_path)
    assert said.startswith("standardize: 0 of 3 points")
    assert "not written yet" in said


def test_the_scores(graded):
    scores = {student: float(row["score"]) for student, row in graded.items()}
    assert scores == {"right": 6.0, "wrong": 3.0, "untouched": 0.0}
    assert {row["status"] for row in graded.values()} == {"final"}
    assert {float(row["max_score"]) for row in graded.values()} == {6.0}


def test_the_feedback_names_the_mistake(course, graded):
    pages = {
        student: (course / f"feedback/{student}/tables/tables.html").read_text()
        for student in graded
    }
    named = "divided by the variance"
    assert [student for student, page in pages.items() if named in page] == ["wrong"]
    assert "not written yet" in pages["untouched"]


def test_no_record_has_a_flag(course, graded):
    for path in (course / "gradebook" / "records" / "tables").glob("*.json"):
        assert json.loads(path.read_text())["flags"] == []


def test_the_questions_are_faithful(environment, course):
    command = ["-m", "nbjudge.grading.fidelity", "questions", "answers"]
    said = bare.run(environment, *command, cwd=course)
    assert "Nothing is off." in said
    assert said in GUIDE


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell["id"])
def test_the_guide_shows_the_notebook_as_it_is(cell):
    language = "python" if cell["cell_type"] == "code" else "markdown"
    assert f"```{language}\n{''.join(cell['source'])}\n```" in GUIDE
