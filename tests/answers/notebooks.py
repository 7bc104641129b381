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


def labs() -> list[str]:
    """List the labs by name."""
    return sorted(path.name for path in (ROOT / "labs").iterdir() if path.is_dir())


def text(lab: str) -> str:
    """Return all that a student reads in a lab, with single spaces."""
    cells = nbformat.read(ROOT / "labs" / lab / f"{lab}.ipynb", as_version=4).cells
    return " ".join(" ".join(cell.source.split()) for cell in cells)


def promised(question: str) -> list[str]:
    """List what a released lab promises of an answer.

    The bullets in front of its cell, and what its docstrings say under Args, Returns
    and Raises; not of a class, whose `__init__` is given.
    """
    for lab in labs():
        bullets: list[str] = []
        said: list[str] = []
        path = ROOT / "labs" / lab / f"{lab}.ipynb"
        for cell in nbformat.read(path, as_version=4).cells:
            found = CHECK.fullmatch(cell.source)
            if cell.cell_type == "markdown":
                if re.search(r"^## ", cell.source, re.MULTILINE):
                    bullets = []
                entries = re.findall(r"^- (.*(?:\n  .*)*)", cell.source, re.MULTILINE)
                bullets += [" ".join(entry.split()) for entry in entries]
            elif found and found[1] == question:
                return [*bullets, *said]
            elif "NotImplementedError" in cell.source:
                functions = [
                    node
                    for node in ast.walk(ast.parse(cell.source))
                    if isinstance(node, ast.FunctionDef)
                ]
                said = [x for f in functions for x in _entries(ast.get_docstring(f))]
    raise ValueError(f"no lab asks {question}")


def _entries(docstring: str | None) -> list[str]:
    """List the entries under Args, Returns and Raises."""
    sections = re.split(r"^(\w+):$", docstring or "", flags=re.MULTILINE)[1:]
    said = []
    for name, body in zip(sections[::2], sections[1::2]):
        if name == "Returns":
            said.append(" ".join(body.split()))
        elif name in ("Args", "Raises"):
            entries = re.split(r"^    (?=\S)", body, flags=re.MULTILINE)
            said += [" ".join(entry.split()) for entry in entries if entry.strip()]
    return said
