"""The blind rounds: what the labs have come to allow is there, and stands in a lab."""

import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import blind
import pytest
from answers import notebooks
from blind import rounds
from measure import fidelity

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


@pytest.mark.parametrize(
    "commit, calls", [("abc1234", 1), ("abc1234-dirty", 2), ("", 2)]
)
def test_what_a_commit_came_to_is_measured_once(tmp_path, monkeypatch, commit, calls):
    monkeypatch.setattr(fidelity, "ROOT", tmp_path)
    noted = tmp_path / "calls"
    with ThreadPoolExecutor() as pool:
        for _ in range(2):
            parts = fidelity.Parts(pool, commit)
            assert list(parts.done("parts", _doubled, [3], [noted])) == [6]
            assert parts.seconds > 0
    assert noted.read_text() == calls * "3"


def _doubled(number: int, noted: Path) -> int:
    with noted.open("a") as notes:
        notes.write(str(number))
    return 2 * number
