"""Match a student's cells with the lab's: by grade id, cell id or what they define.

The rules are those of `intake`. nbgrader has none of them: what has lost its grade id
is another cell to it, and a cell that is there twice stops it.
"""

import ast
import contextlib
import functools
import re
import symtable
from collections.abc import Mapping, Sequence
from typing import Any

NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
# What `restore` gives: the cell of the source that it was, and the cell.
Placed = tuple[int | None, dict[str, Any]]


def grade_id(cell: Mapping[str, Any]) -> str:
    """Return a cell's grade id, or nothing."""
    metadata = cell["metadata"].get("nbgrader")
    found = metadata.get("grade_id") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def is_graded(cell: Mapping[str, Any]) -> bool:
    """Whether a cell of the source is one that the judge answers."""
    metadata = cell["metadata"].get("nbgrader", {})
    return bool(metadata.get("grade")) and not metadata.get("solution")


def is_answer(cell: Mapping[str, Any]) -> bool:
    """Whether a cell of the source is one for the student's answer."""
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def is_locked(cell: Mapping[str, Any]) -> bool:
    """Whether a cell of the source is to stay as it is."""
    locked = cell["metadata"].get("nbgrader", {}).get("locked")
    return is_graded(cell) or bool(locked and not is_answer(cell))


def defined(code: str) -> frozenset[str]:
    """List the functions and classes that a cell defines, even if it is no Python."""
    try:
        return frozenset(
            node.name
            for node in ast.parse(code).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        )
    except NO_PYTHON:
        found = re.findall(r"^(?:async def|def|class)\s+(\w+)", code, re.MULTILINE)
        return frozenset(found)


def needed(cells: Sequence[Mapping[str, Any]]) -> set[int]:
    """Find the code cells that a score depends on.

    They are the graded cells, the answers, and all that define what one of these needs.

    Args:
        cells: of the submission, restored.
    """
    code = {at for at, cell in enumerate(cells) if cell["cell_type"] == "code"}
    found = {at for at in code if is_graded(cells[at]) or is_answer(cells[at])}
    while True:
        wanted = {name for at in found for name in names_of(cells[at]["source"])[1]}
        more = {at for at in code - found if wanted & names_of(cells[at]["source"])[0]}
        if not more:
            return found
        found |= more


@functools.lru_cache(maxsize=2048)
def names_of(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """List the names that a cell defines, and those that it takes from elsewhere.

    What only IPython understands is left out: its own parser takes a time that nothing
    outside the sandbox may take.
    """
    for text in (code, "\n".join(map(_plain, code.splitlines()))):
        with contextlib.suppress(*NO_PYTHON):
            table = symtable.symtable(text, "", "exec")
            break
    else:
        return defined(code), frozenset()
    own = {s.get_name() for s in table.get_symbols() if s.is_assigned()}
    own |= {s.get_name() for s in table.get_symbols() if s.is_imported()}
    used, tables = set(), [table]
    for each in tables:
        tables += each.get_children()
        used |= {s.get_name() for s in each.get_symbols() if s.is_global()}
    return frozenset(own), frozenset(used - own)


def _plain(line: str) -> str:
    """Take from a line of code what IPython alone understands."""
    code = line.strip()
    if code.startswith(("%", "!", "?")) or code.endswith("?"):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return re.sub(r"=[ \t]*[%!].*", "= None", line)


def is_of(cells: list[dict[str, Any]], source: list[dict[str, Any]]) -> bool:
    """Whether a notebook is of this lab: it has one of its answers or checks."""
    found = [source[match] for match in _matches(cells, source) if match is not None]
    return any(is_answer(cell) or is_graded(cell) for cell in found)


def restore(
    cells: list[dict[str, Any]], source: list[dict[str, Any]], flags: list[str]
) -> list[dict[str, Any]]:
    """Put the lab's own cells back where they belong.

    Args:
        cells: of the student's notebook.
        source: of the lab, as released.
        flags: gets what is odd.

    Returns:
        Cells, each with `run`, whether it is executed, and with `needed`, whether a
        score depends on it.
    """
    matches = _matches(cells, source)
    copies: dict[int, list[int]] = {}
    for at, match in enumerate(matches):
        if match is not None:
            copies.setdefault(match, []).append(at)
    restored: list[Placed] = []
    for at, (cell, match) in enumerate(zip(cells, matches)):
        its = None if match is None else source[match]
        if match is None or its is None:
            run = cell["cell_type"] == "code"
            restored.append((None, {**cell, "metadata": {}, "run": run}))
        elif is_answer(its):
            answer = _answer(cell, at, copies[match], cells, its, flags)
            restored.append((match, answer))
        elif not is_locked(its):
            kept = {
                "run": cell["cell_type"] == "code",
                "show": its["metadata"].get("show"),
            }
            restored.append((match, {**cell, "metadata": {}, **kept}))
        elif cell["cell_type"] == its["cell_type"] == "code" and not is_graded(its):
            # what the student has added to it; the lab's own runs, too
            if cell["source"].strip() != its["source"].strip():
                restored.append((None, {**cell, "metadata": {}, "run": True}))
    for i, cell in enumerate(source):
        if is_locked(cell) or (is_answer(cell) and i not in copies):
            found = [cells[at] for at in copies.get(i, [])]
            odd = _oddities(cell, found) if found else ["was deleted"]
            flags += [f"{grade_id(cell)}: {what}" for what in odd]
            run = cell["cell_type"] == "code" and not is_graded(cell)
            restored.insert(_place(restored, i), (i, {**cell, "run": run}))
    made = [cell for _, cell in restored]
    released = {cell["source"].strip() for cell in source}
    flags += _elsewhere(made, released)
    wanted = needed(made)
    for at, cell in enumerate(made):
        cell["needed"] = at in wanted
        cell["run"] &= cell["needed"] or not cell.pop("show", False)
    return made


def _matches(
    cells: list[dict[str, Any]], source: list[dict[str, Any]]
) -> list[int | None]:
    """Find for every cell the cell of the source that it was."""
    numbered = list(enumerate(source))
    by_grade = {grade_id(cell): i for i, cell in numbered if grade_id(cell)}
    by_id = {cell["id"]: i for i, cell in numbered}
    by_names = {defined(cell["source"]): i for i, cell in numbered if is_answer(cell)}
    by_text = {cell["source"].strip(): i for i, cell in numbered}
    by_names.pop(frozenset(), None)
    by_text.pop("", None)

    def match(cell: dict[str, Any]) -> int | None:
        names = defined(cell["source"]) if cell["cell_type"] == "code" else frozenset()
        found = (
            by_grade.get(grade_id(cell)),
            by_id.get(cell["id"]),
            by_names.get(names),
            by_text.get(cell["source"].strip()),
        )
        return next((i for i in found if i is not None), None)

    return [match(cell) for cell in cells]


def _answer(
    cell: dict[str, Any],
    at: int,
    copies: list[int],
    cells: list[dict[str, Any]],
    source: dict[str, Any],
    flags: list[str],
) -> dict[str, Any]:
    """Return one copy of an answer.

    The last one that was worked in is the one that carries the grade id.
    """
    name, text = grade_id(source), source["source"].strip()
    worked = [i for i in copies if cells[i]["source"].strip() != text] or copies[-1:]
    if at == copies[0]:
        odd = [
            f"{len(copies)} cells answer this; all that were worked in run, the last"
            " one counts"
        ] * (len(copies) > 1)
        odd += _other_kind(cell, source)
        odd += [
            "found again by what it holds, its name for nbgrader was changed or gone"
        ] * all(grade_id(cells[i]) != name for i in copies)
        flags += [f"{name}: {what}" for what in odd]
    return {
        **cell,
        "cell_type": source["cell_type"],
        "run": at in worked and source["cell_type"] == "code",
        "metadata": source["metadata"] if at == worked[-1] else {},
    }


def _oddities(source: dict[str, Any], found: list[dict[str, Any]]) -> list[str]:
    """Say what was done to a cell that is taken from the source."""
    cell, wanted = found[0], source["metadata"].get("nbgrader", {})
    had = cell["metadata"].get("nbgrader")
    odd = [f"{len(found)} copies"] * (len(found) > 1) + _other_kind(cell, source)
    odd += ["was edited"] * (cell["source"].strip() != source["source"].strip())
    odd += ["was tagged"] * bool(cell["metadata"].get("tags"))
    if not isinstance(had, dict) or not had:
        return [*odd, "its metadata was gone"]
    keys = ("grade", "locked", "points", "solution", "task")
    return odd + [
        f"{key} was {had.get(key)!r:.40}"
        for key in keys
        if had.get(key, False) != wanted.get(key, False)
    ]


def _other_kind(cell: dict[str, Any], source: dict[str, Any]) -> list[str]:
    kind = cell["cell_type"]
    return [f"was a {kind} cell"] * (kind != source["cell_type"])


def _elsewhere(made: list[dict[str, Any]], released: set[str]) -> list[str]:
    """Say which checked names come from no cell, or are changed below their answer.

    All cells run before the first check: what is deleted or tried out below a check
    that the student saw hold may cost its points.

    Args:
        made: the cells of the submission, restored.
        released: what stands in the lab's own cells.
    """
    code = [cell for cell in made if cell["cell_type"] == "code"]
    names = {name for c in code if is_graded(c) for name in names_of(c["source"])[1]}
    odd = []
    for name in sorted(names - {"check"}):
        places = [at for at, c in enumerate(code) if name in names_of(c["source"])[0]]
        answers = [at for at in places if is_answer(code[at])]
        if not places:
            odd.append(f"{name}: no cell defines it; perhaps a magic would have")
        elif any(
            at > answers[-1] and code[at]["source"].strip() not in released
            for at in places
            if answers
        ):
            odd.append(f"{name}: a cell below its answer changes or deletes it")
    return odd


def _place(restored: list[Placed], i: int) -> int:
    """Find the place behind the cell that it follows in the source."""
    before = [
        (match, at)
        for at, (match, _) in enumerate(restored)
        if match is not None and match < i
    ]
    return max(before)[1] + 1 if before else 0
