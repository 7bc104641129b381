"""Who may import whom. The table is the design's; a new module has to find its place in
it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "attention_course"

# Directly below each module or sub-package; what is below those may be imported too.
BELOW = {
    "__init__": [],
    "masks": [],
    "scores": ["tanh"],
    "metrics": [],
    "plotting": [],
    "viewer": [],
    "dropout": [],
    "tanh": [],
    "attention": ["dropout", "masks", "scores"],
    "seq2seq": ["attention"],
    "windows": ["seq2seq"],
    "rnn": ["windows"],
    "gnmt": ["rnn"],
    "transformer": ["seq2seq"],
    "pooling": ["seq2seq"],
    "vision": ["transformer"],
    "models": ["gnmt", "transformer", "pooling", "vision"],
    "decoding": ["seq2seq"],
    "tasks": ["masks", "decoding", "metrics"],
    "training": ["tasks"],
    "registry": ["models", "tasks"],
    "runs": ["training", "registry"],
    "cli": ["runs"],
    "questions": ["cli", "plotting", "viewer"],
}
OUTSIDE = {"book", "labs", "solutions", "tests", "conftest"}


def may_import(unit):
    if unit == "grader":
        # it knows no model, so not what is below the questions
        return {"grader", "questions"}
    return {unit}.union(*(may_import(below) for below in BELOW[unit]))


def imported(code, package):
    """List the dotted names that some code imports, `package` being where the code
    stands."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                package.split(".")[: len(package.split(".")) - node.level + 1]
                if node.level
                else []
            )
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def violations(code, unit, package="attention_course"):
    wrong = []
    for name in imported(code, package):
        top, *rest = name.split(".")
        if top in OUTSIDE or (
            top == "attention_course" and rest and rest[0] not in may_import(unit)
        ):
            wrong.append(name)
    return wrong


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    relative = path.relative_to(PACKAGE)
    unit = relative.parts[0].removesuffix(".py")
    package = ".".join(["attention_course", *relative.parts[:-1]])

    assert unit in [
        *BELOW,
        "grader",
    ], f"{relative} has no place in the table of test_layering.py"
    assert violations(path.read_text(encoding="utf-8"), unit, package) == []


def test_there_is_something_to_look_at():
    assert {"masks.py", "scores.py", "rnn.py", "loop.py", "dates.py"} <= {
        path.name for path in FILES
    }


@pytest.mark.parametrize(
    ("code", "unit"),
    [
        ("from attention_course.attention import attend", "scores"),
        ("from attention_course import attention", "scores"),
        ("import attention_course.attention as a", "masks"),
        ("from .attention import attend", "masks"),
        ("from . import attention", "masks"),
        ("def late():\n    from attention_course.training import train", "tasks"),
        ("from attention_course.models import luong", "training"),
        ("from attention_course.tasks.core import Task", "models"),
        ("from attention_course.masks import causal_mask", "plotting"),
        ("from attention_course.scores import DotScore", "grader"),
        ("from tests.conftest import BUILDERS", "training"),
        ("import solutions.lab01_bottleneck", "questions"),
    ],
)
def test_a_wrong_import_is_noticed(code, unit):
    assert violations(code, unit)


@pytest.mark.parametrize(
    ("code", "unit"),
    [
        (
            (
                "from attention_course.masks import padding_mask\nfrom"
                " attention_course.scores import Score"
            ),
            "rnn",
        ),
        ("from attention_course.tasks.core import Task", "tasks"),
        ("import torch\nfrom torch import nn", "masks"),
        ("from attention_course.rnn import RNNEncoder", "questions"),
        ("from attention_course.questions import question", "grader"),
    ],
)
def test_a_right_import_is_allowed(code, unit):
    assert violations(code, unit) == []
