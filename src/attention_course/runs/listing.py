"""List the runs in a folder as a table, from the summaries in their JSON files."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_course.training.folder import CHECKPOINT, SCORES, SUMMARY

COLUMNS = ("run", "task", "model", "parameters", "steps", "loss", "score", "size")


def list_runs(folder: Path) -> list[tuple[str, ...]]:
    """List the runs in a folder and below it.

    Args:
        folder: where to look.

    Returns:
        One row of `COLUMNS` per run, sorted by name. It has the number of parameters,
        the steps made out of those asked for, the last loss in nats, the score on the
        test examples if the run has been evaluated, otherwise that of the best
        validation, and the size on disk.

    Raises:
        ValueError: there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    found = {
        path.parent for name in (SUMMARY, CHECKPOINT) for path in folder.rglob(name)
    }
    return [_row(run) for run in sorted(found)]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned columns, with `COLUMNS` as the header."""
    lines = [COLUMNS, *rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in lines
    )


def _row(run: Path) -> tuple[str, ...]:
    name = str(run)  # as --run takes it
    size = sum(path.stat().st_size for path in run.iterdir() if path.is_file())
    unknown = ["–"] * 5
    if not zipfile.is_zipfile(run / CHECKPOINT):
        state = "damaged" if (run / CHECKPOINT).is_file() else "missing"
        return name, f"its checkpoint is {state}", *unknown, f"{size / 1e6:.1f} MB"
    try:
        summary = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
        about, settings = summary["about"], summary["settings"]
        loss = summary["loss"]
        return (
            name,
            str(about.get("task", "–")),
            str(about.get("model", "–")),
            f"{summary['parameters']:,}",
            f"{summary['step']} of {settings['steps']}",
            "–" if loss is None else f"{loss:.3f}",
            _score(run, summary),
            f"{size / 1e6:.1f} MB",
        )
    except FileNotFoundError:
        return name, "its summary is missing", *unknown, f"{size / 1e6:.1f} MB"
    except (ValueError, KeyError, TypeError, AttributeError):
        return name, "its summary cannot be read", *unknown, f"{size / 1e6:.1f} MB"


def _score(run: Path, summary: dict[str, Any]) -> str:
    scores = run / SCORES
    if scores.is_file():
        test = json.loads(scores.read_text(encoding="utf-8")).get("test")
        if test and test["step"] == summary["step"]:
            name, value = next(iter(test["scores"].items()))
            return f"{name} {value:.3f} (test)"
    if best := summary["best"]:
        name = summary["about"].get("validated_by", "score")
        metric = -best["metric"] if name == "loss" else best["metric"]
        return f"{name} {metric:.3f} (validation)"
    return "–"
