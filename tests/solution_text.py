"""What nobody may find in a release, the book or the student edition: solution regions
and rubrics."""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]


def solution_regions(cell):
    return re.findall(
        r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, flags=re.DOTALL
    )


def rubrics(cells):
    """The cells that ask for prose: in a solution they hold a model answer and how to
    mark it."""
    return [
        c
        for c in cells
        if c.cell_type == "markdown" and c.metadata.get("nbgrader", {}).get("solution")
    ]


def solution_lines(cells):
    """The statements and sentences of a lab's solution, each on one line."""
    texts = [region for cell in cells for region in solution_regions(cell)] + [
        cell.source for cell in rubrics(cells)
    ]
    lines, open_brackets = [""], 0
    for line in "\n".join(texts).splitlines():
        lines[-1] += line + "\n"
        open_brackets += len(re.findall(r"[(\[{]", line))
        open_brackets -= len(re.findall(r"[)\]}]", line))
        if (
            not open_brackets
        ):  # or the formatter has cut one statement into several lines
            lines.append("")
    return [flat(line) for line in lines if line.strip()]


def flat(text):
    """Undo what the formatter does to long lines, so that texts can be compared."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r",? ([)\]}])", r"\1", re.sub(r"([(\[{]) ", r"\1", text))


def secret_lines():
    """The lines of all labs' solutions that are long enough to be known by, and stand
    in no package or chapter."""
    cells = [
        cell
        for path in (ROOT / "solutions").glob("*/*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
    ]
    sources = [*(ROOT / "book").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    is_open = flat("\n".join(path.read_text() for path in sources))
    return [
        line for line in solution_lines(cells) if len(line) > 24 and line not in is_open
    ]
