"""Figures: maps and tables of alignments, curves over length, tables of reports."""

import html
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

# A weight of zero shows the page itself, light or dark; a weight of one, this colour.
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", [to_rgba("#8a5cd0", 0), to_rgba("#8a5cd0", 1)]
)
FRAME = "C1"


def heat_map(
    weights: Sequence[Sequence[float]],
    source: Sequence[str],
    target: Sequence[str],
    gold: Sequence[Collection[int]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw who attends to what: a row per target token, a column per source token.

    The stronger the colour, the larger the weight. The maps of one figure share a
    colour bar, which the first of them draws.

    Args:
        weights: at least one row per target token; columns beyond the source's tokens
            (padding) are left out.
        source: tokens, left to right.
        target: tokens, top to bottom.
        gold: for each target token the source positions that it came from; each gets a
            frame.
        ax: where to draw; a new figure without it.

    Returns:
        The axes drawn on.

    Raises:
        ValueError: fewer weights than tokens.
    """
    rows = [list(row[: len(source)]) for row in weights[: len(target)]]
    if len(rows) < len(target) or any(len(row) < len(source) for row in rows):
        raise ValueError(
            f"{len(target)} target and {len(source)} source tokens need as many rows"
            f" and columns of weights, got {len(weights)} and"
            f" {min(map(len, weights), default=0)}"
        )
    if ax is None:
        _, ax = plt.subplots(
            figsize=(1.2 + 0.3 * len(source), 0.8 + 0.3 * len(target)),
            layout="constrained",
        )
    image = ax.imshow(rows, cmap=WEIGHTS, vmin=0, vmax=1, aspect="equal")
    ax.set_xticks(range(len(source)), [_visible(token) for token in source])
    ax.set_yticks(range(len(target)), [_visible(token) for token in target])
    ax.tick_params(length=0)
    ax.set_xlabel("source")
    ax.set_ylabel("target")
    for t, positions in enumerate(gold or ()):
        for s in positions:
            ax.add_patch(
                Rectangle(
                    (s - 0.5, t - 0.5),
                    1,
                    1,
                    fill=False,
                    edgecolor=FRAME,
                    linewidth=1.2,
                )
            )
    panels = ax.figure.axes
    if not any(panel.get_label() == "<colorbar>" for panel in panels):
        ax.figure.colorbar(image, ax=panels, label="weight", fraction=0.03, pad=0.02)
    return ax


def weights_table(
    weights: Sequence[Sequence[float]],
    source: Sequence[str],
    target: Sequence[str],
    caption: str = "",
) -> str:
    """Write the numbers of a heat map as an HTML table, for readers who do not see it.

    Args:
        weights: one row per target token, one number per source token; what is beyond
            these is left out.
        source: heads of the columns.
        target: heads of the rows.
        caption: what the table shows.

    Returns:
        A `<table>`, with two decimals.
    """

    def head(name: str, scope: str) -> str:
        return f'<th scope="{scope}">{html.escape(_visible(name))}</th>'

    rows = [
        "<tr>"
        + head(token, "row")
        + "".join(f"<td>{weight:.2f}</td>" for _, weight in zip(source, row))
        + "</tr>"
        for token, row in zip(target, weights)
    ]
    heads = "<tr><td></td>" + "".join(head(token, "col") for token in source) + "</tr>"
    title = f"<caption>{html.escape(caption)}</caption>"
    return f"<table>{title}{heads}{''.join(rows)}</table>"


def length_curves(
    curves: Mapping[str, Mapping[int, float]], ax: Axes | None = None
) -> Axes:
    """Draw a score against the source length, one line per model.

    Args:
        curves: name of the model -> source length in tokens -> score in [0, 1].
        ax: where to draw; a new figure without it.

    Returns:
        The axes drawn on.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for (name, curve), marker in zip(curves.items(), cycle("osD^vPX*")):
        ax.plot(
            list(curve), list(curve.values()), marker=marker, markersize=4, label=name
        )
    ax.set_xlabel("source length (tokens)")
    ax.set_ylabel("exact match")
    ax.set_ylim(-0.03, 1.03)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def report_table(
    rows: Sequence[Mapping[str, Any]], of: str, lines: str, columns: Sequence[str] = ()
) -> str:
    """Lay out the figures of a report that are named "OF / line / column".

    Args:
        rows: of the report's JSON: `what`, `value` and `unit` of each are looked at.
        of: first part of the names.
        lines: what they are, for the head of the first column.
        columns: which figures, in this order; none named: all there are.

    Returns:
        A table in Markdown; what was not measured is a dash.

    Raises:
        ValueError: nothing is named so.
    """
    named = [(row["what"].split(" / "), row) for row in rows]
    cells = {
        (name[1], name[2]): row
        for name, row in named
        if name[0] == of and len(name) == 3
    }
    names, there = (
        (list(dict.fromkeys(part)) for part in zip(*cells)) if cells else ([], [])
    )
    if not cells or not set(columns) <= set(there):
        raise ValueError(
            f"the report has of {of!r} the figures {there}, not all of {list(columns)}"
        )
    columns = columns or there
    table = [[lines, *columns], ["---"] + ["--:"] * len(columns)]
    table += [
        [line, *(_figure(cells.get((line, column))) for column in columns)]
        for line in names
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def _figure(row: Mapping[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return "–"
    digits = {"share": 3, "correlation": 2, "points": 1, "s": 1, "nats": 2}.get(
        row["unit"], 0
    )
    return f"{row['value']:,.{digits}f}"


def _visible(token: str) -> str:
    return "␣" if token == " " else token
