"""What a reader takes along: a chapter as a notebook, the book as one file, the package
that both name."""

import json
import shutil
import zipfile
from pathlib import Path

import nbformat
import pikepdf
import pytest
from browser import CHROMIUM, needs_chromium, pages
from nbclient import NotebookClient

from scripts.pdf import entries, print_page, tidy
from scripts.wheel import build

ROOT = Path(__file__).parents[1]
PAGE = "https://attention.example/book/06_bahdanau.html"
PARTS = r"""
<section><h1>Where to look<a class="headerlink" href="#x">#</a></h1>
<div class="tip admonition"><p class="admonition-title">At a glance</p><p>Read
<a class="reference internal" href="05_scoring.html#scoring">Chapter 5</a> and
<a href="https://arxiv.org/abs/1409.0473">the paper</a> about &lt;bos&gt;.</p></div>
<p>A weight <span class="math">\(\alpha_{ts} = \softmax(e)\)</span> of <code>a_b</code>.</p>
<div class="math"><span class="eqno">(6.1)<a class="headerlink" href="#y">#</a></span>
\[c_t = \sum_s \alpha_{ts} v_s\]</div>
<div class="cell"><pre>shown</pre><figcaption><p><em>Fig. 6.1</em> A map.</p></figcaption></div>
<details class="sd-dropdown"><summary>Hint 1<span class="sd-summary-state-marker">v</span>
</summary><p>Look.</p></details>
<details class="sd-dropdown"><summary>Solution</summary><p>So:</p>
<div class="cell"><pre>solved</pre></div></details></section>
"""
SOURCES = {
    1: ("import json\nfrom pathlib import Path\nfrom myst_nb import glue\nx = 2", []),
    3: (
        'r = json.loads(Path("reports/seeds.json").read_text())\nglue("x", x)',
        ["remove-cell"],
    ),
    5: ('print(x, r["name"])', ["solution"]),
}


@pytest.fixture(scope="module")
def notebooks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "book" / "_ext")
        import course_notebooks

        yield course_notebooks


@pytest.fixture
def notebook(notebooks):
    cells = {
        place: nbformat.v4.new_code_cell(source, metadata={"tags": tags})
        for place, (source, tags) in SOURCES.items()
    }
    macros = {"softmax": r"\operatorname{softmax}"}
    return notebooks.notebook_of(PARTS, [1, 5], cells, PAGE, "the.whl", macros)


@pytest.mark.plain
def test_a_page_becomes_plain_markdown(notebook):
    text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert text.startswith("# Where to look\n\n> **At a glance**\n")
    address = "https://attention.example/book/05_scoring.html#scoring"
    assert f"[Chapter 5]({address})" in text
    assert "[the paper](https://arxiv.org/abs/1409.0473) about &lt;bos>" in text
    assert r"$\alpha_{ts} = \operatorname{softmax}(e)$ of `a_b`." in text
    assert "$$\nc_t = \\sum_s \\alpha_{ts} v_s \\tag{6.1}\n$$" in text
    assert "*Fig. 6.1* A map." in text
    assert "<details><summary>Hint 1</summary>\n\nLook.\n\n</details>" in text
    assert "**Solution**\n\nSo:" in text


@pytest.mark.plain
def test_links_within_the_site_need_its_address(notebooks):
    html = '<p><a href="b.html">there</a> and <a href="https://a.example">here</a></p>'
    assert notebooks.in_markdown(html, "", {}) == "there and [here](https://a.example)"


@pytest.mark.plain
def test_cells_keep_their_order_and_what_the_page_hides_is_folded(notebook):
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    setup, *rest = code
    assert (
        notebook.cells.index(setup) == 1
        and "%pip install --quiet the.whl" in setup.source
    )
    wanted = [
        source.replace("from myst_nb import glue\n", "")
        for source, _ in SOURCES.values()
    ]
    assert [cell.source for cell in rest] == wanted
    folded = [cell.metadata.get("jupyter") == {"source_hidden": True} for cell in code]
    assert folded == [True, False, True, True]


@pytest.mark.plain
def test_a_notebook_runs_alone(notebook, tmp_path):
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (printed,) = notebook.cells[-1].outputs
    assert printed.text == "2 seeds\n"
    written = json.loads((tmp_path / "reports" / "seeds.json").read_text())
    assert written == json.loads((ROOT / "book/reports/seeds.json").read_text())


@pytest.mark.plain
def test_a_figure_that_responds_says_where_it_does(notebooks):
    data = {"text/html": '<div class="live" data-model="m"><p>x</p></div>'}
    output = nbformat.v4.new_output("display_data", data=data)
    cell = nbformat.v4.new_code_cell("show()", outputs=[output])
    (shown,) = notebooks.portable(cell, PAGE).outputs
    assert PAGE in shown.data["text/html"] and "live" not in shown.data["text/html"]


@pytest.mark.plain
def test_the_wheel_beside_the_notebooks_is_without_the_grader(tmp_path):
    (tmp_path / "attention_course-0.0.1-py3-none-any.whl").touch()
    wheel = build(ROOT, tmp_path)
    assert list(tmp_path.iterdir()) == [wheel]
    names = zipfile.ZipFile(wheel).namelist()
    assert {"attention_course/attention.py", "nbjudge/check.py"} <= set(names)
    assert not [name for name in names if "grading" in name]


@pytest.mark.plain
def test_links_of_the_single_page_lead_to_its_own_places(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    from course_carried import REMARK, in_one_piece

    html = (
        '<a class="reference internal" href="book/index.html#id3" title="B">2015</a>'
        '<a class="reference internal" href="book/index.html#scoring">5</a>'
        '<div class="live" data-model="m"><p>x</p></div><span id="id3"></span>'
        '<div class="citation" id="id3" role="listitem">B</div>'
    )
    assert in_one_piece(html) == (
        '<a class="reference internal" href="#cited-id3" title="B">2015</a>'
        '<a class="reference internal" href="#scoring">5</a>'
        f'{REMARK}<span id="id3"></span>'
        '<div class="citation" id="cited-id3" role="listitem">B</div>'
    )


SHEET = """<!doctype html><html lang="en"><title>A book</title>
<link rel="stylesheet" href="print.css">
<script>window.MathJax = {startup: {promise: Promise.resolve()}}</script>
<h1>A book<a class="headerlink">#</a></h1><span id="document-a"></span>
<section><h2>A title that is so long that it takes more than a line of the paper on
which it is printed, and more</h2><details class="sd-dropdown"><summary>Solution</summary>
<p id="solution">42</p></details><pre id="code">CODE</pre></section></html>"""


@pytest.fixture
def sheet(tmp_path):
    shutil.copy(ROOT / "book" / "assets" / "print.css", tmp_path)
    page = tmp_path / "index.html"
    page.write_text(SHEET.replace("CODE", "x = 1 + " * 60))
    return page


@pytest.mark.plain
@needs_chromium
def test_the_pdf_has_tags_and_an_outline_of_its_headings(sheet, tmp_path):
    pdf = tmp_path / "book.pdf"
    headings = print_page(sheet, pdf, CHROMIUM)
    assert headings[0] == "A book" and headings[1].endswith("printed, and more")
    tidy(pdf, headings)
    with pikepdf.open(pdf) as document:
        assert document.Root.MarkInfo.Marked and document.Root.Lang == "en"
        assert len(document.pages) == 2  # a chapter begins on a page of its own
        with document.open_outline() as outline:
            assert [entry.title for entry in entries(outline.root)] == headings
    with pytest.raises(
        RuntimeError, match="2 entries in the outline .* but 1 headings"
    ):
        tidy(pdf, headings[:1])


@pytest.mark.plain
@needs_chromium
def test_on_paper_nothing_is_folded_or_cut(sheet):
    with pages(viewport={"width": 700, "height": 900}) as browser:
        page = browser.new_page()
        page.goto(sheet.as_uri())
        visible = "document.querySelector('#solution').checkVisibility()"
        cut = "document.documentElement.scrollWidth > innerWidth"
        assert not page.evaluate(visible) and page.evaluate(cut)
        page.emulate_media(media="print")
        assert page.evaluate(visible) and not page.evaluate(cut)
