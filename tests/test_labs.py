"""The labs: labs/ is what solutions/ gives, and nbgrader's stock commands grade it
right."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbconvert.preprocessors import ExecutePreprocessor
from solution_text import flat, rubrics, solution_lines, solution_regions
from submissions import query

from attention_labs import QUESTIONS
from attention_labs.lab03_scoring import QUESTIONS as LAB03_SCORING
from nbjudge.grading.commands import lab_names
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove
from scripts.release import generate
from scripts.sample import grade, prepare

ROOT = Path(__file__).parents[1]
LABS = lab_names(ROOT / "solutions")
CHECK = re.compile(r'check\("(\w+)", (\w+)\)')


def notebook(directory, lab):
    return nbformat.read(ROOT / directory / lab / f"{lab}.ipynb", as_version=4)


def test_there_are_labs():
    assert "lab03_scoring" in LABS


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """All releases, made anew."""
    directory = tmp_path_factory.mktemp("releases")
    generate(ROOT, directory)
    return directory


def test_every_release_has_a_solution(releases):
    assert sorted(p.name for p in (ROOT / "labs").glob("lab*")) == sorted(
        p.name for p in releases.iterdir()
    )
    assert {p.name for p in releases.iterdir()} == set(LABS)


@pytest.mark.parametrize("lab", LABS)
def test_the_release_is_what_the_solution_gives(lab, releases):
    made = {p.name: p.read_bytes() for p in (releases / lab).iterdir()}
    kept = {
        p.name: p.read_bytes() for p in (ROOT / "labs" / lab).iterdir() if p.is_file()
    }
    assert made == kept, f"run `make labs` and commit labs/{lab}"


@pytest.mark.parametrize("lab", LABS)
def test_readers_are_led_to_it(lab):
    assert f"| `{lab}` |" in (ROOT / "README.md").read_text()
    assert f"</labs/{lab}/{lab}>" in (ROOT / "book" / "index.md").read_text()


@pytest.mark.parametrize("lab", LABS)
def test_what_only_shows_something_is_marked(lab):
    """Grading leaves it out: it may take as long as it likes."""
    for cell in notebook("solutions", lab).cells:
        if cell.cell_type == "code" and "nbgrader" not in cell.metadata:
            body = ast.parse(cell.source).body
            provides = all(
                isinstance(
                    n, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
                )
                for n in body
            )
            assert bool(cell.metadata.get("show")) is not provides, cell.id


@pytest.mark.parametrize("lab", LABS)
def test_the_solution_carries_no_outputs(lab):
    for cell in notebook("solutions", lab).cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert not {"tags", "collapsed"} & set(cell.metadata)


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("directory", ["solutions", "labs"])
def test_both_are_valid_notebooks_that_know_their_kernel(directory, lab):
    valid = notebook(directory, lab)
    nbformat.validate(valid)
    assert valid.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("lab", LABS)
def test_the_release_holds_no_solution_text(lab):
    released = flat("\n".join(cell.source for cell in notebook("labs", lab).cells))
    lines = solution_lines(notebook("solutions", lab).cells)
    assert lines
    for line in lines:
        # what attend returns is said in its docstring
        if line != "return context, weights":
            assert line not in released


@pytest.mark.parametrize("lab", LABS)
def test_every_graded_cell_is_one_check_and_worth_its_question(lab):
    cells = [c for c in notebook("solutions", lab).cells if c.cell_type == "code"]
    graded = [c for c in cells if c.metadata.get("nbgrader", {}).get("grade")]
    asked = [CHECK.fullmatch(cell.source).group(1) for cell in graded]
    assert len(set(asked)) == len(asked)
    for name, cell in zip(asked, graded, strict=True):
        assert cell.metadata.nbgrader.points == QUESTIONS[name].points
        assert cell.metadata.nbgrader.locked and not cell.metadata.nbgrader.solution


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_asks_for_prose_and_says_how_it_is_marked(lab):
    asked = rubrics(notebook("solutions", lab).cells)
    assert asked
    for cell in asked:
        marks = re.findall(
            r"^- ",
            cell.source.partition("Rubric, one point each:")[2],
            flags=re.MULTILINE,
        )
        assert (
            cell.metadata.nbgrader.grade and len(marks) == cell.metadata.nbgrader.points
        )


@pytest.mark.parametrize("lab", LABS)
def test_the_points_in_the_text_are_those_of_the_cells(lab):
    cells = notebook("solutions", lab).cells
    points = [
        c.metadata.nbgrader.points
        for c in cells
        if c.metadata.get("nbgrader", {}).get("grade")
    ]
    by_hand = [c.metadata.nbgrader.points for c in rubrics(cells)]
    said = re.search(
        r"\*\*Points:\*\* (\d+)\. You get up to (\d+) from the `check\(...\)` cells and up"
        r" to (\d+) from a person",
        cells[0].source,
    )
    assert [int(number) for number in said.groups()] == [
        sum(points),
        sum(points) - sum(by_hand),
        sum(by_hand),
    ]
    told = re.findall(
        r"^##.*\((\d+) points", "\n".join(c.source for c in cells), flags=re.MULTILINE
    )
    assert sorted(map(int, told)) == sorted(points)


def test_all_labs_begin_with_the_same_rules():
    """How to work, what every answer must do, and how points are given."""
    heads = [notebook("solutions", lab).cells[0].source for lab in LABS]
    rules = {head.partition("**How to work.**")[2] for head in heads}
    assert len(rules) == 1 and "" not in rules


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_asks_for_a_prediction_and_compares_it(lab):
    code = [c.source for c in notebook("solutions", lab).cells if c.cell_type == "code"]
    predicted = [
        name
        for source in code
        for name in re.findall(r"^(expected_\w+) = ", source, flags=re.MULTILINE)
    ]
    assert predicted
    assert any(f"{{{name}}}" in source for source in code for name in predicted)


@pytest.mark.parametrize("lab", LABS)
def test_an_answer_is_at_most_a_dozen_lines(lab):
    for cell in notebook("solutions", lab).cells:
        for region in solution_regions(cell):
            assert len(region.strip().splitlines()) <= 12


@pytest.mark.parametrize("lab", LABS)
def test_no_answer_can_be_imported_by_accident(lab):
    code = "\n".join(
        cell.source
        for cell in notebook("solutions", lab).cells
        if cell.cell_type == "code"
    )
    tree = ast.parse(code)
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    imported = {
        a.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        for a in node.names
    }
    assert defined and not defined & imported
    assert not any("*" in name for name in imported)


# --- graded with nbgrader's stock commands --------------------------------------------


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course in which four students handed in lab03_scoring."""
    directory = tmp_path_factory.mktemp("course") / "course"
    untouched = prepare(ROOT, "lab03_scoring", directory)
    solved = (ROOT / "solutions" / "lab03_scoring" / "lab03_scoring.ipynb").read_bytes()
    right = b"return query @ projected.mT / math.sqrt(query.size(-1))"
    assert solved.count(right) == 1
    tagged = nbformat.reads(untouched.decode(), as_version=4)
    for cell in tagged.cells:
        cell.metadata["tags"] = ["skip-execution"]
    submissions = {
        "one_wrong": solved.replace(right, b"return query @ projected.mT"),
        "solution": solved,
        "tagged": nbformat.writes(tagged).encode(),
        "untouched": untouched,
    }
    scores = grade(directory, "lab03_scoring", submissions, walls=not prove(Limits()))
    return directory, {score.student: score for score in scores}


def by_question(directory, student):
    """Points per cell that a machine has graded, as the gradebook has them."""
    statement = """
        select base_cell.name, grade.auto_score from grade
        join base_cell on base_cell.id = grade.cell_id
        join submitted_notebook on submitted_notebook.id = grade.notebook_id
        join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
        where submitted_assignment.student_id = ? and grade.auto_score is not null
    """
    return dict(query(directory, statement, student))


def test_the_solution_gets_everything_and_the_release_nothing(course):
    _, scores = course
    cells = notebook("solutions", "lab03_scoring").cells
    by_hand = sum(cell.metadata.nbgrader.points for cell in rubrics(cells))
    assert scores["solution"].points == scores["solution"].possible - by_hand
    assert scores["solution"].points == sum(
        question.points for question in LAB03_SCORING
    )
    assert scores["untouched"].points == 0


def test_one_wrong_function_loses_its_points_and_no_others(course):
    directory, scores = course
    lost = {
        name: points - by_question(directory, "one_wrong")[name]
        for name, points in by_question(directory, "solution").items()
    }
    assert lost == {
        name: QUESTIONS["scaled_dot"].points if name == "check_scaled_dot" else 0
        for name in lost
    }


def test_a_tag_on_a_cell_earns_nothing(course):
    _, scores = course
    assert scores["tagged"].points == 0


def test_feedback_shows_the_table_and_names_the_mistake(course):
    directory, _ = course
    feedback = (
        directory
        / "gradebook"
        / "feedback"
        / "one_wrong"
        / "lab03_scoring"
        / "lab03_scoring.html"
    ).read_text()
    assert "scale factor missing" in feedback
    assert "masked_softmax: 5 of 5 points" in feedback
    # no debris of a progress bar
    assert "\r" not in feedback and "step/s" not in feedback


def test_what_only_shows_something_is_not_graded(course):
    directory, _ = course
    path = (
        directory
        / "gradebook"
        / "autograded"
        / "solution"
        / "lab03_scoring"
        / "lab03_scoring.ipynb"
    )
    printed = "".join(
        o.get("text", "")
        for c in nbformat.read(path, as_version=4).cells
        for o in c.get("outputs", [])
    )
    assert "right in every character" not in printed


def test_the_solution_runs_without_an_error(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")  # as the book and the grader do
    solution = notebook("solutions", "lab03_scoring")
    ExecutePreprocessor(
        timeout=1800, startup_timeout=600, shutdown_kernel="immediate"
    ).preprocess(solution)
    outputs = [o for cell in solution.cells for o in cell.get("outputs", [])]
    assert not [
        o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"
    ]
    printed = "".join(o.text for o in outputs if o.get("name") == "stdout")
    assert "\r" not in printed and "step/s" not in printed
    share = float(re.search(r"right in every character: ([\d.]+)", printed).group(1))
    assert share >= 0.9, "the student's own score no longer learns dates"


def test_nbgrader_validate_accepts_the_solution_and_not_the_release(course, tmp_path):
    """Without the cells that only show something: they were run above."""
    directory, _ = course
    for kind, accepted in (("solutions", True), ("labs", False)):
        shortened = notebook(kind, "lab03_scoring")
        end = next(i for i, cell in enumerate(shortened.cells) if cell.id == "use_text")
        shortened.cells = shortened.cells[:end]
        path = tmp_path / f"{kind}.ipynb"
        nbformat.write(shortened, path)
        patience = ["--Execute.timeout=1800", "--Execute.startup_timeout=600"]
        command = [sys.executable, "-m", "nbgrader", "validate", str(path), *patience]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        assert (
            "Success! Your notebook passes all the tests." in done.stdout
        ) is accepted, done.stdout + done.stderr
