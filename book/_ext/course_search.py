"""The search page's own index: what each section of each page says.

Sphinx fetches whole pages to quote from them, which browsers refuse from file://.
"""

import json
import re
from pathlib import Path

import lxml.html

LETTERS = 110  # of each paragraph's beginning are kept
PARAGRAPHS = (
    ".//p[not(ancestor::details or ancestor::table)] | .//li[not(.//p)] | .//dt"
)
OMITTED = (
    ".//script | .//style | .//*[contains(@class, 'headerlink')]"
    " | .//*[local-name()='svg'] | .//p[@class='admonition-title']"
)


def text_of(element):
    """Return an element's text on one line, formulas without their commands."""
    text = re.sub(r"\\[()]|\\[a-z]+|[{}]", "", element.text_content())
    return re.sub(r"\s+", " ", text).strip()


def beginning(text):
    """Cut a paragraph between two words."""
    if len(text) <= LETTERS:
        return text
    return text[:LETTERS].rsplit(" ", 1)[0] + " …"


def sections(page):
    """Read the sections of a page of the finished site.

    Args:
        page: its path.

    Returns:
        For each section its id, its title, and the beginnings of its paragraphs.
    """
    article = lxml.html.parse(page).find(".//article")
    if article is None:
        return []
    for part in article.xpath(OMITTED):
        part.drop_tree()
    found = []
    for section in article.iter("section"):
        (heading, *_) = section.xpath("./*[starts-with(local-name(), 'h')]")
        own = [
            beginning(text_of(paragraph))
            for paragraph in section.xpath(PARAGRAPHS)
            if next(paragraph.iterancestors("section")) is section
        ]
        found.append([section.get("id"), text_of(heading), " ".join(own)])
    return found


def write_excerpts(app, exception):
    """Write the script that the search page loads."""
    if exception or app.builder.name != "html":
        return
    out = Path(app.outdir)
    pages = {
        name: sections(str(out / f"{name}.html")) for name in sorted(app.env.found_docs)
    }
    script = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    (out / "excerpts.js").write_text(f"const EXCERPTS = {script};\n", encoding="utf-8")


def setup(app):
    """Connect it."""
    app.connect("build-finished", write_excerpts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
