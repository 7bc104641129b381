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


@contextmanager
def pages(**options) -> Iterator:
    """Open a browser; its pages have these options (`viewport`, `color_scheme`)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield browser.new_context(**options)
        browser.close()
