"""The tables of the lecture map, made of its data when the page is read."""

from pathlib import Path

import yaml

DATA = Path(__file__).parents[1] / "lecture_map.yml"
# Where they stand in the page: a comment, for those who read it unbuilt.
TABLES = "% The tables are made of lecture_map.yml."
FORMS = {"book": "{{ref}}`{}`", "package": "`{}`", "graded": "`{}`"}


def read_map():
    """Read the lectures' items and the questions outside of the tables."""
    return yaml.safe_load(DATA.read_text(encoding="utf-8"))


def cell(item, column):
    """Write the names of a column, or the reason why there is none."""
    names = item[column]
    if isinstance(names, str):
        return names
    return ", ".join(FORMS[column].format(name) for name in names)


def tables(data):
    """Write a section with a table for each lecture, and one for what is left.

    Args:
        data: what `read_map` returns.

    Returns:
        Markdown.
    """
    lines, items = [], {}
    for lecture, rows in data["lectures"].items():
        lines += ["", f"## {lecture}", ""]
        lines += ["| In the lecture | Section | Package | Graded |"]
        lines += ["| --- | --- | --- | --- |"]
        for row in rows:
            items[row["id"]] = f"{lecture}: {row['item']}"
            cells = [row["item"], *(cell(row, column) for column in FORMS)]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Questions outside of the tables", ""]
    lines += ["| Question | Item that it serves | Why it has no place above |"]
    lines += ["| --- | --- | --- |"]
    for row in data["unmatched"] + data["written"]:
        names = ", ".join(f"`{name}`" for name in row["questions"])
        served = items.get(row["item"], "none")
        why = row.get("why", "a person reads the answer")
        lines.append(f"| {names} | {served} | {why} |")
    return "\n".join(lines)


def show_tables(app, docname, source):
    """Put the tables into their page."""
    if docname == "book/lecture_map":
        app.env.note_dependency(str(DATA))
        source[0] = source[0].replace(TABLES, tables(read_map()))


def setup(app):
    """Connect it."""
    app.connect("source-read", show_tables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
