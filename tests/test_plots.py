"""The plots of the instructor's pages stand in order and take the page's colours."""

import re

from nbjudge.grading.plots import COLOURS, points, progress, shares


def heights(svg, *texts):
    """Find how far from the top each text stands."""
    found = re.findall(r' y="([-\d.]+)"[^>]*>([^<]*)</text>', svg)
    placed = {text: float(y) for y, text in found}
    return [placed[text] for text in texts]


def test_the_first_lab_stands_on_top():
    svg = shares([("first", [10.0, 90.0]), ("second", [50.0])])
    top, bottom = heights(svg, "first", "second")
    assert top < bottom


def test_plots_have_the_colours_of_the_page():
    drawn = (
        points([("3", 2), ("1", 4)]),
        progress([("ada", [1.0, 3.0])], possible=4),
        shares([("lab", [75.0])]),
    )
    for svg in drawn:
        assert not any(colour in svg for colour in COLOURS)
        assert "var(--plot)" in svg
    assert "var(--pale)" in drawn[1]
