"""The questions: right answers get everything, known mistakes are caught and named, and
nothing leaks."""

import re
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from attention_course.attention import masked_softmax
from attention_course.masks import causal_mask
from attention_course.scores import (
    AdditiveScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    Score,
)
from attention_labs import QUESTIONS, check
from attention_labs.lab08_today.running_softmax import FAR
from attention_labs.pages import TITLES
from nbjudge import Grade
from nbjudge.evaluation import evaluate, is_right
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.in_process import in_process

BOOK = Path(__file__).parents[1] / "book"
NAMED = [(q, m) for q in QUESTIONS.values() for m in q.mistakes]
MADE = [(q, m, x) for q, m in NAMED for x in m.answers(q.reference)]


def points(name, thing):
    return float(check(name, thing))


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_reference_gets_full_points(question, seed):
    results = evaluate(question, in_process(question, question.reference), seed)
    assert sum(r.earned for r in results) == question.points, [
        r.finding for r in results
    ]


@pytest.mark.plain  # as a student's machine does it; `make fidelity` draws other seeds
@pytest.mark.parametrize(
    "question, mistake, answer", MADE, ids=[f"{q.name}: {m.name}" for q, m, _ in MADE]
)
def test_a_mistake_is_caught_and_named(question, mistake, answer):
    results = evaluate(question, in_process(question, answer))
    assert sum(r.earned for r in results) < question.points
    assert mistake.name in {r.mistake.name for r in results if r.mistake}


@pytest.mark.parametrize("name", ["dot", "masked_softmax", "collate", "freeze"])
def test_to_be_right_is_to_have_nothing_found(name):
    question = QUESTIONS[name]
    answers = [question.reference, *(a for q, _, a in MADE if q is question)]
    for answer in answers:
        door = in_process(question, answer)
        found = [r for r in evaluate(question, door, 1) if r.finding]
        assert is_right(question, door, 1) == (not found)
    assert len(answers) > 3


@pytest.mark.parametrize("section", sorted({m.section for _, m in NAMED if m.section}))
def test_a_mistake_leads_to_a_section_of_the_book(section):
    page, label = section.split("#")
    text = (BOOK / page).with_suffix(".md").read_text()
    assert re.search(rf"\({label}\)=\n#+ {re.escape(TITLES[section])}\n", text)


def test_all_scores_at_once_do_not_fit_into_the_sandbox():
    assert 4 * FAR**2 >= 1.5 * Limits().memory  # in single precision


def test_points_are_positive_integers():
    for question in QUESTIONS.values():
        assert all(
            isinstance(p.points, int) and p.points > 0 for p in question.properties
        )


# --- answers that are right in another way --------------------------------------------


def stable_by_hand(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    scores = torch.where(mask, scores, -1e4 if scores.dtype == torch.float16 else -1e30)
    e = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


def infinite_then_mended(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~mask & ~empty, float("-inf")).softmax(-1)
    return torch.where(empty | ~mask, torch.zeros_like(weights), weights)


def loud(scores, mask=None):
    print("scores", scores.shape)
    print("scores", scores.shape, file=sys.stderr)
    warnings.warn("look at this", stacklevel=1)
    return masked_softmax(scores, mask)


class EinsumDot(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


class LoopedDot(Score):
    def forward(self, query, projected):
        rows = [
            (query[..., t : t + 1, :] * projected).sum(-1)
            for t in range(query.size(-2))
        ]
        return torch.stack(rows, dim=-2)


class FunctionalGeneral(GeneralScore):
    def project_keys(self, key):
        return nn.functional.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(-1, -2))


class EinsumAdditive(AdditiveScore):
    def forward(self, query, projected):
        hidden = self.query_proj(query)[..., :, None, :] + projected[..., None, :, :]
        return torch.einsum("...a,a->...", hidden.tanh(), self.energy_proj.weight[0])


def attend_with_einsum(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = dropout(weights) if dropout is not None else weights
    return torch.einsum("...ts,...sv->...tv", kept, value), weights


RIGHT = [
    ("masked_softmax", stable_by_hand),
    ("masked_softmax", infinite_then_mended),
    ("masked_softmax", loud),
    ("dot", EinsumDot),
    ("dot", LoopedDot),
    ("general", FunctionalGeneral),
    ("additive", EinsumAdditive),
    ("attend", attend_with_einsum),
]


@pytest.mark.parametrize(
    "name, thing", RIGHT, ids=[f"{n}: {t.__name__}" for n, t in RIGHT]
)
def test_another_right_answer_gets_full_points(name, thing):
    grade = check(name, thing)
    assert float(grade) == QUESTIONS[name].points, grade.as_text()


# --- answers that are wrong in a way that has no name here ----------------------------


def detached(scores, mask=None):
    return masked_softmax(scores.detach(), mask)


def in_place(scores, mask=None):
    if mask is not None:
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return masked_softmax(scores, mask)


def always_single_precision(scores, mask=None):
    return masked_softmax(scores.float(), mask)


def on_the_cpu_only(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.full(scores.shape, torch.finfo(scores.dtype).min, dtype=scores.dtype)
    return torch.where(mask, scores, lowest).softmax(-1) * mask


def needs_a_mask(scores, mask):
    return masked_softmax(scores, mask)


def only_three_axes(scores, mask=None):
    b, t, s = scores.shape
    return masked_softmax(scores, mask)


def nothing(scores, mask=None):
    return torch.zeros_like(scores)


class NoGradientForKeys(DotScore):
    def forward(self, query, projected):
        return super().forward(query, projected.detach())


class OneHead(AdditiveScore):
    def forward(self, query, projected):
        return self.energy_proj(
            torch.tanh(self.query_proj(query)[:, :, None] + projected[:, None])
        ).squeeze(-1)


class RemembersInUse(GeneralScore):
    def project_keys(self, key):
        if self.training or getattr(self, "last", (None,))[0] is not key:
            self.last = key, super().project_keys(key)
        return self.last[1]


class SharedBandwidth(GaussianScore):
    def __init__(self, bandwidth):
        super().__init__(bandwidth)
        type(self).shared = bandwidth

    def forward(self, query, projected):
        self.bandwidth = self.shared
        return super().forward(query, projected)


def mask_by_default(size, device=None):
    if device is not None:
        torch.set_default_device(device)
    return causal_mask(size, device)


class Remembers(DotScore):
    def forward(self, query, projected):
        if not hasattr(self, "last") or self.last[0] is not query:
            self.last = query, super().forward(query, projected)
        return self.last[1]


WRONG = [
    ("causal_mask", mask_by_default),
    ("dot", Remembers),
    ("gaussian", SharedBandwidth),
    ("general", RemembersInUse),
    ("masked_softmax", detached),
    ("masked_softmax", in_place),
    ("masked_softmax", always_single_precision),
    ("masked_softmax", on_the_cpu_only),
    ("masked_softmax", needs_a_mask),
    ("masked_softmax", only_three_axes),
    ("dot", NoGradientForKeys),
    ("additive", OneHead),
]


@pytest.mark.parametrize(
    "name, thing", WRONG, ids=[f"{n}: {t.__name__}" for n, t in WRONG]
)
def test_another_wrong_answer_loses_points(name, thing):
    assert points(name, thing) < QUESTIONS[name].points


@pytest.fixture
def other_defaults():
    """Make tensors elsewhere, and in double precision, as a notebook may say."""
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["attend", "encoder", "collate", "accuracy"])
def test_a_notebook_may_set_torch_defaults(other_defaults, name):
    assert points(name, QUESTIONS[name].reference) == QUESTIONS[name].points
    assert torch.get_default_device().type == "meta"
    assert torch.get_default_dtype() == torch.float64


class Negative(DotScore):
    def forward(self, query, projected):
        return -super().forward(query, projected)


class Tripled(DotScore):
    def forward(self, query, projected):
        return 3 * super().forward(query, projected)


class OneAxisMore(DotScore):
    def forward(self, query, projected):
        return super().forward(query, projected)[..., None]


class InPlaceAndNegative(DotScore):
    def forward(self, query, projected):
        return super().forward(query.neg_(), projected)


def exact(name, thing):
    return {r.mistake.name for r in check(name, thing).results if r.exact}


@pytest.mark.parametrize(
    "name, thing, mistake",
    [
        ("masked_softmax", in_place, "an input is changed in place"),
        ("masked_softmax", detached, "outputs right, gradients missing or wrong"),
        ("masked_softmax", always_single_precision, "a wrong or mismatched dtype"),
        ("dot", Negative, "wrong sign"),
        ("dot", Tripled, "off by a constant factor"),
        ("dot", OneAxisMore, "an extra or missing axis of length one"),
    ],
)
def test_a_mistake_is_exact_if_nothing_is_wrong_without_it(name, thing, mistake):
    assert mistake in exact(name, thing)


def test_a_mistake_is_not_exact_if_something_is_wrong_without_it():
    assert "an input is changed in place" not in exact("dot", InPlaceAndNegative)


def test_of_two_mistakes_each_is_exact_where_the_other_does_not_show():
    question = QUESTIONS["bahdanau_step"]
    predicts, handed_on = (
        next(m for m in question.mistakes if m.name == name)
        for name in (
            "the old state goes into the output layer",
            "the new state is not passed on",
        )
    )
    both = (predicts.made_by & handed_on.made_by).apply(question.reference)
    assert handed_on.name in exact("bahdanau_step", both)


def test_the_other_points_count_only_once_the_first_property_holds():
    # its manners are good, and nothing else is
    grade = check("masked_softmax", nothing)
    assert grade.results[-1].finding is None
    assert float(grade) == 0
    assert "counts once the first line holds" in grade.as_text()


# --- what a student sees --------------------------------------------------------------


class Unwritten(Score):
    def forward(self, query, projected):
        raise NotImplementedError()


def test_an_answer_that_is_not_written_gets_nothing_and_is_told_so():
    grade = check("dot", Unwritten)
    assert float(grade) == 0
    assert "not written yet" in grade.as_text()


@pytest.mark.parametrize("thing", [3, None, DotScore(), DotScore])
def test_what_is_no_answer_gets_nothing(thing):
    assert points("attend", thing) == 0


def test_a_mistake_in_an_earlier_answer_costs_no_points_here():
    def broken(scores, mask=None):
        raise RuntimeError("this is not the question")

    code = (
        "def attend(scores, value, mask=None, dropout=None):\n    weights ="
        " masked_softmax(scores, mask)\n"
    )
    code += "    return (dropout(weights) if dropout else weights) @ value, weights\n"
    notebook = {"masked_softmax": broken}
    exec(code, notebook)
    assert isinstance(notebook["attend"], types.FunctionType)
    assert points("attend", notebook["attend"]) == QUESTIONS["attend"].points
    assert notebook["masked_softmax"] is broken


def test_a_grade_is_a_float_in_plain_text_and_a_table_in_html():
    grade = check("dot", DotScore)
    # nbgrader reads the plain text as the points
    assert "__repr__" not in Grade.__dict__
    assert float(repr(grade)) == QUESTIONS["dot"].points
    assert grade._repr_html_().count("<tr>") == 1 + len(QUESTIONS["dot"].properties)


def test_messages_are_escaped():
    def attend(scores, value, mask=None, dropout=None):
        raise ValueError("<script>alert(1)</script>")

    html = check("attend", attend)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_nothing_goes_to_stderr(capfd):
    check("masked_softmax", loud, text=True)
    out, err = capfd.readouterr()
    assert err == ""
    assert "masked_softmax: 5 of 5 points" in out


def test_a_check_repeats():
    first, second = (check("masked_softmax", detached).as_text() for _ in range(2))
    assert first == second


def test_feedback_does_not_print_values_that_answer_the_question():
    text = check("scaled_dot", DotScore).as_text()
    assert "sqrt" not in text
    assert not re.search(r"tensor\(", text)


def test_an_unknown_question_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'dott'.*scaled_dot"):
        check("dott", DotScore)
