"""The pages of the stored reports: every figure of reports/NAME.json, in tables."""

import html
import json
import re
from pathlib import Path

REPORTS = Path(__file__).parents[1] / "reports"
# Where a report stands in its page: a comment, for those who read the page unbuilt.
PLACE = re.compile(r"^% The figures are those of reports/(\w+)\.json\.$", re.MULTILINE)
DIGITS = {"share": 3, "correlation": 2, "points": 1, "nats": 2, "nats per token": 2}
LOWEST, HIGHEST = ", lowest", ", highest"


def figure(row):
    """Write a value as a reader would, with a dash for what was not measured."""
    value = row and row["value"]
    if value is None or isinstance(value, str):
        return html.escape(value or "–")
    if isinstance(value, int) or value == int(value) and abs(value) >= 1000:
        return f"{value:,.0f}"
    if row["unit"] in DIGITS:
        return f"{value:.{DIGITS[row['unit']]}f}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def html_table(head, lines, kind=""):
    """Lay out cells in a frame that scrolls by finger and by keyboard."""

    def line(cells, tag):
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line(cells, "td") for cells in lines)
    return (
        f'<div class="report {kind}" tabindex="0"><table>'
        f"<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table></div>\n"
    )


def grid(cells):
    """Make a table of the figures whose names have a line and a column.

    Lowest and highest of the seeds stand in brackets behind the mean.
    """
    lines, columns = (list(dict.fromkeys(part)) for part in zip(*cells))
    columns = [c for c in columns if not c.endswith((LOWEST, HIGHEST))]

    def cell(line, column):
        row = cells.get((line, column))
        shown = figure(row)
        low, high = (cells.get((line, column + end)) for end in (LOWEST, HIGHEST))
        if low and high and low["value"] is not None:
            shown += f' <span class="range">({figure(low)}–{figure(high)})</span>'
        if row and isinstance(row["value"], str):
            shown = f'<span class="words">{shown}</span>'
        return shown

    def heading(column):
        units = {row["unit"] for (_, name), row in cells.items() if name == column}
        unit = units.pop() if len(units) == 1 else ""
        plain = not unit or unit == "share" or unit in column
        return html.escape(column if plain else f"{column} ({unit})")

    if max(map(len, columns)) > 40 or len(columns) > 12:  # sentences, or too many
        return html_table(
            ["", *map(html.escape, lines)],
            [[heading(c), *(cell(line, c) for line in lines)] for c in columns],
            "grid",
        )
    return html_table(
        ["", *map(heading, columns)],
        [[html.escape(line), *(cell(line, c) for c in columns)] for line in lines],
        "grid",
    )


def report(name, heading="##"):
    """Write a stored report as Markdown: where it comes from, then its tables.

    Each table stands below a heading of the level given.
    """
    stored = json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8"))
    grids, rest = {}, []
    for row in stored["rows"]:
        parts = row["what"].split(" / ")
        if len(parts) == 1 and re.match(r"\w+ \w+: ", row["what"]):  # a lab's question
            parts = re.split(r"[ :]+", row["what"], maxsplit=2)
        if len(parts) == 3:
            grids.setdefault(parts[0], {})[parts[1], parts[2]] = row
        else:
            rest.append(row)
    machine = stored.get("machine", "not recorded")
    text = [
        f"Commit `{stored['commit']}`, {stored['date']}, {stored['seconds']:,.0f} s;"
        f" machine: {machine}.\n"
    ]
    for title, cells in grids.items():
        text += [f"{heading} {title[0].upper()}{title[1:]}\n", grid(cells)]
    if rest:
        text.append(
            html_table(
                ["", "Figure", "Unit", "Target", "Holds", "Note"],
                [
                    [
                        html.escape(row["what"]),
                        figure(row),
                        html.escape(row["unit"]),
                        html.escape(row["target"] or ""),
                        {True: "yes", False: "no", None: ""}[row["holds"]],
                        html.escape(row["note"]),
                    ]
                    for row in rest
                ],
            )
        )
    return "\n".join(text)


def show_reports(app, docname, source):
    """Put the reports into their pages."""
    places = PLACE.findall(source[0])
    for name in places:
        app.env.note_dependency(str(REPORTS / f"{name}.json"))
    heading = "##" if len(places) == 1 else "###"  # several have headings themselves
    source[0] = PLACE.sub(lambda match: report(match[1], heading), source[0])


def setup(app):
    """Connect it."""
    app.connect("source-read", show_reports)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
