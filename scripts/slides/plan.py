"""What is shown when: `book/slides.yml`, and the guide's table of meetings."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag

KINDS = (
    "question",
    "drawing",
    "formula",
    "vote",
    "result",
    "live",
    "table",
    "take-away",
)


class SlidesError(Exception):
    """What cannot be shown, in one line."""


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        kind: one of `KINDS`.
        marks: the parts of the chapters that it shows, in this order.
    """

    kind: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Meeting:
    """One meeting.

    Attributes:
        number: from 1.
        chapters: file names of the pages, without a suffix.
        in_class: what the guide says to do.
        afterwards: what the guide says to do next.
        labs: folders of the labs that it names there.
        slides: in order.
    """

    number: int
    chapters: tuple[str, ...]
    in_class: Tag
    afterwards: Tag
    labs: tuple[str, ...]
    slides: tuple[Slide, ...]

    @property
    def name(self) -> str:
        """Return the name of its files."""
        return f"{self.number:02}_{self.chapters[0].split('_', 1)[1]}"


def read_slides(path: Path) -> list[tuple[tuple[str, ...], tuple[Slide, ...]]]:
    """Read what each meeting shows: the labels of its chapters, and its slides.

    Raises:
        SlidesError: a slide has no kind, or one that does not exist.
    """
    meetings = []
    for number, meeting in enumerate(yaml.safe_load(path.read_text("utf-8")), 1):
        slides = []
        for slide in meeting["slides"]:
            if len(slide) != 1 or not set(slide) <= set(KINDS):
                raise SlidesError(
                    f"{path.name}, meeting {number}: {slide} is not one of"
                    f" {', '.join(KINDS)} with its part"
                )
            ((kind, marks),) = slide.items()
            marks = tuple(marks) if isinstance(marks, list) else (marks,)
            slides.append(Slide(kind, marks))
        meetings.append((tuple(meeting["chapters"]), tuple(slides)))
    return meetings


def meetings(slides: Path, guide: Path) -> list[Meeting]:
    """Join the slides to the guide's meetings.

    Args:
        slides: `book/slides.yml`.
        guide: the built page of the instructor's guide.

    Raises:
        SlidesError: the two name other meetings, or other chapters.
    """
    soup = BeautifulSoup(guide.read_text("utf-8"), "lxml")
    start = soup.find(id="instructor-meetings")
    table = start and start.find_next("table")
    rows = [row("td") for row in table("tr") if row("td")] if table else []
    shown = read_slides(slides)
    if len(rows) != len(shown):
        raise SlidesError(
            f"{slides.name} has {len(shown)} meetings, the guide's table {len(rows)}"
        )
    found = []
    for number, ((labels, parts), row) in enumerate(zip(shown, rows), 1):
        chapters, in_class, afterwards = row
        links = [a["href"].partition(".html#") for a in chapters("a")]
        if labels != tuple(label for _, _, label in links):
            raise SlidesError(
                f"{slides.name}, meeting {number} is about {', '.join(labels)}, in the"
                f" guide about {', '.join(label for _, _, label in links)}"
            )
        labs = [Path(a["href"]).stem for a in afterwards("a") if "/labs/" in a["href"]]
        pages = tuple(page for page, _, _ in links)
        found.append(Meeting(number, pages, in_class, afterwards, tuple(labs), parts))
    return found
