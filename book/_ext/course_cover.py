"""The cover of the book for e-readers: its mark, drawn large, and its title."""

from pathlib import Path

from lxml import etree
from PIL import Image, ImageColor, ImageDraw, ImageFont

ASSETS = Path(__file__).parents[1] / "assets"
MARK, FONT = ASSETS / "mark.svg", ASSETS / "fonts" / "source-serif-400.woff2"
WIDTH, HEIGHT = 1200, 1600
PLACE, SIDE = 180, 840  # of the mark
LIGHT = "#fdfcfa"
# Size and height on the page of title and subtitle.
TITLE, SUBTITLE = (108, 1140), (44, 1300)


def mixed(color, ground, share):
    """Return a colour through which the ground is seen, as red, green and blue."""
    pairs = zip(ImageColor.getrgb(color), ImageColor.getrgb(ground))
    return tuple(round(share * c + (1 - share) * g) for c, g in pairs)


def draw_cover(path, title, subtitle):
    """Draw a cover.

    Args:
        path: PNG, is written.
        title: in large letters.
        subtitle: below it, with its line breaks.
    """
    mark = etree.parse(MARK).getroot()
    ground, *cells = mark.iterfind(".//{*}rect")
    scale = SIDE / float(ground.get("width"))
    cover = Image.new("RGB", (WIDTH, HEIGHT), ground.get("fill"))
    draw = ImageDraw.Draw(cover)
    for cell in cells:
        x, y, width, height, radius = (
            float(cell.get(name)) * scale
            for name in ("x", "y", "width", "height", "rx")
        )
        color = mixed(
            cell.get("fill") or cell.getparent().get("fill"),
            ground.get("fill"),
            float(cell.get("opacity", 1)),
        )
        left, top = PLACE + x, PLACE + y
        draw.rounded_rectangle((left, top, left + width, top + height), radius, color)
    for text, (size, top) in ((title, TITLE), (subtitle, SUBTITLE)):
        font = ImageFont.truetype(str(FONT), size)
        place = {"xy": (WIDTH / 2, top), "anchor": "ma", "align": "center"}
        draw.text(text=text, font=font, fill=LIGHT, spacing=size / 3, **place)
    cover.save(path, optimize=True)
