"""Print the book, built as a single page, into one tagged PDF with an outline.

`python -m scripts.pdf PAGE PDF`: PAGE is what the builder `singlehtml` made.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pikepdf
from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MINUTES = 10
# What a heading says, in the order of the page, without the link that is beside it.
HEADINGS = """
[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
  .filter(heading => heading.getClientRects().length)
  .map(heading => {
    const copy = heading.cloneNode(true);
    copy.querySelectorAll('.headerlink').forEach(link => link.remove());
    return copy.textContent.trim().replace(/\\s+/g, ' ');
  })
"""


def print_page(page: Path, pdf: Path, browser: str) -> list[str]:
    """Print a page when its formulas are set.

    Args:
        page: HTML.
        pdf: is written.
        browser: Chromium.

    Returns:
        The headings that are printed.

    Raises:
        RuntimeError: a formula of the page is wrong.
    """
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox"]
        )
        tab = chromium.new_page()
        tab.set_default_timeout(MINUTES * 60_000)
        tab.goto(page.resolve().as_uri())
        tab.wait_for_function("window.MathJax?.startup?.promise")
        tab.evaluate("MathJax.startup.promise.then(() => null)")
        if wrong := tab.locator("mjx-merror").count():
            raise RuntimeError(f"{wrong} formulas of {page} are wrong")
        tab.emulate_media(media="print")
        headings = tab.evaluate(HEADINGS)
        tab.pdf(path=pdf, tagged=True, outline=True, prefer_css_page_size=True)
        chromium.close()
    return headings


def entries(outline: Sequence[pikepdf.OutlineItem]) -> Iterator[pikepdf.OutlineItem]:
    """Go through an outline as a reader does."""
    for entry in outline:
        yield entry
        yield from entries(entry.children)


def tidy(pdf: Path, headings: Sequence[str]) -> None:
    """Pack a PDF, and write its headings into its outline as they are.

    Chromium writes the text of a heading twice if it moved to another page, and none of
    its spaces where a line ends.

    Args:
        pdf: is replaced.
        headings: in order.

    Raises:
        RuntimeError: the outline has other entries than these.
    """
    with pikepdf.open(pdf, allow_overwriting_input=True) as document:
        with document.open_outline() as outline:
            found = list(entries(outline.root))
            if len(found) != len(headings):
                raise RuntimeError(
                    f"{len(found)} entries in the outline of {pdf},"
                    f" but {len(headings)} headings on the page"
                )
            for entry, heading in zip(found, headings):
                entry.title = heading
        document.save(
            pdf,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            compress_streams=True,
        )


def main(arguments: list[str]) -> int:
    """Print the page named into the file named."""
    page, pdf = map(Path, arguments)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print(
            "error: printing needs Chromium; on Debian and Ubuntu: apt-get install"
            " chromium",
            file=sys.stderr,
        )
        return 1
    pdf.parent.mkdir(parents=True, exist_ok=True)
    try:
        tidy(pdf, print_page(page, pdf, browser))
    except RuntimeError as error:
        pdf.unlink(missing_ok=True)
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"the book is printed in {pdf} ({pdf.stat().st_size / 2**20:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
