"""The instructor's HTML page on one lab: a class at a glance, and who needs a person.

nbgrader's own pages list submissions, but know nothing of mistakes. With `GROUPS`, a
page may be shown to the class: it has no names, times or free text, and no figure about
fewer than five students. The page on the whole course is in `course_report`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from nbjudge.feedback import TABLES, rendered
from nbjudge.grading import figures, plots
from nbjudge.grading.course import Course
from nbjudge.grading.figures import EVERYTHING, Held, Made, Record, Shown
from nbjudge.grading.files import printable
from nbjudge.grading.record import PERSON

FOREMOST = 3  # how many of each kind the first lines of a page name
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]


class Lab(NamedTuple):
    """The data for a page on a lab.

    Attributes:
        name: name of the lab.
        records: one record per submission.
        waiting: the records that still need a person.
        attempts: by student, the records of all notebooks handed in, in order.
        missing: students on the roster who handed in nothing.
    """

    name: str
    records: Sequence[Record]
    waiting: Sequence[Record] = ()
    attempts: Mapping[str, Sequence[Record]] = {}
    missing: Sequence[str] = ()

    @property
    def graded(self) -> list[Record]:
        """The records that have points, the fewest points last."""
        found = [record for record in self.records if record["status"] != PERSON]
        return sorted(found, key=lambda record: -record["points"])


class Cell(NamedTuple):
    """A cell of a heat map: its text, the percentage lost, and a longer text."""

    text: str
    wrong: float
    title: str = ""


class Section(NamedTuple):
    """A part of a page: a heading, text, a plot, and tables, open and folded."""

    heading: str
    words: str = ""
    plot: Markup = Markup("")
    tables: Sequence[Table] = ()
    folded: Sequence[Table] = ()


def page(lab: Lab, course: Course, formgrader: str, shown: Shown = EVERYTHING) -> str:
    """Make the page on a lab.

    Args:
        lab: the data of the lab.
        course: the course that the questions belong to.
        formgrader: address of formgrader.
        shown: which groups may be distinguished.
    """
    graded = lab.graded
    held = figures.properties(graded, course.questions)
    made = figures.mistakes(graded, course.questions)
    sections = [
        _points(lab, shown),
        _questions(graded, held, shown),
        _mistakes(made, course, shown),
    ]
    links = [("index.html", "the whole course")]
    if not shown.hides:
        sections[:0] = [_glance(lab, held, made), persons([lab], formgrader)]
        sections += [_stuck(lab, formgrader), _progress(lab, formgrader)]
        sections.append(_flags(lab, formgrader))
        links.append(
            (f"{formgrader}/manage_submissions/{quote(lab.name)}", "formgrader")
        )
    else:
        sections.append(_gains(lab, shown))
    return as_html(lab.name, _counts(lab, shown), sections, links)


def as_html(
    title: str,
    counts: str,
    sections: Sequence[Section],
    links: Sequence[tuple[str, str]],
) -> str:
    """Make a page from its title, a line of counts, its sections and links."""
    template = TABLES.get_template("grading/report.html")
    return template.render(title=title, counts=counts, sections=sections, links=links)


def _counts(lab: Lab, shown: Shown) -> str:
    graded, waiting = len(lab.graded), len(lab.waiting)
    if shown.hides:
        return (
            f"{graded} graded submissions; figures about fewer than five are left out"
        )
    by_hand = len(lab.records) - graded - waiting
    counts = f"{len(lab.records)} submissions, {graded} graded"
    counts += f", {waiting} need a person"
    return counts + (f", {by_hand} marked by a person" if by_hand else "")


def _glance(lab: Lab, held: Sequence[Held], made: Sequence[Made]) -> Section:
    """Say in a few lines what the next meeting might be about."""
    low = sorted((row for row in held if row.of), key=lambda row: row.held / row.of)
    rows = [
        (
            "property",
            row.question,
            row.claim,
            f"fails for {row.of - row.held} of {row.of}",
        )
        for row in low[:FOREMOST]
        if row.held < row.of
    ]
    rows += [
        ("mistake", row.question, row.mistake, f"made by {row.students} of {row.of}")
        for row in made[:FOREMOST]
    ]
    stuck = sum(bool(figures.stuck(each)) for each in lab.attempts.values())
    words = f"Students whose last notebook gained nothing on a question: {stuck}."
    if lab.missing:
        names = ", ".join(map(printable, lab.missing))
        words += f" Students who handed in nothing: {len(lab.missing)} ({names})."
    head = ("", "question", "what", "how often")
    return Section("For the next meeting", words, tables=[(head, rows)])


def persons(labs: Sequence[Lab], formgrader: str) -> Section:
    """List the submissions that need a person."""
    rows = [
        (lab.name, _link(record, formgrader), record["reason"])
        for lab in labs
        for record in lab.waiting
    ]
    return Section("Need a person", tables=[(("lab", "student", "why"), rows)])


def _points(lab: Lab, shown: Shown) -> Section:
    graded = lab.graded
    possible = max((record["possible"] for record in graded), default=1)
    bars = figures.bars([r["points"] for r in graded], possible, shown.smallest)
    plot = plots.points(bars) if bars else Markup("")
    words = f"Points that the judge gives, of {possible}." if graded else ""
    table = (("points", "students"), bars)
    return Section("Points", words, plot, folded=[table] if bars else [])


def _questions(graded: Sequence[Record], held: Sequence[Held], shown: Shown) -> Section:
    by_question: dict[str, list[Held]] = {}
    for row in held:
        by_question.setdefault(row.question, []).append(row)
    most = max(map(len, by_question.values()), default=0)
    heat = [
        (name, *(_of_property(row, shown) for row in rows), *[""] * (most - len(rows)))
        for name, rows in by_question.items()
    ]
    claims = [
        (row.question, number, row.claim, row.points, shown.how_many(row.held, row.of))
        for rows in by_question.values()
        for number, row in enumerate(rows, 1)
    ]
    spread = [
        (name, *_spread(found, shown))
        for name, found in figures.answers(graded).items()
    ]
    words = (
        "Each row is a question, each column a property that is checked. A cell says"
        " for how many answers the property holds"
        + (", in percent" if not shown.hides else "")
        + ". The stronger its color, the more answers fail."
    )
    ends = ("full points", "some", "none")
    map_of = (("question", *map(str, range(1, most + 1))), heat)
    folded: list[Table] = [
        (("question", "property", "what is checked", "points", "holds"), claims),
        (
            ("question", *ends, "mean") if not shown.hides else ("question", *ends),
            spread,
        ),
    ]
    heading = "Questions and their properties"
    return Section(heading, words, tables=[map_of], folded=folded if heat else [])


def _of_property(row: Held, shown: Shown) -> Cell:
    share = shown.share(row.held, row.of)
    count = shown.how_many(row.held, row.of)
    text = f"{share:.0f}" if not shown.hides else count
    return Cell(text, 100 - share, f"{row.claim}: {count}")


def _spread(found: Sequence[Mapping[str, Any]], shown: Shown) -> list[str]:
    points, possible = [answer["points"] for answer in found], found[0]["possible"]
    full, none = points.count(possible), points.count(0)
    counts = (full, len(points) - full - none, none)
    said = [shown.how_many(count, len(points)) for count in counts]
    mean = f"{sum(points) / len(points):.2f} of {possible}"
    return [*said, mean] if not shown.hides else said


def _mistakes(made: Sequence[Made], course: Course, shown: Shown) -> Section:
    head = ("question", "looks like", "students", "read")
    return Section("Mistakes", tables=[(head, told(made, course, shown))])


def told(made: Sequence[Made], course: Course, shown: Shown) -> list[tuple[Any, ...]]:
    """Describe each mistake; those of too few students are left out."""
    return [
        (row.question, _named(row), _with_share(row, shown), _read(row.section, course))
        for row in made
        if row.students >= shown.smallest
    ]


def _named(row: Made) -> Markup:
    return Markup("<strong>{}</strong><br>{}").format(row.mistake, row.hint)


def _with_share(row: Made, shown: Shown) -> Cell:
    share = shown.share(row.students, row.of)
    return Cell(shown.how_many(row.students, row.of), share, f"{share:.0f} percent")


def _read(section: str, course: Course) -> Any:
    title = course.book.titles.get(section, section)
    return (
        rendered("link", address=course.book.address + section, text=title)
        if section
        else ""
    )


def _stuck(lab: Lab, formgrader: str) -> Section:
    """List the students without full points, by question, the fewest points first."""
    names = list(figures.answers(lab.graded))
    rows = []
    for record in reversed(lab.graded):
        if record["points"] == record["possible"]:
            continue
        tries = lab.attempts.get(record["student"], ())
        stuck = figures.stuck(tries)
        answers = {answer["question"]: answer for answer in record["questions"]}
        cells = [_of_answer(answers.get(name), name in stuck) for name in names]
        who, points = _link(record, formgrader), f"{record['points']:g}"
        rows.append((who, points, len(tries) or 1, *cells))
    words = (
        "Points per question, for all who do not have every point. “stuck” marks a"
        " question on which the last notebook handed in gained nothing over the one"
        " before."
    )
    head = ("student", "points", "notebooks", *names)
    return Section("Who is stuck where", words, tables=[(head, rows)])


def _of_answer(answer: Mapping[str, Any] | None, stuck: bool) -> Any:
    if answer is None:
        return ""
    lost = 100 * (1 - answer["points"] / answer["possible"])
    text = f"{answer['points']:g} of {answer['possible']}" + " stuck" * stuck
    return Cell(text, lost, "; ".join(answer["mistakes"]))


def _progress(lab: Lab, formgrader: str) -> Section:
    several = [
        (printable(student), found[0])
        for student, each in sorted(lab.attempts.items())
        if (found := figures.progress([each]))
    ]
    several.sort(key=lambda row: row[1][-1])
    rows = [
        (student, len(points), " → ".join(f"{x:g}" for x in points))
        for student, points in reversed(several)
    ]
    words = (
        "The points of everyone who handed in more than one notebook; the last counts."
    )
    possible = max((record["possible"] for record in lab.graded), default=0)
    plot = plots.progress(several, possible) if several else Markup("")
    head = ("student", "notebooks", "points in turn")
    folded = [(head, rows)] if rows else []
    return Section("Progress over resubmissions", words, plot, folded=folded)


def _gains(lab: Lab, shown: Shown) -> Section:
    several = figures.progress(lab.attempts.values())
    more = sum(points[-1] > points[0] for points in several)
    several_of = shown.how_many(len(several), len(lab.graded))
    gained = shown.how_many(more, len(several))
    rows = [("handed in more than one notebook", several_of)]
    if len(several) >= shown.smallest:
        rows.append(("have more points with the last than with the first", gained))
    return Section("Progress over resubmissions", tables=[(("", "students"), rows)])


def _flags(lab: Lab, formgrader: str) -> Section:
    rows = [
        (_link(record, formgrader), flag)
        for record in lab.records
        for flag in record["flags"]
    ]
    return Section("Flags", tables=[(("student", "what was odd"), rows)])


def _link(record: Record, formgrader: str) -> Any:
    student = quote(record["student"].encode("utf-8", "surrogateescape"))
    address = f"{formgrader}/manage_students/{student}/{quote(record['lab'])}"
    return rendered("link", address=address, text=printable(record["student"]))
