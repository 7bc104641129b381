"""The book as one file: for e-readers its formulas, its pages and what epubcheck says of
them, for paper the single page that is printed."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from addresses import without_addresses
from bs4 import BeautifulSoup
from lxml import etree

from scripts.epub import accepted, main

ROOT = Path(__file__).parents[1]
EPUBCHECK = shutil.which("epubcheck")
pytestmark = pytest.mark.plain
needs_epubcheck = pytest.mark.skipif(
    EPUBCHECK is None,
    reason="there is no epubcheck; on Debian and Ubuntu: apt-get install epubcheck",
)
CONFIG = (ROOT / "_config.yml").read_text()
MACROS = yaml.safe_load(CONFIG)["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]
# The chapter has formulas, hints and a quiz, and is shown without its results.
CHAPTER = "book/04_soft_lookup"
PAGES = ("book/index", "book/notation", CHAPTER, "book/report_norms")
TOC = f"""\
format: jb-book
root: book/index
parts:
  - caption: Before you start
    chapters:
      - file: book/notation
  - caption: Attention & more
    numbered: 1
    chapters:
      - file: {CHAPTER}
        sections:
          - file: book/report_norms
"""


@pytest.fixture(scope="module")
def epub():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "book" / "_ext")
        import course_epub

        yield course_epub


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A few pages, and all that makes the whole book of them."""
    course = tmp_path_factory.mktemp("epub") / "course"
    for name in ("_ext", "_templates", "assets", "live", "reports"):
        shutil.copytree(ROOT / "book" / name, course / "book" / name)
    for page in PAGES:
        shutil.copy(ROOT / f"{page}.md", course / "book")
    shutil.copy(ROOT / "book" / "references.bib", course / "book")
    shutil.copy(ROOT / "CITATION.cff", course)
    (course / "src").symlink_to(ROOT / "src")
    (course / "_toc.yml").write_text(TOC)
    (course / "_config.yml").write_text(CONFIG.replace("[labs/*/*]", f"[{CHAPTER}.md]"))
    return course


def build(course, *builder):
    jupyter_book = shutil.which("jupyter-book", path=Path(sys.executable).parent)
    done = subprocess.run(
        [jupyter_book, "build", course, "--builder", *builder],
        env=without_addresses(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def book(course):
    build(course, "custom", "--custom-builder", "epub")
    return course / "_build" / "epub" / "attention-measured.epub"


@pytest.fixture(scope="module")
def files(book):
    with zipfile.ZipFile(book) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


@pytest.fixture(scope="module")
def chapter(files):
    return BeautifulSoup(files[f"{CHAPTER}.xhtml"], "html.parser")


def test_quantities_keep_their_colours_in_mathml(epub):
    written = epub.in_mathml(r"\query{q}^\top \key{k_s} = \softmax(x)", MACROS)
    math = etree.fromstring(written)
    marked = [
        (e.get("class"), "".join(e.itertext())) for e in math.iterfind(".//*[@class]")
    ]
    assert marked == [("query", "q"), ("key", "ks")]
    assert "".join(math.itertext()) == "q⊤ks=softmax(x)"
    style = epub.STYLE.read_text()
    assert all(f".{name} {{ color: " in style for name in ("query", "key", "context"))


def test_lines_of_a_formula_are_rows_and_have_no_numbers_of_their_own(epub):
    tex = r"\begin{aligned} a &= b \\[2ex] c &= d && \text{so} \end{aligned}"
    math = etree.fromstring(epub.in_mathml(tex, MACROS, displaystyle=True))
    assert math.get("displaystyle") == "true" and math.get("display") == "inline"
    rows = ["".join(row.itertext()) for row in math.iterfind(".//{*}mtr")]
    assert rows == ["a=b", "c=dso"]


@pytest.mark.parametrize("tex", [r"\nothing{x}", "a & b", r"\left( x"])
def test_a_formula_that_cannot_be_read_is_named(epub, tex):
    with pytest.raises(ValueError, match=f"latex2mathml .* {re.escape(tex)}"):
        epub.in_mathml(tex, MACROS)


def test_a_page_is_unfolded_and_needs_no_script(epub):
    html = """<h1 id="a">One<a class="headerlink" href="#a">#</a></h1><p id="a">x<br>
    <a href="other.xhtml#b">there</a> <a href="../labs/x.ipynb">file</a></p>
    <details class="sd-dropdown"><summary>Solution<button>copy</button></summary>42</details>
    <details class="admonition hide"><summary>Show</summary>plt.show()</details>
    <div class="touch" data-kind="k">Rows.</div><script>run()</script>
    <div class="report"><table><thead><tr><th></th><th>Unit</th></tr></thead>
    <tbody><tr><td>time</td><td>ms</td></tr></tbody></table></div>"""
    body = etree.fromstring(epub.in_xhtml(html, {"other.xhtml"}.__contains__))
    texts = [text.strip() for text in body.itertext() if text.strip()]
    assert " ".join(texts) == "One x there file Solution 42 Rows. Unit time ms"
    assert [a.get("href") for a in body.iter("a")] == ["other.xhtml#b"]
    assert len(body.xpath("//*[@id='a']")) == 1
    assert not body.xpath("//@data-kind") and not body.xpath("//details")
    assert [td.get("data-name") for td in body.iter("td")] == ["", "Unit"]


@needs_epubcheck
def test_epubcheck_accepts_the_book(book, tmp_path, capsys):
    good, said = accepted(book, EPUBCHECK)
    assert good and "No errors or warnings detected" in said
    offered = tmp_path / "downloads" / "attention-measured.epub"
    assert main([str(book), str(offered)]) == 0
    assert offered.read_bytes() == book.read_bytes()
    assert str(offered) in capsys.readouterr().out


@needs_epubcheck
def test_a_book_with_an_error_is_not_offered(book, files, tmp_path, capsys):
    wrong, offered = tmp_path / "wrong.epub", tmp_path / "offered.epub"
    shutil.copy(book, offered)  # of an earlier run
    with zipfile.ZipFile(wrong, "w") as packed:
        for name, content in files.items():
            if name == f"{CHAPTER}.xhtml":
                content = content.replace(b"<h2>", b"<h2><nothing/>")
            packed.writestr(name, content)
    assert main([str(wrong), str(offered)]) == 1
    said = capsys.readouterr().err
    assert f"error: epubcheck does not accept {wrong}" in said and "nothing" in said
    assert not offered.exists()


def test_without_epubcheck_the_book_is_offered_and_it_says_so(
    book, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PATH", "")
    assert main([str(book), str(tmp_path / "a.epub")]) == 0
    said = capsys.readouterr().out
    assert "epubcheck is not installed" in said and (tmp_path / "a.epub").exists()


def test_parts_chapters_and_sections_are_listed(files):
    nav = BeautifulSoup(files["nav.xhtml"], "html.parser")
    parts = nav.select("nav > ol > li")
    names = [part.find("a", recursive=False).text for part in parts]
    assert names == ["Attention, measured", "Before you start", "Attention & more"]
    (chapter,) = parts[2].select(":scope > ol > li")
    first, *sections = [a.text for a in chapter.select("a")]
    title = (ROOT / f"{CHAPTER}.md").read_text().split("\n# ")[1].split("\n")[0]
    assert first == f"1 {title}"
    headings = re.findall(r"^## (.+)$", (ROOT / f"{CHAPTER}.md").read_text(), re.M)
    assert len(sections) == len(headings) + 1  # and the page below the chapter


def test_it_says_what_it_is(files):
    package = etree.fromstring(files["content.opf"])
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    told = {
        e.tag.split("}")[1]: e.text
        for e in package[0]
        if e.tag.endswith(tuple("aeginrst"))
    }
    title, _, subtitle = cited["title"].partition(": ")
    assert told["title"] == title and told["description"] == subtitle
    assert told["creator"] == cited["authors"][0]["name"]
    assert told["date"] == str(cited["date-released"]) and told["language"] == "en"
    assert "CC BY 4.0" in told["rights"]
    (cover,) = package.xpath("//*[@properties='cover-image']/@href")
    assert files[cover].startswith(b"\x89PNG")
    first = package.xpath("//*[local-name()='itemref']/@idref")[0]
    (page,) = package.xpath(f"//*[@id='{first}']/@href")
    assert cover.encode() in files[page]


def test_nothing_in_it_is_a_script_or_is_fetched(files):
    pages = [text.decode() for name, text in files.items() if name.endswith(".xhtml")]
    assert len(pages) == len(PAGES) + 2  # and the title page and the contents
    for page in pages:
        assert not re.search(
            r"<(script|button|details|iframe)|src=\"\w+:|javascript:", page
        )
    assert not re.search(r"url\(|@import", files["epub.css"].decode())
    assert not [name for name in files if name.endswith((".js", ".html", ".woff2"))]


def test_a_chapter_shows_what_the_site_folds_or_draws(files, chapter):
    source = (ROOT / f"{CHAPTER}.md").read_text()
    maths = chapter.select("math")
    marked = {e["class"][0] for math in maths for e in math.select("[class]")}
    assert len(maths) > 50 and {"query", "key", "value", "weight"} <= marked
    assert "$" not in chapter.text and "\\" not in "".join(m.text for m in maths)
    folded = len(re.findall(r"^[:`]+\{dropdown\}", source, re.M))
    assert folded and len(chapter.select("div.details > div.summary")) == folded
    index = BeautifulSoup(files["book/index.xhtml"], "html.parser")
    pictures = index.select("figure img")
    assert pictures and all(len(picture["alt"]) > 50 for picture in pictures)
    assert all(f"_images/{Path(p['src']).name}" in files for p in pictures)
    assert "this figure responds to you" in index.text
    assert index.select(".cell_output pre")


def test_all_pages_stand_on_the_one_that_is_printed(course):
    build(course, "singlehtml")
    text = (course / "_build" / "singlehtml" / "index.html").read_text()
    page = BeautifulSoup(text, "html.parser")
    places = {e["id"] for e in page.select("[id^=document-]")}
    assert places == {f"document-{name}" for name in PAGES[1:]}
    assert page.select("span.math") and page.select("script[src*=mathjax]")
