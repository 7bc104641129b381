"""Intake: turn the notebook that was handed in into cells to run, and flag oddities.

The rules, in one place:

- A notebook is looked for under the lab's name, then under any other name, also in
  folders, then in a zip archive. No link is followed. Only an empty folder counts as
  nothing: if there is something that cannot be read, a person has to look. (`files`)
- It is read in any encoding and format. (`notebooks`)
- A cell of the lab is recognized by its grade id, then by its cell id, then by what it
  defines. (`matching`, for this and all following rules)
- Graded and locked cells are taken from the source, and each is placed after the cell
  that it follows there.
- A deleted answer is restored as it was released. If there are several copies, all run
  in the student's order, so that the last one counts; copies that were never edited do
  not run.
- A cell with "show": true in its metadata in the source does not run, unless an answer
  needs something that it defines.
- Anything odd is written down as a flag. So is a checked name that no cell defines, or
  that a cell below its answer changes: all cells run before the first check.
"""

import base64
import functools
import hashlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from nbjudge.grading.files import Unreadable, fingerprint, notebooks, printable
from nbjudge.grading.matching import is_of, restore
from nbjudge.grading.notebooks import read_cells


class _Found(NamedTuple):
    """A notebook as it was handed in."""

    name: str
    content: bytes
    cells: list[dict[str, Any]]


@dataclass
class Intake:
    """The content of a submission.

    Attributes:
        cells: cells of the notebook as the instructor will see it, each with `run`,
            which says whether it is executed.
        folder: fingerprint of everything that was handed in.
        content: the notebook's bytes; empty if there was none.
        flags: descriptions of what was odd.
        problem: why the machine cannot grade it; empty if it can.
    """

    cells: list[dict[str, Any]] = field(default_factory=list)
    folder: str = ""
    content: bytes = b""
    flags: list[str] = field(default_factory=list)
    problem: str = ""

    @functools.cached_property
    def sha256(self) -> str:
        """The hash of the notebook's bytes; empty if there was none."""
        return hashlib.sha256(self.content).hexdigest() if self.content else ""

    def plain(self) -> dict[str, Any]:
        """Return the intake as data for JSON, to send it to another machine."""
        return {
            **{f.name: getattr(self, f.name) for f in fields(self)},
            "content": base64.b64encode(self.content).decode(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Intake":
        """Make an intake from what `plain` returned."""
        return cls(**{**plain, "content": base64.b64decode(plain["content"])})


def take_in(folder: Path, lab: str, source: list[dict[str, Any]]) -> Intake:
    """Read a submission.

    Args:
        folder: the folder that the student handed in.
        lab: name of the lab, and of its notebook.
        source: the cells of the lab as released.

    Returns:
        The content; if there is a problem, the cells are those of the release.
    """
    intake = Intake(folder=fingerprint(folder))
    try:
        if cells := _choose(folder, lab, source, intake):
            intake.cells = restore(cells, source, intake.flags)
            return intake
        intake.flags.append("no notebook was handed in")
    except Unreadable as problem:
        intake.problem = str(problem)
    intake.cells = restore([dict(cell) for cell in source], source, [])
    return intake


def _choose(
    folder: Path, lab: str, source: list[dict[str, Any]], intake: Intake
) -> list[dict[str, Any]]:
    """Return the cells of the notebook that counts, if there is one."""
    readable: list[_Found] = []
    problems: list[tuple[bytes, str]] = []
    for name, content in notebooks(folder, intake.flags):
        try:
            if isinstance(content, Unreadable):
                raise content
            readable.append(_Found(name, content, read_cells(content, intake.flags)))
        except Unreadable as problem:
            raw = content if isinstance(content, bytes) else b""
            problems.append((raw, f"{printable(name)}: {problem}"))
    likely = [found for found in readable if is_of(found.cells, source)]
    if not likely and not readable and not problems:
        return []
    named = [found for found in likely if Path(found.name).name == f"{lab}.ipynb"]
    # An unreadable notebook may be the work, and a readable one only a copy of the lab.
    if problems and not named or not likely:
        intake.content, reason = problems[0] if problems else (readable[0].content, "")
        names = ", ".join(printable(found.name) for found in readable)
        raise Unreadable(reason or f"no notebook of {lab} is among {names}")
    chosen = (named or likely)[0]
    if not named:
        intake.flags.append(f"found under another name: {printable(chosen.name)}")
    if others := [printable(each.name) for each in likely if each is not chosen]:
        left = ", ".join(others)
        intake.flags.append(f"several notebooks of this lab; left aside: {left}")
    intake.flags += [f"left aside: {reason}" for _, reason in problems]
    intake.content = chosen.content
    return chosen.cells
