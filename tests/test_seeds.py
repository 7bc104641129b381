import json

import torch
from measure import seeds

from attention_course.plotting import report_table


def reader(**values):
    return seeds.Reader(**{**dict.fromkeys(seeds.Reader._fields, 0.5), **values})


def test_the_verb_leaves_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(seeds.report, "REPORTS", tmp_path)

    seeds.main(["--quick"])

    rows = json.loads((tmp_path / "seeds-quick.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    for table in ("weights", "changed", "twins", "values"):
        assert [
            line.split(" | ")[0][2:]
            for line in report_table(rows, table, "reader").splitlines()[2:]
        ] == list(seeds.READERS)
    assert all(-1 <= row["value"] <= 1 for row in rows)


def test_the_figures_are_those_of_the_seeds():
    one, other = (
        torch.tensor([[[0.75, 0.25, 0.0]]]),
        torch.tensor([[[0.25, 0.25, 0.5]]]),
    )
    readers = [
        reader(hit_rate=0.25, weights=one),
        reader(hit_rate=1.0, twin_agrees=0.75, weights=other),
    ]
    figures = {row.what: row.value for row in seeds.rows({"r": readers})}

    assert figures["weights / r / hit rate"] == 0.625
    assert (
        figures["weights / r / lowest hit rate"],
        figures["weights / r / highest hit rate"],
    ) == (0.25, 1.0)
    assert figures["weights / r / shared by two seeds"] == 0.5
    assert (figures["twins / r / same answers"], figures["twins / r / fewest"]) == (
        0.625,
        0.5,
    )


def test_permuted_weights_stay_on_the_words():
    weights = torch.tensor([[[0.5, 0.3, 0.2, 0.0, 0.0]]]).expand(7, 1, 5)
    real = torch.tensor([True, True, True, False, False]).expand(7, 5)
    dealt = seeds.permuted(weights, real, torch.Generator().manual_seed(0))

    assert torch.equal(dealt.sort().values, weights.sort().values)
    assert not dealt[:, :, 3:].any()
    assert len(set(map(tuple, dealt[:, 0].tolist()))) > 2
