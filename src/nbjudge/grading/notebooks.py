"""Read the cells of a notebook from bytes in any encoding and format.

nbformat reads valid notebooks. This module reads what students hand in: byte order
marks, fields that are missing or of a wrong type, version 3 with parts of version 4,
ten thousand cells. It keeps what can have only one meaning, and flags the rest. To find
notebooks in folders and archives, see `files`.
"""

import json
from typing import Any

from nbjudge.grading.files import Unreadable

CELLS = 2000
SOURCE_CHARACTERS = 50_000
# For all cells together: rendering Markdown may take time that grows with the square of
# it.
TEXT_CHARACTERS = 500_000
# Lists and objects in the whole file, and values in them: each may take a hundred times
# as much memory as its text.
CONTAINERS, VALUES = 300_000, 3_000_000


def read_cells(content: bytes, flags: list[str]) -> list[dict[str, Any]]:
    """Read the cells of a notebook; outputs are dropped.

    Args:
        content: bytes of the file.
        flags: gets descriptions of what is odd.

    Raises:
        Unreadable: this is not a notebook.
    """
    if not content.strip():
        raise Unreadable("the file is empty")
    if content.count(b"[") + content.count(b"{") > CONTAINERS or (
        content.count(b",") > VALUES
    ):
        raise Unreadable("it holds more lists and values than a notebook needs")
    try:
        notebook = json.loads(_decode(content, flags))
    except (ValueError, RecursionError) as error:
        html = content.lstrip()[:1] == b"<"
        raise Unreadable(
            "a web page, not a notebook" if html else "not JSON, or cut off"
        ) from error
    notebook = notebook if isinstance(notebook, dict) else {}
    cells, sheets = notebook.get("cells"), notebook.get("worksheets")
    if isinstance(sheets, list):  # version 3 and before
        sheets = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
        flags.append("an old notebook format")
    if not isinstance(cells, list):
        raise Unreadable("JSON, but not a notebook")
    if len(cells) > CELLS:
        raise Unreadable(f"{len(cells)} cells, more than {CELLS}")
    cells = [_cell(cell, flags) for cell in cells]
    if (text := sum(len(cell["source"]) for cell in cells)) > TEXT_CHARACTERS:
        raise Unreadable(f"{text} characters of text, more than {TEXT_CHARACTERS}")
    return cells


def _decode(content: bytes, flags: list[str]) -> str:
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        encoding = "utf-16" if wide else "utf-8-sig"
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if wide:
            raise
        encoding, text = "latin-1", content.decode("latin-1")
    if encoding != "utf-8-sig" or content[:3] == b"\xef\xbb\xbf":
        flags.append(f"encoded as {encoding}")
    return text


def _cell(raw: Any, flags: list[str]) -> dict[str, Any]:
    cell = raw if isinstance(raw, dict) else {}
    kind, metadata = cell.get("cell_type"), cell.get("metadata")
    text = cell.get("source", cell.get("input", ""))
    lines = text if isinstance(text, list) else [text]
    text = "".join(line for line in lines if isinstance(line, str))
    if len(text) > SOURCE_CHARACTERS:
        flags.append(f"a cell of {len(text)} characters was emptied")
        text = ""
    return {
        "cell_type": kind if kind in ("code", "markdown", "raw") else "markdown",
        "id": cell["id"] if isinstance(cell.get("id"), str) else "",
        "metadata": metadata if isinstance(metadata, dict) else {},
        "source": text.encode("utf-8", "replace").decode(),
    }
