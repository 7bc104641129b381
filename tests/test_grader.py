"""Making releases and grading samples: nothing is lost, and bad input gets one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from nbjudge.grading.commands import GradingError, check_lab, lab_names, nbgrader
from scripts import sample
from scripts.release import HasAnswers, main, release
from scripts.sample import Score, grade_samples

ROOT = Path(__file__).parents[1]


@pytest.fixture
def course(tmp_path):
    """A course with one tiny lab."""
    cells = [
        nbformat.v4.new_code_cell(
            "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END"
            " SOLUTION",
            metadata={
                "nbgrader": {
                    "grade": False,
                    "grade_id": "double",
                    "locked": False,
                    "schema_version": 3,
                    "solution": True,
                    "task": False,
                }
            },
        ),
        nbformat.v4.new_code_cell(
            "float(double(2) == 4)",
            metadata={
                "nbgrader": {
                    "grade": True,
                    "grade_id": "check",
                    "locked": True,
                    "schema_version": 3,
                    "solution": False,
                    "task": False,
                    "points": 1,
                }
            },
        ),
    ]
    kernel = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        }
    }
    lab = tmp_path / "solutions" / "lab00_tiny" / "lab00_tiny.ipynb"
    lab.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), lab)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    return tmp_path


def released(course):
    return course / "labs" / "lab00_tiny" / "lab00_tiny.ipynb"


def test_lab_names_are_those_of_directories_with_their_notebook(course):
    (course / "solutions" / "notes").mkdir()
    assert lab_names(course / "solutions") == ["lab00_tiny"]


def test_a_release_is_made_once_and_repeats(course):
    assert release(course, "lab00_tiny", course / "labs")
    first = released(course).read_bytes()
    assert b"return 2" not in first and b"raise NotImplementedError" in first
    assert not release(course, "lab00_tiny", course / "labs")
    assert released(course).read_bytes() == first


def test_answers_in_labs_are_never_overwritten(course, capsys, monkeypatch):
    release(course, "lab00_tiny", course / "labs")
    work = (
        released(course)
        .read_text()
        .replace("raise NotImplementedError()", "return x + x")
    )
    released(course).write_text(work)
    with pytest.raises(HasAnswers, match="lab00_tiny"):
        release(course, "lab00_tiny", course / "labs")
    monkeypatch.chdir(course)
    assert main([]) == 0
    assert "kept as it is" in capsys.readouterr().out
    assert released(course).read_text() == work


def test_a_release_that_was_never_worked_in_is_replaced(course):
    release(course, "lab00_tiny", course / "labs")
    released(course).write_text(
        released(course).read_text().replace("double(2) == 4", "double(3) == 6")
    )
    assert release(course, "lab00_tiny", course / "labs")
    assert "double(2) == 4" in released(course).read_text()


def test_a_corrupt_notebook_is_one_line_and_the_old_release_stays(
    course, capsys, monkeypatch
):
    release(course, "lab00_tiny", course / "labs")
    before = released(course).read_bytes()
    (course / "solutions" / "lab00_tiny" / "lab00_tiny.ipynb").write_text('{"cells": [')
    monkeypatch.chdir(course)
    assert main(["lab00_tiny"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "is not a valid notebook" in message
    assert released(course).read_bytes() == before


@pytest.mark.parametrize("module", ["release", "sample"])
def test_an_unknown_lab_is_one_line(course, module):
    command = [
        sys.executable,
        "-m",
        f"scripts.{module}",
        "lab99",
        *["out"] * (module == "sample"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=course, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == "error: there is no lab 'lab99' in solutions/; there are: lab00_tiny\n"
    )
    assert not (course / "labs").exists() and not (course / "out").exists()


def test_a_failing_nbgrader_is_one_line(course):
    with pytest.raises(
        GradingError, match=r"nbgrader autograde lab00_tiny failed: .+"
    ) as caught:
        nbgrader(course, "autograde", "lab00_tiny")
    assert "\n" not in str(caught.value)


def test_samples_are_graded_once_until_something_changes(course, monkeypatch):
    scores = [Score("solution", 1.0, 1.0), Score("untouched", 0.0, 1.0)]
    runs = []

    def prepare(course, lab, into):
        into.mkdir()
        return b"released"

    def grade(into, lab, submissions, walls):
        runs.append(submissions["untouched"])
        return scores

    monkeypatch.setattr(sample, "prepare", prepare)
    monkeypatch.setattr(sample, "grade", grade)
    monkeypatch.setattr(sample, "prove", lambda limits: "none here")
    into = course / "sample"
    assert grade_samples(course, "lab00_tiny", into) == (scores, False)
    assert grade_samples(course, "lab00_tiny", into) == (scores, True)
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text() + "\n# changed\n")
    assert grade_samples(course, "lab00_tiny", into) == (scores, False)
    assert runs == [b"released", b"released"]


def test_check_lab_accepts_a_good_one(course):
    check_lab(course / "solutions", "lab00_tiny")
