"""A deck of a meeting: its slides as HTML, and the files that they need."""

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from bs4 import Tag

from scripts.slides import notes, parts
from scripts.slides.plan import Meeting, Slide, SlidesError

HERE = Path(__file__).parent
# Of reveal.js: what a deck loads, and its licence.
REVEAL = (
    "LICENSE",
    "dist/reveal.css",
    "dist/reveal.js",
    "plugin/notes/notes.js",
)
# Of a page's head: all styles, what sets formulas and what makes parts respond.
NEEDED = re.compile(r"/(mathjax/|live/(?!quiz))")
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE),
    autoescape=False,  # what goes in is HTML of the book's own pages
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


@dataclass
class Shown:
    """A slide as the template wants it: everything is HTML.

    Attributes:
        kind: its class; see `plan.KINDS`, and "title" and "afterwards".
        chapter: the title of the chapter that it comes from.
        heading: what stands above.
        body: the parts of the chapter.
        tall: whether it is a figure that is not much wider than high.
        answers: of a vote.
        notes: for the speaker, by heading.
    """

    kind: str
    chapter: str
    heading: str
    body: list[str]
    tall: bool = False
    answers: list[parts.Answer] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)


def slides_of(
    meeting: Meeting,
    meetings: Sequence[Meeting],
    pages: Sequence[parts.Page],
    site: Path,
) -> Iterator[Shown]:
    """Make the slides of a meeting.

    Args:
        meeting: what it shows.
        meetings: all of them.
        pages: its chapters.
        site: the built book.

    Raises:
        SlidesError: a part is missing, or is not of the kind that its slide wants.
    """
    guide = site / "book" / "instructor_guide.html"
    yield Shown(
        "title",
        f"Meeting {meeting.number}",
        "",
        [page.title for page in pages],
        notes={"In class": [_text(meeting.in_class)]},
    )
    said: set[str] = set()
    for slide in meeting.slides:
        shown, wrong = _slide(slide, meeting.number, pages)
        lines = [notes.line(mistake) for mistake in wrong]
        shown.notes["What students get wrong"] = [
            *shown.notes.get("What students get wrong", []),
            *(line for line in lines if line not in said),
        ]
        said.update(lines)
        yield shown
    in_labs = {
        f"In the lab: <code>{question.name}</code>": [
            line
            for line in map(notes.line, filter(lambda m: m.section, question.mistakes))
            if line not in said
        ]
        for question in notes.questions_after(meeting, meetings)
    }
    entries = notes.guide_mistakes(guide, meeting.chapters)
    yield Shown(
        "afterwards",
        f"Meeting {meeting.number}",
        "Afterwards",
        [_text(parts.name_labs(meeting.afterwards, site / "labs"))],
        notes={"What students get wrong": list(map(_text, entries)), **in_labs},
    )


def _text(element: Tag) -> str:
    """Write the text of a cell or an entry of the guide."""
    paragraphs = element("p")
    cleaned = [
        parts.clean(p, "guide").decode_contents() for p in paragraphs or [element]
    ]
    return " ".join(cleaned)


def _slide(slide: Slide, number: int, pages: Sequence[parts.Page]) -> tuple:
    """Make a slide; return it with the mistakes that its sections treat."""
    if slide.kind == "take-away":
        return _take_away(slide, number, pages), []
    found = []
    for mark in slide.marks:
        places = [(page, page.find(mark)) for page in pages]
        places = [(page, element) for page, element in places if element is not None]
        if not places:
            raise parts.missing(number, mark, pages)
        found += places
    page, first = found[0]
    body, answers = [], []
    for place, element in found:
        made = PARTS[slide.kind](element, place.name)
        if made is None:
            raise SlidesError(
                f"slides.yml, meeting {number}: {element['id']} is no {slide.kind}"
            )
        body.append(made)
        if slide.kind == "vote":
            answers = parts.answers(element, place.name)
    heading = parts.heading(page.section(first).find(["h1", "h2", "h3"]))
    if heading in ("Exercises", "Quiz"):
        heading = "Vote" if slide.kind == "vote" else "Exercise"
    tall = len(found) == 1 and parts.is_tall(first)
    shown = Shown(slide.kind, page.title, heading, body, tall, answers)
    about = [p for place, element in found for p in place.about(element)]
    shown.notes["In the chapter"] = [_text_of(p, page) for p in about]
    shown.notes["What students get wrong"] = [
        f"<b>{answer.text}</b> {answer.comment}"
        for answer in answers
        if not answer.right
    ]
    return shown, notes.named_here(page.name, page.labels(first))


def _text_of(paragraph: Tag, page: parts.Page) -> str:
    return parts.clean(paragraph, page.name).decode_contents()


def _take_away(slide: Slide, number: int, pages: Sequence[parts.Page]) -> Shown:
    """Make the slide that ends a chapter."""
    label = slide.marks[0]
    for page in pages:
        if label in page.labels(page.article.h1):
            box = page.take_away()
            if box is None:
                raise SlidesError(f"{page.name}.md has no box Take-away")
            body = [str(parts.clean(p, page.name)) for p in box.contents if p.name]
            return Shown(slide.kind, page.title, "Take-away", body[1:])
    raise parts.missing(number, label, pages)


def _question(element: Tag, page: str) -> str | None:
    if "math" in element.get("class", []):
        return str(parts.clean(element, page))
    if element.name != "p":
        return None
    return str(parts.stress_questions(parts.paragraph(element, page)))


def _figure(element: Tag, page: str) -> Tag | None:
    return parts.clean(element, page) if element.name == "figure" else None


def _drawing(element: Tag, page: str) -> str | None:
    made = _figure(element, page)
    return made and str(made)


def _result(element: Tag, page: str) -> str | None:
    made = _figure(element, page)
    if made:
        parts.hide_data(made)
    return made and str(made)


def _formula(element: Tag, page: str) -> str | None:
    if "math" not in element.get("class", []):
        return None
    before = element.find_previous_sibling()
    lead = ""
    if before is not None and before.name == "p":
        made = parts.clean(before, page)
        if made.get_text().rstrip().endswith(":"):
            lead = str(parts.last_sentence(made))
    return lead + str(parts.clean(element, page))


def _vote(element: Tag, page: str) -> str | None:
    asked = element.name == "p" and parts.answers(element, page)
    return str(parts.paragraph(element, page)) if asked else None


def _live(element: Tag, page: str) -> str | None:
    found = parts.responding(element)
    if found is None:
        return None
    before = str(parts.clean(element, page)) if element.name == "p" else ""
    return before + str(found)


def _table(element: Tag, page: str) -> str | None:
    outputs = element.select(".cell_output")
    if element.name != "table" and not outputs:
        return None
    made = [parts.clean(part, page) for part in outputs or [element]]
    for part in made:
        parts.hide_cells(part)
    return "".join(map(str, made))


PARTS = {
    "question": _question,
    "drawing": _drawing,
    "formula": _formula,
    "vote": _vote,
    "result": _result,
    "live": _live,
    "table": _table,
}


def write(
    meeting: Meeting, meetings: Sequence[Meeting], site: Path, target: Path
) -> Path:
    """Write the deck of a meeting into a folder; see `copy_files` for what it loads."""
    pages = [parts.Page(site / "book" / f"{name}.html") for name in meeting.chapters]
    deck = target / f"{meeting.name}.html"
    text = TEMPLATES.get_template("deck.html").render(
        title=" · ".join(page.title for page in pages),
        head=_head(pages),
        slides=list(slides_of(meeting, meetings, pages, site)),
    )
    deck.write_text(text, encoding="utf-8")
    return deck


def write_index(decks: Iterable[Path], target: Path) -> None:
    """Write the page that leads to the decks."""
    titles = [
        (path.stem, re.search("<title>(.*)</title>", path.read_text("utf-8"))[1])
        for path in decks
    ]
    text = TEMPLATES.get_template("index.html").render(decks=titles)
    (target / "index.html").write_text(text, encoding="utf-8")


def _head(pages: Iterable[parts.Page]) -> list[str]:
    """Return what the slides load of the book, as elements of a page's head."""
    found = {}  # by address: pages of two builds may name other versions of a file
    for page in pages:
        for element in page.head:
            address = element.get("src") or element.get("href") or ""
            style = element.get("rel") == ["stylesheet"] and "print" not in address
            settings = "window.MathJax" in (element.string or "")
            if settings or style or NEEDED.search(address):
                text = str(element).replace("../_static/", "_static/")
                found[address.partition("?")[0]] = text
    return list(found.values())


def copy_files(site: Path, reveal: Path, target: Path) -> None:
    """Put beside the decks what they load, so that they need no network.

    Args:
        site: the built book.
        reveal: the folder of reveal.js, as npm installs it.
        target: the folder of the decks, made anew.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site / "_static", target / "_static")
    for name in REVEAL:
        (target / "reveal" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(reveal / name, target / "reveal" / name)
    shutil.copy(HERE / "deck.css", target)
