"""The labs' notebooks as programs: what a question is asked about, without the cells
that only train and draw."""

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

ROOT = Path(__file__).parents[2]
CHECK = re.compile(r'check\("(\w+)", (\w+)\)')


class Lab(NamedTuple):
    """A lab as text.

    Attributes:
        cells: the sources that answers need, in order: imports, what is given, and the
            answers themselves.
        asked: question -> the name that its `check` cell hands over.
    """

    cells: list[str]
    asked: dict[str, str]


def read(directory: str, lab: str) -> Lab:
    """Read solutions/LAB or labs/LAB."""
    cells = nbformat.read(ROOT / directory / lab / f"{lab}.ipynb", as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    needed = [
        cell.source
        for cell in code
        if "nbgrader" in cell.metadata and not cell.metadata.nbgrader.grade
    ]
    checks = [
        CHECK.fullmatch(cell.source)
        for cell in code
        if cell.metadata.get("nbgrader", {}).get("grade")
    ]
    return Lab(needed, dict(match.groups() for match in checks if match))


def run(cells: list[str]) -> dict[str, Any]:
    """Run cells as a notebook would, and return its names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            exec(compile(cell, "<cell>", "exec"), names)
    return names


def defining(lab: Lab, question: str) -> int:
    """Find the cell that answers a question."""
    name = lab.asked[question]
    found = [
        number
        for number, cell in enumerate(lab.cells)
        for node in ast.parse(cell).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    ]
    return found[-1]
