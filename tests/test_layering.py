"""Who may import whom. The tables are the design's; a module has a place in them."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"

# The subject. Directly below each module or sub-package; what is below those may be
# imported, too.
BELOW = {
    "__init__": [],
    "masks": [],
    "checks": [],
    "fast": [],
    "scores": ["checks", "fast"],
    "metrics": [],
    "plotting": [],
    "attention": ["masks", "scores"],
    "blockwise": ["scores"],
    "seq2seq": ["attention"],
    "rnn": ["seq2seq"],
    "transformer": ["seq2seq"],
    "heads": ["masks", "transformer"],
    "pooling": ["seq2seq"],
    "vision": ["transformer"],
    "models": ["rnn", "transformer", "pooling", "vision"],
    "cache": ["seq2seq"],
    "decoding": ["cache"],
    "compiled": ["cache", "transformer"],
    "pretrained": ["models", "decoding", "compiled"],
    "tasks": ["masks", "decoding", "metrics"],
    "training": ["tasks"],
    "registry": ["models", "tasks"],
    "live": ["tasks", "transformer"],
    "runs": ["training", "registry", "plotting", "pretrained"],
    "cli": ["runs"],
}
# The rooms: what each may import of the others. The command line is for a shell, and the
# instructor's half of the judge for an instructor.
ROOMS = {
    "attention_course": [],
    "nbjudge": [],
    "nbjudge.grading": ["nbjudge"],
    "attention_labs": ["nbjudge", "attention_course"],
}
APART = {"attention_course.cli", "attention_course.runs", "nbjudge.grading"}
OUTSIDE = {"book", "labs", "solutions", "scripts", "tests", "conftest"}


def may_import(unit):
    return {unit}.union(*(may_import(below) for below in BELOW[unit]))


def room_of(dotted):
    return max((r for r in ROOMS if f"{dotted}.".startswith(f"{r}.")), key=len)


def imported(code, package):
    """List the dotted names that some code imports, `package` being where it stands."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def violations(code, module):
    """List what the code of a module (its dotted name) may not import."""
    room = room_of(module)
    wrong = []
    for name in imported(code, module.rpartition(".")[0]):
        top, *rest = name.split(".")
        if top in OUTSIDE:
            wrong.append(name)
        elif top not in {r.partition(".")[0] for r in ROOMS}:
            continue
        elif room_of(name) != room:
            apart = any(f"{name}.".startswith(f"{a}.") for a in APART)
            if apart or room_of(name) not in ROOMS[room]:
                wrong.append(name)
        elif room == "attention_course" and rest:
            unit = (module.split(".") + ["__init__"])[1]
            if rest[0] not in may_import(unit):
                wrong.append(name)
    return wrong


def dotted(path):
    return ".".join(path.relative_to(SRC).with_suffix("").parts)


FILES = sorted(SRC.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_imports_go_one_way(path):
    module = dotted(path)
    top, unit = module.split(".")[:2]
    if top == "attention_course":
        assert unit in BELOW, f"{module} has no place in the table of this test"
    assert violations(path.read_text(encoding="utf-8"), module) == []


@pytest.mark.parametrize("name", ["attention_course", "attention_labs"])
def test_the_judge_names_no_course(name):
    for path in (SRC / "nbjudge").rglob("*.py"):
        assert name not in path.read_text(encoding="utf-8"), path


def test_there_is_something_to_look_at():
    names = {path.name for path in FILES}
    assert {"masks.py", "scores.py", "dates.py", "intake.py", "greedy.py"} <= names


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_for(room):
    code = (SRC / room.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    assert len(ast.get_docstring(ast.parse(code)).split()) > 30


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("from attention_course.attention import attend", "attention_course.scores"),
        ("from attention_course import attention", "attention_course.scores"),
        ("import attention_course.attention as a", "attention_course.masks"),
        ("from .attention import attend", "attention_course.masks"),
        ("from . import attention", "attention_course.masks"),
        ("from attention_course.scores import DotScore", "attention_course.fast.tanh"),
        (
            "from attention_course.rnn import RNNEncoder",
            "attention_course.transformer.stacks",
        ),
        (
            "def late():\n    from attention_course.training import train",
            "attention_course.tasks.core",
        ),
        ("from attention_course.models import luong", "attention_course.training"),
        ("from attention_course.tasks.core import Task", "attention_course.models"),
        (
            "from attention_course.masks import causal_mask",
            "attention_course.plotting",
        ),
        ("from nbjudge import Question", "attention_course.scores"),
        ("from attention_labs import check", "attention_course.tasks.dates"),
        ("from attention_course.scores import DotScore", "nbjudge.inputs"),
        ("from attention_labs import QUESTIONS", "nbjudge.grading.judge"),
        ("from nbjudge.grading import wire", "nbjudge.question"),
        ("from nbjudge.grading.intake import take_in", "attention_labs.pages"),
        ("from attention_course.cli import app", "attention_labs.lab01.pad"),
        ("from tests.conftest import BUILDERS", "attention_course.training"),
        ("from scripts.release import release", "nbjudge.grading.commands"),
        ("import solutions.lab01_bottleneck", "attention_labs"),
    ],
)
def test_a_wrong_import_is_noticed(code, module):
    assert violations(code, module)


@pytest.mark.parametrize(
    ("code", "module"),
    [
        (
            "from attention_course.masks import padding_mask\n"
            "from attention_course.scores import Score",
            "attention_course.rnn",
        ),
        (
            "from attention_course.tasks.core import Task",
            "attention_course.tasks.dates",
        ),
        ("import torch\nfrom torch import nn", "attention_course.masks"),
        (
            "from attention_course.rnn import RNNEncoder\nfrom nbjudge import Question",
            "attention_labs.lab02.encoder",
        ),
        ("from nbjudge.question import Question", "nbjudge.grading.judge"),
        ("from nbjudge.grading import wire", "nbjudge.grading.judge"),
    ],
)
def test_a_right_import_is_allowed(code, module):
    assert violations(code, module) == []
