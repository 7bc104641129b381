"""What the book claims, and what each claim rests on: `claims/PAGE.toml`.

A claim is a table `[[claim]]`: `text`, words of the page; `evidence` and `where`:

- run: an assertion, as it stands in a cell of the page. Such a page does not build once
  its text is no longer true.
- report: "NAME.json: row", a figure of a stored report, for each figure a line.
- paper: a key of the bibliography that the page cites.
- derivation: the label of the section or exercise that derives it.

`seeds` says from how many seeds a figure comes (one shows that something can happen),
`note` whatever else is needed to judge it.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest

BOOK = Path(__file__).parents[1] / "book"
LISTS = sorted((Path(__file__).parent / "claims").glob("*.toml"))
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def plain(text):
    """Without line breaks and links to the glossary."""
    return re.sub(r"\{term\}`([^`<]*?)( <[^>]*>)?`", r"\1", " ".join(text.split()))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_claim_stands_on_what_it_names(path):
    page = (BOOK / f"{path.stem}.md").read_text(encoding="utf-8")
    prose, cells = plain(CELL.sub("", page)), plain(" ".join(CELL.findall(page)))
    bibliography = (BOOK / "references.bib").read_text(encoding="utf-8")
    claims = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    assert claims
    for claim in claims:
        text, where = claim["text"], plain(claim["where"])
        assert plain(text) in prose, f"not on the page: {text}"
        match claim["evidence"]:
            case "run":
                assert where.startswith("assert ") and where in cells, text
                assert claim["seeds"] >= 1, text
            case "report":
                for line in claim["where"].strip().splitlines():
                    name, row = line.strip().split(": ", 1)
                    report = json.loads((BOOK / "reports" / name).read_text())
                    assert row in {r["what"] for r in report["rows"]}, line
            case "paper":
                assert f"{{{where}," in bibliography and where in prose, text
            case "derivation":
                assert f"({where})=" in page or f":label: {where}" in page, text
            case other:
                raise AssertionError(f"{text}: {other} is no kind of evidence")


def test_every_chapter_has_its_list():
    chapters = {path.stem for path in BOOK.glob("[0-9][0-9]_*.md")}
    assert {path.stem for path in LISTS} >= chapters
