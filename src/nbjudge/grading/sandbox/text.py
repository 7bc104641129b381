"""Make text that a student's process has printed or sent safe to show."""

import functools
import os
import re
import sys
from pathlib import Path

from nbjudge.grading.sandbox.bubblewrap import packages

# MathJax's commands for links, styles and scripts; pages show formulas everywhere.
COMMAND = re.compile(
    r"\\(?=(href|style|class|cssId|require|mmlToken|bbox)(?![A-Za-z]))"
)


def plain_text(raw: bytes, limit: int) -> str:
    """Turn output into text without escapes, control characters and paths."""
    text = raw.decode("utf-8", "replace")
    text = re.sub(
        r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", "", text
    )
    text = "".join(
        c
        for c in text.replace("\r\n", "\n").replace("\r", "\n")
        if c in "\n\t" or c.isprintable()
    )
    text = scrub(text)
    return text if len(text) <= limit else text[:limit] + "\n... (cut)"


def last_line(raw: bytes) -> str:
    """Return the last line of what was printed, as plain text."""
    return (plain_text(raw, 4000).strip().splitlines() or [""])[-1][:300]


def one_text(said: str, limit: int) -> str:
    """Make what a sandbox says safe to show; it may be anything."""
    return without_commands(plain_text(said.encode("utf-8", "replace"), limit))


def without_commands(text: str) -> str:
    """Disable MathJax commands with a space, so that a formula is only a formula."""
    return COMMAND.sub(r"\g<0> ", text)


def scrub(text: str) -> str:
    """Remove this machine's directories from a text that students may see."""
    for place in _places(os.getcwd(), tuple(sys.path)):
        text = text.replace(place, "...")
    return text


@functools.cache  # looking at the disk for each reply took half of the judge's time
def _places(here: str, path: tuple[str, ...]) -> list[str]:
    """List directories that must not be named, the longest first."""
    places = {sys.prefix, sys.base_prefix, str(Path.home()), here, *packages()}
    places |= {place for place in path if Path(place).is_dir()}
    places |= {_in_its_disk(Path(place).absolute()) for place in places}
    long = (place for place in places if len(place) > 4 and place != "/usr")
    return sorted(long, key=len, reverse=True)


def _in_its_disk(place: Path) -> str:
    """Return a place's name in the list of mounts, which can be read inside."""
    mount = next(path for path in (place, *place.parents) if path.is_mount())
    return f"/{place.relative_to(mount)}"
