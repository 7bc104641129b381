"""What nobody may find in a release, the book or the student edition: solution regions and rubrics."""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]


def solution_regions(cell):
    return re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, flags=re.DOTALL)


def rubrics(cells):
    """The cells that ask for prose: in a solution they hold a model answer and how to mark it."""
    return [c for c in cells if c.cell_type == "markdown" and c.metadata.get("nbgrader", {}).get("solution")]


def solution_lines(cells):
    texts = [region for cell in cells for region in solution_regions(cell)] + [cell.source for cell in rubrics(cells)]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def secret_lines():
    """The lines of all labs' solutions that are long enough to be known by, and stand in no package or chapter."""
    cells = [
        cell for path in (ROOT / "solutions").glob("*/*.ipynb") for cell in nbformat.read(path, as_version=4).cells
    ]
    is_open = "\n".join(p.read_text() for p in [*(ROOT / "book").glob("*.md"), *(ROOT / "src").rglob("*.py")])
    return [line for line in solution_lines(cells) if len(line) > 24 and line not in is_open]
