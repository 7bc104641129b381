"""The lecture map: each item of the lectures has one row, and each row is true.

Sections show or use what a row names, and the questions of a row have it as reference."""

import ast
import copy
import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest
from test_book import CELL

from attention_labs import QUESTIONS

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
COURSE = "attention_course"
# The items of the lectures, by the lines of their texts.
ITEMS = {
    "motivation": """
        8-11 13-18 20-28 30-34 36-40 42-65 67-72 74-80 82-90 92-124 126-131
        133-144 146-159 161-168 170-193 195-211 213-225 227-233 235-245
    """,
    "attentional-seq2seq": """
        9-22 28 32a 32b 37-38 39 43-47 52-59 64-78 80-84 85 86 92-170 174-193
        196-227 231 239-245 247-251 253-257 263 264-269 271-273 275-280 282-289
        291-298 302-320 322-331 333-339 341-358 364-366 370-373 374 376-379 380
        381-383 384 385 386
    """,
    "attention-mechanism": """
        20-23 24-28 35-54 58-79 81-86 87-90 92-100 102-107 109-114 118-124 126
        127 128 147-149 152-169 173-178 180-199 201-202 203 205-251 234 255-262
        265-271 273-278 283-284 285 286 287-289 290-291 293-300 307-312 314-322
        323 324 326 328-336 338-343 344-345 346-347 349 351
    """,
    "recitation": """
        8-13 16-20 24-27 31-47 50-58 63-70 72-78 84-89 91-110 112-121 123-130
        132-139 141-146 148-155 160-164 165-166 167 169-175 180-185 187-192
        197-200 201-202 203 208-213 217-222 226-229
    """,
    "short-article": """
        3 5-17 19-21 23 25-27 29-31 33 35a 35b 37
    """,
}
IDS = [f"{lecture}:{lines}" for lecture in ITEMS for lines in ITEMS[lecture].split()]
# What the labs grade: the question of each check, and the name of each cell that asks
# for prose.
GRADED = {
    cell.metadata.nbgrader.grade_id.removeprefix("check_")
    for path in (ROOT / "solutions").glob("*/*.ipynb")
    for cell in nbformat.read(path, as_version=4).cells
    if cell.metadata.get("nbgrader", {}).get("grade")
}
LISTING = re.compile(
    r"\{literalinclude\} \.\./src/(\S+)\.py\n(?::(?!pyobject)\S+.*\n)*:pyobject: (\S+)"
)


@pytest.fixture(scope="module")
def lectures():
    sys.path.insert(0, str(BOOK / "_ext"))
    try:
        return importlib.import_module("course_lectures")
    finally:
        sys.path.pop(0)


@pytest.fixture
def data(lectures):
    return lectures.read_map()


def resolve(name):
    """Find `rnn.RNNEncoder.forward` in the package."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join([COURSE, *parts[:end]]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise AttributeError(name)


def full_name(thing):
    """Say where something is defined; nothing for what has no place."""
    if not hasattr(thing, "__qualname__"):
        return None
    return f"{thing.__module__}.{thing.__qualname__}"


def is_or_holds(one, other):
    """Whether two names are one, or the one is a part of the other."""
    return one == other or one.startswith(other + ".") or other.startswith(one + ".")


def code(cell):
    cell = re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(x for x in cell.splitlines() if not re.match(r":[\w-]+:", x))


def imported(trees):
    """Map the names that cells give to parts of the package."""
    names = {}
    for node in (n for tree in trees for n in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(COURSE):
            module = importlib.import_module(node.module)
            for alias in node.names:
                thing = getattr(module, alias.name, None)
                if thing is None:
                    thing = importlib.import_module(f"{node.module}.{alias.name}")
                names[alias.asname or alias.name] = thing
    return names


def used(tree, names):
    """Yield the parts of the package that a cell names in its code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            yield names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = names.get(node.value.id)
            yield getattr(owner, node.attr, None)


@cache
def sections():
    """Map each label to the full names of what its section shows or uses.

    The exercises belong to no section, and a mark for slides begins none.
    """
    found = {}
    for path in BOOK.glob("*.md"):
        text = path.read_text().partition("\n## Exercises\n")[0]
        names = imported([ast.parse(code(cell)) for cell in CELL.findall(text)])
        _, *parts = re.split(r"^\((?!slide-)([\w-]+)\)=$", text, flags=re.MULTILINE)
        for label, body in zip(parts[::2], parts[1::2]):
            shown = {
                f"{module.replace('/', '.')}.{name}"
                for module, name in LISTING.findall(body)
            }
            for cell in CELL.findall(body):
                shown |= set(map(full_name, used(ast.parse(code(cell)), names)))
            found[label] = shown - {None}
    return found


def reference(question):
    """List the full names of a question's reference: of the package's part in it.

    A reference of the labs' own is made of the package's class that it extends, or of
    what its code calls.
    """
    thing = QUESTIONS[question].reference
    if thing.__module__.startswith(COURSE):
        return [full_name(thing)]
    classes = inspect.getmro(thing)[1:] if inspect.isclass(thing) else ()
    bases = [c for c in classes if c.__module__.startswith(COURSE)]
    if bases:
        return [full_name(bases[0])]
    functions = vars(thing).values() if inspect.isclass(thing) else [thing]
    called = [
        full_name(function.__globals__.get(name))
        # the suite runs with every function wrapped in a check of its shapes
        for function in map(inspect.unwrap, filter(inspect.isfunction, functions))
        for name in function.__code__.co_names
    ]
    return [name for name in called if name and name.startswith(COURSE)]


def wrong_in_row(row):
    """List what a row says and is not so."""
    labels, names, questions = (
        [] if isinstance(row[column], str) else row[column]
        for column in ("book", "package", "graded")
    )
    wrong = [
        f"{column}: no reason"
        for column in ("book", "package", "graded")
        if not row[column] or not re.match(r"\[|(no|not yet): \S", str(row[column]))
    ]
    wrong += [f"no section {label}" for label in labels if label not in sections()]
    things = {}
    for name in names:
        try:
            things[name] = full_name(resolve(name))
        except AttributeError:
            wrong.append(f"no {name} in the package")
    seen = set().union(*(sections().get(label, ()) for label in labels))
    wrong += [
        f"no section shows {name}"
        for name, thing in things.items()
        if labels and not any(is_or_holds(thing, other) for other in seen)
    ]
    for question in questions:
        if question not in QUESTIONS:
            wrong.append(f"no question {question}")
        elif not any(
            is_or_holds(thing, other)
            for thing in things.values()
            for other in reference(question)
        ):
            wrong.append(f"{question} has another reference")
    return wrong


def wrong_in_map(data):
    """List what is wrong with a map: rows, and ids and questions that are not there
    once."""
    rows = [row for lecture in data["lectures"].values() for row in lecture]
    ids = [row["id"] for row in rows]
    wrong = [f"{name}: not one row" for name in IDS if ids.count(name) != 1]
    wrong += [f"{name}: no item" for name in ids if name not in IDS]
    wrong += [f"{row['id']}: {x}" for row in rows for x in wrong_in_row(row)]
    others = data["unmatched"] + data["written"]
    wrong += [f"{o['item']}: no item" for o in others if o["item"] not in [None, *IDS]]
    in_rows = {
        x for row in rows if isinstance(row["graded"], list) for x in row["graded"]
    }
    listed = [x for other in others for x in other["questions"]] + sorted(in_rows)
    wrong += [f"{x}: not one place" for x in GRADED if listed.count(x) != 1]
    wrong += [f"{x}: not graded" for x in listed if x not in GRADED]
    written = {x for other in data["written"] for x in other["questions"]}
    wrong += [f"{x}: graded by code" for x in written & set(QUESTIONS)]
    return wrong


def test_the_map_is_true(data):
    assert GRADED
    assert wrong_in_map(data) == []


def test_the_page_has_each_item_once(lectures, data):
    page = lectures.tables(data)
    assert lectures.TABLES in (BOOK / "lecture_map.md").read_text().splitlines()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for row in (row for lecture in data["lectures"].values() for row in lecture):
        assert sum(line.startswith(f"| {row['item']} |") for line in rows) == 1
    assert all(len(re.findall(r"(?<!\\)\|", line)) in (4, 5) for line in rows)


def row_of(data, item):
    rows = [row for lecture in data["lectures"].values() for row in lecture]
    return next(row for row in rows if row["id"] == item)


@pytest.mark.parametrize(
    "item",
    [
        "attentional-seq2seq:364-366",  # GNMT
        "attentional-seq2seq:341-358",  # Keras
        "attention-mechanism:205-251",  # self-attention in five steps
    ],
)
def test_a_deleted_row_is_missed(data, item):
    for rows in data["lectures"].values():
        rows[:] = [row for row in rows if row["id"] != item]
    assert f"{item}: not one row" in wrong_in_map(data)


def test_a_row_that_stands_twice_is_noticed(data):
    row = row_of(data, "recitation:203")
    data["lectures"]["Motivation"].append(copy.deepcopy(row))
    assert wrong_in_map(data) == ["recitation:203: not one row"]


DOT = "attentional-seq2seq:239-245"


@pytest.mark.parametrize(
    ("column", "names", "wrong"),
    [
        ("book", ["cost-cache"], "no section shows scores.DotScore"),
        ("package", ["scores.LocationScore"], "dot has another reference"),
        ("graded", ["freeze"], "freeze has another reference"),
        ("graded", ["general"], "general has another reference"),
        ("book", ["scoring-dto"], "no section scoring-dto"),
        ("package", ["scores.DotScores"], "no scores.DotScores in the package"),
        ("package", ["score.DotScore"], "no score.DotScore in the package"),
        ("graded", ["dots"], "no question dots"),
        ("graded", ["explain_scale"], "no question explain_scale"),
        ("book", [], "book: no reason"),
        ("graded", "", "graded: no reason"),
        ("graded", "later", "graded: no reason"),
    ],
)
def test_a_false_row_is_noticed(data, column, names, wrong):
    row = row_of(data, DOT)
    row[column] = names
    assert wrong in wrong_in_row(row)
    assert f"{DOT}: {wrong}" in wrong_in_map(data)


def test_a_question_without_a_place_is_noticed(data):
    row_of(data, "attentional-seq2seq:86")["graded"] = "no: history"
    assert wrong_in_map(data) == ["gaussian: not one place"]


def test_a_written_question_cannot_pass_for_one_that_code_grades(data):
    data["unmatched"] = [x for x in data["unmatched"] if x["questions"] != ["encoder"]]
    data["written"].append({"questions": ["encoder"], "item": None})
    assert wrong_in_map(data) == ["encoder: graded by code"]
