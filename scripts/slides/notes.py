"""What students get wrong: from the guide, and from the mistakes that the labs name."""

import html
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from attention_labs import QUESTIONS
from nbjudge import Mistake, Question
from scripts.slides.plan import Meeting

CODE = re.compile(r"`([^`]+)`")


def guide_mistakes(guide: Path, chapters: Iterable[str]) -> list[Tag]:
    """Return the entries of the guide's *What students get wrong* about chapters.

    Args:
        guide: its built page.
        chapters: names of their pages.
    """
    soup = BeautifulSoup(guide.read_text("utf-8"), "lxml")
    entries = soup.find("section", id="what-students-get-wrong")("li")
    pages = {f"{name}.html" for name in chapters}
    return [
        entry
        for entry in entries
        if pages & {a["href"].partition("#")[0] for a in entry("a")}
    ]


def named_here(chapter: str, labels: Iterable[str]) -> list[Mistake]:
    """Return the labs' mistakes whose section has one of these labels, each once."""
    sections = {f"{chapter}.html#{label}" for label in labels}
    found = {
        mistake.hint: mistake
        for question in QUESTIONS.values()
        for mistake in question.mistakes
        if mistake.section in sections
    }
    return list(found.values())


def questions_after(meeting: Meeting, meetings: Sequence[Meeting]) -> list[Question]:
    """Return the questions of the labs that a meeting leads to.

    A lab that two meetings lead to is divided: a question belongs to the meeting whose
    chapters its mistakes name most often.
    """

    def names(question: Question, other: Meeting) -> int:
        sections = [m.section.partition(".html")[0] for m in question.mistakes]
        return sum(section in other.chapters for section in sections)

    found = []
    for lab in meeting.labs:
        leading = [other for other in meetings if lab in other.labs]
        for question in import_module(f"attention_labs.{lab}").QUESTIONS:
            if max(leading, key=lambda m: names(question, m)) is meeting:
                found.append(question)
    return found


def line(mistake: Mistake) -> str:
    """Write a mistake and what sets it right."""
    hint = CODE.sub(r"<code>\1</code>", html.escape(mistake.hint))
    name = CODE.sub(r"<code>\1</code>", html.escape(mistake.name))
    return f"<b>{name[0].upper()}{name[1:]}.</b> {hint}"
