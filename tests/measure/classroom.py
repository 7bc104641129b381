"""A class of students for looking at the instructor's pages: `make class`.

Their answers are those of strangers (`tests/blind/`), put into the released notebooks.
Some get better from one notebook to the next, some do not; one hands in half a file,
one nothing, and two of them worked together.
"""

import ast
import copy
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nbjudge.grading.commands import nbgrader
from scripts.sample import prepare

ROOT = Path(__file__).parents[2]
LABS = ("lab03_scoring", "lab05_self_attention")
FIRST = "Ada Bélen Chloé Dörte Emre Filiz Gül Håkon Ines Jürgen".split()
LAST = "Weiß Öztürk Núñez Müller".split()
NOTEBOOKS = 3  # that a student hands in at most, of one lab


def answers(question: str, kind: str, name: str) -> list[str]:
    """List the answers of a kind as text for a cell.

    Args:
        question: what is asked.
        kind: "right" or "wrong".
        name: what the lab calls the function or class.
    """
    found = []
    for path in sorted((ROOT / "tests" / "blind").glob(f"round*/{question}.py")):
        text = path.read_text(encoding="utf-8")
        body = ast.parse(text).body
        shared = [node for node in body if not getattr(node, "decorator_list", ())]
        for node in body:
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and decorator.func.id == kind:
                    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
                    source = "\n".join(lines)
                    used = [_text(each, text) for each in shared if _uses(source, each)]
                    source = re.sub(rf"\b{node.name}\b", name, source)
                    found.append("\n".join([*used, source]))
                    break
    return found


def _text(node: ast.stmt, text: str) -> str:
    return ast.get_source_segment(text, node) or ""


def _uses(source: str, node: ast.stmt) -> bool:
    """Whether a source uses what a statement beside it defines."""
    if isinstance(node, ast.ImportFrom) and node.module == "blind":
        return False
    match node:
        case ast.Import() | ast.ImportFrom():
            names = [alias.asname or alias.name for alias in node.names]
        case ast.Assign():
            names = [x.id for x in node.targets if isinstance(x, ast.Name)]
        case _:
            names = [getattr(node, "name", "")]
    return any(name and re.search(rf"\b{name}\b", source) for name in names)


class Student:
    """Somebody who answers, and may do better the next time.

    Args:
        name: first and last.
        chance: what draws their answers.
    """

    def __init__(self, name: str, chance: random.Random):
        self.name, self.chance = name, chance
        self.id = f"s{chance.randrange(10**6):06}"
        self.skill = chance.betavariate(4, 2)
        self.given: dict[str, str] = {}
        self.solved: set[str] = set()

    def answer(self, question: str, solution: str) -> str:
        """Answer a question, or look at the answer again."""
        if question not in self.solved:
            right = self.chance.random() < self.skill
            self.solved |= {question} if right else set()
            (*_, name) = re.findall(r"^(?:class|def) (\w+)", solution, re.MULTILINE)
            choices = answers(question, "right" if right else "wrong", name)
            self.given[question] = self.chance.choice(choices or [solution])
        return self.given[question]


def notebook(lab: str, student: Student) -> dict[str, Any]:
    """Make the notebook that a student hands in."""
    made = json.loads((ROOT / "labs" / lab / f"{lab}.ipynb").read_text("utf-8"))
    solved = json.loads((ROOT / "solutions" / lab / f"{lab}.ipynb").read_text("utf-8"))
    for cell, solution in zip(made["cells"], solved["cells"]):
        mark = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and mark.get("solution"):
            text = re.sub(
                r" *### (BEGIN|END) SOLUTION\n?", "", "".join(solution["source"])
            )
            cell["source"] = student.answer(mark["grade_id"], text)
    return made


def students(count: int, seed: int) -> list[Student]:
    """Make a class."""
    chance = random.Random(seed)
    names = [f"{first} {last}" for last in LAST for first in FIRST][:count]
    return [Student(name, chance) for name in names]


def rounds(course: Path, lab: str, group: Sequence[Student]) -> Iterator[int]:
    """Hand in for a class, once for each round; grade between the rounds.

    The last of them hands in nothing, the one before half a file, and the one before
    that what the first has, with other names.
    """
    *working, copied, broken, _ = group
    for number in range(NOTEBOOKS):
        for each in working:
            if number == 0 or each.chance.random() < 0.4:
                hand_in(course, lab, each, json.dumps(notebook(lab, each)))
        if number == 0:
            its = copy.deepcopy(notebook(lab, working[0]))
            for cell in its["cells"]:
                if cell["metadata"].get("nbgrader", {}).get("solution"):
                    text = "".join(cell["source"])
                    cell["source"] = re.sub(r"\b(rows|weights)\b", r"my_\1", text)
            hand_in(course, lab, copied, json.dumps(its))
            hand_in(course, lab, broken, json.dumps(notebook(lab, broken))[:5000])
        yield number


def hand_in(course: Path, lab: str, student: Student, text: str) -> None:
    """Put a notebook where nbgrader looks for it."""
    folder = course / "gradebook" / "submitted" / student.id / lab
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{lab}.ipynb").write_text(text, encoding="utf-8")


def grade(course: Path, lab: str) -> None:
    """Grade as nbgrader does; that a submission needs a person is no failure.

    The answers are in the repository, so they are trusted.
    """
    trust = "--Autograde.trust_submissions=True"
    command = [sys.executable, "-m", "nbgrader", "autograde", lab, trust]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    if "need a person" not in done.stderr:
        raise RuntimeError(done.stderr)


def teach(course: Path, group: Sequence[Student], labs: Sequence[str] = LABS) -> None:
    """Make a course and take a class through some labs, with every submission graded."""
    for lab in labs:
        prepare(ROOT, lab, course)
    rows = [",".join([each.id, *each.name.split()]) for each in group]
    table = "\n".join(["id,first_name,last_name", *rows])
    (course / "roster.csv").write_text(table, encoding="utf-8")
    nbgrader(course, "db", "student", "import", "roster.csv")
    for lab in labs:
        for _ in rounds(course, lab, group):
            grade(course, lab)


def main() -> None:
    """Teach forty, and say where their pages are."""
    course = ROOT / "_build" / "class"
    shutil.rmtree(course, ignore_errors=True)
    print("grading a class of 40 in two labs (some minutes) ...", flush=True)
    teach(course, students(40, seed=1))
    overview = [sys.executable, "-m", "nbjudge.grading.overview", "--anonymous"]
    subprocess.run(overview, cwd=course, check=True, capture_output=True)
    print(f"the class is at {course / 'gradebook' / 'reports' / 'index.html'}")
    print("and as it may be shown, in anonymous/ beside it")


if __name__ == "__main__":
    main()
