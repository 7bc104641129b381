import json

import pytest
import torch
from measure import induction

from attention_course.plotting import report_table


class Copies(torch.nn.Module):
    """Names the letter that followed its own letter the last time, or else letter 0."""

    def forward(self, token):
        t = torch.arange(token.size(1))
        earlier = (token[:, :, None] == token[:, None, :]) & (t[:, None] > t)
        latest = torch.where(earlier, t, -1).amax(dim=-1)
        named = token.gather(1, latest + 1) * (latest >= 0)
        return 50 * torch.nn.functional.one_hot(named, induction.LETTERS).float()


def test_who_copies_is_right_where_the_letters_are_all_different():
    different = induction.strings_of(16, 300, all_different=True)
    right, loss = induction.after_each_letter(Copies(), different)
    assert right[16:].min() == 1 and loss[16:].max() < 0.01
    assert right[:15].max() < 0.15

    # The latest of two equal letters is the wrong one in almost half of the strings.
    anything = induction.strings_of(16, 2000)
    right, _ = induction.after_each_letter(Copies(), anything)
    assert right[16:].mean().item() == pytest.approx((25 / 26) ** 15, abs=0.05)


def test_the_second_half_begins_with_the_first_letter_that_comes_again():
    kind = induction.LONGER
    rows = induction.measure_model(kind, Copies(), 99)
    measured = {what: value for what, value, _ in rows}
    assert measured[f"period / {kind} / 4"] > 0.8
    assert measured[f"first half / {kind} / accuracy"] < 0.1
    assert measured[f"second half / {kind} / accuracy"] > 0.5
    assert len([what for what in measured if what.startswith("position")]) == 32


def test_kinds_say_what_they_are():
    names = [str(kind) for kind in induction.KINDS]
    assert len(set(names)) == len(names)
    assert str(induction.TWO) == "rotary, two layers, drawn"
    assert names[-1] == "rotary, one layer, drawn, longer"


def test_models_are_those_that_their_kind_names():
    two, one, learned = (
        induction.teach(kind, 0, 1)
        for kind in (induction.TWO, induction.LONGER, induction.Kind(2, (6, 16), True))
    )
    assert [len(model.blocks) for model in (two, one, learned)] == [2, 1, 2]
    sizes = [sum(p.numel() for p in model.parameters()) for model in (two, one)]
    assert 1.9 < sizes[1] / sizes[0] < 2.1
    with pytest.raises(ValueError, match="33 tokens"):
        learned(torch.zeros(1, 33, dtype=torch.long))
    assert two(torch.zeros(1, 33, dtype=torch.long)).shape == (1, 33, 26)


def test_the_verb_leaves_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(induction.report, "REPORTS", tmp_path)

    induction.main(["--quick"])

    path = tmp_path / "induction-quick.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    kinds = [str(kind) for kind in induction.KINDS]
    heads = [f"seed 0, layer {i}, head {h}" for i in (1, 2) for h in (1, 2)]
    for table, lines, columns in (
        ("second half", kinds, ["accuracy", "accuracy, lowest", "loss", "parameters"]),
        ("first half", kinds, ["accuracy, highest"]),
        ("period", kinds, ["4", "20", "20, lowest"]),
        ("position", [str(induction.TWO), str(induction.LONGER)], ["1", "32, highest"]),
        ("heads", heads, ["previous token", "induction", "without it: accuracy"]),
    ):
        shown = report_table(rows, table, "", columns).splitlines()[2:]
        assert [line.split(" | ")[0] for line in shown] == [f"| {n}" for n in lines]
    shown = report_table(rows, "cut", "", ["accuracy", "loss"]).splitlines()[2:]
    assert len(shown) == 1 + 2 * 6
