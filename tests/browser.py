"""Pages in a real browser: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="there is no Chromium; on Debian and Ubuntu: apt-get install chromium",
)


_open = []  # Playwright runs once in a process: who comes meanwhile shares the browser


@contextmanager
def pages(**options) -> Iterator:
    """Open a browser; its pages have these options (`viewport`, `color_scheme`)."""
    from playwright.sync_api import sync_playwright

    if _open:
        context = _open[0].new_context(**options)
        yield context
        context.close()
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        _open.append(browser)
        try:
            yield browser.new_context(**options)
        finally:
            _open.clear()
        browser.close()
