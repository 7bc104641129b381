"""The blind rounds: what the labs have come to allow is there, and stands in a lab."""

import runpy

import blind
import pytest
from answers import notebooks
from blind import rounds

TEXTS = " ".join(notebooks.text(lab) for lab in notebooks.labs())


@pytest.mark.parametrize("sentence", rounds.SETTLED)
def test_a_sentence_that_allows_answers_stands_in_a_lab(sentence):
    assert sentence in TEXTS


@pytest.mark.parametrize(
    "number, question, name",
    [key for keys in rounds.SETTLED.values() for key in keys],
    ids=str,
)
def test_an_answer_that_is_allowed_was_wrong_in_its_round(number, question, name):
    blind.ENTRIES.clear()
    runpy.run_path(str(rounds.HERE / f"round{number}" / f"{question}.py"))
    assert [entry.right for entry in blind.ENTRIES if entry.name == name] == [False]
