import json

import pytest
import torch
from measure import today

from attention_course.plotting import report_table


def test_the_figures_are_those_of_the_seeds():
    rows = list(today.spread("length / sines / 24", [0.5, 0.75, 1.0], "mean"))
    assert [(row.what, row.value) for row in rows] == [
        ("length / sines / 24", 0.75),
        ("length / sines / 24, lowest", 0.5),
        ("length / sines / 24, highest", 1.0),
    ]
    assert [row.value for row in today.spread("learned", [None, None], "")] == [
        None
    ] * 3


def test_both_neighbours_have_to_be_right():
    class Knows:
        """Names the left neighbour always, and the right one where it is even."""

        def __call__(self, digits, mask):
            left = digits.roll(1, dims=1)
            right = digits.roll(-1, dims=1)
            answers = left, torch.where(right % 2 == 0, right, right - 1)
            return [torch.nn.functional.one_hot(a, 10).float() for a in answers]

    share = today.both_right(Knows(), 40, 500)
    assert share == pytest.approx(0.5, abs=0.02)


def test_learned_positions_end_where_training_did():
    model = today.Neighbours("learned")
    assert today.both_right(model, today.TRAINED, 3) is not None
    assert today.both_right(model, today.TRAINED + 1, 3) is None


def test_the_window_leaves_the_distances_of_training():
    assert today.window(today.TRAINED).all()
    seen = today.window(40)
    assert seen[0, 15] and not seen[0, 16] and seen[39, 24] and not seen[39, 23]


def test_wider_networks_make_up_for_heads_that_are_shared():
    sizes = {
        name: today.translated(name, 1, 0, today.QUICK)[1] for name in today.SHARED
    }
    assert sizes["1 key head, wider"] == pytest.approx(sizes["8 key heads"], rel=0.002)
    assert sizes["1 key head"] < sizes["2 key heads"] < sizes["4 key heads"]


def test_the_verb_leaves_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(today.report, "REPORTS", tmp_path)

    today.main(["--quick"])

    written = json.loads((tmp_path / "today-quick.json").read_text(encoding="utf-8"))
    for table, lines, columns in (
        ("length", today.KINDS, ["16", "128", "128, lowest"]),
        ("window", today.KINDS, ["64"]),
        ("heads", today.SHARED, ["1 steps", "2 steps, highest", "parameters"]),
    ):
        shown = report_table(written["rows"], table, "", columns).splitlines()[2:]
        assert [line.split(" | ")[0] for line in shown] == [f"| {n}" for n in lines]
