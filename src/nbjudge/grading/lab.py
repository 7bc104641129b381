"""The instructor's notebook: its graded cells, their questions, and what has to run."""

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
        grade_id: its name.
        question: the name of what it asks.
        thing: the expression that it checks.
        points: what it is worth in this lab; the question may say something else.
    """

    grade_id: str
    question: str
    thing: str
    points: int

    def worth(self, points: float | int, of: int) -> float:
        """Return points of the question as points of this cell, to the next half.

        Args:
            points: earned.
            of: what the question gives at most.
        """
        return math.ceil(2 * points * self.points / of) / 2


class CodeCell(NamedTuple):
    """A cell to run.

    Attributes:
        name: what it is called in messages.
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
        questions: of the course, by name.

    Raises:
        ValueError: a graded cell is no `check("question", thing)`.
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
    """Take the code that a submission has to run.

    Args:
        cells: of the submission, restored.
    """
    return [
        CodeCell(grade_id(cell) or f"number {i}", cell["source"], cell["needed"])
        for i, cell in enumerate(cells, 1)
        if cell["run"]
    ]


def imports_of(source: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the modules that a lab's cells import, to have them ready in time."""
    modules: dict[str, None] = {}
    to_python = TransformerManager().transform_cell
    for cell in source:
        tree = ast.Module([], [])
        if cell["cell_type"] == "code":
            with contextlib.suppress(SyntaxError):  # no import stands in such a cell
                tree = ast.parse(to_python(cell["source"]))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules.update((alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules[node.module] = None
    return list(modules)
