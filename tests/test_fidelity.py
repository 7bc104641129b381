"""The graders are tested: right answers get everything, however they are written, and
wrong ones do not.

`make fidelity` tries all answers, all mutants of the solutions, and a wrong answer in
every place; here it is every second answer, six mutants a question, and one place per lab.
"""

import pytest
from answers import core, fidelity, notebooks

from attention_labs import QUESTIONS
from nbjudge.grading.fidelity import grade, named

# A wrong answer calls the course's functions wrongly: outside the jaxtyping hook it
# meets what a student meets.
pytestmark = pytest.mark.plain


def each_answer(entered):
    tries = [
        (QUESTIONS[name], x) for name, answers in entered.items() for x in answers[::2]
    ]
    ids = [f"{question.name}: {answer.name}" for question, answer in tries]
    return pytest.mark.parametrize("question, answer", tries, ids=ids)


ASKED = [(lab, question) for lab in fidelity.LABS for question in fidelity.asked(lab)]
each_question = pytest.mark.parametrize(
    "lab, question", ASKED, ids=[question.name for _, question in ASKED]
)
each_lab = pytest.mark.parametrize("lab", fidelity.LABS)


def test_every_question_has_answers():
    assert {question.name for _, question in ASKED} == set(QUESTIONS)


@each_answer(core.RIGHT)
def test_a_right_answer_gets_everything(question, answer):
    (thing,) = answer.answers(question.reference)
    found = grade(question, thing)
    assert found == question.points, found.as_text()


@each_answer(core.WRONG)
def test_a_wrong_answer_loses_points_and_is_called_nothing_else_than_it_is(
    question, answer
):
    (thing,) = answer.answers(question.reference)
    found = grade(question, thing)
    assert found < question.points
    assert not answer.names or named(found) & answer.names, named(found)


@each_question
def test_there_are_answers_enough_and_no_two_alike(lab, question):
    right, wrong = core.RIGHT[question.name], core.WRONG[question.name]
    assert len(right) >= 10 and len(wrong) >= 8
    traces = {
        fidelity.operators(question, thing)
        for thing in fidelity.things(question, right)
    }
    assert len(traces) == len(right)
    own = [
        fidelity.is_own(question, thing) for thing in fidelity.things(question, wrong)
    ]
    assert sum(own) <= len(wrong) / 2
    assert sum(bool(answer.names) for answer in wrong) >= 0.8 * len(wrong)


@each_question
def test_a_change_to_the_solution_is_noticed(lab, question):
    verdicts = list(fidelity.judged(lab, question, at_most=6))
    missed = [
        v.mutant.change
        for v in verdicts
        if v.points == question.points and not v.equivalent
    ]
    assert len(verdicts) >= 2 and not missed


@each_lab
def test_the_release_gets_nothing_and_the_solution_everything(lab):
    assert set(fidelity.points_of(lab, notebooks.read("labs", lab).cells).values()) == {
        0
    }
    full = fidelity.points_of(lab, notebooks.read("solutions", lab).cells)
    assert full == {name: QUESTIONS[name].points for name in full}


@each_lab
def test_one_wrong_answer_costs_its_own_points_alone(lab):
    asked = fidelity.asked(lab)
    wrong = asked[len(asked) // 2].name
    points = fidelity.points_of(lab, fidelity.with_one_wrong(lab, wrong))
    assert points == {
        name: QUESTIONS[name].points if name != wrong else 0 for name in points
    }
