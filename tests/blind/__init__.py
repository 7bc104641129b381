"""Answers that strangers wrote, round by round.

They had the released notebooks and nothing else, and did not know how answers are
checked. Each wrong answer names the sentence of the lab that it breaks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An answer.

    Attributes:
        right: whether it is meant to be.
        what: what it does, in words.
        thing: the function or class.
        breaks: the sentence of the lab that a wrong one breaks.
        name: what a tutor would call the mistake.
    """

    right: bool
    what: str
    thing: Any
    breaks: str = ""
    name: str = ""


ENTRIES: list[Entry] = []


def right(what: str) -> Callable[[Any], Any]:
    """Enter a right answer."""
    return lambda thing: ENTRIES.append(Entry(True, what, thing)) or thing


def wrong(
    what: str, breaks: str, name: str, subtle: bool = False
) -> Callable[[Any], Any]:
    """Enter a wrong answer."""
    return lambda thing: (
        ENTRIES.append(Entry(False, what, thing, breaks, name)) or thing
    )


def bugs(make: Callable[[str], Any], breaks: dict[str, str]) -> None:
    """Enter `make(bug)` as a wrong answer for each bug and the sentence that it breaks.

    `make("")` is entered as a right one.
    """
    right("without a bug")(make(""))
    for bug, sentence in breaks.items():
        wrong(bug, sentence, bug)(make(bug))
