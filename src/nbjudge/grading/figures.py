"""Counts for the instructor's pages: points, mistakes, who is stuck, progress.

This module only counts; `report` and `course_report` make the pages, and `plots` draws.
`Shown` decides which counts may be shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nbjudge.question import Question

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Shown:
    """Which groups of students may be distinguished.

    Attributes:
        smallest: the smallest number of students that a figure may be about.
    """

    smallest: int = 1

    @property
    def hides(self) -> bool:
        """Whether names and small groups are left out."""
        return self.smallest > 1

    def how_many(self, found: int, of: int) -> str:
        """Say how many, unless this would describe a group that is too small.

        The remaining students are a group, too: if 39 of 40 are counted, the last one
        is identified.
        """
        few, rest = found < self.smallest, of - found < self.smallest
        if self.smallest == 1 or not (few or rest):
            return f"{found} of {of}"
        if few and rest:
            return "–"
        return (
            f"under {self.smallest} of {of}"
            if few
            else f"over {of - self.smallest} of {of}"
        )

    def share(self, found: int, of: int) -> float:
        """Return a share in percent, to set a color; clipped like the count."""
        least = self.smallest - 1
        return 100 * min(max(found, least), of - least) / of if of else 0.0


EVERYTHING, GROUPS = Shown(), Shown(5)


class Held(NamedTuple):
    """For how many answers a property holds.

    Attributes:
        question: name of the question.
        claim: what the property says.
        points: the points that it is worth.
        held: how many answers it holds for.
        of: how many answers were checked.
    """

    question: str
    claim: str
    points: int
    held: int
    of: int


class Made(NamedTuple):
    """How many students made a mistake, of those who answered the question."""

    question: str
    mistake: str
    hint: str
    section: str
    students: int
    of: int


def bars(
    points: Sequence[float | int], possible: int, smallest: int
) -> list[tuple[str, int]]:
    """Count students by points, the most points first.

    If no group may be small, the bars are tenths of all points, so that their ends
    reveal nobody's score, and neighboring bars are merged until each stands for enough
    students.

    Args:
        points: the points of each student, in steps of one half.
        possible: the maximum points of the lab.
        smallest: the smallest number of students that a bar may stand for.
    """
    if smallest == 1:
        counts = sorted(Counter(points).items(), reverse=True)
        return [(f"{value:g}", count) for value, count in counts]
    width = -(-possible // 10)
    groups: list[tuple[int, float | int, int]] = []
    waiting, top = 0, float(possible)
    for low in range(possible // width * width, -1, -width):
        waiting += sum(low <= value < low + width for value in points)
        if waiting >= smallest:
            groups.append((low, top, waiting))
            waiting, top = 0, low - 0.5
    if groups:  # what is left over at the bottom
        _, high, count = groups.pop()
        groups.append((0, high, count + waiting))
    return [(f"{low} to {high:g}", count) for low, high, count in groups]


def answers(records: Iterable[Record]) -> dict[str, list[Mapping[str, Any]]]:
    """Collect the answers to each question, in the order of the lab."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        for answer in record["questions"]:
            found.setdefault(answer["question"], []).append(answer)
    return found


def properties(
    records: Iterable[Record], questions: Mapping[str, Question]
) -> list[Held]:
    """Count for how many answers each property of each question holds.

    Answers are left out if they were graded when their question had another number of
    properties.
    """
    rows = []
    for name, found in answers(records).items():
        asked = questions[name].properties if name in questions else ()
        held = [a["held"] for a in found if len(a.get("held", ())) == len(asked)]
        for i, each in enumerate(asked):
            count = sum(answer[i] for answer in held)
            rows.append(Held(name, each.claim, each.points, count, len(held)))
    return rows


def mistakes(
    records: Iterable[Record], questions: Mapping[str, Question]
) -> list[Made]:
    """Count the mistakes, the most frequent first."""
    rows = []
    for name, found in answers(records).items():
        known = (
            {m.name: m for m in questions[name].mistakes} if name in questions else {}
        )
        for mistake, count in Counter(m for a in found for m in a["mistakes"]).items():
            its = known.get(mistake)
            hint, section = (its.hint, its.section) if its else ("", "")
            rows.append(Made(name, mistake, hint, section, count, len(found)))
    return sorted(rows, key=lambda row: -row.students)


def stuck(attempts: Sequence[Record]) -> list[str]:
    """List the questions on which a student makes no progress, notebook after notebook.

    Args:
        attempts: records of one student's notebooks in one lab, in order.

    Returns:
        Questions on which the last notebook has neither all points nor more points than
        the notebook before; none after a single notebook.
    """
    graded = [record for record in attempts if record["points"] is not None]
    if len(graded) < 2:
        return []
    before = {a["question"]: a["points"] for a in graded[-2]["questions"]}
    return [
        answer["question"]
        for answer in graded[-1]["questions"]
        if answer["points"] < answer["possible"]
        and answer["points"] <= before.get(answer["question"], -1)
    ]


def progress(attempts: Iterable[Sequence[Record]]) -> list[list[float | int]]:
    """List the points of each student's notebooks, in order, if there are several."""
    points = [
        [record["points"] for record in each if record["points"] is not None]
        for each in attempts
    ]
    return [each for each in points if len(each) > 1]
