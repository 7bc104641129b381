"""Students' folders with names that look alike, so that one may be taken for another.

Unicode's own list of characters that look alike is in no package that nbgrader brings;
this asks less, and sends to a person what it does not know to be harmless.
"""

import unicodedata
from collections.abc import Iterable

from nbjudge.grading.files import printable


def clashes(students: Iterable[str]) -> dict[str, str]:
    """Find names that could be taken for one another, or for something else.

    Returns:
        Name -> what is wrong with it, for those with which something is wrong.
    """
    alike: dict[str, list[str]] = {}
    for student in students:
        looks = unicodedata.normalize("NFKC", student).casefold()
        alike.setdefault(looks, []).append(student)
    reasons = {n: _reason(n, names) for names in alike.values() for n in names}
    return {name: reason for name, reason in reasons.items() if reason}


def _reason(name: str, alike: list[str]) -> str:
    scripts = {unicodedata.name(c, "?").split()[0] for c in name if c.isalpha()}
    if not name.isprintable() or name != name.strip():
        return "the folder's name has characters that cannot be seen"
    if set(name) & set('<>&"\\'):  # formgrader puts names into its pages as they are
        return "the folder's name has characters that are code in a web page"
    if set(name) & set("*?[]"):  # nbgrader finds no such folder again
        return "the folder's name has characters that stand for others; rename it"
    if name[0] in ".=+-@":
        # nbgrader passes by what is hidden, and writes names into tables as they are
        return "the folder's name begins as hidden files or formulas in a table do"
    if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1:
        return "the folder's name mixes alphabets"
    others = ", ".join(map(printable, sorted(alike)))
    return f"folders whose names look alike: {others}" if len(alike) > 1 else ""
