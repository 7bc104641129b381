"""Figures with Matplotlib: attention heat maps with gold frames, curves and tables.

The interactive figures are in `live`.
"""

import html
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from torch import Tensor

# A weight of zero is transparent, on any page; a weight of one has this color.
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", [to_rgba("#8a5cd0", 0), to_rgba("#8a5cd0", 1)]
)
FRAME = "C1"


def heat_map(
    weights: Sequence[Sequence[float]] | Tensor,
    source: Sequence[str],
    target: Sequence[str],
    gold: Sequence[Collection[int]] | None = None,
    ax: Axes | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw attention weights: a row per target token, a column per source token.

    The stronger the color, the larger the weight. The maps of one figure share a color
    bar, which the first of them draws.

    Args:
        weights: at least one row per target token; columns beyond the source's tokens
            (padding) are left out.
        source: tokens, left to right.
        target: tokens, top to bottom.
        gold: for each target token, the source positions that it came from; each is
            framed.
        ax: where to draw; None: a new figure.
        colorbar: draw a color bar; False is for maps with scales of their own.

    Returns:
        The axes drawn on.

    Raises:
        ValueError: there are no tokens, or fewer weights than tokens.
    """
    if not source or not target:
        raise ValueError(
            f"{len(target)} target and {len(source)} source tokens leave nothing to"
            " draw"
        )
    if isinstance(weights, Tensor):
        weights = weights.tolist()
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
    has_one = any(panel.get_label() == "<colorbar>" for panel in panels)
    if colorbar and not has_one:
        ax.figure.colorbar(image, ax=panels, label="weight", fraction=0.03, pad=0.02)
    return ax


def weights_table(
    weights: Sequence[Sequence[float]],
    source: Sequence[str],
    target: Sequence[str],
    caption: str = "",
) -> str:
    """Write the numbers of a heat map as an HTML table, for readers who cannot see it.

    Args:
        weights: one row per target token, one number per source token; any more are
            left out.
        source: column headers.
        target: row headers.
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


def decoder_step(order: str, ax: Axes | None = None) -> Axes:
    """Draw one step of a recurrent decoder with attention.

    The query is blue and thick, the context red and dashed.

    Args:
        order: "Bahdanau", where the query is the state before the update, or "Luong",
            where it is the state after it.
        ax: where to draw; None: a new figure.

    Returns:
        The axes drawn on.

    Raises:
        ValueError: another order.
    """
    if order not in ("Bahdanau", "Luong"):
        raise ValueError(f"the order is 'Bahdanau' or 'Luong', got {order!r}")
    if ax is None:
        _, ax = plt.subplots(figsize=(7.2, 3.9), layout="constrained")
    first = order == "Bahdanau"
    query, weight, context = "#1f5f99", "#5b33a6", "#b3224a"  # look.css
    places = {"GRU": (3.2, 0.6), "$h_t$": (5.2, 0.6), "$h_{t-1}$": (0.7, 0.6)}
    places |= {"$y_{t-1}$": (3.2, -0.9), "$c_t$": (3.2 if first else 7.2, 2.0)}
    places |= {"softmax": (9.2, 0.6), "$y_t$": (11.1, 0.6)}
    if not first:
        places[r"$\tilde{h}_t$"] = (7.2, 0.6)

    def arrow(start: tuple, end: tuple, color: str = "black", bend: float = 0) -> None:
        style = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
        style["lw"] = {query: 3, context: 1.6}.get(color, 1.1)
        style["linestyle"] = "--" if color == context else "-"
        style["connectionstyle"] = f"arc3,rad={bend}"
        ax.annotate("", end, start, arrowprops=style)

    for s, share in enumerate((0.05, 0.15, 0.7, 0.1)):
        x = 3.2 + 1.4 * s
        ax.text(x, 4.5, f"$h^{{enc}}_{s + 1}$", ha="center", va="center", fontsize=11)
        ax.add_patch(Rectangle((x - 0.5, 4.15), 1, 0.7, fill=False))
        ax.add_patch(Rectangle((x - 0.25, 3.0), 0.5, share, color=weight))
        ax.text(x, 3.06 + share, f"{share:.2f}", ha="center", fontsize=9)
    ax.add_patch(Rectangle((2.5, 2.85), 5.6, 1.15, fill=False, linestyle=":"))
    ax.text(8.25, 3.3, r"weights $\alpha_t$", fontsize=11, va="center")
    ax.text(8.25, 4.5, "memory", fontsize=11, va="center")
    for label, (x, y) in places.items():
        wide = 1.5 if label in ("GRU", "softmax") else 1.1
        edge = {"$c_t$": context, "$h_{t-1}$" if first else "$h_t$": query}.get(label)
        ax.add_patch(
            Rectangle((x - wide / 2, y - 0.35), wide, 0.7, fill=False, ec=edge or "k")
        )
        ax.text(x, y, label, ha="center", va="center", fontsize=11)
    x, y = places["$h_{t-1}$" if first else "$h_t$"]
    top = (2.5, 3.1) if first else (x, 2.85)
    arrow((x, y + 0.35), top, query)
    ax.text(
        x + (0.5 if first else -0.12),
        2.35 if first else 1.9,
        "asks",
        color=query,
        ha="right",
        fontsize=11,
    )
    x, y = places["$c_t$"]
    arrow((x, 2.85), (x, y + 0.35), context)
    arrow((x, y - 0.35), (x, 0.95), context)
    arrow((1.25, 0.6), (2.45, 0.6))
    arrow((3.95, 0.6), (4.65, 0.6))
    arrow((3.2, -0.55), (3.2, 0.25))
    arrow((9.95, 0.6), (10.55, 0.6))
    if first:
        arrow((5.75, 0.6), (8.45, 0.6))
        arrow((3.75, 2.0), (9.2, 0.95), context, bend=-0.25)
        arrow((3.75, -0.9), (9.2, 0.25), bend=0.25)
    else:
        arrow((5.75, 0.6), (6.65, 0.6))
        arrow((7.75, 0.6), (8.45, 0.6))
    ax.set(xlim=(0, 11.8), ylim=(-1.4, 5))
    ax.axis("off")
    return ax


def length_curves(
    curves: Mapping[str, Mapping[int, float]], ax: Axes | None = None
) -> Axes:
    """Draw exact match against the source length, one line per model.

    Args:
        curves: name of the model -> source length in tokens -> score in [0, 1].
        ax: where to draw; None: a new figure.

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


def training_curve(
    losses: Sequence[float],
    validations: Mapping[int, float],
    unit: str = "token",
    measured: str = "loss",
    ax: Axes | None = None,
) -> Axes:
    """Draw the training losses, and the validation results if there are any.

    Args:
        losses: one per step.
        validations: step -> what was measured after it.
        unit: the loss is in nats per this unit.
        measured: "loss", drawn on the axis of the losses, or a score, drawn on an axis
            of its own on the right.
        ax: where to draw; None: a new figure.

    Returns:
        The axes of the losses.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    lines = ax.plot(range(1, len(losses) + 1), losses, linewidth=1)
    names = ["training"]
    ax.set_xlabel("step")
    ax.set_ylabel(f"loss (nats per {unit})")
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    if validations:
        right = ax if measured == "loss" else ax.twinx()
        if right is not ax:
            right.set_ylabel(measured)
        lines += right.plot(
            list(validations),
            list(validations.values()),
            color="C1",
            marker="o",
            markersize=4,
        )
        names.append(f"validation: {measured}")
    ax.legend(  # above, where no curve can be
        *(lines, names),
        ncols=len(names),
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0.3,
    )
    return ax


def report_table(
    rows: Sequence[Mapping[str, Any]], of: str, lines: str, columns: Sequence[str] = ()
) -> str:
    """Write the numbers of a report that are named "OF / line / column" as a table.

    Args:
        rows: from the report's JSON; `what`, `value` and `unit` of each are used.
        of: first part of the names.
        lines: header of the first column.
        columns: which columns to show, in this order; empty: all.

    Returns:
        A table in Markdown, with a dash for what was not measured.

    Raises:
        ValueError: the report has no numbers of this name, or lacks one of the columns.
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
