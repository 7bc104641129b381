"""Slides from marked parts: what the list names, the chapters have; nothing is said twice.

`tests/test_book.py` makes a deck of the real book and looks at it in Chromium.
"""

import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from bs4 import BeautifulSoup

from scripts.slides import deck, notes, parts, plan

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
LIST = BOOK / "slides.yml"
pytestmark = pytest.mark.plain
MARK = re.compile(r"^\((slide-[\w-]+)\)=$", re.MULTILINE)

CHAPTER = """<html><head>
<link rel="stylesheet" href="../_static/look.css?v=1"/>
<link rel="stylesheet" href="../_static/print.css?v=1"/>
<script src="../_static/mathjax/startup.js?v=1"></script>
<script src="../_static/live/quiz.js"></script>
</head><body><article>
<section id="the-title"><span id="chapter"></span>
<h1><span class="section-number">3. </span>The title<a class="headerlink" href="#">#</a></h1>
<section id="one"><span id="chapter-one"></span><h2>A section<a class="headerlink">#</a></h2>
<p id="slide-ask">It reads <em>once</em>. Does it <em>need</em> notes? So we ask. Can it learn?
And how?</p>
<p>Many words first. Then <em>this</em> holds for <a href="#x">Fig. 2</a>:</p>
<div class="math" id="equation-eq-one"><span class="eqno">(3.1)</span>\\[ x \\]</div>
<p>Here x is a number.</p>
</section>
<section id="quiz"><h2>Quiz<a class="headerlink">#</a></h2>
<p id="slide-vote"><strong>2.</strong> Which?</p>
<details class="quiz"><summary><span class="sd-summary-text">a) This.</span></summary>
<div class="sd-summary-content"><p>No, it is not.</p></div></details>
<details class="quiz"><summary><span class="sd-summary-text">b) That.</span></summary>
<div class="sd-summary-content"><p><strong>Right.</strong> It is.</p></div></details>
<p><strong>3.</strong> Another?</p>
<details class="quiz"><summary><span class="sd-summary-text">a) Other.</span></summary>
<div class="sd-summary-content"><p>No.</p></div></details>
<div class="important admonition"><p class="admonition-title">Take-away</p>
<p>Take this away.</p></div>
</section></section></article></body></html>"""
GUIDE = """<html><body><section id="meetings"><span id="instructor-meetings"></span>
<table><tr><th>Chapters</th></tr>
<tr><td><p><a href="03_chapter.html#chapter">The title</a></p></td>
<td><p>Do this.</p></td><td><p>exercise 1</p></td></tr></table></section>
<section id="what-students-get-wrong"><ul>
<li><p>This is mistaken (<a href="03_chapter.html#chapter-one">here</a>).</p></li>
<li><p>That too (<a href="04_other.html#other">there</a>).</p></li></ul></section>
</body></html>"""
SLIDES = """
- chapters: [chapter]
  slides:
    - question: slide-ask
    - formula: eq-one
    - vote: slide-vote
    - take-away: chapter
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "03_chapter.html").write_text(CHAPTER)
    (tmp_path / "book" / "instructor_guide.html").write_text(GUIDE)
    (tmp_path / "slides.yml").write_text(SLIDES)
    return tmp_path


def meetings(site):
    guide = site / "book" / "instructor_guide.html"
    return plan.meetings(site / "slides.yml", guide)


def written(site):
    """The one deck of the site, as its sections by their class."""
    (meeting,) = meetings(site)
    text = deck.write(meeting, [meeting], site, site).read_text()
    soup = BeautifulSoup(text, "lxml")
    return soup, {section["class"][0]: section for section in soup("section")}


def words(element):
    return " ".join(element.get_text().split())


def sources():
    """The chapters' sources by their labels."""
    texts = [path.read_text() for path in sorted(BOOK.glob("[0-9][0-9]_*.md"))]
    return {re.search(r"^\(([\w-]+)\)=\n# ", t, re.MULTILINE)[1]: t for t in texts}


def test_each_part_of_the_list_is_marked_in_its_chapters():
    texts, listed = sources(), set()
    for chapters, slides in plan.read_slides(LIST):
        text = "\n".join(texts[chapter] for chapter in chapters)
        for slide in slides:
            for mark in slide.marks:
                label = rf"^\({mark}\)=$|name: {mark}$|\({mark}\)$|:label: {mark}$"
                assert re.search(label, text, re.MULTILINE), (chapters, mark)
                listed.add(mark)
    marked = {mark for text in texts.values() for mark in MARK.findall(text)}
    assert marked and marked <= listed


def test_the_list_is_about_the_meetings_of_the_guide():
    guide = (BOOK / "instructor_guide.md").read_text()
    table = guide.split("(instructor-meetings)=")[1].split("```")[1]
    rows = re.findall(r"^\* - (\{ref\}.*)$", table, re.MULTILINE)
    wanted = [tuple(re.findall(r"\{ref\}`([\w-]+)`", row)) for row in rows]
    assert len(wanted) == 12
    assert [chapters for chapters, _ in plan.read_slides(LIST)] == wanted


def test_each_meeting_asks_lets_vote_shows_a_result_and_ends():
    for chapters, slides in plan.read_slides(LIST):
        kinds = [slide.kind for slide in slides]
        assert {"question", "vote", "result", "take-away"} <= set(kinds), chapters
        ends = [slide.marks[0] for slide in slides if slide.kind == "take-away"]
        assert tuple(ends) == chapters
        assert kinds.index("vote") < len(kinds) - 1 - kinds[::-1].index("result")


def test_a_deck_says_what_the_chapter_says(site):
    soup, sections = written(site)
    title, ask = sections["is-title"], sections["is-question"]
    assert words(title.h1) == "The title" and "Meeting 1" in words(title)
    assert words(title.aside) == "In class Do this."
    assert words(ask.h2) == "A section"
    first, last = ask.select("strong.asked")
    assert words(first) == "Does it need notes?" and "last" not in first["class"]
    assert words(last) == "Can it learn? And how?" and "last" in last["class"]
    assert words(ask.select_one(".shown")) == (
        "It reads once. Does it need notes? So we ask. Can it learn? And how?"
    )
    formula = sections["is-formula"]
    assert words(formula.select_one(".shown")) == (
        r"Then this holds for Fig. 2:(3.1)\[ x \]"
    )
    assert words(formula.aside) == "In the chapter Here x is a number."
    assert words(sections["is-take-away"].select_one(".shown")) == "Take this away."
    assert not soup.select(".slides a")
    styles = [link["href"] for link in soup("link")]
    assert "_static/look.css?v=1" in styles and len(styles) == 3
    scripts = [script["src"] for script in soup("script", src=True)]
    assert "_static/mathjax/startup.js?v=1" in scripts
    assert not any("quiz" in script for script in scripts)


def test_a_vote_hides_its_answer_and_notes_the_mistakes(site):
    _, sections = written(site)
    vote = sections["is-vote"]
    assert words(vote.h2) == "Vote"
    assert words(vote.select_one(".shown > p")) == "Which?"
    assert [words(li) for li in vote.select("ul.answers li")] == [
        "a) This.",
        "b) That.",
    ]
    assert [words(li) for li in vote.select("li.right")] == ["b) That."]
    assert words(vote.select_one("p.fragment")) == "Right. It is."
    assert words(vote.aside) == "What students get wrong a) This. No, it is not."


def test_the_last_slide_notes_the_mistakes_that_the_guide_names(site):
    _, sections = written(site)
    end = sections["is-afterwards"]
    assert words(end.select_one(".shown")) == "exercise 1"
    assert words(end.aside) == "What students get wrong This is mistaken (here)."


def test_mistakes_of_the_labs_come_with_the_section_that_treats_them():
    lines = [
        notes.line(mistake)
        for mistake in notes.named_here("12_many_heads", ["many-heads-split"])
    ]
    assert lines and all(re.match(r"<b>[^<].*</b> \S", line) for line in lines)
    assert len(set(lines)) == len(lines)
    assert not notes.named_here("12_many_heads", ["many-heads-prune"])


def test_a_lab_of_two_meetings_is_divided():
    empty = BeautifulSoup("<td></td>", "lxml").td

    def meeting(number, chapter):
        labs = ("lab06_transformer",)
        return plan.Meeting(number, (chapter,), empty, empty, labs, ())

    both = [meeting(9, "13_transformer"), meeting(10, "14_decoding")]
    first, second = (
        {question.name for question in notes.questions_after(each, both)}
        for each in both
    )
    assert "encoder_block" in first and "greedy" in second
    assert not first & second


@pytest.mark.parametrize(
    "change, said",
    [
        (("eq-one", "eq-two"), "meeting 1: eq-two is not in 03_chapter.md"),
        (("formula: eq-one", "formula: slide-ask"), "slide-ask is no formula"),
        (("vote: slide-vote", "vote: slide-ask"), "slide-ask is no vote"),
        (("formula: eq-one", "picture: eq-one"), "is not one of question, drawing"),
        (("[chapter]", "[other]"), "is about other, in the guide about chapter"),
        (("take-away: chapter", "take-away: other"), "other is not in 03_chapter.md"),
        (("- chapters", "- chapters: []\n  slides: []\n- chapters"), "has 2 meetings"),
    ],
)
def test_what_cannot_be_shown_is_one_line(site, change, said):
    (site / "slides.yml").write_text(SLIDES.replace(*change))
    with pytest.raises(plan.SlidesError, match=said) as caught:
        written(site)
    assert "\n" not in str(caught.value)


@pytest.fixture
def figure(tmp_path, monkeypatch):
    """A figure of a page: bars and a line with labels, and a map, with titles."""
    monkeypatch.syspath_prepend(str(BOOK / "_ext"))
    for name in ("course_figures",):
        sys.modules.pop(name, None)
    import course_figures

    with plt.rc_context({"svg.fonttype": "none"}):
        drawn, (left, right) = plt.subplots(1, 2)
        left.bar(["a", "b"], [1.0, 2.0], label="bars")
        left.plot([0, 1], [1, 2], label="line")
        left.text(0, 1, "a number")
        left.legend()
        left.set_title("title left")
        right.imshow([[0.0, 1.0]])
        right.set_title("title right")
        drawn.savefig(tmp_path / "figure.svg")
        plt.close(drawn)
    text = (tmp_path / "figure.svg").read_text()
    frame = course_figures.inline(text, "shows", "", "figure7")
    html = f"<figure id='fig-it'>{frame}<figcaption>It rises.</figcaption></figure>"
    return BeautifulSoup(html, "lxml").figure


def test_a_figures_axes_come_before_what_was_measured(figure):
    shown = parts.clean(figure, "03_chapter")
    parts.hide_data(shown)
    hidden = shown.select(".fragment")
    inside = " ".join(words(element) for element in hidden)
    names = [re.sub(r".*-|_\d+$", "", h.get("id", "")) for h in hidden if h.name == "g"]
    assert names.count("patch") == 2 and names.count("line2d") == 1  # bars and line
    assert shown.find("image").find_parent(class_="fragment")
    assert "a number" in inside and "It rises." in inside
    for kept in ("title left", "title right", "bars", "line"):
        assert kept in words(shown) and kept not in inside


def test_a_drawing_without_axes_comes_as_a_whole(figure):
    for axes in figure.select('g[id*="matplotlib.axis"], g[id*="legend"]'):
        axes.decompose()
    parts.hide_data(figure)
    assert "fragment" in figure.svg["class"]


def test_names_within_a_figure_are_those_of_its_page(figure):
    shown = str(parts.clean(figure, "03_chapter"))
    assert '"03_chapter-figure7-axes_1"' in shown
    assert not re.search(r'(["#])figure7-', shown)


def test_a_tables_names_come_before_its_numbers():
    rows = "<tr><th></th><th>x</th></tr><tr><th>row</th><td>1</td><td>2</td></tr>"
    table = BeautifulSoup(f"<div><table>{rows}</table></div>", "lxml").div
    parts.hide_cells(table)
    assert [words(cell) for cell in table.select(".fragment")] == ["1", "2"]
