"""`python -m nbjudge.grading.fidelity`: it finds what is off with a question, and says
so."""

import pytest

from nbjudge.grading import fidelity

COURSE = '''
import torch
from nbjudge import Mistake, Property, Question, Request, edit, normal, same_numbers


def {name}(x):
    """Return twice x, plus one."""
    return 2 * x + 1


def _request(g):
    yield Request((normal(g, 3),))


QUESTIONS = {{
    "{name}": Question(
        "{name}",
        {name},
        (Property("the numbers", 2, _request, same_numbers),),
        (
            Mistake("no one", "", made_by=edit({name}, " + 1", "")),
            Mistake("three times", "", made_by=edit({name}, "{old}", "{new}")),
        ),
        use=lambda answer, x: answer(x),
    )
}}
'''
ANSWERS = """
from nbjudge import edit
from nbjudge.grading.fidelity import right, wrong, wrong_edits


@right("{name}")
def added(x):
    print("heard by nobody")
    return {right}


@wrong("{name}", "{called}")
def three(x):
    return {wrong} * x + 1


wrong_edits("{name}", without=(edit({name}, "+ 1", ""), "no one"))
wrong_edits("{name}", added, decorated=(edit(added, "return ", "return -"),))
"""
FINE = {
    "old": "2 *",
    "new": "3 *",
    "right": "x + x + 1",
    "called": "three times",
    "wrong": 3,
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Write a course of one question, in which something may be other than it should
    be, and try it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def run(name, *arguments, entered="{name}.py", **off):
        texts = {
            key: str(text).format(name=name) for key, text in {**FINE, **off}.items()
        }
        (tmp_path / f"{name}_course.py").write_text(COURSE.format(name=name, **texts))
        path = tmp_path / f"{name}_answers" / entered.format(name=name)
        path.parent.mkdir(parents=True)
        imported = f"from {name}_course import {name}\n"
        path.write_text(imported + ANSWERS.format(name=name, **texts))
        code = fidelity.main([f"{name}_course", f"{name}_answers", *arguments])
        return code, capsys.readouterr().out

    return run


def row(out, name):
    """Read the row of a question: column -> number."""
    head, *lines = out.splitlines()
    (numbers,) = (line.split()[:-1] for line in lines if line.endswith(f"  {name}"))
    return dict(zip(head.split("  ")[:-1], map(int, numbers)))


def test_nothing_is_off(run):
    code, out = run("fine", entered="lab/{name}.py")
    assert code == 0 and "Nothing is off." in out and "nobody" not in out
    assert row(out, "fine") == {
        **{"right": 1, "lost points": 0, "wrong": 3, "full points": 0},
        **{"mistakes": 2, "not caught": 0, "not named": 0, "text gone": 0},
    }


@pytest.mark.parametrize(
    "name, off, column, line",
    [
        ("lost", {"right": "x + x"}, "lost points", "lost points: added"),
        ("full", {"wrong": 2}, "full points", "full points: three"),
        ("caught", {"new": "+2 *"}, "not caught", "not caught: three times"),
        (
            "named",
            {"called": "no one"},
            "not named",
            "not named: three: three times; wanted no one",
        ),
        (
            "shadowed",
            {
                **{"old": "2 * x + 1", "new": "2 * x"},
                **{"wrong": "(2 - 1 / x)", "called": "no one"},
            },
            "not named",
            "not named: three times: no one; wanted three times",
        ),
    ],
)
def test_something_is_off(run, name, off, column, line):
    code, out = run(name, **off)
    assert code == 1
    assert row(out, name)[column] == 1
    assert f"{name}: {line}" in out


def test_the_text_of_an_edit_is_gone(run):
    code, out = run("gone", old="4 *")
    assert code == 1 and row(out, "gone")["text gone"]
    assert "'4 *' stands 0 times in gone_course.gone, not once" in out


def test_no_answers(run):
    code, out = run("none", entered="another.py")
    assert code == 1
    assert "none: no answer: right\nnone: no answer: wrong" in out


def test_no_such_question(run, capsys):
    with pytest.raises(SystemExit):
        run("one", "two")
    assert "one_course has no question 'two'" in capsys.readouterr().err


def test_no_such_course(capsys):
    with pytest.raises(SystemExit):
        fidelity.main(["no_such_course", "answers"])
    assert "No module named 'no_such_course'" in capsys.readouterr().err
