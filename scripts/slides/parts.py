"""The parts of a chapter that a slide shows, as the built page has them."""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4 import BeautifulSoup, NavigableString, Tag

from scripts.slides.plan import SlidesError

RESPONDS = "div.live, div.touch"
RIGHT = "Right."
# Of a drawing by Matplotlib, what is there before anything has been measured.
FRAME = re.compile(r"-(matplotlib\.axis|legend)_\d+$")
FIGURE = re.compile(r"(^|#)(?=figure\d+-)")
PATCH = re.compile(r"-patch_\d+$")
HEIGHTS = re.compile(r"[ML] \S+ (\S+)")
# Of a text, all before its last sentence; of HTML, questions that follow each other.
SENTENCE = re.compile(r".*[.?!]\s+(?=[A-Z])", re.DOTALL)
ASKED = re.compile(r"(^|[.?!:]\)?\s+)((?:[A-Z][^.?!:]*\?(?:\s+|$))+)")
# A figure that is wider has more room below its heading than beside it.
TALL = 1.68


@dataclass(frozen=True)
class Answer:
    """One answer of a vote, and what the chapter says to it."""

    text: str
    comment: str
    right: bool


class Page:
    """A chapter of the built book.

    Attributes:
        name: of its file, without a suffix.
        title: without its number.
        head: the `link` and `script` elements of the page's head.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        soup = BeautifulSoup(path.read_text("utf-8"), "lxml")
        self.head = soup.head(["link", "script"])
        self.article = soup.find("article")
        self.title = heading(self.article.h1)

    def find(self, mark: str) -> Tag | None:
        """Find what has this mark: a label of its own, of a figure or an equation."""
        return self.article.find(id=(mark, f"equation-{mark}"))

    def section(self, part: Tag) -> Tag:
        """Return the section that a part stands in."""
        return part.find_parent("section")

    def labels(self, part: Tag) -> set[str]:
        """Return the labels of the section that a part stands in."""
        section = self.section(part)
        spans = section.find_all("span", id=True, recursive=False)
        return {section["id"], *(span["id"] for span in spans)}

    def take_away(self) -> Tag | None:
        """Return the box at the end of the chapter."""
        boxes = self.article.select("div.admonition.important")
        return next((b for b in boxes if heading(b.p) == "Take-away"), None)

    def about(self, part: Tag) -> list[Tag]:
        """Return what the chapter says of a figure, or right after an equation."""
        links = self.article.select(f'p a[href="#{part["id"]}"]')
        paragraphs = [link.find_parent("p") for link in links]
        if "math" in part.get("class", []):
            paragraphs.insert(0, part.find_next_sibling("p"))
        return [
            p
            for i, p in enumerate(paragraphs)
            if p and p.parent.name == "section" and p not in paragraphs[:i]
            if heading(p.parent.find(["h1", "h2", "h3"])) not in ("Exercises", "Quiz")
        ]


def heading(element: Tag) -> str:
    """Return the words of a heading, without its number and its link."""
    kept = copy.copy(element)
    for extra in kept.select(".headerlink, .section-number"):
        extra.decompose()
    return kept.get_text().strip()


def clean(element: Tag, page: str) -> Tag:
    """Copy an element without what only a page needs: links, and names used twice."""
    kept = copy.copy(element)
    for extra in kept.select(".headerlink, script, .sd-summary-state-marker"):
        extra.decompose()
    for link in kept("a"):
        link.unwrap()
    for frame in kept.select("[tabindex]"):
        del frame["tabindex"]
    # A build counts its figures; parts of one deck may come from two builds.
    for inner in [kept, *kept.find_all(True)]:
        for name in ("id", "href", "xlink:href", "clip-path", "style"):
            if name in inner.attrs:
                inner[name] = FIGURE.sub(rf"\g<1>{page}-", inner[name])
    return kept


def paragraph(element: Tag, page: str) -> Tag:
    """Copy a paragraph without its number among the exercises."""
    kept = clean(element, page)
    first = kept.find("strong")
    if first and re.fullmatch(r"\d+\.", first.get_text()):
        first.decompose()
    return kept


def last_sentence(paragraph: Tag) -> Tag:
    """Take from a paragraph all that stands before its last sentence."""
    for node in reversed(list(paragraph.children)):
        found = isinstance(node, NavigableString) and SENTENCE.match(node)
        if found:
            for before in list(node.previous_siblings):
                before.extract()
            node.replace_with(NavigableString(node[found.end() :]))
            break
    return paragraph


def stress_questions(asked: Tag) -> Tag:
    """Copy a paragraph with its questions marked, those at its end as the last ones."""

    def stress(found: re.Match[str]) -> str:
        kind = "asked" if found.string[found.end() :].strip() else "asked last"
        return f'{found[1]}<strong class="{kind}">{found[2].strip()}</strong> '

    text = ASKED.sub(stress, asked.decode_contents())
    return BeautifulSoup(f"<p>{text}</p>", "lxml").p


def answers(question: Tag, page: str) -> list[Answer]:
    """Return the answers to choose from that follow a question of the quiz."""
    found = []
    for sibling in question.find_next_siblings():
        if sibling.name != "details" or "quiz" not in sibling["class"]:
            break
        text = clean(sibling.select_one(".sd-summary-text"), page).decode_contents()
        body = clean(sibling.select_one(".sd-summary-content"), page)
        first = body.find("strong")
        right = first is not None and first.get_text() == RIGHT
        comment = " ".join(p.decode_contents() for p in body("p"))
        found.append(Answer(text, comment, right))
    return found


def responding(element: Tag) -> Tag | None:
    """Return the part that answers to its reader, in an element or in the next cell."""
    cell = (
        element if element.name == "div" else element.find_next_sibling("div", "cell")
    )
    return cell and cell.select_one(RESPONDS)


def name_labs(cell: Tag, labs: Path) -> Tag:
    """Copy a cell of the guide, with the labs that it names by their titles.

    Args:
        cell: with links to labs.
        labs: the folder of their built pages.
    """
    kept = copy.copy(cell)
    for link in kept.select('a[href*="/labs/"]'):
        page = labs.joinpath(*Path(link["href"]).parts[-2:])
        soup = BeautifulSoup(page.read_text("utf-8"), "lxml")
        link.string = heading(soup.find("article").h1)
    return kept


def hide_data(figure: Tag) -> None:
    """Let a figure's axes come first, and with the next key what was measured.

    A drawing without axes, and the caption, come with the next key as a whole.
    """
    figure.figcaption["class"] = "fragment"
    figure.figcaption["data-fragment-index"] = "0"
    axes = figure.select('g[id*="-axes_"]')
    hidden = [group for frame in axes for group in _data(frame)]
    framed = figure.find(id=FRAME) is not None
    for element in hidden if framed else figure("svg"):
        element["class"] = [*element.get("class", []), "fragment"]
        element["data-fragment-index"] = "0"


def hide_cells(part: Tag) -> None:
    """Let the names of a table's rows and columns come first."""
    rows = part.select("tbody tr") or part("tr")[1:]
    for row in rows:
        for cell in row(["td", "th"])[1:]:
            cell["class"] = [*cell.get("class", []), "fragment"]
            cell["data-fragment-index"] = "0"


def is_tall(part: Tag) -> bool:
    """Say whether a figure is not much wider than high."""
    drawing = part.find("svg") if part.name == "figure" else None
    if drawing is None:
        return False
    *_, width, height = map(float, drawing["viewbox"].split())
    return width < TALL * height


def _data(axes: Tag) -> Iterator[Tag]:
    """What stands in axes beside the axes themselves.

    Matplotlib draws the background first, then bars, the axes, lines, the frame, and
    last what is written: the title stands above the background.
    """
    background, *groups = axes.find_all("g", recursive=False)
    top = min(float(y) for y in HEIGHTS.findall(background.path["d"]))
    below = True
    for group in groups:
        name = group.get("id", "")  # a picture has none
        text = group.find("text") if "-text_" in name else None
        title = text is not None and float(text.get("y", top + 1)) < top
        below = below and not FRAME.search(name)
        if not (FRAME.search(name) or title or PATCH.search(name) and not below):
            yield group


def missing(meeting: int, mark: str, chapters: Sequence[Page]) -> SlidesError:
    """Say that a marked part is gone."""
    names = " and ".join(f"{page.name}.md" for page in chapters)
    return SlidesError(
        f"slides.yml, meeting {meeting}: {mark} is not in {names}; mark the part again,"
        " or take it off the list"
    )
