"""A class at a glance: what the instructor's pages say, and what the pages to show do
not."""

import re

import pytest
from browser import needs_chromium, pages
from measure.classroom import answers, students

from attention_labs import BOOK, QUESTIONS
from nbjudge.grading import figures
from nbjudge.grading.course import Course
from nbjudge.grading.course_report import course_page
from nbjudge.grading.figures import EVERYTHING, GROUPS
from nbjudge.grading.report import Lab, page
from nbjudge.grading.state import State

COURSE = Course("attention_labs", QUESTIONS, BOOK, ())
ASKED = ("dot", "attend")
WRONG = QUESTIONS["dot"].mistakes[0]


def record(student, wrong=(), **more):
    """Make the record of a student who answers some questions wrongly."""
    questions = []
    for name in ASKED:
        asked, lost = QUESTIONS[name], name in wrong
        questions.append(
            {
                "question": name,
                "cell": f"check_{name}",
                "points": 0.0 if lost else float(asked.points),
                "possible": asked.points,
                "mistakes": [asked.mistakes[0].name] if lost else [],
                "held": [not lost] * len(asked.properties),
            }
        )
    return {
        "student": student,
        "lab": "lab03_scoring",
        "status": "graded",
        "reason": "",
        "flags": [],
        "sha256": f"{student} {wrong}",
        "points": sum(q["points"] for q in questions),
        "possible": sum(q["possible"] for q in questions),
        "questions": questions,
        **more,
    }


def class_of(count, wrong):
    """Make a lab in which the first `wrong` of `count` students get dot wrong."""
    found = [record(f"s<{i}>", ("dot",) if i < wrong else ()) for i in range(count)]
    return Lab("lab03_scoring", found, (), {r["student"]: [r] for r in found})


def section(html, heading):
    return html.partition(f"<h2>{heading}</h2>")[2].partition("<h2>")[0]


def text(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "|", html))


def test_the_page_counts_properties_and_mistakes():
    html = page(class_of(40, 8), COURSE, "http://f")
    questions = section(html, "Questions and their properties")
    claim = QUESTIONS["dot"].properties[0].claim
    assert f'title="{claim}: 32 of 40"' in questions
    assert "|32 of 40|" in text(questions) and "|40 of 40|" in text(questions)
    assert "--wrong: 20%" in questions
    mistakes = section(html, "Mistakes")
    assert WRONG.name in mistakes and "8 of 40" in mistakes
    assert f'href="{BOOK.address}{WRONG.section}"' in mistakes
    assert BOOK.titles[WRONG.section] in mistakes


def test_the_page_says_first_what_to_talk_about():
    lab = class_of(40, 8)._replace(missing=["zoe"])
    glance = text(section(page(lab, COURSE, ""), "For the next meeting"))
    assert "fails for 8 of 40" in glance and "made by 8 of 40" in glance
    assert "Students who handed in nothing: 1 (zoe)." in glance


def test_names_are_no_code_in_the_page():
    html = page(class_of(3, 1), COURSE, "http://f")
    assert "s&lt;0&gt;" in html and "<0>" not in html
    assert 'href="http://f/manage_students/s%3C0%3E/lab03_scoring"' in html


def test_who_is_waiting_or_marked_by_a_person_is_counted():
    eve = record("bob", status="needs a person", reason="cut off", points=None)
    eve["questions"] = []
    waiting = page(Lab("lab03_scoring", [eve], [eve]), COURSE, "")
    assert "1 submissions, 0 graded, 1 need a person." in waiting
    assert "cut off" in section(waiting, "Need a person")
    marked = page(Lab("lab03_scoring", [eve]), COURSE, "")
    assert "0 need a person, 1 marked by a person." in marked


def test_stuck_is_who_gains_nothing_with_another_notebook():
    wrong, right = record("a", ("dot",)), record("a")
    assert figures.stuck([wrong]) == []
    assert figures.stuck([wrong, wrong]) == ["dot"]
    assert figures.stuck([right, wrong]) == ["dot"]
    assert figures.stuck([wrong, right]) == []
    better = record("a", ("dot",))
    better["questions"][0]["points"] = 1.0
    assert figures.stuck([wrong, better]) == [] != figures.stuck([better, better])
    broken = record("a", points=None)
    assert figures.stuck([wrong, broken, wrong]) == ["dot"]


def test_progress_is_told_of_those_with_several_notebooks():
    lab = class_of(3, 1)
    tries = [record("s<0>", ASKED), record("s<0>", ("dot",))]
    html = page(lab._replace(attempts={**lab.attempts, "s<0>": tries}), COURSE, "")
    points = QUESTIONS["attend"].points
    assert f"|s&lt;0&gt;|2|0 → {points}|" in text(
        section(html, "Progress over resubmissions")
    ).replace("||", "|")


@pytest.mark.parametrize(
    "found, said",
    [(0, "under 5 of 40"), (4, "under 5 of 40"), (5, "5 of 40"), (35, "35 of 40")]
    + [(36, "over 35 of 40"), (40, "over 35 of 40")],
)
def test_no_count_to_show_is_about_fewer_than_five(found, said):
    assert GROUPS.how_many(found, 40) == said
    assert 10 <= GROUPS.share(found, 40) <= 90
    assert EVERYTHING.how_many(found, 40) == f"{found} of 40"


def test_of_a_small_class_every_count_says_the_same():
    assert {GROUPS.how_many(n, 8) for n in range(4, 5)} == {"–"}
    assert len({GROUPS.share(n, 8) for n in range(9)}) == 1


def test_bars_to_show_stand_for_five_students_or_more():
    """And their ends are nobody's score."""
    points = [23] * 12 + [22] * 2 + [20] * 4 + [3.5] * 6 + [1]
    assert figures.bars(points, 23, 1)[:2] == [("23", 12), ("22", 2)]
    merged = [("21 to 23", 14), ("0 to 20.5", 11)]
    assert figures.bars(points, 23, 5) == merged
    assert figures.bars([each - (each == 20) for each in points], 23, 5) == merged
    assert figures.bars([5, 4, 3], 23, 5) == []


def test_the_course_lists_its_labs_with_their_means_and_who_is_stuck():
    stuck = record("Zoë", ("dot", "attend"))
    lab = class_of(40, 8)._replace(missing=["yan", "ben"])
    lab.records.append(stuck)
    lab.attempts["Zoë"] = [stuck] * 2
    dot, attend = (QUESTIONS[name].points for name in ASKED)
    mean = 100 * (32 + 8 * attend / (dot + attend)) / 41
    labs = section(course_page([lab], COURSE, ""), "Labs")
    assert 'href="lab03_scoring.html"' in labs and figures.stuck([stuck] * 2)
    row = ["lab03_scoring", "41", f"{mean:.0f} %", "0", "2", "1"]
    assert row == [x.strip() for x in text(labs).split("|") if x.strip()][-6:]
    few = section(course_page([lab], COURSE, "", GROUPS), "Labs")
    assert [x for x in text(few).split("|") if x.strip()][-2:] == row[:2]


def test_what_is_made_to_be_shown_names_nobody():
    """One student is alone with a mistake, and one with a flag."""
    lab = class_of(40, 8)
    alone = record("Zoë", ("attend",), flags=["found under another name: zoe.ipynb"])
    waiting = record("bob", status="needs a person", reason="zoe.zip", points=None)
    waiting["questions"] = []
    lab = lab._replace(
        records=[*lab.records, alone, waiting],
        waiting=[waiting],
        attempts={**lab.attempts, "Zoë": [alone, alone]},
        missing=["yan"],
    )
    everything = page(lab, COURSE, "http://f") + course_page([lab], COURSE, "http://f")
    shown = page(lab, COURSE, "http://f", GROUPS)
    shown += course_page([lab], COURSE, "http://f", GROUPS)
    for secret in ("Zoë", "zoe", "bob", "yan", "s&lt;", "http://f"):
        assert secret in everything and secret not in shown
    assert QUESTIONS["attend"].mistakes[0].name not in section(shown, "Mistakes")
    assert WRONG.name in section(shown, "Mistakes")
    counts = [int(n) for n in re.findall(r"(?<!over |nder )\b(\d+) of 4[012]\b", shown)]
    assert counts and all(5 <= count <= 36 for count in counts)
    assert not re.search(r"\d\d:\d\d|20\d\d-", shown)


def test_attempts_are_kept_by_notebook(tmp_path):
    state = State(tmp_path)
    first, second = record("a", ("dot",)), record("a")
    for each in (first, first, second, second):
        state.write_record(each)
    assert [r["points"] for r in state.attempts("lab03_scoring", "a")] == [
        first["points"],
        second["points"],
    ]
    assert state.record("lab03_scoring", "a") == second
    state.write_record({**second, "sha256": "", "points": None})
    assert len(state.attempts("lab03_scoring", "a")) == 2
    assert state.labs() == ["lab03_scoring"]


def test_a_class_is_made_of_strangers_answers():
    right, wrong = (answers("dot", kind, "DotScore") for kind in ("right", "wrong"))
    assert len(right) > 5 and len(wrong) > 5 and not {*right} & {*wrong}
    for source in right + wrong:
        assert "class DotScore" in source and "@right" not in source
        compile(source, "<answer>", "exec")
    one, other = students(2, seed=1)
    assert one.id != other.id and one.name != other.name


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_pages_fit_their_window(tmp_path, scheme, width):
    lab = class_of(40, 8)
    tries = {f"s<{i}>": [record(f"s<{i}>", ASKED), lab.records[i]] for i in range(12)}
    lab = lab._replace(attempts={**lab.attempts, **tries})
    (tmp_path / "lab.html").write_text(page(lab, COURSE, ""), encoding="utf-8")
    (tmp_path / "index.html").write_text(
        course_page([lab], COURSE, ""), encoding="utf-8"
    )
    with pages(viewport={"width": width, "height": 800}, color_scheme=scheme) as them:
        for name in ("lab", "index"):
            shown = them.new_page()
            shown.goto(f"file://{tmp_path}/{name}.html")
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            dark = shown.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (dark == "rgb(255, 255, 255)") == (scheme == "light")
            ink = "getComputedStyle(document.querySelector('svg text')).fill"
            text = "getComputedStyle(document.body).color"
            assert shown.evaluate(ink) == shown.evaluate(text)
            assert shown.locator("svg").count() >= 1
