"""List pairs of similar submissions: `python -m nbjudge.grading.similar LAB`.

copydetect compares them: it ignores names and comments, and finds the text that two
programs share by its fingerprints (Schleimer, Wilkerson and Aiken, 2003,
https://theory.stanford.edu/~aiken/publications/papers/sigmod03.pdf). Here it gets only
the cells for answers, without text from the lab's release, from its solution, or from
many students.
"""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from markupsafe import Markup
from nbgrader.apps.baseapp import NbGrader
from traitlets import Integer

from nbjudge.feedback import TABLES
from nbjudge.grading.commands import GradingError, check_lab, released
from nbjudge.grading.converter import Autograde
from nbjudge.grading.files import Unreadable, printable
from nbjudge.grading.matching import grade_id, is_answer, restore
from nbjudge.grading.notebooks import read_cells
from nbjudge.grading.report import Section

# Common text is found from this many characters on, after names have become letters
# (copydetect's own value). Every position is compared: winnowing would choose positions
# by their hashes, which Python salts, so that a second run would find other pairs.
CERTAIN = 30
WORDS = (
    "Pairs of submissions whose answers have text in common that the lab did not"
    " release and few others wrote. This list says where to look, and no more: two"
    " students may write the same for many reasons."
)


class Pair(NamedTuple):
    """Two students whose answers have text in common.

    Attributes:
        students: both of them.
        shared: number of common characters, after names have become letters.
        shares: these in percent of each student's own text.
        texts: both answers, with the common text marked.
    """

    students: tuple[str, str]
    shared: int
    shares: tuple[float, float]
    texts: tuple[Markup, Markup]


def answers(content: bytes, source: Sequence[Mapping[str, Any]]) -> str:
    """Extract the code of the answer cells from a notebook.

    Args:
        content: bytes of the notebook.
        source: cells of the lab, as released.

    Raises:
        Unreadable: it is not a notebook.
    """
    restored = restore(read_cells(content, []), [dict(cell) for cell in source], [])
    return code_of([cell for cell in restored if cell["run"]])


def code_of(cells: Sequence[Mapping[str, Any]]) -> str:
    """Join the code of the cells for answers."""
    return "\n\n".join(
        f"# {grade_id(cell)}\n{cell['source']}"
        for cell in cells
        if cell["cell_type"] == "code" and is_answer(cell)
    )


def pairs(
    texts: Mapping[str, str], known: Sequence[str], common: int, least: int
) -> list[Pair]:
    """Compare all submissions with each other.

    Args:
        texts: the answers, by student.
        known: texts that everyone may have copied from.
        common: text that this many students have written does not count.
        least: the smallest number of common characters in a pair.

    Returns:
        The pairs; those with the most common text come first.
    """
    from copydetect import compare_files
    from copydetect.utils import highlight_overlap

    given = {mark for text in known for mark in _fingerprint(text).hashes}
    marks = {student: _fingerprint(text).hashes for student, text in texts.items()}
    counts = Counter(mark for found in marks.values() for mark in found)
    given |= {mark for mark, count in counts.items() if count >= common}
    prints = {
        each: _fingerprint(text, list(map(int, sorted(given))))
        for each, text in texts.items()
    }
    found = []
    for one, other in combinations(sorted(texts), 2):
        shared, shares, places = compare_files(prints[one], prints[other])
        if shared < least:
            continue
        marked = [
            Markup(highlight_overlap(texts[each], at, "<mark>", "</mark>", -1, True)[0])
            for each, at in zip((one, other), places)
        ]
        percent = [min(100.0, 100 * share) for share in shares]
        found.append(
            Pair(
                (one, other),
                int(shared),
                (percent[0], percent[1]),
                (marked[0], marked[1]),
            )
        )
    return sorted(found, key=lambda pair: -pair.shared)


def _fingerprint(text: str, without: Sequence[int] = ()) -> Any:
    from copydetect import CodeFingerprint

    return CodeFingerprint(
        "answers.py", CERTAIN, 1, boilerplate=list(without), fp=io.StringIO(text)
    )


class Similar(NbGrader):
    """Write gradebook/reports/similar_LAB.html."""

    name = "nbjudge-similar"
    description = "List the submissions of a lab that have text in common, to look at."
    aliases: dict[str, str] = {}
    flags: dict[str, tuple[dict[str, dict[str, bool]], str]] = {}

    percent = Integer(
        10,
        help="What so many percent of the students have written, and no fewer than"
        " three, is a common form and not compared.",
    ).tag(config=True)
    least = Integer(
        60, help="Characters, without names, that a pair has in common at least."
    ).tag(config=True)

    most = Integer(50, help="Pairs to list, those with most in common first.").tag(
        config=True
    )

    def start(self) -> None:
        """Compare the last notebooks of all students."""
        super().start()
        if len(self.extra_args) != 1:
            self.fail("name one lab: python -m nbjudge.grading.similar LAB")
        lab = self.coursedir.assignment_id = self.extra_args[0]
        folder = Path(self.coursedir.root, self.coursedir.source_directory)
        try:
            check_lab(folder, lab)
            import copydetect  # noqa: F401
        except GradingError as error:
            self.fail(str(error))
        except ImportError:
            self.fail("copydetect compares submissions; pip install copydetect")
        grader = Autograde(self.coursedir, parent=self)
        solved = nbformat.read(folder / lab / f"{lab}.ipynb", as_version=4)
        cells = released(self.coursedir, lab)
        texts = {}
        for record in grader.state.records(lab):
            path = grader.state.kept() / record["sha256"]
            try:
                if record["sha256"]:
                    texts[record["student"]] = answers(path.read_bytes(), cells)
            except (OSError, Unreadable) as error:
                self.log.warning("%s: %s", printable(record["student"]), error)
        common = max(3, -(-len(texts) * self.percent // 100))
        known = [code_of(cells), code_of(solved.cells)]
        found = pairs(texts, known, common, self.least)[: self.most]
        html = _page(lab, found, len(texts), common)
        where = grader.state.write_report(f"similar_{lab}", html)
        self.log.info("%s: %d pairs to look at, in %s", lab, len(found), where)


def _page(lab: str, found: Sequence[Pair], compared: int, common: int) -> str:
    rows = [
        (
            *map(printable, pair.students),
            pair.shared,
            *(f"{x:.0f} %" for x in pair.shares),
        )
        for pair in found
    ]
    head = (
        "student",
        "student",
        "characters in common",
        "of the first",
        "of the second",
    )
    beside = [
        Section(
            " and ".join(map(printable, pair.students)),
            tables=[
                (
                    [printable(student) for student in pair.students],
                    [[Markup("<pre>{}</pre>").format(text) for text in pair.texts]],
                )
            ],
        )
        for pair in found
    ]
    counts = (
        f"{compared} submissions compared, without what {common} or more have written"
    )
    return TABLES.get_template("grading/report.html").render(
        title=f"Alike: {lab}",
        counts=counts,
        sections=[Section("Pairs", WORDS, tables=[(head, rows)]), *beside],
        links=[(f"{lab}.html", lab), ("index.html", "the whole course")],
    )


if __name__ == "__main__":
    Similar.launch_instance()
