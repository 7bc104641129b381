"""The result of a submission: its JSON record, and a notebook with the feedback.

Our own rule makes students' Markdown safe: bleach, which comes with nbconvert, cleans
HTML. In Markdown it changes formulas (`a < b`), and it lets through links, images and
MathJax commands.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbjudge.feedback import rendered
from nbjudge.grading.intake import Intake
from nbjudge.grading.judge import CellOutcome, Verdict
from nbjudge.grading.lab import GradedCell
from nbjudge.grading.matching import grade_id, is_graded
from nbjudge.grading.sandbox.text import COMMAND, without_commands

GRADED, FLAGGED, PERSON = "graded", "graded with a flag", "needs a person"
FLAGS = 50
# Characters that are kept of what all cells together have printed.
OUTPUT_CHARACTERS = 200_000
# What makes text in a Markdown cell more than text: tags, entities, images, which are
# fetched without a click, links to anything but web pages, and MathJax's equivalents.
ACTIVE = re.compile(
    r"<(?=[A-Za-z/!?])|&(?=[#\w])|!(?=\[)|\](?=[(:](?!\s*https?://))|" + COMMAND.pattern
)


def summary(
    student: str,
    lab: str,
    intake: Intake,
    ran: Sequence[CellOutcome],
    asked: Sequence[GradedCell],
    verdicts: Sequence[Verdict],
) -> dict[str, Any]:
    """Make the record of a submission; the same submission gives the same bytes.

    Args:
        student: the student who handed it in.
        lab: name of the lab.
        intake: what was handed in.
        ran: the results of its cells.
        asked: the lab's graded cells.
        verdicts: the verdict on each graded cell; empty if nothing was asked.
    """
    flags = [
        *intake.flags,
        *(
            f"cell {outcome.cell.name}: {outcome.error}"
            for outcome in ran
            if outcome.broken or (outcome.error and outcome.cell.answers)
        ),
        *(f"{a.grade_id}: {v.trouble}" for a, v in zip(asked, verdicts) if v.trouble),
    ]
    results = [
        {
            "cell": a.grade_id,
            "question": a.question,
            "points": v.points,
            "possible": a.points,
            "mistakes": list(v.mistakes),
            "held": list(v.held),
        }
        for a, v in zip(asked, verdicts)
    ]
    return {
        "student": student,
        "lab": lab,
        "folder": intake.folder,
        "sha256": intake.sha256,
        "status": PERSON if intake.problem else FLAGGED if flags else GRADED,
        "reason": without_commands(intake.problem),
        "points": None if intake.problem else sum(v.points for v in verdicts),
        "possible": sum(a.points for a in asked),
        "questions": results,
        "flags": [without_commands(flag) for flag in flags[:FLAGS]],
    }


def notebook(
    intake: Intake,
    record: Mapping[str, Any],
    ran: Sequence[CellOutcome],
    verdicts: Sequence[Verdict],
) -> Any:
    """Make the notebook that formgrader shows.

    It holds the student's cells, what they printed, and the judge's tables.
    """
    cells = [q["cell"] for q in record["questions"]]
    printed, results = _printed(ran), dict(zip(cells, verdicts))
    notes = [f"needs a person: {record['reason']}"] * bool(record["reason"])
    notes += record["flags"]
    source = {"metadata": {}, "source": rendered("notes", notes=notes)}
    made = [{"cell_type": "markdown", **source}] if notes else []
    for cell in intake.cells:
        if is_graded(cell):
            outputs = _verdict(results.get(grade_id(cell)), record)
        else:
            outputs = _stream(next(printed, "")) if cell["run"] else []
        made.append(_plain_cell(cell, outputs))
    for i, each in enumerate(made):
        each["id"] = f"cell-{i}"
    kernel = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    return {
        "cells": made,
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
    """Insert a space where a student's text could become more than text.

    This applies to tags, entities, and links to anything but web pages. Formgrader
    shows such text to the instructor, in a page from which their whole machine can be
    reached.
    """
    return ACTIVE.sub(
        r"\g<0> ", "".join(c for c in markdown if c in "\n\t" or c.isprintable())
    )


def _verdict(
    verdict: Verdict | None, record: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if verdict is None:
        return _stream(record["reason"] or "; ".join(record["flags"]))
    data = {"text/plain": repr(verdict.points), "text/html": verdict.html}
    output = {"output_type": "execute_result", "data": data, "metadata": {}}
    return [{**output, "execution_count": None}]


def _printed(ran: Sequence[CellOutcome]) -> Iterator[str]:
    """Yield what each cell printed, until the total is too much for a page."""
    left = OUTPUT_CHARACTERS
    for outcome in ran:
        text = outcome.printed + f"\n{outcome.error}" * bool(outcome.error)
        yield (
            text if len(text) <= left else f"{text[:left]}\n... (cut: too much in all)"
        )
        left = max(0, left - len(text))


def _stream(text: str) -> list[dict[str, Any]]:
    stream = {"output_type": "stream", "name": "stdout", "text": text}
    return [stream] if text.strip() else []
