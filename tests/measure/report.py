"""What every measuring verb leaves behind: a table on the screen, and the same rows in
_build/reports/NAME.json."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
REPORTS = ROOT / "_build" / "reports"


class Row(NamedTuple):
    """One figure; `holds` is None where it has no target."""

    what: str
    value: float | int | str | None
    unit: str
    target: str | None = None
    holds: bool | None = None
    note: str = ""


def row(
    what: str,
    value: float | None,
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
    note: str = "",
) -> Row:
    """Make a row and hold it to its target; what could not be measured (None) holds
    nothing."""
    if at_least is None and at_most is None:
        return Row(what, value, unit, note=note)
    if at_least is not None and at_most is not None:
        raise ValueError(
            f"{what!r} has two targets, at least {at_least} and at most {at_most}; make"
            " two rows of it"
        )
    if at_least is not None:
        return Row(
            what,
            value,
            unit,
            f">= {at_least:g}",
            value is not None and value >= at_least,
            note,
        )
    return Row(
        what,
        value,
        unit,
        f"<= {at_most:g}",
        value is not None and value <= at_most,
        note,
    )


def write(
    name: str, rows: Iterable[Row], seconds: float, folder: Path = REPORTS
) -> Path:
    """Print the rows as a table and write them, with the commit, the date and the
    machine, to FOLDER/NAME.json."""
    rows = list(rows)
    report = {
        "name": name,
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": _machine(),
        "seconds": round(seconds, 1),
        "rows": [row._asdict() for row in rows],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(table(rows))
    print(
        f"{path}: {sum(row.holds is False for row in rows)} of {len(rows)} rows miss"
        " their target"
    )
    return path


def commit() -> str:
    """Name the commit that is measured; empty on a machine without git."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        ).stdout.strip()
    except OSError:
        return ""


def table(rows: Iterable[Row]) -> str:
    """Lay rows out in columns."""
    marks = {True: "yes", False: "NO", None: ""}
    cells = [("what", "value", "unit", "target", "holds", "note")]
    cells += [
        (
            row.what,
            _text(row.value),
            row.unit,
            row.target or "",
            marks[row.holds],
            row.note,
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in cells
    )


def _machine() -> str:
    """Say what a time was measured on: processor, cores, Python and torch."""
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        about = ""
    named = re.search(r"^model name\s*: (.*)$", about, flags=re.MULTILINE)
    processor = named[1] if named else platform.machine()
    return (
        f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" torch {version('torch')}"
    )


def _text(value: float | int | str | None) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float)
        else "-"
        if value is None
        else str(value)
    )
