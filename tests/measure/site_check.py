"""`make site-check`: the built site in a real browser, on every page, in light and dark,
at the width of a laptop and of a phone.

axe-core finds what shuts readers out; the rest measures what a reader waits for, what is
cut, and whether the focus can be seen. Screenshots stay, and are compared with those that
were accepted last.
"""

import argparse
import gzip
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from browser import pages as open_browser
from measure import report
from PIL import Image, ImageChops

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
KEPT = ROOT / "_build" / "site-check"
AXE = KEPT / "node_modules" / "axe-core" / "axe.min.js"
THEMES = ("light", "dark")
WIDE, NARROW = 1280, 360
A_AND_AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
KB, MB = 1000, 1_000_000
CHAPTER = r"book/\d\d_"
SEARCHES = (
    "additive score",
    "causal mask",
    "beam search",
    "rotary positions",
    "softmax",
)
FIND_VIOLATIONS = """tags => axe.run(document, {
    runOnly: {type: 'tag', values: tags}, resultTypes: ['violations'], preload: false,
}).then(found => found.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' '))]))"""
# What MathJax writes for screen readers, and the middle of its long arrows, is clipped on
# purpose.
FIND_SCROLLING = """() => [...document.querySelectorAll('.bd-article *')].filter(e =>
    !e.closest('mjx-assistive-mml, mjx-ext, svg, textarea, input') && e.checkVisibility()
    && e.clientWidth && e.scrollWidth > e.clientWidth + 1
    && getComputedStyle(e).overflowX !== 'visible'
).map(e => [`${e.localName}.${e.className}`, e.tabIndex >= 0])"""
# The theme's own style, or ours, must change something that one can see.
FIND_UNSEEN_FOCUS = """() => {
    const look = e => { const s = getComputedStyle(e); return [
        s.outlineStyle === 'none' ? 0 : s.outlineWidth, s.boxShadow, s.borderColor,
        s.stroke, s.strokeWidth].join(); };
    const part = e => [e, ...e.querySelectorAll('.toctree-toggle, circle')];
    return [...document.querySelectorAll('a[href], button, summary, input, select, textarea,'
        + '[tabindex="0"]')].filter(e => e.checkVisibility({visibilityProperty: true})
        && !e.disabled && e.getClientRects().length).filter(e => {
            document.activeElement.blur();
            const before = part(e).map(look).join();
            e.focus({focusVisible: true, preventScroll: true});
            return document.activeElement === e && part(e).map(look).join() === before;
        }).map(e => `${e.localName}.${e.className}`);
}"""
MEASURE_LISTING = """() => {
    const pre = document.querySelector('.bd-article > section pre, .bd-article section pre');
    if (!pre || pre.closest('details, .admonition, .sd-tab-content')) return null;
    const style = getComputedStyle(pre), canvas = document.createElement('canvas');
    const pen = canvas.getContext('2d');
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const inside = pre.clientWidth - parseFloat(style.paddingLeft)
        - parseFloat(style.paddingRight);
    return [inside / pen.measureText('0').width, parseFloat(style.fontSize)];
}"""


class Seen(NamedTuple):
    """A page in one theme at one width.

    Attributes:
        violations: rule and place of what axe-core finds.
        overflow: pixels by which the page scrolls sideways.
        scrolling: what scrolls sideways on it, and whether it takes the focus.
        unseen: what takes the focus without showing it.
        listing: characters that fit a listing's line, and their pixels; None without one.
        trouble: errors in the console, and files that are not there or elsewhere.
        loaded: files of the site that the page has loaded.
    """

    violations: list[str]
    overflow: int
    scrolling: list[tuple[str, bool]]
    unseen: list[str]
    listing: tuple[float, float] | None
    trouble: list[str]
    loaded: set[Path]


def all_pages(site: Path) -> list[Path]:
    """The pages that a reader sees, without templates and without the one that leads to
    another."""
    return [
        page
        for page in sorted(site.rglob("*.html"))
        if not {"_static", ".ipynb_checkpoints"} & set(page.parts)
        and page != site / "index.html"
    ]


def look_at(tab: Any, page: Path, tags: Sequence[str], axe: str | None) -> Seen:
    """Open a page in a tab and measure it; without axe-core's text, not for readers'
    aids."""
    trouble: list[str] = []
    loaded: set[Path] = set()

    def note(request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme == "file":
            loaded.add(Path(unquote(address.path)))
        elif address.scheme not in ("data", "blob"):
            trouble.append(f"asks for {request.url}")

    listeners = {
        "request": note,
        "requestfailed": lambda request: trouble.append(f"has no {request.url}"),
        "pageerror": lambda error: trouble.append(str(error)),
        "console": lambda m: trouble.append(m.text) if m.type == "error" else None,
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    tab.goto(page.as_uri(), wait_until="networkidle")
    tab.wait_for_function(
        "() => !window.MathJax || !document.querySelector('.math')"
        " || document.querySelector('mjx-assistive-mml')"
    )
    tab.wait_for_timeout(100)  # for the script that looks at what scrolls
    at_once = set(loaded)  # what follows touches the figures that respond
    violations = []
    if axe:
        tab.evaluate(axe)
        for rule, places in tab.evaluate(FIND_VIOLATIONS, list(tags)):
            violations += [f"{rule}: {place}" for place in places]
    seen = Seen(
        violations,
        tab.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        ),
        [(name, focus) for name, focus in tab.evaluate(FIND_SCROLLING)],
        tab.evaluate(FIND_UNSEEN_FOCUS),
        tab.evaluate(MEASURE_LISTING),
        trouble,
        at_once,
    )
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    return seen


def look_around(
    site: Path, pages: Sequence[Path], axe: str | None, screens: Path | None = None
) -> Iterator[tuple[str, str, int, Seen]]:
    """Look at pages in every theme and at every width.

    Yields: the page's name, the theme, the width in pixels, and what was seen.
    """
    for theme in THEMES:
        for width in (WIDE, NARROW):
            best = ["best-practice"] * (theme == "light" and width == WIDE)
            size = {"width": width, "height": 900}
            still = {"color_scheme": theme, "reduced_motion": "reduce"}
            with open_browser(viewport=size, **still) as context:
                for page in pages:
                    tab = context.new_page()  # what a page still loads ends with it
                    name = page.relative_to(site).with_suffix("").as_posix()
                    yield name, theme, width, look_at(tab, page, A_AND_AA + best, axe)
                    if screens:
                        file = f"{name.replace('/', '-')}_{theme}_{width}.png"
                        tab.evaluate("() => document.activeElement.blur()")
                        tab.screenshot(path=screens / file)
                    tab.close()


def packed(path: Path) -> int:
    """Bytes of a file as a server sends it."""
    return len(gzip.compress(path.read_bytes(), 9))


def first_results(site: Path) -> list[tuple[str, str, bool]]:
    """Search from file://.

    Returns: the words, the first page that is found, and whether it is quoted.
    """
    found = []
    with open_browser() as context:
        tab = context.new_page()
        for words in SEARCHES:
            tab.goto(f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
            first = tab.locator("ul.search > li").first
            page = first.locator("a.search-page").get_attribute("href")
            found.append((words, page, first.locator("mark").count() > 0))
    return found


def is_download(path: Path, site: Path) -> bool:
    """Whether a reader gets the file on request alone."""
    top = path.relative_to(site).parts[0]
    return top in ("_sources", "_downloads") or path.suffix in (
        ".ipynb",
        ".zip",
        ".pdf",
        ".epub",
        ".whl",
    )


def weights(site: Path, seen: dict[str, Seen]) -> list[report.Row]:
    """What readers wait for: each page with all that it loads, and the whole site."""
    cache: dict[Path, int] = {}

    def load(paths: set[Path]) -> int:
        for path in paths - set(cache):
            cache[path] = packed(path) if path.is_file() else 0
        return sum(cache[path] for path in paths if "models" not in path.parts)

    chapters = {n: load(s.loaded) for n, s in seen.items() if re.match(CHAPTER, n)}
    heaviest = max(chapters, key=lambda name: chapters[name])
    idle = [
        name
        for name, page in seen.items()
        if any("mathjax" in path.parts for path in page.loaded)
        and 'class="math' not in (site / f"{name}.html").read_text(encoding="utf-8")
    ]
    scripts = {
        name: sum(
            path.stat().st_size
            for path in page.loaded
            if path.is_relative_to(site / "_static" / "live")
            and "models" not in path.parts
        )
        for name, page in seen.items()
    }
    liveliest = max(scripts, key=lambda name: scripts[name])
    files = [path for path in site.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files if not is_download(path, site))
    return [
        report.row(
            "heaviest chapter, packed",
            chapters[heaviest] / KB,
            "kB",
            at_most=600,
            note=heaviest,
        ),
        report.row(
            "scripts of what responds, heaviest page",
            scripts[liveliest] / KB,
            "kB",
            at_most=30,
            note=liveliest,
        ),
        report.row(
            "pages that load MathJax without a formula",
            len(idle),
            "pages",
            at_most=0,
            note=", ".join(idle),
        ),
        report.row("site without downloads", size / MB, "MB", at_most=12),
        report.row(
            "files .map",
            sum(path.suffix == ".map" for path in files),
            "files",
            at_most=0,
        ),
        report.row(
            "index of the search page, packed",
            packed(site / "excerpts.js") / KB,
            "kB",
            at_most=150,
        ),
    ]


def compare(screens: Path, accepted: Path) -> report.Row:
    """List the screenshots that are not as they were accepted."""
    if not accepted.is_dir():
        note = "none was accepted yet: make site-check ACCEPT=yes"
        return report.row("screenshots that differ", None, "screenshots", note=note)
    different = []
    for path in sorted(screens.glob("*.png")):
        other = accepted / path.name
        if not other.exists():
            different.append(path.stem)
            continue
        with Image.open(path) as new, Image.open(other) as old:
            if (
                new.size != old.size
                or ImageChops.difference(
                    new.convert("RGB"), old.convert("RGB")
                ).getbbox()
            ):
                different.append(path.stem)
    note = ", ".join(different)
    return report.row(
        "screenshots that differ", len(different), "screenshots", note=note
    )


def rows(looks: Sequence[tuple[str, str, int, Seen]]) -> list[report.Row]:
    """Count what was found on all pages, with the first places of each kind."""

    def none(what: str, places: Sequence[str], unit: str = "places") -> report.Row:
        note = "; ".join(list(dict.fromkeys(places))[:5])
        return report.row(what, len(places), unit, at_most=0, note=note)

    def where(theme: str, width: int) -> list[tuple[str, Seen]]:
        return [(n, seen) for n, t, w, seen in looks if (t, w) == (theme, width)]

    found = [report.row("pages", len(where("light", WIDE)), "pages")]
    for theme in THEMES:
        for width in (WIDE, NARROW):
            at = f"{theme} {width} px / "
            here = where(theme, width)
            found += [
                none(
                    at + "axe",
                    [f"{n} {v}" for n, seen in here for v in seen.violations],
                ),
                none(
                    at + "pages that scroll sideways",
                    [n for n, seen in here if seen.overflow > 0],
                    "pages",
                ),
                none(
                    at + "frames that scroll and take no focus",
                    [
                        f"{n} {e}"
                        for n, seen in here
                        for e, focus in seen.scrolling
                        if not focus
                    ],
                ),
                none(
                    at + "focus that is not seen",
                    [f"{n} {e}" for n, seen in here for e in seen.unseen],
                ),
                none(
                    at + "errors and foreign addresses",
                    [f"{n} {t}" for n, seen in here for t in seen.trouble],
                ),
            ]
    wide = where("light", WIDE)
    listings = [seen.listing for _, seen in wide if seen.listing]
    found += [
        none(
            f"{WIDE} px / what scrolls sideways",
            [f"{n} {e}" for n, seen in wide for e, _ in seen.scrolling],
        ),
        report.row(
            f"{WIDE} px / a listing's line",
            min((line for line, _ in listings), default=None),
            "characters",
            at_least=88,
        ),
        report.row(
            f"{WIDE} px / a listing's letters",
            min((size for _, size in listings), default=None),
            "px",
            at_least=12.5,
        ),
    ]
    return found


def main() -> None:
    """Check the site in _build/html."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="keep these screenshots")
    options = parser.parse_args()
    start = time.monotonic()
    screens, accepted = KEPT / "screens", KEPT / "accepted"
    shutil.rmtree(screens, ignore_errors=True)
    screens.mkdir(parents=True)
    axe = AXE.read_text(encoding="utf-8")
    looks = list(look_around(SITE, all_pages(SITE), axe, screens))
    found = rows(looks)
    found += weights(SITE, {n: s for n, t, w, s in looks if (t, w) == ("light", WIDE)})
    wrong = [
        f"{words}: {page}"
        for words, page, quoted in first_results(SITE)
        if not re.match(CHAPTER, page) or not quoted
    ]
    found.append(
        report.row(
            "searches from file:// without the chapter first, quoted",
            len(wrong),
            "searches",
            at_most=0,
            note="; ".join(wrong),
        )
    )
    found.append(compare(screens, accepted))
    if options.accept:
        shutil.rmtree(accepted, ignore_errors=True)
        shutil.copytree(screens, accepted)
    report.write("site_check", found, time.monotonic() - start)


if __name__ == "__main__":
    main()
