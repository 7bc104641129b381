"""What changes in the middle of a term, the way the instructor's guide says.

The submissions are the course's own notebooks, so they are trusted.
"""

import json
from pathlib import Path

import pytest
from submissions import query
from test_gradebook import LAB, autograde, exported, hand_in, notebook

from nbjudge.grading.commands import nbgrader
from nbjudge.grading.lab import GradedCell
from scripts.sample import prepare

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def term(tmp_path_factory):
    """A course with two submissions: the solution, and one with a question wrong."""
    course = tmp_path_factory.mktemp("mid") / "term"
    prepare(ROOT, LAB, course)
    hand_in(course, "ada", notebook("solutions"))
    right = "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)"
    assert right in notebook("solutions")
    hand_in(course, "ben", notebook("solutions").replace(right, "x"))
    return course


def points(course):
    return {
        student: (float(row["score"]), float(row["max_score"]))
        for student, row in exported(course).items()
        if row["score"]
    }


def test_a_term_goes_on(term):
    # an assistant grades half, and another the rest
    code, said = autograde(term, "--student=a*")
    assert code == 0 and "1/1 ada" in said and "ben" not in said
    code, said = autograde(term, "--student=[b-z]*")
    assert code == 0 and "1/1 ben" in said and "ada" not in said
    assert points(term) == {"ada": (23, 27), "ben": (20, 27)}

    # an appeal: a score by hand stands, and the student has a new name
    query(
        term,
        "update grade set manual_score = 1 where auto_score = 0 and cell_id in"
        " (select id from base_cell where name = 'check_split_heads')",
    )
    assert points(term)["ben"] == (21, 27)
    nbgrader(term, "db", "student", "add", "ben", "--last-name=Öz", "--first-name=Ben")
    row = exported(term)["ben"]
    assert (row["last_name"], float(row["score"])) == ("Öz", 21)

    # a question is dropped, another is worth twice as much, and a text is mended
    path = term / "solutions" / LAB / f"{LAB}.ipynb"
    lab = json.loads(path.read_text(encoding="utf-8"))
    worth = {"check_split_heads": 0, "check_merge_heads": 4}
    for cell in lab["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("grade_id") in worth:
            marks["points"] = worth[marks["grade_id"]]
    lab["cells"][2]["source"] += "\n\nA sentence that was missing."
    path.write_text(json.dumps(lab), encoding="utf-8")
    nbgrader(term, "generate_assignment", LAB, "--force")
    query(term, "update grade set manual_score = null")
    code, said = autograde(term, "--force")
    assert code == 0 and "need a person: " not in said
    # with notebooks of the first release: 27 - 3 + 2, and four points are for prose
    assert points(term) == {"ada": (22, 26), "ben": (22, 26)}


@pytest.mark.parametrize(
    "points, of, cell, worth",
    [
        (3, 3, 3, 3),
        (2, 3, 3, 2),
        (3, 3, 0, 0),
        (1, 2, 4, 2),
        (1, 3, 2, 1),
        (0, 3, 6, 0),
    ],
)
def test_points_of_a_question_become_points_of_its_cell(points, of, cell, worth):
    assert GradedCell("check", "question", "thing", cell).worth(points, of) == worth
