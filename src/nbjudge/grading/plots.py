"""Plots of a class, as SVG in the colors of the page around them."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
}
PLOT, PALE = "#1f77b4", "#aec7e8"
COLOURS = {
    "#000000": "currentColor",
    PLOT: "var(--plot)",
    PALE: "var(--pale)",
}


def points(bars: Sequence[tuple[str, int]], unit: str = "points") -> Markup:
    """Draw how many students have how many points.

    Args:
        bars: points and number of students, the most points first.
        unit: the label below the bars.
    """
    figure, axes = _axes(6 if len(bars) < 14 else 9, 2.6)
    labels = [label for label, _ in reversed(bars)]
    merged = any(" to " in label for label in labels)
    # if no bars are merged, points that nobody has leave a gap
    places: Sequence[Any] = labels if merged else [float(label) for label in labels]
    drawn = axes.bar(places, [count for _, count in reversed(bars)], color=PLOT)
    axes.bar_label(drawn, padding=2)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=unit, ylabel="students")
    if merged:
        axes.tick_params("x", rotation=60)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    told = ", ".join(f"{label}: {count}" for label, count in bars)
    return _svg(figure, f"Students by {unit}: {told}", "points")


def progress(
    students: Sequence[tuple[str, Sequence[float | int]]], possible: int
) -> Markup:
    """Draw a line for each student, from the first notebook handed in to the last.

    Args:
        students: name, and points of each notebook in order.
        possible: the maximum points of the lab.
    """
    figure, axes = _axes(5.5, 0.28 * len(students) + 1)
    for row, (_, scores) in enumerate(students):
        axes.plot(scores, [row] * len(scores), color=PALE, linewidth=3, zorder=1)
        axes.scatter(scores[:-1], [row] * (len(scores) - 1), s=22, color=PALE, zorder=2)
        axes.scatter(scores[-1:], [row], s=44, color=PLOT, zorder=3)
    axes.set_yticks(range(len(students)), [_plain(name) for name, _ in students])
    axes.set(xlabel="points", xlim=(-0.5, possible + 0.5), ylim=(-0.6, len(students)))
    told = "; ".join(
        f"{name}: {', '.join(f'{x:g}' for x in scores)}" for name, scores in students
    )
    return _svg(figure, f"Points of each notebook in turn. {told}", "progress")


def shares(labs: Sequence[tuple[str, Sequence[float | int]]]) -> Markup:
    """Draw the students' shares of the points, with a row for each lab.

    Args:
        labs: name of the lab, and each student's share in percent.
    """
    figure, axes = _axes(5.5, 0.45 * len(labs) + 1)
    for row, (_, found) in enumerate(reversed(labs)):
        # equal shares are stacked, so that each student is visible
        above: dict[float, int] = {}
        for share in sorted(found):
            place = above[round(share)] = above.get(round(share), -1) + 1
            axes.scatter(share, row - 0.3 + 0.05 * min(place, 13), s=9, color=PLOT)
    names = [_plain(name) for name, _ in reversed(labs)]
    axes.set_yticks(range(len(labs)), names)
    axes.set(xlabel="percent of the points", xlim=(-3, 103), ylim=(-0.6, len(labs)))
    told = "; ".join(f"{name}: {len(found)} students" for name, found in labs)
    return _svg(
        figure, f"Share of the points, a dot for each student. {told}", "shares"
    )


def _axes(
    width: float | int, height: float | int
) -> tuple[Figure, matplotlib.axes.Axes]:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.add_subplot()


def _plain(name: str) -> str:
    """Escape dollar signs, so that Matplotlib reads no formula in a name."""
    return name.replace("$", r"\$")


def _svg(figure: Figure, told: str, name: str) -> Markup:
    """Make HTML from a figure; `told` describes it to those who cannot see it."""
    written = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    svg = written.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for colour, its in COLOURS.items():
        svg = svg.replace(colour, its)
    head, _, rest = svg[svg.index("<svg") :].partition(">")
    label = Markup.escape(told)
    return Markup(f'<div class="frame" tabindex="0">{head} role="img" ') + Markup(
        f'aria-label="{label}">{rest}</div>'
    )
