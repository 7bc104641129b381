"""What nbgrader's exchange and its Validate button get from the judge."""

from datetime import datetime

import pytest

from attention_labs import check
from nbjudge.grading.exchange import keep_for_exchange

SECRET, TIMESTAMP = "submission_secret.txt", "timestamp.txt"


@pytest.fixture
def folders(tmp_path):
    handed_in, graded = tmp_path / "handed in", tmp_path / "graded"
    handed_in.mkdir()
    graded.mkdir()
    return handed_in, graded


def test_the_secret_and_the_time_go_with_the_feedback(folders):
    handed_in, graded = folders
    (handed_in / SECRET).write_text("a1" * 64)
    (handed_in / "more.txt").write_text("of the student's own")
    keep_for_exchange(handed_in, graded, datetime(2026, 11, 22, 12))
    assert {path.name: path.read_text() for path in graded.iterdir()} == {
        SECRET: "a1" * 64,
        TIMESTAMP: "2026-11-22 12:00:00 UTC",
    }


@pytest.mark.parametrize("secret", [None, b"", b"\xff", b"../x", b"a" * 201])
def test_without_a_secret_of_its_own_a_page_has_one_that_nobody_knows(folders, secret):
    handed_in, graded = folders
    if secret is not None:
        (handed_in / SECRET).write_bytes(secret)
    keep_for_exchange(handed_in, graded, None)
    assert len((graded / SECRET).read_bytes()) == 64
    assert (graded / TIMESTAMP).read_text() == ""


def test_validate_shows_what_check_says_of_an_answer_that_loses_points(
    monkeypatch, capsys
):
    """Of a cell with less than its points, the button shows the errors alone."""
    check("merge_heads", lambda x: x)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("NBGRADER_VALIDATING", "1")
    check("merge_heads", lambda x: x.transpose(1, 2).flatten(2))
    assert capsys.readouterr().err == ""
    check("merge_heads", lambda x: x)
    assert "merge_heads: 0 of 2 points" in capsys.readouterr().err
