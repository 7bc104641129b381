import json
import subprocess

import pytest
from measure import report


def test_a_figure_is_held_to_its_target():
    assert report.row("speed", 6.5, "x", at_least=6) == (
        "speed",
        6.5,
        "x",
        ">= 6",
        True,
        "",
    )
    assert report.row("speed", 5.5, "x", at_least=6).holds is False
    assert report.row("memory", 7, "MB", at_most=5).holds is False
    assert report.row("memory", 7, "MB").holds is None


def test_what_could_not_be_measured_does_not_hold():
    assert (
        report.row(
            "speed", None, "x", at_least=6, note="the peer is not installed"
        ).holds
        is False
    )


@pytest.mark.plain
def test_two_targets_for_one_figure_are_refused():
    with pytest.raises(ValueError, match="at least 1 and at most 2"):
        report.row("speed", 1.5, "x", at_least=1, at_most=2)


def test_the_file_has_what_the_table_shows(tmp_path, capsys):
    rows = [
        report.row("greedy", 6.54, "x", at_least=6),
        report.row("beam", None, "x", at_least=6, note="no peer"),
    ]

    path = report.write("bench", rows, 1.26, tmp_path)

    written = json.loads(path.read_text(encoding="utf-8"))
    assert {"name", "commit", "date", "machine", "seconds", "rows"} == set(written)
    assert (written["name"], written["seconds"]) == ("bench", 1.3)
    assert written["rows"] == [row._asdict() for row in rows]
    printed = capsys.readouterr().out
    assert "6.54" in printed and "no peer" in printed and "1 of 2 rows miss" in printed


def git(*arguments):
    return subprocess.run(
        ["git", *arguments], cwd=report.ROOT, capture_output=True, text=True
    )


@pytest.mark.plain
@pytest.mark.skipif(
    git("rev-parse", "--is-shallow-repository").stdout.strip() != "false",
    reason="the history is not here",
)
@pytest.mark.parametrize(
    "path",
    sorted((report.ROOT / "book" / "reports").glob("*.json")),
    ids=lambda path: path.stem,
)
def test_a_stored_report_is_of_a_commit_in_the_history(path):
    """And of a clean tree: git says "dirty" behind the name of any other."""
    commit = json.loads(path.read_text(encoding="utf-8"))["commit"]
    found = git("merge-base", "--is-ancestor", commit, "HEAD")
    assert found.returncode == 0, f"{commit} is no ancestor of the present commit"
