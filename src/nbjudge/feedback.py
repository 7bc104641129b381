"""Feedback on an answer: its points, and a table of what holds, what fails and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jinja2
from torch import Tensor

from nbjudge.question import Case, Question, Result

TABLES = jinja2.Environment(
    loader=jinja2.PackageLoader("nbjudge", ""),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)
GATE = "counts once the first line holds"
MOST = 8  # rows and columns of an example


class Book(NamedTuple):
    """The book that the feedback refers to.

    Attributes:
        address: the beginning of links to the book, as seen from a notebook.
        titles: the titles of sections, by page#label.
    """

    address: str = ""
    titles: Mapping[str, str] = {}


NO_BOOK = Book()


def rendered(macro: str, **values: Any) -> Any:
    """Render values as HTML with a macro of `tables.html`; the values are escaped."""
    return getattr(TABLES.get_template("tables.html").module, macro)(**values)


class Grade(float):
    """Points that a notebook shows as a table.

    It deliberately has no `__repr__` of its own: nbgrader reads the plain text of a
    cell's value as the points.

    Args:
        question: the question.
        results: one result per property of the question.
        book: the book to refer to.
    """

    question: Question
    results: list[Result]
    book: Book

    def __new__(  # noqa: D102
        cls, question: Question, results: list[Result], book: Book = NO_BOOK
    ) -> Grade:
        grade = super().__new__(cls, sum(result.earned for result in results))
        grade.question, grade.results, grade.book = question, results, book
        return grade

    def as_text(self) -> str:
        """Return the table as text."""
        lines = [self._title()]
        for (mark, points, claim, seen, wanted), inputs, result in self._rows():
            lines.append(f"  {mark}  {points}  {claim}")
            if seen:
                lines.append(f"            seen: {seen}; wanted: {wanted}")
            lines += [f"            {inputs}"] * bool(inputs)
            if result is self._with_example():
                lines += _example_as_text(result.finding.case)
        for lead, name, hint, section, title in self._mistakes():
            read = f" Read “{title}” in the book." if section else ""
            lines.append(f"  {lead}: {name}. {hint}{read}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for (mark, points, claim, seen, wanted), inputs, _ in self._rows():
            seen += f"; {inputs}" if inputs else ""
            mark = "✓ holds" if mark == "holds" else "✗ fails"
            rows.append((mark, points, claim, seen, wanted))
        shown = self._with_example()
        return str(
            rendered(
                "grade",
                title=self._title(),
                rows=rows,
                example=_example(shown.finding.case) if shown else None,
                mistakes=self._mistakes(),
                book=self.book.address,
            )
        )

    def _title(self) -> str:
        return f"{self.question.name}: {float(self):g} of {self.question.points} points"

    def _with_example(self) -> Any:
        """Return the first result that has an example, if there is one."""
        return next((r for r in self.results if r.finding and r.finding.case), None)

    def _rows(self) -> list[tuple[tuple[str, str, str, str, str], str, Result]]:
        """Return each property's line, with its inputs if they were not named above."""
        rows, said, crash = [], "", ""
        for result in self.results:
            finding = result.finding
            points = f"{result.earned}/{result.checked.points}"
            if not finding and not result.earned:
                points += f" ({GATE})"
            mark = "FAILS" if finding else "holds"
            seen, wanted = finding[:2] if finding else ("", "")
            line = seen[seen.rfind(" (line ") :] if " (line " in seen else ""
            if line and line == crash:
                seen = f"an error in the same line{line}"
            crash = line or crash
            inputs = finding.inputs if finding else ""
            told = f"with {inputs}" if inputs and inputs != said else ""
            said = inputs or said
            rows.append(
                ((mark, points, result.checked.claim, seen, wanted), told, result)
            )
        return rows

    def _mistakes(self) -> list[tuple[str, str, str, str, str]]:
        """List the mistakes; exact matches come first."""
        made = sorted((r for r in self.results if r.mistake), key=lambda r: not r.exact)
        rows: dict[str, tuple[str, str, str, str, str]] = {}
        for result in made:
            mistake = result.mistake
            assert mistake is not None
            lead = "This looks like" if result.exact else "A sign of"
            title = self.book.titles.get(mistake.section, mistake.section)
            row = (lead, mistake.name, mistake.hint, mistake.section, title)
            rows.setdefault(mistake.name, row)
        return list(rows.values())


def _example(case: Case) -> tuple[str, list[list[str]], list[list[str]], int, int]:
    """Lay out an example: the inputs, both outputs, and where they first differ.

    If the outputs have more than two axes, show the first two-dimensional slice that is
    wrong.
    """
    given, wanted = case.given.double(), case.wanted.double()
    row = column = -1
    if given.shape == wanted.shape and given.dim():
        wrong = ~((given - wanted).abs() < 1e-4)
        place = wrong.nonzero()[0].tolist()
        given, wanted = given[tuple(place[:-2])], wanted[tuple(place[:-2])]
        row, column = place[-2] if len(place) > 1 else 0, place[-1]
    inputs = "; ".join(
        f"{name} = {_line(x)}" for name, x in case.inputs if x is not None
    )
    return inputs, _table(given), _table(wanted), row, column


def _table(x: Tensor) -> list[list[str]]:
    while x.dim() > 2:
        x = x[0]
    x = x.reshape(1, -1) if x.dim() < 2 else x
    x = x[:MOST, :MOST] + 0.0  # turns -0 into 0
    return [[f"{n:.3g}" for n in row] for row in x.tolist()]


def _line(x: Any) -> str:
    if not isinstance(x, Tensor):
        return repr(x)
    if x.numel() > MOST * MOST:
        return f"a tensor {tuple(x.shape)}"
    return str(x.tolist()).replace(".0,", ",").replace(".0]", "]")


def _example_as_text(case: Case) -> list[str]:
    inputs, given, wanted, row, column = _example(case)
    if 0 <= row < len(given) and column < len(given[row]):
        given[row][column] = f">{given[row][column]}<"
    lines = [f"for example, {inputs}"] if inputs else []
    for name, rows in (("yours", given), ("right", wanted)):
        lines += [f"{name}: " + "  |  ".join(" ".join(cells) for cells in rows)]
    return [f"            {line}" for line in lines]
