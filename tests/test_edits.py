"""Edits: the mistake is made, and nothing else is."""

import importlib
import traceback

import pytest
import torch

from attention_course import attention, rnn, scores
from attention_course.tasks.sequences import SequenceTask
from attention_labs import QUESTIONS
from nbjudge import edit

SCORES = torch.tensor([[1.0, 2.0, 3.0], [0.0, 5.0, 1.0]])


def test_of_a_function_itself():
    wrong = edit(
        attention.attend, "dropout(weights)) @ value", "dropout(weights)) @ -value"
    ).apply(attention.attend)
    value = torch.rand(3, 4)
    assert torch.equal(wrong(SCORES, value)[0], -attention.attend(SCORES, value)[0])


def test_of_a_function_on_the_way():
    """From a class over a function to the edited one, across methods."""
    off = edit(
        attention.masked_softmax, "return scores.softmax(dim=-1)", "return scores"
    )
    wrong = off.apply(attention.attend)
    assert torch.equal(wrong(SCORES, torch.rand(3, 4))[1], SCORES)
    wrong = off.apply(attention.MultiHeadAttention)
    x = torch.rand(1, 3, 4)
    weights = wrong(4, 2)(x, x, x)[1]
    assert not torch.allclose(weights.sum(-1), torch.ones(1, 2, 3))


def test_across_modules():
    off = edit(
        attention.masked_softmax, "return scores.softmax(dim=-1)", "return scores"
    )
    wrong = off.apply(rnn.BahdanauDecoder)
    assert wrong is not rnn.BahdanauDecoder
    assert wrong.__module__ == rnn.BahdanauDecoder.__module__


def test_of_a_method_and_of_an_inherited_one():
    wrong = edit(scores.Score.project_keys, "return key", "return -key")
    key = torch.rand(2, 3)
    assert torch.equal(wrong.apply(scores.DotScore)().project_keys(key), -key)
    assert torch.equal(wrong.apply(scores.Score).project_keys(None, key), -key)
    assert torch.equal(scores.DotScore().project_keys(key), key)
    assert edit(scores.DotScore.project_keys, "return key", "return -key") == wrong


def test_of_a_class_with_a_decorator():
    wrong = edit(SequenceTask.text, "separator.join", "name.join").apply(SequenceTask)
    assert wrong("-", (), (), (), None, None).text(["a", "b"]) == "a-b"


def test_of_a_method_that_is_the_answer():
    wrong = edit(scores.Score.project_keys, "return key", "return -key")
    key = torch.rand(2, 3)
    assert torch.equal(wrong.apply(scores.Score.project_keys)(None, key), -key)


def test_two_edits_at_once():
    raw = edit(
        attention.masked_softmax, "return scores.softmax(dim=-1)", "return scores"
    )
    negative = edit(attention.attend, "@ value", "@ -value")
    value = torch.rand(3, 4)
    for both in (raw & negative, negative & raw):
        context, weights = both.apply(attention.attend)(SCORES, value)
        assert torch.equal(weights, SCORES) and torch.equal(context, SCORES @ -value)


def test_two_edits_of_one_owner():
    first = edit(attention.attend, "@ value", "@ -value")
    both = first & edit(attention.attend, "return context, weights", "return context")
    value = torch.rand(3, 4)
    context = attention.attend(SCORES, value)[0]
    assert torch.equal(both.apply(attention.attend)(SCORES, value), -context)


def test_types_stay_the_same():
    """What is not on the way is shared, so that `isinstance` goes on working."""
    off = edit(attention.attend, "@ value", "@ -value")
    names = off.apply(attention.MultiHeadAttention).ask.__globals__
    assert names["KeyValue"] is attention.KeyValue
    assert names["attend"] is not attention.attend


def test_a_traceback_shows_the_edited_line():
    wrong = edit(
        attention.attend,
        "dropout(weights)) @ value",
        "dropout(weights)) @ nothing_of_the_kind",
    )
    with pytest.raises(NameError) as caught:
        wrong.apply(attention.attend)(SCORES, torch.rand(3, 4))
    frame = traceback.extract_tb(caught.tb)[-1]
    assert "nothing_of_the_kind" in frame.line and frame.filename.startswith("<edit")


@pytest.mark.parametrize(
    ("owner", "old", "said"),
    [
        (attention.attend, "no such text", "stands 0 times"),
        (attention.attend, "weights", "times in attention_course.attention.attend"),
        (attention.attend, "The one function", "stands 0 times"),  # its docstring
    ],
)
def test_a_text_that_is_not_there_once_is_refused(owner, old, said):
    with pytest.raises(ValueError, match=said):
        edit(owner, old, "x").apply(attention.attend)


def test_an_owner_that_is_not_used_is_refused():
    wrong = edit(scores.DotScore.forward, "@", "+")
    with pytest.raises(ValueError, match="attend does not use DotScore"):
        wrong.apply(attention.attend)


def test_every_edit_of_the_labs_fits():
    """An edit whose text is gone says so here, not first to a student."""
    made = [m.answers(q.reference) for q in QUESTIONS.values() for m in q.mistakes]
    assert sum(map(len, made)) > 250


def test_what_is_recompiled_finds_its_base_class():
    """`super()` without arguments needs the class that it stands in."""
    wrong = edit(
        rnn.BahdanauDecoder.__init__, "super().__init__()", "super().__init__();"
    )
    assert issubclass(wrong.apply(rnn.BahdanauDecoder), torch.nn.Module)


def test_of_a_base_class_that_is_reached_through_its_package(tmp_path, monkeypatch):
    """The package names what one of its modules defines."""
    package = tmp_path / "far"
    package.mkdir()
    (package / "__init__.py").write_text("from far.inner import Base\n")
    (package / "inner.py").write_text(
        "class Base:\n    def one(self):\n        return 1\n"
    )
    (package / "outer.py").write_text(
        "import far\n\n\nclass Outer(far.Base):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    inner = importlib.import_module("far.inner")
    outer = importlib.import_module("far.outer")
    wrong = edit(inner.Base.one, "return 1", "return 2").apply(outer.Outer)
    assert (wrong().one(), outer.Outer().one()) == (2, 1)
