"""Feedback: the points of an answer, shown as a table that says what to look at."""

from __future__ import annotations

from html import escape

from nbjudge.question import Question, Result

# nbgrader's feedback pages do not style tables; JupyterLab aligns them to the right.
CELL = "text-align: left; padding: 0.1em 0.6em"


class Grade(float):
    """Points that a notebook shows as a table.

    It has no `__repr__` of its own on purpose: nbgrader reads the plain text of a
    cell's value as the points.

    Args:
        question: what was asked.
        results: one per property of it.
        book: what links to the book begin with.
    """

    question: Question
    results: list[Result]
    book: str

    def __new__(  # noqa: D102
        cls, question: Question, results: list[Result], book: str = ""
    ) -> Grade:
        grade = super().__new__(cls, sum(result.earned for result in results))
        grade.question, grade.results, grade.book = question, results, book
        return grade

    def as_text(self) -> str:
        """Return the table as text."""
        lines = [
            f"{self.question.name}: {float(self):g} of {self.question.points} points"
        ]
        for result, inputs in zip(self.results, self._inputs()):
            mark = "holds" if result.finding is None else "FAILS"
            lines.append(
                f"  {mark}  {result.earned}/{result.checked.points} "
                f" {result.checked.claim}"
            )
            if result.finding:
                lines.append(
                    f"            seen: {result.finding.seen}; wanted:"
                    f" {result.finding.wanted}"
                )
            if inputs:
                lines.append(f"            {inputs}")
        for name, hint, section in self._mistakes():
            lines.append(
                f"  This looks like: {name}. {hint}"
                + (f" Read {section} in the book." if section else "")
            )
        if self._gated():
            lines.append(f"  {GATE}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for result, inputs in zip(self.results, self._inputs()):
            seen, wanted, _ = result.finding or ("", "", "")
            seen += f"; {inputs}" if inputs else ""
            mark = "✓ holds" if result.finding is None else "✗ fails"
            cells = (
                mark,
                f"{result.earned}/{result.checked.points}",
                result.checked.claim,
                seen,
                wanted,
            )
            rows.append(
                "<tr>"
                + "".join(f'<td style="{CELL}">{escape(cell)}</td>' for cell in cells)
                + "</tr>"
            )
        head = "".join(
            f'<th style="{CELL}">{name}</th>'
            for name in ("", "points", "checked", "seen", "wanted")
        )
        notes = [
            f"<p>This looks like: <strong>{escape(name)}</strong>. {escape(hint)}"
            + (
                f' Read <a href="{escape(self.book + section)}">{escape(section)}</a>'
                " in the book."
                if section
                else ""
            )
            + "</p>"
            for name, hint, section in self._mistakes()
        ]
        if self._gated():
            notes.append(f"<p>{GATE}</p>")
        return (
            f"<p><strong>{escape(self.question.name)}: {float(self):g} of"
            f" {self.question.points} points</strong></p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{''.join(notes)}"
        )

    def _inputs(self) -> list[str]:
        """Say for each line that fails what went in, unless the line before said so."""
        said, lines = "", []
        for result in self.results:
            inputs = result.finding.inputs if result.finding else ""
            lines.append(f"with {inputs}" if inputs and inputs != said else "")
            said = inputs or said
        return lines

    def _mistakes(self) -> list[tuple[str, str, str]]:
        found = {
            result.mistake.name: result.mistake
            for result in self.results
            if result.mistake
        }
        return [
            (mistake.name, mistake.hint, mistake.section) for mistake in found.values()
        ]

    def _gated(self) -> bool:
        first, *others = self.results
        return first.finding is not None and any(
            result.finding is None for result in others
        )


GATE = "The other points count once the first line holds."
