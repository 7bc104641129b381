"""What the judge says: of replies that it gets, of trouble, and to the gradebook."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nbjudge import corrections, signs, tokens
from nbjudge.comparisons import _compare, same_gradients
from nbjudge.evaluation import alike
from nbjudge.grading import export, files
from nbjudge.grading.gradebook import GradebookWriter
from nbjudge.grading.judge import SandboxedAnswer, _checked
from nbjudge.grading.sandbox.process import Trouble
from nbjudge.grading.sandbox.proof import SandboxError
from nbjudge.grading.state import State
from nbjudge.grading.worker import Grader, _answer
from nbjudge.in_process import in_process
from nbjudge.inputs import Draw
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


@pytest.mark.plain
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


@pytest.mark.plain
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


def test_all_wrong_outputs_are_mended_or_none():
    mended = corrections.by_output(corrections.as_wanted)
    request = Request((torch.ones(2),))
    right = Reply((torch.ones(1, 2), torch.zeros(2)), (torch.ones(2),))
    flat, other = torch.ones(2), torch.ones(3)
    reply = Reply((flat, torch.zeros(2)))
    undone = mended(request, reply, right)
    assert undone.outputs[0].shape == (1, 2) and undone.gradients == right.gradients
    for outputs in (right.outputs, (flat, other), (flat, torch.ones(2))):
        kept = Reply(outputs)
        assert mended(request, kept, right) is kept


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


KEPT = torch.zeros(2)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda x: None, "nothing was returned"),
        (lambda x: KEPT.copy_(x), "what an earlier call had returned was overwritten"),
        (lambda x: [x] * 1001, "returned 1001 things, wanted a few tensors"),
        (lambda x: (x, "two"), "returned ['Tensor', 'str'], wanted tensors"),
        (lambda x: x.to_sparse(), "returned ['Tensor'], wanted tensors"),
    ],
)
def test_what_is_no_result_is_an_error(answer, error):
    question = Question("double", answer, (), (), lambda made, x: made(x))
    request = Request((torch.full((2,), 2.0),))
    if "overwritten" in error:
        request = replace(request, before=(Request((torch.ones(2),)),))
    assert in_process(question, answer)(request).error == error


def test_parameters_of_another_constructor_are_told():
    class Given(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x * self.weight

    class Renamed(Given):
        def __init__(self):
            super().__init__()
            self.other = self.weight
            del self.weight

    question = Question("scale", Given, (), (), lambda made, x: made(x))
    request = Request((torch.ones(1),), init=(), parameters={"weight": torch.ones(1)})
    assert not in_process(question, Given)(request).error
    error = in_process(question, Renamed)(request).error
    assert "['other'] are new, ['weight'] are gone" in error


def test_a_sentence_of_numbers_that_are_no_letters_has_question_marks():
    def decoded(*outputs):
        return tokens.tokens_of(Reply(outputs=outputs))

    assert decoded(tokens.as_letters(["ab", "", "c"])) == ["ab", "", "c"]
    assert decoded(torch.tensor([[0, 97, 0xD800, -1]])) == ["a??"]
    no_row = torch.zeros(3), torch.zeros(1, 2, device="meta")
    assert [decoded(), *map(decoded, no_row)] == [["?"]] * 3


def test_an_iterator_is_refused_since_it_is_read_once():
    with pytest.raises(TypeError, match="a map was returned, .* read once"):
        tokens.as_list(map(str, "ab"))
    assert tokens.as_list("ab") == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ([2.0, 4.0], 2.0),
        ([-0.5, -1.0], -0.5),
        ([1.0, 2.0], None),
        ([2.0, 4.1], None),
        ([0.0, 0.0], None),
        ([torch.inf, 2.0], None),
        ([2.0, 4.0, 6.0], None),
    ],
)
def test_a_constant_factor_is_found(given, factor):
    assert signs.scaled_by(torch.tensor(given), torch.tensor([1.0, 2.0])) == factor


def test_a_sign_is_applied_to_numbers_in_the_references_shapes_alone():
    asked = []
    sign = signs.comparable(lambda *replies: bool(asked.append(1)))
    right, request = Reply((torch.ones(2),)), Request((torch.ones(2),))
    assert sign(request, right, right) is False and len(asked) == 1
    for outputs in ((), (torch.ones(3),), (torch.ones(2).long(),)):
        assert not sign(request, Reply(outputs), right)
    assert not sign(replace(request, device="meta"), right, right)
    assert len(asked) == 1


def test_of_one_number_or_of_zeros_there_is_no_factor():
    assert signs.scaled_by(torch.tensor([2.0]), torch.tensor([1.0])) is None
    assert signs.scaled_by(torch.ones(2), torch.zeros(2)) is None


def test_a_write_to_shared_memory_is_taken_for_what_it_hides():
    expanded = Request((torch.ones(1),), layout="expanded")
    right = Reply(outputs=(torch.ones(1),))
    failed = Reply(error="more than one element of the written-to tensor")
    assert corrections.unchanged(expanded, failed, right) is right
    other = corrections.unchanged(replace(expanded, layout=""), failed, right)
    assert other.error == failed.error


@pytest.mark.parametrize(
    ("gradients", "seen"),
    [
        ((torch.ones(2), torch.zeros(2)), ""),
        ((torch.ones(2), None), ""),
        ((None, None), "no gradient for input 1"),
        ((torch.ones(2), torch.ones(2)), "input 2"),
        ((torch.ones(2),), "1 gradients"),
    ],
)
def test_gradients_are_those_of_the_reference(gradients, seen):
    request = Request((torch.ones(2), torch.ones(2)), gradients=True)
    right = Reply((torch.ones(2),), (torch.ones(2), torch.zeros(2)))
    finding = same_gradients(request, right._replace(gradients=gradients), right)
    assert (seen in finding.seen) if seen else finding is None
    ignored = right._replace(gradients=gradients, changed=True)
    assert same_gradients(request, ignored, right) is None


def test_what_is_too_much_to_look_at_is_flagged(tmp_path, monkeypatch):
    for name in ("a.ipynb", "b.ipynb"):
        (tmp_path / name).write_text("{}" * 300_000)
    monkeypatch.setattr(files, "TOTAL_BYTES", 1 << 20)
    flags = []
    assert len([*files.notebooks(tmp_path, flags)]) == 1
    (flag,) = flags
    assert re.fullmatch(r"more than 1 MB; not looked at: [ab]\.ipynb", flag)


def test_numbers_on_the_device_meta_are_none():
    given, wanted = torch.ones(2, device="meta"), torch.ones(2)
    finding = _compare(given, wanted, "output 0")
    assert finding.seen == "output 0 on device meta, which has no numbers"


def test_an_axis_that_is_not_drawn_has_no_length():
    assert Draw(0, {"B": 3}).B == 3
    with pytest.raises(AttributeError, match="there is no axis 'T'"):
        Draw(0, {"B": 3}).T  # noqa: B018


def test_an_attempt_is_a_notebook_and_occurs_once(tmp_path):
    state = State(tmp_path)
    for sha256, points in (("", 0), ("aa", 1), ("aa", 2), ("bb", 3), ("", 0)):
        state.write_record(
            {"lab": "lab1", "student": "eve", "sha256": sha256, "points": points}
        )
    assert [x["points"] for x in state.attempts("lab1", "eve")] == [2, 3]
    assert state.record("lab1", "eve")["points"] == 0
    assert state.attempts("lab1", "bob") == [] and state.record("lab1", "bob") == {}
