"""A site that loads little: what no page uses is left out when the site is written."""

import re
import shutil
from pathlib import Path

from course_addresses import is_site
from fontTools import subset

# What the themes and extensions put into every site, and no page of this one loads.
UNUSED = (
    "**/*.map",
    "locales",
    "sbt-webpack-macros.html",
    "scripts/fontawesome.js*",
    "sphinx-thebe*",
    "webpack-macros.html",
)
THEME = Path("styles", "pydata-sphinx-theme.css")
FONTS = Path("vendor", "fontawesome", "webfonts")
# The rule that gives an icon its letter in the icon font, and the fonts' files.
ICON = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"[^"]*"\}')
FACE = re.compile(r'src:url\(([^)]*)\.woff2\) format\("woff2"\),url\([^}]*(?=\})')
PICTURE = re.compile(r"<img (?![^>]*\bloading=)")
# Names, punctuation and space in a listing have the colour of the listing itself.
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')


def drop_unused(app, pagename, templatename, context, doctree):
    """Leave out the style of live cells, and MathJax where there is no formula.

    Sphinx also loads it where one of the pages below has a formula.
    """
    formulas = app.env.get_domain("math").data["has_equations"]
    # The single page has those of all.
    shown = formulas if app.builder.name == "singlehtml" else [pagename]
    unused = "thebe" if any(map(formulas.get, shown)) else "thebe|mathjax"
    for files in ("css_files", "script_files"):
        context[files] = [
            file
            for file in context.get(files, [])
            if not re.search(unused, f"{file} {getattr(file, 'attributes', '')}", re.I)
        ]


def write_less(out):
    """Shorten the pages, and let browsers fetch a picture when its reader gets near.

    Without scripts, a page has the light theme.
    """
    for page in out.rglob("*.html"):
        before = page.read_text(encoding="utf-8")
        after = PLAIN.sub(r"\1", PICTURE.sub('<img loading="lazy" ', before))
        # "auto" is for a script to resolve; without one, no colour would be set
        after = after.replace('data-theme="auto"', 'data-theme="light"', 1)
        if after != before:
            page.write_text(after, encoding="utf-8")


def keep_used_icons(out):
    """Cut the icon fonts and their style down to the icons that the pages show."""
    static = out / "_static"
    texts = [*out.rglob("*.html"), *(static / "scripts").glob("*.js")]
    used = set()
    for path in texts:
        used |= set(re.findall(r"\bfa-[\w-]+", path.read_text(encoding="utf-8")))
    style = (static / THEME).read_text(encoding="utf-8")

    def keep(rule):
        names = re.findall(r"fa-[\w-]+", rule[1])
        return rule[0] if used & set(names) else ""

    style = ICON.sub(keep, style)
    (static / THEME).write_text(
        FACE.sub(r'src:url(\1.woff) format("woff")', style), encoding="utf-8"
    )
    styles = "".join(path.read_text(encoding="utf-8") for path in static.rglob("*.css"))
    letters = {int(letter, 16) for letter in re.findall(r'"\\([0-9a-f]{4})', styles)}
    letters |= {ord(letter) for letter in re.findall("[\ue000-\uf8ff]", styles)}
    options = subset.Options(flavor="woff", name_IDs=["*"], notdef_outline=True)
    for source in (static / FONTS).glob("*.ttf"):
        font = subset.load_font(source, options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=letters)
        subsetter.subset(font)
        subset.save_font(font, source.with_suffix(".woff"), options)
        source.unlink()
        source.with_suffix(".woff2").unlink(missing_ok=True)


def make_light(app, exception):
    """Take out of the finished site what it does not use."""
    if exception or not is_site(app):
        return
    out = Path(app.outdir)
    for pattern in UNUSED:
        for path in (out / "_static").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    keep_used_icons(out)
    write_less(out)


def setup(app):
    """Connect all of the above."""
    # after the extensions that add it
    app.connect("html-page-context", drop_unused, priority=900)
    app.connect("build-finished", make_light)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
