"""Decks in Chromium: what does not fit on its slide, and a PDF."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pikepdf
from playwright.sync_api import Browser, Page, sync_playwright

SCREEN = {"width": 1920, "height": 1080}
SMALLEST_TEXT = 14  # pixels of such a screen
SECONDS = 60
MEASURE = Path(__file__).with_name("measure.js").read_text(encoding="utf-8")


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    """Open a browser without a network."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def show(browser: Browser, deck: Path, query: str = "") -> Page:
    """Open a deck and wait until its slides stand.

    Raises:
        RuntimeError: a formula of the deck is wrong, or a file is missing.
    """
    context = browser.new_context(viewport=SCREEN, offline=True)
    tab = context.new_page()
    tab.set_default_timeout(SECONDS * 1000)
    missing: list[str] = []
    tab.on("requestfailed", lambda request: missing.append(request.url))
    tab.goto(f"{deck.resolve().as_uri()}{query}")
    if missing:
        raise RuntimeError(f"{deck.name} lacks {missing[0]}")
    tab.wait_for_function("window.Reveal?.isReady()")
    if wrong := tab.locator("mjx-merror").count():
        raise RuntimeError(f"{wrong} formulas of {deck.name} are wrong")
    return tab


def overflows(browser: Browser, deck: Path) -> list[str]:
    """Show every slide of a deck, with all that comes with the next key, and measure.

    Returns:
        What does not fit, one line each.
    """
    tab = show(browser, deck)
    found = []
    for number in range(tab.evaluate("Reveal.getTotalSlides()")):
        tab.evaluate("n => Reveal.slide(n, 0, 99)", number)
        for entry in tab.locator("section.present div.live input").all():
            entry.focus()  # the model is fetched, and writes
            tab.locator("section.present .live-map table").wait_for()
        (lines,) = tab.evaluate(MEASURE, ["section.present", SMALLEST_TEXT])
        found += [f"{deck.name}, slide {number + 1}: {line}" for line in lines]
    tab.context.close()
    return found


def print_deck(browser: Browser, deck: Path, pdf: Path) -> list[str]:
    """Print a deck, a page for each thing that comes with the next key.

    Returns:
        What does not fit on its page, one line each.
    """
    tab = show(browser, deck, "?print-pdf")
    tab.wait_for_function("document.querySelector('.pdf-page')")
    measured = tab.evaluate(MEASURE, [".pdf-page", 0])
    tab.pdf(
        path=pdf,
        prefer_css_page_size=True,
        print_background=True,
        tagged=True,
        outline=True,
    )
    tab.context.close()
    with pikepdf.open(pdf) as document:
        printed = len(document.pages)
    found = [
        f"{pdf.name}, page {number}: {line}"
        for number, lines in enumerate(measured, 1)
        for line in lines
    ]
    if printed != len(measured):
        found.append(f"{pdf.name} has {printed} pages for {len(measured)} states")
    return found
