"""Figures as part of their page: SVG with real text, in the page's own colours."""

import html
import itertools
import re
from pathlib import Path

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

# The colour of text and axes in the file `matplotlibrc` beside this one: in the page it
# is that of the page's text, light or dark.
FOREGROUND = "#25282d"
# Lines and words of a drawing in these colours follow look.css as formulas do.
ROLES = {"#1f5f99": "query", "#5b33a6": "weight", "#b3224a": "context"}
# A light area keeps its hue and gives up its light.
LIGHT = r"fill: color-mix(in srgb, \1 var(--figure-light), var(--pst-color-background))"
SMALLEST_TEXT = 9  # CSS pixels
# Matplotlib's families become the page's.
FAMILY = re.compile("'DejaVu Sans', [^;\"]*sans-serif")
COORDINATE = re.compile(r"\d+\.\d{3,}")
numbers = itertools.count(1)


def in_the_pages_colours(element):
    """Exchange what the dark would hide: black text and lines, and light areas."""
    text = re.sub("(fill|stroke): #000000", r"\1: currentColor", element[0])
    if text.startswith("<text"):
        return text
    for part in ("fill", "stroke"):
        text = text.replace(f"{part}: #ffffff", f"{part}: var(--pst-color-background)")
    return re.sub(r"fill: (#[c-f].[c-f].[c-f].)\b", LIGHT, text)


def inline(svg, alt, width, prefix):
    """Make an SVG file of Matplotlib's a part of a page.

    Args:
        svg: the file's text.
        alt: what the figure shows, for those who do not see it.
        width: CSS width, or "" for the figure's own.
        prefix: what to put before each id, as a page has several figures.

    Returns:
        HTML: a frame that scrolls where the figure would get too small to read.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<image[^>]*?) id="[^"]*"', r"\1", svg)  # twice for equal pictures
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{prefix}-", svg)
    svg = svg.replace(FOREGROUND, "currentColor")
    for color, role in ROLES.items():
        svg = svg.replace(color, f"var(--role-{role}, {color})")
    svg = FAMILY.sub("var(--pst-font-family-base)", svg)
    svg = re.sub(
        r' d="[^"]*"',
        lambda d: COORDINATE.sub(lambda x: f"{float(x[0]):.2f}", d[0]),
        svg,
    )
    svg = re.sub(r"<(?:path|use|text)[^>]*>", in_the_pages_colours, svg)
    box = re.search(r'viewBox="\S+ \S+ (\S+) \S+"', svg)
    own = float(box[1]) * 96 / 72  # points to pixels
    sizes = [
        float(size)
        for size in re.findall(r'<text style="font(?:-size)?: ([\d.]+)px', svg)
    ]
    least = SMALLEST_TEXT / min(sizes) * float(box[1]) if sizes else 0
    style = f"width: {width or f'min({own:.0f}px, 100%)'}; min-width: {least:.0f}px"
    # in the head alone: what is inside has ids, styles and sizes of its own
    head, rest = svg.split(">", 1)
    head = re.sub(r' (?:width|height|version)="[^"]*"', "", head)
    head += f' role="img" aria-label="{html.escape(alt)}" style="{style}"'
    return f'<div class="figure-frame" tabindex="0">{head}>{rest.strip()}</div>\n'


def visit_image(self, node):
    """Write an SVG's text instead of a reference to its file."""
    if not node["uri"].endswith(".svg"):
        HTML5Translator.visit_image(self, node)
        return
    svg = Path(self.builder.srcdir, node["uri"]).read_text(encoding="utf-8")
    self.body.append(
        inline(
            svg, node.get("alt", ""), node.get("width", ""), f"figure{next(numbers)}"
        )
    )
    self.builder.images.pop(node["uri"], None)  # nobody asks for the file


def depart_image(self, node):
    """Close what `visit_image` opened."""
    if not node["uri"].endswith(".svg"):
        HTML5Translator.depart_image(self, node)


def setup(app):
    """Connect it."""
    plain = (HTML5Translator.visit_image, HTML5Translator.depart_image)
    inlined = (visit_image, depart_image)
    app.add_node(nodes.image, override=True, html=inlined, epub=plain)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
