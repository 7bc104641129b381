"""The lecture map: every row leads to a section, a part of the package and a graded
question, or says why not."""

import importlib
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
# What the labs grade: the question of each check, and the name of each cell that asks
# for prose.
GRADED = {
    cell.metadata.nbgrader.grade_id.removeprefix("check_")
    for path in (ROOT / "solutions").glob("*/*.ipynb")
    for cell in nbformat.read(path, as_version=4).cells
    if cell.metadata.get("nbgrader", {}).get("grade")
}
LABELS = set(
    re.findall(
        r"^\(([\w-]+)\)=$",
        "\n".join(p.read_text() for p in BOOK.glob("*.md")),
        flags=re.MULTILINE,
    )
)
REASON = re.compile(r"\b(no|not yet|none): \S|^none yet$")


def rows():
    lecture, found = "", []
    for line in (BOOK / "lecture_map.md").read_text().splitlines():
        if line.startswith("## "):
            lecture = line[3:]
        elif line.startswith("|") and not line.startswith(
            ("| ---", "| In the lecture")
        ):
            found.append(
                (lecture, *(cell.strip() for cell in line.strip("|").split(" | ")))
            )
    return found


def resolve(name):
    """Find `rnn.RNNEncoder.forward` in the package."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(
                ".".join(["attention_course", *parts[:end]])
            )
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise AttributeError(name)


def missing(section, package, graded):
    """List what a row names and nothing has, and the columns that name nothing and give
    no reason."""
    labels = re.findall(r"\{ref\}`([\w-]+)`", section)
    names, questions = (
        re.findall(r"`([\w.]+)`", package),
        re.findall(r"`(\w+)`", graded),
    )
    wrong = [label for label in labels if label not in LABELS]
    wrong += [question for question in questions if question not in GRADED]
    for name in names:
        try:
            resolve(name)
        except AttributeError:
            wrong.append(name)
    columns = {
        "section": (section, labels),
        "package": (package, names),
        "graded": (graded, questions),
    }
    return wrong + [
        name
        for name, (cell, named) in columns.items()
        if not named and not REASON.search(cell)
    ]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_what_a_row_names_exists(row):
    assert len(row) == 5, f"not four columns: {row}"
    assert missing(*row[2:]) == []


def test_every_graded_cell_has_a_row():
    assert GRADED
    assert (
        GRADED - {name for row in rows() for name in re.findall(r"`(\w+)`", row[-1])}
        == set()
    )


def test_all_five_lectures_have_rows():
    assert len({row[0] for row in rows()}) == 5
    assert len(rows()) > 80


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (("{ref}`scoring-dto`", "`scores.DotScore`", "`dot`"), ["scoring-dto"]),
        (("{ref}`scoring-dot`", "`scores.DotScores`", "`dot`"), ["scores.DotScores"]),
        (("{ref}`scoring-dot`", "`score.DotScore`", "`dot`"), ["score.DotScore"]),
        (("{ref}`scoring-dot`", "`scores.DotScore`", "`dots`"), ["dots"]),
        (("", "`scores.DotScore`", "`dot`"), ["section"]),
        (("not yet", "`scores.DotScore`", ""), ["section", "graded"]),
        (("not yet: chapter on cost", "none yet", "no: a fact"), []),
    ],
)
def test_what_does_not_exist_is_noticed(row, wrong):
    assert missing(*row) == wrong
