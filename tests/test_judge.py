"""What the judge says: of replies that it gets, of trouble, and to the gradebook."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nbjudge import corrections, tokens
from nbjudge.evaluation import alike
from nbjudge.grading import export
from nbjudge.grading.gradebook import GradebookWriter
from nbjudge.grading.judge import SandboxedAnswer, _checked
from nbjudge.grading.sandbox.process import Trouble
from nbjudge.grading.sandbox.proof import SandboxError
from nbjudge.grading.state import State
from nbjudge.grading.worker import Grader, _answer
from nbjudge.in_process import in_process
from nbjudge.question import Question, Reply, Request


def sent(**changes):
    return {"call": 3, "reply": {**Reply()._asdict(), **changes}}


def test_an_error_from_inside_is_one_short_line():
    reply = _checked("reply", sent(error="one\ntwo" + "." * 400, where="x\ny"), 3)
    assert reply.error.startswith("one two.") and len(reply.error) < 320
    assert reply.where == "x y"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("reply", {**sent(), "call": 2}),
        ("reply", sent(outputs="no tensors")),
        ("reply", {"call": 3, "reply": {"error": ""}}),
        ("ran", sent()),
        ("reply", None),
    ],
)
def test_what_is_no_reply_to_this_call_is_trouble(kind, answer):
    with pytest.raises(Trouble):
        _checked(kind, answer, 3)


@pytest.mark.plain
def test_a_worker_elsewhere_says_why_it_could_not_judge():
    class Broken:
        def judge(self, intake):
            raise SandboxError("no more processes")

    job = {"intake": {"cells": [], "folder": "", "content": "", "flags": []}}
    job["intake"]["problem"] = ""
    assert _answer(Broken(), job) == {"problem": "no more processes"}


@pytest.mark.plain
def test_a_submission_that_cannot_be_judged_says_why_and_has_no_verdict():
    def judge(intake):
        raise SandboxError("no more processes")

    intake = SimpleNamespace(problem="", folder="there")
    grader = SimpleNamespace(
        take_in=lambda folder: intake,
        judge=judge,
        result=lambda student, intake, ran, verdicts, seconds: (ran, verdicts),
    )
    assert Grader.grade(grader, "ada", Path()) == ([], [])
    assert (intake.problem, intake.folder) == ("no more processes", "")


def test_after_trouble_the_sandbox_is_closed_and_not_asked_again():
    asked, closed = [], []

    class Broken:
        def call(self, *what):
            asked.append(what)
            raise Trouble("it took too long")

    judge = SimpleNamespace(seed=hash, limits=SimpleNamespace(question=1))
    judge.sandbox = SimpleNamespace(close=lambda: closed.append(1))
    answer = SandboxedAnswer(judge, SimpleNamespace(question="dot"))
    answer.sandbox = Broken()
    request = Request((torch.ones(1),))
    assert answer(request).error == answer(request).error == "it took too long"
    answer.close()
    assert len(asked) == len(closed) == 1 and judge.sandbox is None


def test_what_another_run_is_grading_comes_last():
    free = {"ada": [True], "bob": [False, False, True], "eve": [True]}
    released, records = [], []
    writer = SimpleNamespace(
        claims=SimpleNamespace(
            take=lambda lab, student: free[student].pop(0),
            release=lambda lab, student: released.append(student),
        ),
        graded=lambda job, lab: {"of": job.student} if job.student == "eve" else {},
    )
    jobs = [SimpleNamespace(student=student) for student in free]
    given = GradebookWriter.claimed(writer, jobs, "lab", records)
    assert [job and job.student for job in given] == ["ada", None, "bob"]
    assert records == [{"of": "eve"}] and released == ["eve"]


def graded(auto=None, manual=None, unsure=False):
    return SimpleNamespace(
        auto_score=auto, manual_score=manual, max_score=4, needs_manual_grade=unsure
    )


@pytest.mark.parametrize(
    ("grades", "status"),
    [
        ([], export.PERSON),
        ([graded(), graded()], export.PERSON),
        ([graded(2), graded()], "4 points to be marked"),
        ([graded(2), graded(None, 3)], export.FINAL),
        ([graded(2, unsure=True), graded(None, 3)], export.AGAIN),
        ([graded(2, unsure=True), graded()], f"4 points to be marked, {export.AGAIN}"),
    ],
)
def test_the_status_says_what_is_left_to_do(grades, status):
    submission = SimpleNamespace(notebooks=[SimpleNamespace(grades=grades)])
    assert export._status(submission) == status


def test_of_what_is_no_token_the_type_is_said():
    with pytest.raises(TypeError, match="a token is a string, got int"):
        tokens.as_letters(["a", 3])
    with pytest.raises(TypeError, match="a string was returned"):
        tokens.as_letters("abc")


def test_replies_are_alike_in_their_errors_or_in_their_numbers():
    numbers, others = Reply(outputs=(torch.ones(2),)), Reply(outputs=(torch.zeros(2),))
    assert alike(numbers, numbers) and not alike(numbers, others)
    assert alike(Reply(error="a"), Reply(error="a"))
    assert not alike(Reply(error="a"), Reply(error="b"))
    assert not alike(Reply(error="a"), Reply()) and not alike(Reply(), Reply(error="a"))
    assert not alike(numbers, numbers._replace(changed=True))


def test_only_what_has_digits_is_turned_into_the_inputs_dtype():
    request = Request((torch.ones(2, dtype=torch.bfloat16),), dtype=torch.bfloat16)
    reply = Reply(outputs=(torch.ones(2), torch.tensor([3])))
    mended = corrections.in_its_dtype(request, reply, reply)
    assert [x.dtype for x in mended.outputs] == [torch.bfloat16, torch.int64]


def test_what_an_earlier_object_does_to_its_arguments_reaches_no_other():
    class Greedy:
        def __init__(self, sizes):
            sizes.append(1)
            self.number = len(sizes)

        def __call__(self, x):
            return x * self.number

    question = Question("greedy", Greedy, (), (), lambda made, x: made(x))
    earlier = Request((torch.ones(1),), init=([],))
    request = Request((torch.ones(1),), init=([],), before=(earlier, earlier))
    for _ in range(2):
        assert in_process(question, Greedy)(request).outputs[0] == 1
    assert earlier.init == ([],) and request.init == ([],)


def test_an_attempt_is_a_notebook_and_occurs_once(tmp_path):
    state = State(tmp_path)
    for sha256, points in (("", 0), ("aa", 1), ("aa", 2), ("bb", 3), ("", 0)):
        state.write_record(
            {"lab": "lab1", "student": "eve", "sha256": sha256, "points": points}
        )
    assert [x["points"] for x in state.attempts("lab1", "eve")] == [2, 3]
    assert state.record("lab1", "eve")["points"] == 0
    assert state.attempts("lab1", "bob") == [] and state.record("lab1", "bob") == {}
