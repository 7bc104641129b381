"""Match a student's cells with the lab's: by grade id, cell id or what they define.

The rules are listed in `intake`. nbgrader has none of them: to nbgrader, a cell that
has lost its grade id is another cell, and a cell that occurs twice is an error.
"""

import ast
import contextlib
import functools
import re
import symtable
from collections.abc import Mapping, Sequence
from typing import Any

NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
# A restored cell, after the index of the source's cell that it comes from.
Placed = tuple[int | None, dict[str, Any]]


def grade_id(cell: Mapping[str, Any]) -> str:
    """Return a cell's grade id; empty if there is none."""
    metadata = cell["metadata"].get("nbgrader")
    found = metadata.get("grade_id") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def is_graded(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of the source is graded by the judge."""
    metadata = cell["metadata"].get("nbgrader", {})
    return bool(metadata.get("grade")) and not metadata.get("solution")


def is_answer(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of the source is for the student's answer."""
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def is_locked(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of the source has to stay as it is."""
    locked = cell["metadata"].get("nbgrader", {}).get("locked")
    return is_graded(cell) or bool(locked and not is_answer(cell))


def defined(code: str) -> frozenset[str]:
    """List the functions and classes that a cell defines, even in invalid Python."""
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

    These are the graded cells, the answers, and all cells that define something that
    one of these needs.

    Args:
        cells: cells of the submission, after `restore`.
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

    Syntax that only IPython understands is left out: its own parser may take more time
    than anything outside the sandbox may take.
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
    """Remove from a line of code what only IPython understands."""
    code = line.strip()
    if code.startswith(("%", "!", "?")) or code.endswith("?"):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return re.sub(r"=[ \t]*[%!].*", "= None", line)


def is_of(cells: list[dict[str, Any]], source: list[dict[str, Any]]) -> bool:
    """Return whether a notebook is of this lab: it has one of its answers or checks."""
    found = [source[match] for match in _matches(cells, source) if match is not None]
    return any(is_answer(cell) or is_graded(cell) for cell in found)


def restore(
    cells: list[dict[str, Any]], source: list[dict[str, Any]], flags: list[str]
) -> list[dict[str, Any]]:
    """Put the lab's own cells back where they belong.

    Args:
        cells: cells of the student's notebook.
        source: cells of the lab, as released.
        flags: gets descriptions of what is odd.

    Returns:
        The cells, each with `run`, which says whether it is executed, and `needed`,
        which says whether a score depends on it.
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
            # run what the student has added to it, as well as the lab's own
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
    """Find for each cell the cell of the source that it comes from."""
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

    The last copy that was edited gets the grade id.
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
    """Say what was changed in a cell that is taken from the source."""
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
    """List checked names that no cell defines, or that change below their answer.

    All cells run before the first check: code below a check that deletes or changes a
    name may cost points, although the student saw the check hold.

    Args:
        made: cells of the submission, after `restore`.
        released: the text of the lab's own cells.
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
    """Find the position after the cell that it follows in the source."""
    before = [
        (match, at)
        for at, (match, _) in enumerate(restored)
        if match is not None and match < i
    ]
    return max(before)[1] + 1 if before else 0
