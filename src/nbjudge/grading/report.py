"""The instructor's page on a lab: who got what, which mistakes were made, and who needs
a person."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from nbjudge.grading.intake import PERSON, shown

STYLE = (
    "body { font-family: sans-serif; margin: 2em } table { border-collapse: collapse } "
    "td, th { text-align: left; padding: 0.2em 1em; border-bottom: 1px solid #ccc }"
)


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
    points = Counter(record["points"] for record in graded)
    parts = [
        f"<h1>{escape(lab)}</h1>",
        (
            f"<p>{len(records)} submissions, {len(graded)} graded, {len(waiting)} need"
            f" a person{f', {by_hand} marked by a person' if by_hand else ''}.</p>"
        ),
        "<h2>Need a person</h2>",
        _table(
            ("student", "why"),
            [(_link(r, formgrader), escape(r["reason"])) for r in waiting],
        ),
        "<h2>Points</h2>",
        _table(
            ("points", "submissions"),
            [(f"{p:g}", str(n)) for p, n in sorted(points.items(), reverse=True)],
        ),
        "<h2>Questions</h2>",
        _table(
            (
                "question",
                "full points",
                "some",
                "none",
                "mean",
                "submissions by points",
            ),
            _questions(graded),
        ),
        "<h2>Mistakes</h2>",
        _table(("question", "looks like", "submissions"), _mistakes(graded)),
        "<h2>Flags</h2>",
        _table(
            ("student", "what was odd"),
            [
                (_link(r, formgrader), escape(flag))
                for r in records
                for flag in r["flags"]
            ],
        ),
    ]
    head = f'<meta charset="utf-8"><title>{escape(lab)}</title><style>{STYLE}</style>'
    return (
        "<!DOCTYPE html><html"
        f' lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'
    )


def _questions(graded: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    by_name: dict[str, list[tuple[float, int]]] = {}
    for record in graded:
        for question in record["questions"]:
            by_name.setdefault(question["question"], []).append(
                (question["points"], question["possible"])
            )
    rows = []
    for name, results in by_name.items():
        full, none = sum(p == of for p, of in results), sum(p == 0 for p, _ in results)
        mean = sum(p for p, _ in results) / len(results)
        counts = map(str, (full, len(results) - full - none, none))
        spread = sorted(Counter(p for p, _ in results).items(), reverse=True)
        by_points = ", ".join(f"{points:g}: {count}" for points, count in spread)
        rows.append(
            (escape(name), *counts, f"{mean:.2f} of {results[0][1]}", by_points)
        )
    return rows


def _mistakes(graded: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    counts = Counter(
        (q["question"], mistake)
        for r in graded
        for q in r["questions"]
        for mistake in q["mistakes"]
    )
    return [
        (escape(name), escape(mistake), str(count))
        for (name, mistake), count in counts.most_common()
    ]


def _link(record: Mapping[str, Any], formgrader: str) -> str:
    student = quote(record["student"].encode("utf-8", "surrogateescape"))
    address = f"{formgrader}/manage_students/{student}/{quote(record['lab'])}"
    return f'<a href="{escape(address)}">{escape(shown(record["student"]))}</a>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p>None.</p>"
    lines = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"
