"""The book as a reader gets it: built without a warning, every page executed, nothing
fetched, no link broken."""

import ast
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
import yaml
from addresses import of_projects, without_addresses
from browser import CHROMIUM, needs_chromium
from bs4 import BeautifulSoup
from jupyter_cache import get_cache
from measure import site_check
from solution_text import flat, secret_lines

from scripts.slides import deck, look, plan

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build" / "html"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
# Seconds of processor time: a page may take 30 on a quiet machine, chapter 17 may take
# 60, and all together 420. Where two threads share a core, or the processor is slow, the
# same work takes a multiple.
SECONDS, MORE_SECONDS, SUM = 30, {"17_only_writing": 60}, 420
BUSY = 4


def toc_files(entry):
    return [entry[key] for key in ("root", "file") if key in entry] + [
        name
        for key in ("parts", "chapters", "sections")
        for child in entry.get(key, [])
        for name in toc_files(child)
    ]


SOURCES = [
    ROOT / f"{name}.md"
    for name in toc_files(yaml.safe_load((ROOT / "_toc.yml").read_text()))
]
EXECUTED = [path for path in SOURCES if CELL.search(path.read_text())]
REVEAL = ROOT / "_build" / "reveal" / "node_modules" / "reveal.js"
CHAPTERS = [path for path in SOURCES if re.match(r"\d\d_", path.name)]


@pytest.fixture(scope="module")
def site():
    """Build as `make book` does; what has not changed since the last build is
    reused."""
    jupyter_book = shutil.which("jupyter-book", path=Path(sys.executable).parent)
    command = [jupyter_book, "build", str(ROOT), "-W", "-n", "--keep-going"]
    done = subprocess.run(
        command, cwd=ROOT, env=without_addresses(), capture_output=True, text=True
    )
    # a page that failed is named early in stderr, with the cell and its traceback
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    # Not the theme's templates, and not what JupyterLab leaves behind when a page is
    # opened in it.
    pages = [
        p
        for p in sorted(SITE.rglob("*.html"))
        if not {"_static", ".ipynb_checkpoints"} & set(p.parts)
    ]
    return {path: BeautifulSoup(path.read_text(), "html.parser") for path in pages}


def test_every_source_is_in_the_table_of_contents():
    assert set(SOURCES) == set((ROOT / "book").glob("*.md"))


def test_readers_are_sent_to_no_command_of_maintainers():
    """Students have the pages, but no Makefile; the reports' own pages name verbs."""
    for path in [
        *CHAPTERS,
        ROOT / "book" / "how_to_use.md",
        ROOT / "book" / "index.md",
    ]:
        verbs = re.search(r"`make [a-z0-9-]+|make [a-z0-9-]+, commit", path.read_text())
        assert not verbs, f"{path.name}: {verbs[0]}"


def test_no_line_of_text_is_taken_for_a_comment():
    """MyST leaves out lines that begin with a per cent sign."""
    fenced = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
    for path in SOURCES:
        lines = fenced.sub("", path.read_text()).splitlines()
        comments = [line for line in lines if line.startswith("%")]
        assert not [c for c in comments if not c.startswith("% The ")], path.name


def test_options_follow_their_directive_at_once():
    """After an empty line they would be text."""
    apart = re.compile(r"^(?:`{3,}|:{3,})\{[^\n]*\n\s*\n:[a-z-]+:", re.MULTILINE)
    for path in SOURCES:
        assert not apart.search(path.read_text()), path.name


def test_no_title_of_a_fence_has_a_backtick():
    """Such a line opens no fence, and the next fence ends where it should begin."""
    for path in SOURCES:
        titles = re.findall(r"^`{3,}\{[\w-]+\}.*`.*$", path.read_text(), re.MULTILINE)
        assert not titles, f"{path.name}: {titles[0]}"


def test_no_two_lines_that_mean_something_stand_in_one():
    """Whoever fills paragraphs anew may join settings, options or rows to the text."""
    header = re.compile(r"^```\{code-cell\}[^\n]*\n---\n(.*?)\n---$", re.M | re.S)
    for path in SOURCES:
        text = path.read_text()
        for settings in header.findall(text):
            assert isinstance(yaml.safe_load(settings), dict), path.name
        joined = re.search(r"^.+\S (?:\* - |:[a-z-]+: |\* -$).*", text, re.M)
        assert not joined, f"{path.name}: {joined[0]}"


def test_every_report_has_a_page():
    shown = "".join(path.read_text() for path in SOURCES if "report" in path.name)
    for report in (ROOT / "book" / "reports").glob("*.json"):
        assert f"% The figures are those of reports/{report.name}.\n" in shown


def test_every_source_became_a_page(site):
    assert {
        SITE / path.relative_to(ROOT).with_suffix(".html") for path in SOURCES
    } <= set(site)


def test_every_table_became_one(site):
    """A table in Markdown that nothing renders is a paragraph full of bars."""
    for path, page in site.items():
        assert not [
            p
            for p in page.find_all("p")
            if re.search(r"\|\s*:?[-–—]+:?\s*\|", p.get_text())
        ], path.name


def test_every_directive_became_something(site):
    """One whose title holds a backtick is no fence of backticks: it stays text."""
    for path, page in site.items():
        text = [p.get_text() for p in page.select("article p")]
        assert not [t for t in text if re.match(r"(`{3,}|~{3,}|:{3,})\{", t)], path.name


def test_every_page_with_cells_was_executed(site):
    (cache_path,) = (ROOT / "_build" / ".jupyter_cache").iterdir()
    cache = get_cache(cache_path)
    executed = {Path(record.uri).name for record in cache.list_cache_records()}
    cache.db.dispose()
    assert EXECUTED
    assert {path.name for path in EXECUTED} <= executed


def test_every_number_that_is_glued_is_shown(site):
    glued = sorted((ROOT / "_build" / "jupyter_execute").rglob("*.glue.json"))
    assert len(glued) >= len(CHAPTERS)
    for path in glued:
        page = ROOT / path.relative_to(ROOT / "_build" / "jupyter_execute")
        text = page.with_suffix("").with_suffix(".md").read_text()
        shown = set(re.findall(r"\{glue:?[a-z]*\}\s*`?([^`:\n]+)", text))
        assert not json.loads(path.read_text()).keys() - shown, page.name


def test_every_chapter_keeps_to_its_budget(site):
    spent = {}
    for path in CHAPTERS:
        text = site[SITE / path.relative_to(ROOT).with_suffix(".html")].get_text()
        found = re.search(r"to read, (\d+) seconds of processor time", text)
        spent[path.stem] = int(found[1])
        limit = BUSY * MORE_SECONDS.get(path.stem, SECONDS)
        assert spent[path.stem] <= limit, f"{path.name} took {found[1]} s"
    assert sum(spent.values()) <= BUSY * SUM, spent


def test_no_page_shows_an_error(site):
    for path, page in site.items():
        assert not page.select(
            ".cell_output .traceback, .cell_output .stderr, .merror"
        ), path


def resources(page):
    for tag, attribute in (
        ("script", "src"),
        ("img", "src"),
        ("link", "href"),
        ("iframe", "src"),
        ("source", "src"),
    ):
        for element in page.find_all(tag, **{attribute: True}):
            if tag != "link" or set(element.get("rel", [])) - {
                "canonical",
                "next",
                "prev",
                "search",
                "index",
            }:
                yield element[attribute]


def test_nothing_is_fetched_from_elsewhere(site):
    for path, page in site.items():
        for address in resources(page):
            assert not re.match(r"(https?:)?//", address), (
                f"{path.name} loads {address}"
            )
    for path in SITE.rglob("*.css"):
        assert not re.search(
            r"url\([\"']?(https?:)?//|@import [\"'](https?:)?//", path.read_text()
        ), path


def test_no_link_within_the_site_is_broken(site):
    ids = {
        path: {e["id"] for e in page.find_all(id=True)} for path, page in site.items()
    }
    for path, page in site.items():
        links = [element["href"] for element in page.find_all("a", href=True)]
        for address in [*links, *resources(page)]:
            if re.match(r"[a-z]+:|//", address):
                continue
            name, fragment = urldefrag(unquote(address))
            target = (path.parent / name.split("?")[0]).resolve() if name else path
            assert target.exists(), f"{path.name} links to {address}"
            if fragment and target in ids:
                assert fragment in ids[target], f"{path.name} links to {address}"


def test_formulas_need_no_network(site):
    scripts = {
        src for page in site.values() for src in resources(page) if "mathjax" in src
    }
    assert scripts
    assert (SITE / "_static" / "mathjax" / "startup.js").exists()
    assert list(
        (SITE / "_static" / "mathjax" / "output" / "chtml" / "fonts" / "woff-v2").glob(
            "*.woff"
        )
    )
    size = sum(
        path.stat().st_size
        for path in (SITE / "_static" / "mathjax").rglob("*")
        if path.is_file()
    )
    assert size < 2e6


def test_every_figure_says_what_it_shows(site):
    figures = 0
    for path, page in site.items():
        for image in page.select("main img, main svg[role=img]"):
            figures += 1
            text = image.get("alt") or image.get("aria-label", "")
            assert len(text) >= 20, f"{path.name}: figure {figures}"
            assert text not in image.get("src", ""), f"{path.name}: {image}"
    assert figures >= len(EXECUTED)


def test_figures_are_drawn_in_the_colours_of_their_page(site):
    """What Matplotlib draws stands in the page, with text that can be read and found."""
    drawn = {path: page.select("div.figure-frame svg") for path, page in site.items()}
    for path, figures in drawn.items():
        assert not [i for i in site[path].select("main img") if ".svg" in i["src"]]
        ids = [e["id"] for e in site[path].find_all(id=True)]
        assert len(set(ids)) == len(ids), path.name
        for figure in figures:
            assert "currentColor" in str(figure), path.name
            width = re.search(r"min-width: (\d+)px", figure["style"])
            assert int(width[1]) > 100, path.name  # text of at least 9 px
    assert sum(map(len, drawn.values())) >= 40


DROPDOWN = re.compile(
    r"^```\{dropdown\} (.*?)\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL
)


def numbered(text):
    """Split at the questions, which begin with a number in bold: **1.** and so on."""
    return re.split(r"^\*\*\d\.\*\* ", text, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_says_what_it_is_for_and_lets_the_reader_practise(path):
    text = path.read_text()
    body, _, practice = text.partition("## Exercises\n")
    exercises, _, quiz = practice.partition("## Quiz\n")
    for part in (
        "At a glance",
        "**Afterwards you can**",
        "**Time:**",
        "{glue:text}`seconds:.0f` seconds",
    ):
        assert part in body
    assert len(numbered(exercises)) >= 3
    for exercise in numbered(exercises):
        titles = [title for title, _ in DROPDOWN.findall(exercise)]
        assert titles[0].startswith("Hint") and titles[-1] == "Solution", exercise[:60]
        assert CELL.search(exercise), f"the solution runs nothing: {exercise[:60]}"
    assert len(numbered(quiz)) >= 3
    for question in numbered(quiz):
        answers = DROPDOWN.findall(question)
        assert len(answers) >= 3
        assert sum("**Right.**" in explanation for _, explanation in answers) == 1, (
            question[:60]
        )
        assert all(len(explanation) > 45 for _, explanation in answers), question[:60]
    assert "Take-away" in quiz and "**Further reading.**" in quiz


def test_solutions_are_folded_with_what_their_code_gave(site):
    for path in CHAPTERS:
        page = site[SITE / path.relative_to(ROOT).with_suffix(".html")]
        solutions = [
            d
            for d in page.select("details.sd-dropdown")
            if d.summary.get_text(strip=True) == "Solution"
        ]
        assert len(solutions) == path.read_text().count("```{dropdown} Solution"), (
            path.name
        )
        for solution in solutions:
            assert solution.select(".cell_output"), (
                f"{path.name}: {solution.get_text()[:60]}"
            )


def test_nothing_is_at_an_address_of_ours(site):
    """Nobody has named one: see test_addresses.py."""
    for path, page in site.items():
        links = [e.get("href") or e.get("src") for e in page.select("[href], [src]")]
        assert not of_projects("\n".join(links)), path
        assert not page.select("[class*=btn-source], link[rel=canonical]"), path
        assert "Colab" not in page.get_text(), path


def test_every_lab_has_a_page_that_shows_it_as_it_is_handed_out(site):
    labs = sorted((ROOT / "labs").glob("*/*.ipynb"))
    assert labs
    for lab in labs:
        path = SITE / lab.relative_to(ROOT).with_suffix(".html")
        page = site[path]
        assert "raise NotImplementedError" in page.get_text() and not page.select(
            ".cell_output"
        )
        links = {a["href"] for a in page.select("a[href*='.ipynb']")}
        downloads = [path.parent / link for link in links]
        assert len(downloads) == 2  # in the text, and in the page's header
        for file in downloads:
            nbformat.validate(nbformat.read(file, as_version=4))
            assert file.read_bytes() == lab.read_bytes()


def test_a_lab_that_somebody_has_worked_in_shows_nothing_that_was_run(monkeypatch):
    """Whatever it printed would be judged as a page of the book is."""
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    extension = runpy.run_path(str(ROOT / "book" / "_ext" / "course_book.py"))
    lab = nbformat.read(next((ROOT / "labs").glob("*/*.ipynb")), as_version=4)
    lab.cells[1].update(
        outputs=[nbformat.v4.new_output("stream", name="stderr", text="a warning")],
        execution_count=1,
    )
    source = [nbformat.writes(lab)]
    app = SimpleNamespace(config=SimpleNamespace(repository=""))
    extension["show_as_handed_out"](app, "labs/lab/lab", source)
    shown = nbformat.reads(source[0], as_version=4)
    assert [c.source for c in shown.cells[1:]] == [c.source for c in lab.cells[1:]]
    assert "a warning" not in source[0] and shown.cells[1].execution_count is None
    assert "Download the notebook <lab.ipynb>" in shown.cells[0].source


def test_no_page_holds_a_labs_solution(site):
    """Lines of the package and of the book itself are no secret."""
    secret = secret_lines()
    assert len(secret) > 40
    text = flat("\n".join(page.get_text() for page in site.values()))
    assert not [line for line in secret if line in text]


def test_no_cell_defines_what_the_package_defines():
    package = {
        node.name
        for path in (ROOT / "src" / "attention_course").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    for path in SOURCES:
        for cell in CELL.findall(path.read_text()):
            code = re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.MULTILINE | re.DOTALL)
            code = "\n".join(
                line for line in code.splitlines() if not re.match(r":[\w-]+:", line)
            )
            defined = {
                n.name
                for n in ast.walk(ast.parse(code))
                if isinstance(n, ast.FunctionDef | ast.ClassDef)
            }
            assert not defined & package, (
                f"{path.name} defines {defined & package} again"
            )


def test_every_page_with_cells_has_a_notebook_without_directives(site):
    """It holds what the page shows, and all cells that the page runs."""
    # the guide reads the course's own files, and stays with them
    wanted = [path for path in EXECUTED if path.stem != "instructor_guide"]
    assert len(wanted) > 20
    for path in wanted:
        notebook = nbformat.read(
            SITE / "notebooks" / f"{path.stem}.ipynb", as_version=4
        )
        nbformat.validate(notebook)
        text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        prose = re.sub(r"```.*?```|`[^`\n]*`|\$[^$]*\$", "", text, flags=re.DOTALL)
        assert not re.search(r"^:::|\{[a-z:]+\}`|```\{|KEPT\d|\\\(", prose, re.M), path
        assert site[SITE / "book" / f"{path.stem}.html"].select_one(
            f"a[href$='notebooks/{path.stem}.ipynb']"
        )
        code = [c for c in notebook.cells if c.cell_type == "code"]
        assert sum(bool(cell.outputs) for cell in code) > 0
        named = set(re.findall(r'Path\("reports/(\w+)\.json', path.read_text()))
        read = {n for n in named if Path(ROOT, f"book/reports/{n}.json").exists()}
        assert all(f'"{name}.json": ' in code[0].source for name in read), path


def test_the_site_is_small(site):
    """Apart from what is there to be taken along."""
    loaded = [
        path
        for path in SITE.rglob("*")
        if path.is_file() and not {"downloads", "notebooks"} & set(path.parts)
    ]
    assert sum(path.stat().st_size for path in loaded) < 25e6


@pytest.fixture(scope="module")
def looks(site):
    """The landing page, a chapter and a lab, in both themes at both widths."""
    names = (
        "book/index",
        "book/06_bahdanau",
        "labs/lab05_self_attention/lab05_self_attention",
    )
    axe = site_check.AXE.read_text() if site_check.AXE.exists() else None
    return list(
        site_check.look_around(SITE, [SITE / f"{name}.html" for name in names], axe)
    )


@needs_chromium
def test_nothing_is_cut_and_focus_is_seen_in_a_browser(looks):
    rows = site_check.rows(looks)
    assert {row.value for row in rows if row.what == "pages"} == {3}
    assert not [row for row in rows if row.holds is False and "axe" not in row.what]


@needs_chromium
@pytest.mark.skipif(
    not site_check.AXE.exists(),
    reason="axe-core is not there; `make site-check` fetches it",
)
def test_axe_finds_no_barrier(looks):
    rows = [row for row in site_check.rows(looks) if row.what.endswith("axe")]
    assert len(rows) == 4
    assert not [row for row in rows if not row.holds]


@needs_chromium
def test_a_site_loads_little(looks):
    wide = {n: seen for n, *where, seen in looks if where == ["light", site_check.WIDE]}
    assert not [row for row in site_check.weights(SITE, wide) if not row.holds]


@needs_chromium
def test_search_puts_chapters_first_and_quotes_them():
    for words, page, quoted in site_check.first_results(SITE):
        assert re.match(site_check.CHAPTER, page), f"{words}: {page}"
        assert quoted, words


@needs_chromium
def test_an_invisible_focus_is_seen_by_the_check(tmp_path):
    """A button whose ring is taken away, and a line that is wider than its frame."""
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html><html lang=en><title>x</title><style>button:focus {outline: none}"
        "</style><div class=bd-article><button>seen</button><div style='width: 50px;"
        "overflow: auto'><p style='width: 99px'>wide</p></div></div><script src=gone.js>"
        "</script></html>"
    )
    with site_check.open_browser() as context:
        seen = site_check.look_at(context.new_page(), page, [], None)
    assert seen.unseen == ["button."]
    assert seen.scrolling == [("div.", False)]
    assert [t for t in seen.trouble if "gone.js" in t]
    assert seen.overflow == 0


@needs_chromium
@pytest.mark.skipif(
    not REVEAL.exists(), reason="reveal.js is not there; `make slides` fetches it"
)
def test_a_deck_fits_its_slides_and_its_pages(site, tmp_path):
    """`make slides` looks at all twelve; here all are made, and one is looked at."""
    meetings = plan.meetings(
        ROOT / "book" / "slides.yml", SITE / "book" / "instructor_guide.html"
    )
    deck.copy_files(SITE, REVEAL, tmp_path)
    decks = [deck.write(meeting, meetings, SITE, tmp_path) for meeting in meetings]
    assert len(decks) == 12
    heads = decks[7]
    text = heads.read_text()
    notes = BeautifulSoup(text, "lxml").select("aside.notes")
    assert sum("What students get wrong" in note.get_text() for note in notes) > 3
    with look.chromium(CHROMIUM) as browser:
        assert not look.overflows(browser, heads)
        assert not look.print_deck(browser, heads, tmp_path / "heads.pdf")
        long = '<div class="shown"><p>' + 300 * "too many words " + "</p>"
        heads.write_text(text.replace('<div class="shown">', long, 1))
        assert "slide 2" in "".join(look.overflows(browser, heads))
        assert "page 2" in "".join(
            look.print_deck(browser, heads, tmp_path / "heads.pdf")
        )
