"""Feedback: the points of an answer, shown as a table that says what to look at."""

from __future__ import annotations

from typing import Any

import jinja2

from nbjudge.question import Question, Result

TABLES = jinja2.Environment(
    loader=jinja2.PackageLoader("nbjudge", ""),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)
GATE = "The other points count once the first line holds."


def rendered(macro: str, **values: Any) -> Any:
    """Make HTML of values, which are escaped, by a macro of `tables.html`."""
    return getattr(TABLES.get_template("tables.html").module, macro)(**values)


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
        lines = [self._title()]
        for result, inputs in zip(self.results, self._inputs()):
            mark = "holds" if result.finding is None else "FAILS"
            points = f"{result.earned}/{result.checked.points}"
            lines.append(f"  {mark}  {points}  {result.checked.claim}")
            if found := result.finding:
                lines.append(f"            seen: {found.seen}; wanted: {found.wanted}")
            lines += [f"            {inputs}"] * bool(inputs)
        for name, hint, section in self._mistakes():
            read = f" Read {section} in the book." if section else ""
            lines.append(f"  This looks like: {name}. {hint}{read}")
        lines += [f"  {self._gate()}"] * bool(self._gate())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for result, inputs in zip(self.results, self._inputs()):
            seen, wanted, _ = result.finding or ("", "", "")
            mark = "✓ holds" if result.finding is None else "✗ fails"
            points = f"{result.earned}/{result.checked.points}"
            seen += f"; {inputs}" if inputs else ""
            rows.append((mark, points, result.checked.claim, seen, wanted))
        title, mistakes, gate = self._title(), self._mistakes(), self._gate()
        return str(
            rendered(
                "grade",
                title=title,
                rows=rows,
                mistakes=mistakes,
                book=self.book,
                gate=gate,
            )
        )

    def _title(self) -> str:
        return f"{self.question.name}: {float(self):g} of {self.question.points} points"

    def _inputs(self) -> list[str]:
        """Say for each line what went in, where it fails and none above it said so."""
        said, lines = "", []
        for result in self.results:
            inputs = result.finding.inputs if result.finding else ""
            lines.append(f"with {inputs}" if inputs and inputs != said else "")
            said = inputs or said
        return lines

    def _mistakes(self) -> list[tuple[str, str, str]]:
        made = [result.mistake for result in self.results if result.mistake]
        found = {mistake.name: mistake for mistake in made}
        return [(name, made.hint, made.section) for name, made in found.items()]

    def _gate(self) -> str:
        first, *others = self.results
        lost = first.finding and any(result.finding is None for result in others)
        return GATE if lost else ""
