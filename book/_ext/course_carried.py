"""The book in one piece: what the builder `singlehtml` needs, to be printed."""

import re
from pathlib import Path

RESPONDS = re.compile(
    r'<div class="(?:live|writer|touch)".*?</div>(?:<script type="application/json">.*?'
    r"</script></div>)?",
    re.DOTALL,
)
REMARK = '<p class="responds">Here the page has a figure that responds to you.</p>'


def complete_visitors(app):
    """Let other builders write every node that the builder of pages can write.

    An extension that names one for a single node of its own makes Sphinx forget what
    all others said of HTML.
    """
    handlers = app.registry.translation_handlers
    for name in ("singlehtml", "epub"):
        handlers[name] = handlers["html"] | handlers.get(name, {})


def in_one_piece(html):
    """Mend the links of a single page, and leave out what is of no use on paper.

    Sphinx gives the references the numbers id1, id2 and so on, which other elements of
    a single page have as well.
    """
    html = re.sub(r'(href=")[^"#]*book/index\.html#', r"\1#", html)
    html = re.sub(r'(<a class="reference internal" href="#)(id\d)', r"\1cited-\2", html)
    html = re.sub(r'(<div class="citation" id=")', r"\1cited-", html)
    html = re.sub(r'<script src="[^"]*_static/live/[^>]*></script>\n?', "", html)
    return RESPONDS.sub(REMARK, html)


def move_to_the_top(app, exception):
    """Put the single page where its links to other files are right.

    They are those of a page at the top of the site, and the book's first page is not.
    """
    if exception or app.builder.name != "singlehtml":
        return
    written = Path(app.outdir, f"{app.config.root_doc}.html")
    html = in_one_piece(written.read_text(encoding="utf-8"))
    Path(app.outdir, "index.html").write_text(html, encoding="utf-8")


def setup(app):
    """Connect it, after all that mends finished pages."""
    app.connect("builder-inited", complete_visitors, priority=900)
    app.connect("build-finished", move_to_the_top, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
