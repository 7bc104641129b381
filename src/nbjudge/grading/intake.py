"""Intake: from what was handed in to cells to run, with nothing executed and nothing
lost.

The rules, in one place:

- A notebook is looked for under the lab's name, then under any other, also in folders,
  then in a zip archive. No link is followed.
- A cell of the lab is found again by its grade id, then by its cell id, then by what it
  defines.
- Graded and locked cells are taken from the source, each behind the cell that it
  follows there.
- An answer that was deleted comes back as it was released. Of several copies all run in
  the student's order, so that the last one counts; copies that were never worked in do
  not run.
- A cell that the source marks as show ("show": true in its metadata) does not run,
  unless something was defined in it.
- Whatever was odd is written down as a flag.
"""

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

NOTEBOOK_BYTES = 20 << 20
# Of all notebooks of one submission together.
TOTAL_BYTES = 60 << 20
# Files looked at, in a folder or in an archive.
ENTRIES = 1000
DEPTH = 8
CELLS = 2000
SOURCE_CHARACTERS = 50_000
# Of all cells together: what turns markdown into pages may take time with the square of
# it.
TEXT_CHARACTERS = 500_000


GRADED, FLAGGED, PERSON = "graded", "graded with a flag", "needs a person"


class Unreadable(Exception):
    """A person has to look; the message says why."""


class Found(NamedTuple):
    """A notebook as it was handed in."""

    name: str
    content: bytes
    cells: list[dict[str, Any]]


@dataclass
class Intake:
    """What a submission holds.

    Attributes:
        cells: of the notebook as it will be shown to the instructor, each with `run`,
            whether it is executed.
        folder: fingerprint of all that was handed in.
        sha256: of the notebook's bytes; empty if there were none.
        content: those bytes.
        flags: what was odd.
        problem: why no machine can grade it; empty if one can.
    """

    cells: list[dict[str, Any]] = field(default_factory=list)
    folder: str = ""
    sha256: str = ""
    content: bytes = b""
    flags: list[str] = field(default_factory=list)
    problem: str = ""


def take_in(folder: Path, lab: str, source: list[dict[str, Any]]) -> Intake:
    """Take a submission in.

    Args:
        folder: what the student handed in.
        lab: name of the lab, and of its notebook.
        source: the cells of the lab as released.

    Returns:
        What it holds; if there is a problem, the cells of the release.
    """
    intake = Intake(folder=fingerprint(folder))
    try:
        found = _choose(folder, lab, source, intake)
        if found is None:
            intake.flags.append("no notebook was handed in")
        else:
            intake.content, intake.sha256 = (
                found.content,
                hashlib.sha256(found.content).hexdigest(),
            )
            intake.cells = restore(found.cells, source, intake.flags)
            return intake
    except Unreadable as problem:
        intake.problem = str(problem)
    intake.cells = restore([dict(cell) for cell in source], source, [])
    return intake


def fingerprint(folder: Path) -> str:
    """Hash the names and contents in a folder; it changes when something else is handed
    in."""
    total = hashlib.sha256()
    for path, status in _entries(folder):
        total.update(os.fsencode(path.relative_to(folder)) + b"\0")
        if stat.S_ISLNK(status.st_mode):
            total.update(os.fsencode(os.readlink(path)))
        elif stat.S_ISREG(status.st_mode):
            content = _content(path)
            if isinstance(content, Unreadable):
                content = f"{status.st_size} {status.st_mtime_ns}".encode()
            total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


# --- files ----------------------------------------------------------------------------


def _choose(
    folder: Path, lab: str, source: list[dict[str, Any]], intake: Intake
) -> Found | None:
    readable: list[Found] = []
    problems: list[tuple[bytes, str]] = []
    for name, content in _notebooks(folder, intake.flags):
        try:
            if isinstance(content, Unreadable):
                raise content
            readable.append(Found(name, content, read_cells(content, intake.flags)))
        except Unreadable as problem:
            problems.append(
                (
                    content if isinstance(content, bytes) else b"",
                    f"{shown(name)}: {problem}",
                )
            )
    likely = [found for found in readable if _is_of(found.cells, source)]
    named = [found for found in likely if Path(found.name).name == f"{lab}.ipynb"]
    if not likely:
        if not readable and not problems:
            return None
        intake.content, reason = problems[0] if problems else (readable[0].content, "")
        intake.sha256 = (
            hashlib.sha256(intake.content).hexdigest() if intake.content else ""
        )
        names = ", ".join(shown(found.name) for found in readable)
        raise Unreadable(reason or f"no notebook of {lab} is among {names}")
    chosen = (named or likely)[0]
    if not named:
        intake.flags.append(f"found under another name: {shown(chosen.name)}")
    if len(likely) > 1:
        others = ", ".join(shown(found.name) for found in likely if found is not chosen)
        intake.flags.append(f"several notebooks of this lab; left aside: {others}")
    intake.flags += [f"left aside: {reason}" for _, reason in problems]
    return chosen


def _notebooks(
    folder: Path, flags: list[str]
) -> Iterator[tuple[str, bytes | Unreadable]]:
    """List notebooks, those on top first, then the newest; from archives only if there
    is none beside them."""
    if folder.is_symlink() or not folder.is_dir():
        raise Unreadable("the submission is a link or a file, not a folder")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Unreadable("the folder cannot be read")
    found: dict[str, list[tuple[int, int, str]]] = {".ipynb": [], ".zip": []}
    for path, status in _entries(folder):
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(status.st_mode):
            flags.append(f"a link was not followed: {shown(name)}")
        elif path.suffix in found:
            found[path.suffix].append((len(path.parts), -status.st_mtime_ns, name))
        elif not stat.S_ISREG(status.st_mode):
            flags.append(f"not a file: {shown(name)}")
    total = 0
    for _, _, name in sorted(found[".ipynb"] or found[".zip"]):
        content = _content(folder / name)
        total += len(content) if isinstance(content, bytes) else 0
        if total > TOTAL_BYTES:
            flags.append(
                f"more than {TOTAL_BYTES >> 20} MB; not looked at: {shown(name)}"
            )
        elif isinstance(content, bytes) and not found[".ipynb"]:
            yield from _unzip(name, content, flags)
        else:
            yield name, content


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """List the files in a folder and in those within, without hidden ones; a folder
    only if a notebook is its name."""
    number = 0
    for root, folders, files in os.walk(folder) if not folder.is_symlink() else ():
        deep = len(Path(root).relative_to(folder).parts) > DEPTH
        folders[:] = [
            name
            for name in folders
            if not deep and not name.startswith((".", "__MACOSX"))
        ]
        for name in sorted(
            [*folders, *(name for name in files if not name.startswith("."))]
        ):
            number += 1
            if number > ENTRIES:
                return
            with contextlib.suppress(OSError):
                path, status = Path(root, name), Path(root, name).lstat()
                if not stat.S_ISDIR(status.st_mode) or path.suffix == ".ipynb":
                    yield path, status


def content_of(path: Path) -> bytes:
    """Read a file, if it is one and not too large.

    Raises:
        Unreadable: it is not.
    """
    try:
        descriptor = os.open(
            path,
            os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0),
        )
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable("not a file")
            content = file.read(NOTEBOOK_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be read ({error.strerror})") from error
    if len(content) > NOTEBOOK_BYTES:
        raise Unreadable(f"larger than {NOTEBOOK_BYTES >> 20} MB")
    return content


def _content(path: Path) -> bytes | Unreadable:
    try:
        return content_of(path)
    except Unreadable as problem:
        return problem


def _unzip(
    name: str, content: bytes, flags: list[str]
) -> Iterator[tuple[str, bytes | Unreadable]]:
    total = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist()[:ENTRIES]:
                name = entry.filename
                odd = (
                    name.startswith("/")
                    or ".." in Path(name).parts
                    or "\\" in name
                    or not name.isprintable()
                )
                if odd or stat.S_IFMT(entry.external_attr >> 16) not in (
                    0,
                    stat.S_IFREG,
                    stat.S_IFDIR,
                ):
                    flags.append(f"entry of the archive refused: {shown(name)}")
                elif name.endswith(".ipynb"):
                    if entry.file_size > min(NOTEBOOK_BYTES, TOTAL_BYTES - total):
                        flags.append(
                            f"entry of the archive is too large: {shown(name)}"
                        )
                        continue
                    total += entry.file_size
                    # it gives no more than it announced
                    with archive.open(entry) as file:
                        yield name, file.read(entry.file_size)
    except Exception as error:  # zipfile and what it unpacks with have no end of them
        yield name, Unreadable(f"the archive cannot be read ({type(error).__name__})")


def shown(name: str) -> str:
    """Make a file's name safe to print."""
    return "".join(
        c if c.isprintable() else "?" for c in name.encode("utf-8", "replace").decode()
    )[:80]


# --- notebooks ------------------------------------------------------------------------


def read_cells(content: bytes, flags: list[str]) -> list[dict[str, Any]]:
    """Read the cells of a notebook, whatever its encoding and version; outputs are
    dropped.

    Raises:
        Unreadable: this is no notebook.
    """
    if not content.strip():
        raise Unreadable("the file is empty")
    try:
        notebook = json.loads(_decode(content, flags))
    except (ValueError, RecursionError) as error:
        html = content.lstrip()[:1] == b"<"
        raise Unreadable(
            "a web page, not a notebook" if html else "not JSON, or cut off"
        ) from error
    # version 3 and before
    if isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
        sheets = [sheet for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        notebook = {
            "cells": [cell for sheet in sheets for cell in _list(sheet.get("cells"))]
        }
        flags.append("an old notebook format")
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Unreadable("JSON, but not a notebook")
    cells = notebook["cells"]
    if len(cells) > CELLS:
        raise Unreadable(f"{len(cells)} cells, more than {CELLS}")
    cells = [_cell(cell, flags) for cell in cells]
    if (text := sum(len(cell["source"]) for cell in cells)) > TEXT_CHARACTERS:
        raise Unreadable(f"{text} characters of text, more than {TEXT_CHARACTERS}")
    return cells


def _decode(content: bytes, flags: list[str]) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    else:
        encodings = ["utf-8-sig", "latin-1"]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding != "utf-8-sig" or content[:3] == b"\xef\xbb\xbf":
            flags.append(f"encoded as {encoding}")
        return text
    raise ValueError("no encoding fits")


def _cell(raw: Any, flags: list[str]) -> dict[str, Any]:
    cell = raw if isinstance(raw, dict) else {}
    kind = cell.get("cell_type")
    text = cell.get("source", cell.get("input", ""))
    lines = text if isinstance(text, list) else [text]
    text = "".join(line for line in lines if isinstance(line, str))
    if len(text) > SOURCE_CHARACTERS:
        flags.append(f"a cell of {len(text)} characters was emptied")
        text = ""
    metadata = cell.get("metadata")
    return {
        "cell_type": kind if kind in ("code", "markdown", "raw") else "markdown",
        "id": cell["id"] if isinstance(cell.get("id"), str) else "",
        "metadata": metadata if isinstance(metadata, dict) else {},
        "source": text.encode("utf-8", "replace").decode(),
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- matching -------------------------------------------------------------------------


def grade_id(cell: Mapping[str, Any]) -> str:
    """Return a cell's grade id, or nothing."""
    metadata = cell["metadata"].get("nbgrader")
    found = metadata.get("grade_id") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def is_graded(cell: Mapping[str, Any]) -> bool:
    """Whether a cell of the source is one that the judge answers."""
    metadata = cell["metadata"].get("nbgrader", {})
    return bool(metadata.get("grade")) and not metadata.get("solution")


def _is_answer(cell: Mapping[str, Any]) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def _is_locked(cell: Mapping[str, Any]) -> bool:
    metadata = cell["metadata"].get("nbgrader", {})
    return is_graded(cell) or bool(
        metadata.get("locked") and not metadata.get("solution")
    )


def defined(code: str) -> frozenset[str]:
    """List the functions and classes that a cell defines, also one that does not
    compile."""
    try:
        return frozenset(
            node.name
            for node in ast.parse(code).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(
            re.findall(r"^(?:async def|def|class)\s+(\w+)", code, re.MULTILINE)
        )


def _matches(
    cells: list[dict[str, Any]], source: list[dict[str, Any]]
) -> list[int | None]:
    """Find for every cell the cell of the source that it was."""
    by_grade = {grade_id(cell): i for i, cell in enumerate(source) if grade_id(cell)}
    by_id = {cell["id"]: i for i, cell in enumerate(source)}
    by_names = {
        defined(cell["source"]): i for i, cell in enumerate(source) if _is_answer(cell)
    }
    by_text = {
        cell["source"].strip(): i
        for i, cell in enumerate(source)
        if cell["source"].strip()
    }
    matches: list[int | None] = []
    for cell in cells:
        names = defined(cell["source"]) if cell["cell_type"] == "code" else frozenset()
        match = by_grade.get(grade_id(cell))
        match = by_id.get(cell["id"]) if match is None else match
        match = by_names.get(names) if match is None and names else match
        matches.append(by_text.get(cell["source"].strip()) if match is None else match)
    return matches


def _is_of(cells: list[dict[str, Any]], source: list[dict[str, Any]]) -> bool:
    """Whether a notebook is one of this lab: at least one of its answers, or of its
    checks, is there."""
    return any(
        m is not None and (_is_answer(source[m]) or is_graded(source[m]))
        for m in _matches(cells, source)
    )


def restore(
    cells: list[dict[str, Any]], source: list[dict[str, Any]], flags: list[str]
) -> list[dict[str, Any]]:
    """Put the lab's own cells back where they belong; see the rules above."""
    matches = _matches(cells, source)
    copies: dict[int, list[int]] = {}
    for at, match in enumerate(matches):
        if match is not None:
            copies.setdefault(match, []).append(at)
    restored: list[tuple[int | None, dict[str, Any]]] = []
    for at, (cell, match) in enumerate(zip(cells, matches)):
        if match is not None and _is_locked(source[match]):
            continue
        if match is not None and _is_answer(source[match]):
            restored.append(
                (match, _answer(cell, at, copies[match], cells, source[match], flags))
            )
        else:
            run = cell["cell_type"] == "code" and (
                match is None or not _only_shows(cell, source[match])
            )
            restored.append((match, {**cell, "metadata": {}, "run": run}))
    for i, cell in enumerate(source):
        if _is_locked(cell) or (_is_answer(cell) and i not in copies):
            _note(cell, [cells[at] for at in copies.get(i, [])], flags)
            run = cell["cell_type"] == "code" and not is_graded(cell)
            restored.insert(_place(restored, i), (i, {**cell, "run": run}))
    return [cell for _, cell in restored]


def _only_shows(cell: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Whether a cell is there for show, and the student has defined nothing in it."""
    return bool(source["metadata"].get("show")) and defined(cell["source"]) <= defined(
        source["source"]
    )


def _answer(
    cell: dict[str, Any],
    at: int,
    copies: list[int],
    cells: list[dict[str, Any]],
    source: dict[str, Any],
    flags: list[str],
) -> dict[str, Any]:
    """Return one copy of an answer; the last one that was worked in is the one that
    carries the grade id."""
    name = grade_id(source)
    worked = [
        i for i in copies if cells[i]["source"].strip() != source["source"].strip()
    ] or copies[-1:]
    if at == copies[0]:
        if len(copies) > 1:
            flags.append(
                f"{name}: {len(copies)} cells answer this; all that were worked in run,"
                " the last one counts"
            )
        if cell["cell_type"] != source["cell_type"]:
            flags.append(f"{name}: was a {cell['cell_type']} cell")
        if not any(grade_id(cells[i]) == name for i in copies):
            flags.append(
                f"{name}: found again by what it holds, its name for nbgrader was"
                " changed or gone"
            )
    kept = {
        **cell,
        "cell_type": source["cell_type"],
        "run": at in worked and source["cell_type"] == "code",
    }
    kept["metadata"] = source["metadata"] if at == worked[-1] else {}
    return kept


def _note(
    source: dict[str, Any], found: list[dict[str, Any]], flags: list[str]
) -> None:
    """Write down what was done to a cell that is taken from the source."""
    name = grade_id(source)
    if not found:
        flags.append(f"{name}: was deleted")
        return
    cell, wanted = found[0], source["metadata"].get("nbgrader", {})
    had = cell["metadata"].get("nbgrader")
    odd = [f"{len(found)} copies"] * (len(found) > 1)
    odd += [f"was a {cell['cell_type']} cell"] * (
        cell["cell_type"] != source["cell_type"]
    )
    odd += ["was edited"] * (cell["source"].strip() != source["source"].strip())
    odd += ["was tagged"] * bool(cell["metadata"].get("tags"))
    if not isinstance(had, dict) or not had:
        odd.append("its metadata was gone")
    else:
        keys = ("grade", "locked", "points", "solution", "task")
        odd += [
            f"{key} was {had.get(key)!r:.40}"
            for key in keys
            if had.get(key, False) != wanted.get(key, False)
        ]
    flags.extend(f"{name}: {what}" for what in odd)


def _place(restored: list[tuple[int | None, dict[str, Any]]], i: int) -> int:
    """Find the place behind the cell that it follows in the source."""
    before = [
        (match, at)
        for at, (match, _) in enumerate(restored)
        if match is not None and match < i
    ]
    return max(before)[1] + 1 if before else 0
