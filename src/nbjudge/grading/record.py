"""What becomes of a submission: one record, and a notebook that nbgrader can show and
score."""

import ast
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nbjudge.grading.intake import (
    FLAGGED,
    GRADED,
    PERSON,
    Intake,
    grade_id,
    is_graded,
)
from nbjudge.grading.judge import Answered, Asked, Cell, Ran
from nbjudge.question import Question

FLAGS = 50
# Cell magics after which the rest of the cell is still Python.
HARMLESS = re.compile(r"%%(time|timeit|capture|prun)\b")
# What makes text in a markdown cell more than text: tags, entities, images, which are
# fetched without a click, links but to pages, and what MathJax has of these.
ACTIVE = re.compile(
    r"<(?=[A-Za-z/!?])|&(?=[#\w])|!(?=\[)|\](?=[(:](?!\s*https?://))"
    r"|\\(?=(href|style|class|cssId|require|mmlToken|bbox)\b)"
)


def questions_of(
    source: Sequence[Mapping[str, Any]], questions: Mapping[str, Question]
) -> list[Asked]:
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
        asked.append(Asked(grade_id(cell), name.value, ast.unparse(thing)))
    return asked


def imports_of(source: Sequence[Mapping[str, Any]], course: str) -> list[str]:
    """List the modules that a lab's cells import, to have them ready in time.

    Args:
        source: the lab's cells.
        course: the module that holds the questions, which is left out.
    """
    modules: dict[str, None] = {}
    for cell in source:
        if cell["cell_type"] != "code":
            continue
        for node in ast.walk(ast.parse(python(cell["source"]))):
            if isinstance(node, ast.Import):
                modules.update((alias.name, None) for alias in node.names)
            elif (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module != course
            ):
                modules[node.module] = None
    return list(modules)


def cells_to_run(cells: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Take the code that a submission has to run."""
    names = (grade_id(cell) or f"number {i}" for i, cell in enumerate(cells, 1))
    return [
        Cell(name, python(cell["source"]))
        for cell, name in zip(cells, names)
        if cell["run"]
    ]


def python(source: str) -> str:
    """Take IPython's magics and shell commands out of a cell; every line keeps its
    number."""
    try:
        ast.parse(source)
        return source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        lines = source.split("\n")
    if lines[0].startswith("%%") and not HARMLESS.match(lines[0]):
        return ""
    return "\n".join(re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in lines)


def summary(
    student: str,
    lab: str,
    intake: Intake,
    ran: Sequence[Ran],
    asked: Sequence[Asked],
    answered: Sequence[Answered],
    questions: Mapping[str, Question],
) -> dict[str, Any]:
    """Make the record of a submission: the same for the same submission, to the byte.

    Args:
        student: who handed it in.
        lab: name of the lab.
        intake: what was handed in.
        ran: what became of its cells.
        asked: the lab's graded cells.
        answered: what became of each; empty if nothing was asked.
        questions: of the course, by name.
    """
    flags = [
        *intake.flags,
        *(f"cell {cell.name}: {cell.error}" for cell in ran if cell.broken),
    ]
    flags += [*(f"{a.cell}: {b.trouble}" for a, b in zip(asked, answered) if b.trouble)]
    possible = [questions[a.question].points for a in asked]
    results = [
        {
            "cell": a.cell,
            "question": a.question,
            "points": b.points,
            "possible": p,
            "mistakes": list(b.mistakes),
        }
        for a, b, p in zip(asked, answered, possible)
    ]
    return {
        "student": student,
        "lab": lab,
        "folder": intake.folder,
        "sha256": intake.sha256,
        "status": PERSON if intake.problem else FLAGGED if flags else GRADED,
        "reason": intake.problem,
        "points": None if intake.problem else sum(b.points for b in answered),
        "possible": sum(possible),
        "questions": results,
        "flags": flags[:FLAGS],
    }


def notebook(
    intake: Intake,
    record: Mapping[str, Any],
    ran: Sequence[Ran],
    answered: Sequence[Answered],
) -> Any:
    """Make the notebook that formgrader shows: the student's cells, what they printed,
    and the judge's tables."""
    results = {
        question["cell"]: answer
        for question, answer in zip(record["questions"], answered)
    }
    outcomes = iter(ran)
    cells = [_notes(record)] if record["flags"] or record["reason"] else []
    for cell in intake.cells:
        outputs: list[dict[str, Any]] = []
        if is_graded(cell):
            outputs = _table(results.get(grade_id(cell)), record)
        elif cell["run"] and (outcome := next(outcomes, None)):
            outputs = _stream(
                outcome.printed + f"\n{outcome.error}" * bool(outcome.error)
            )
        cells.append(_plain_cell(cell, outputs))
    for i, made in enumerate(cells):
        made["id"] = f"cell-{i}"
    kernel = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _plain_cell(
    cell: Mapping[str, Any], outputs: list[dict[str, Any]]
) -> dict[str, Any]:
    made = {
        "cell_type": cell["cell_type"],
        "metadata": cell["metadata"],
        "source": cell["source"],
    }
    if cell["cell_type"] == "code":
        made.update(outputs=outputs, execution_count=None)
    elif not cell["metadata"].get("nbgrader", {}).get("locked"):
        made["source"] = tame(cell["source"])
    return made


def tame(markdown: str) -> str:
    """Put a space where a student's text could become a tag, an entity, or a link to
    anything but a page.

    Formgrader shows such text to the instructor, in a page from which their whole
    machine can be reached.
    """
    return ACTIVE.sub(
        r"\g<0> ", "".join(c for c in markdown if c in "\n\t" or c.isprintable())
    )


def _table(
    answered: Answered | None, record: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if answered is None:
        return _stream(record["reason"] or "; ".join(record["flags"]))
    data = {"text/plain": repr(answered.points), "text/html": answered.html}
    return [
        {
            "output_type": "execute_result",
            "data": data,
            "metadata": {},
            "execution_count": None,
        }
    ]


def _stream(text: str) -> list[dict[str, Any]]:
    return (
        [{"output_type": "stream", "name": "stdout", "text": text}]
        if text.strip()
        else []
    )


def _notes(record: Mapping[str, Any]) -> dict[str, Any]:
    lines = [f"needs a person: {record['reason']}"] * bool(record["reason"]) + record[
        "flags"
    ]
    listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
    source = f"<p><strong>Notes from grading</strong></p><ul>{listed}</ul>"
    return {"cell_type": "markdown", "metadata": {}, "source": source}
