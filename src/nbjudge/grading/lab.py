"""The instructor's notebook: its graded cells, their questions, and the code to run."""

import ast
import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

from nbjudge.grading.matching import grade_id, is_graded
from nbjudge.question import Question


class GradedCell(NamedTuple):
    """A cell `check("question", thing)`.

    Attributes:
        grade_id: the cell's name.
        question: name of the question.
        thing: the expression that it checks.
        points: the points that it is worth in this lab; the question may have others.
    """

    grade_id: str
    question: str
    thing: str
    points: int

    def worth(self, points: float | int, of: int) -> float:
        """Convert points of the question to points of this cell, rounded up to a half.

        Args:
            points: the points earned.
            of: the maximum points of the question.
        """
        return math.ceil(2 * points * self.points / of) / 2


class CodeCell(NamedTuple):
    """A cell to run.

    Attributes:
        name: its name in messages.
        source: its code.
        answers: whether a score depends on it.
    """

    name: str
    source: str
    answers: bool = False


def graded_cells(
    source: Sequence[Mapping[str, Any]], questions: Mapping[str, Question]
) -> list[GradedCell]:
    """Read the graded cells of a lab.

    Args:
        source: the lab's cells.
        questions: the course's questions, by name.

    Raises:
        ValueError: a graded cell is not of the form `check("question", thing)`.
    """
    asked = []
    for cell in filter(is_graded, source):
        try:
            (statement,) = ast.parse(cell["source"]).body
            call = statement.value
            name, thing = call.args
            if call.func.id != "check" or name.value not in questions:
                raise ValueError
        except (ValueError, SyntaxError, AttributeError) as error:
            raise ValueError(
                f'cell {grade_id(cell)} is no check("question", thing) of a known'
                " question"
            ) from error
        points = int(cell["metadata"]["nbgrader"]["points"])
        asked.append(GradedCell(grade_id(cell), name.value, ast.unparse(thing), points))
    return asked


def code_cells(cells: Sequence[Mapping[str, Any]]) -> list[CodeCell]:
    """Return the code that has to run for a submission.

    Args:
        cells: cells of the submission, after `restore`.
    """
    return [
        CodeCell(grade_id(cell) or f"number {i}", cell["source"], cell["needed"])
        for i, cell in enumerate(cells, 1)
        if cell["run"]
    ]


def imports_of(source: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the modules that a lab's cells import, so that they can be loaded early."""
    modules: dict[str, None] = {}
    to_python = TransformerManager().transform_cell
    for cell in source:
        tree = ast.Module([], [])
        if cell["cell_type"] == "code":
            with contextlib.suppress(SyntaxError):  # such a cell imports nothing
                tree = ast.parse(to_python(cell["source"]))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules.update((alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules[node.module] = None
    return list(modules)
