"""The instructor's page on a lab: points, questions, mistakes, and who needs a person.

nbgrader's own pages list submissions, and know of no mistake.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from nbjudge.feedback import rendered
from nbjudge.grading.files import printable
from nbjudge.grading.record import PERSON


def page(
    lab: str,
    records: Sequence[Mapping[str, Any]],
    waiting: Sequence[Mapping[str, Any]],
    formgrader: str,
) -> str:
    """Make the page.

    Args:
        lab: its name.
        records: one per submission.
        waiting: those that still need a person.
        formgrader: address of formgrader.
    """
    graded = [record for record in records if record["status"] != PERSON]
    by_hand = len(records) - len(graded) - len(waiting)
    counts = f"{len(records)} submissions, {len(graded)} graded"
    counts += f", {len(waiting)} need a person"
    counts += f", {by_hand} marked by a person" if by_hand else ""
    points = sorted(Counter(r["points"] for r in graded).items(), reverse=True)
    spread = ("full points", "some", "none", "mean", "submissions by points")
    unread = [(_link(r, formgrader), r["reason"]) for r in waiting]
    flags = [(_link(r, formgrader), flag) for r in records for flag in r["flags"]]
    tables = [
        ("Need a person", ("student", "why"), unread),
        ("Points", ("points", "submissions"), [(f"{p:g}", n) for p, n in points]),
        ("Questions", ("question", *spread), _questions(graded)),
        ("Mistakes", ("question", "looks like", "submissions"), _mistakes(graded)),
        ("Flags", ("student", "what was odd"), flags),
    ]
    return str(rendered("page", lab=lab, counts=counts, tables=tables))


def _questions(graded: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    by_name: dict[str, list[Any]] = {}
    for question in (q for record in graded for q in record["questions"]):
        by_name.setdefault(question["question"], []).append(question)
    rows = []
    for name, results in by_name.items():
        points, possible = [q["points"] for q in results], results[0]["possible"]
        full, none = points.count(possible), points.count(0)
        mean = f"{sum(points) / len(points):.2f} of {possible}"
        spread = sorted(Counter(points).items(), reverse=True)
        by_points = ", ".join(f"{p:g}: {count}" for p, count in spread)
        rows.append((name, full, len(points) - full - none, none, mean, by_points))
    return rows


def _mistakes(graded: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    questions = (question for record in graded for question in record["questions"])
    counts = Counter((q["question"], name) for q in questions for name in q["mistakes"])
    return [(*looks, count) for looks, count in counts.most_common()]


def _link(record: Mapping[str, Any], formgrader: str) -> Any:
    student = quote(record["student"].encode("utf-8", "surrogateescape"))
    address = f"{formgrader}/manage_students/{student}/{quote(record['lab'])}"
    return rendered("link", address=address, text=printable(record["student"]))
