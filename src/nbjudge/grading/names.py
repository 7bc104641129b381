"""Find students' folders whose names look alike and may be mistaken for each other.

No package that nbgrader installs has Unicode's own list of characters that look alike.
This module checks less, and leaves to a person what it does not know to be harmless.
"""

import unicodedata
from collections.abc import Iterable

from nbjudge.grading.files import printable


def clashes(students: Iterable[str]) -> dict[str, str]:
    """Find names that could be mistaken for one another, or for something else.

    Returns:
        Name -> what is wrong with it, only for names with a problem.
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
    if set(name) & set('<>&"\\'):  # formgrader does not escape names
        return "the folder's name has characters that are code in a web page"
    if set(name) & set("*?[]"):  # nbgrader cannot find such a folder again
        return "the folder's name has characters that stand for others; rename it"
    if name[0] in ".=+-@":
        # nbgrader skips hidden files, and writes names into tables as they are
        return "the folder's name begins as hidden files or formulas in a table do"
    if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1:
        return "the folder's name mixes alphabets"
    others = ", ".join(map(printable, sorted(alike)))
    return f"folders whose names look alike: {others}" if len(alike) > 1 else ""
