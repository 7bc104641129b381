import json

import pytest
from measure import norms

from attention_course import models
from attention_course.plotting import report_table

EFFORT = norms.QUICK._replace(depths=(2,), rates=(0.01, 0.02), seeds=(0, 1))


def test_the_figures_are_those_of_the_seeds():
    results = {
        (2, norm, warmup, rate, seed): (
            0.5 * (norm == "pre-norm") + 0.1 * (warmup == "without") + rate + 0.2 * seed
        )
        for norm in norms.NORMS
        for warmup in norms.WARMUPS
        for rate in EFFORT.rates
        for seed in EFFORT.seeds
    }
    got = {row.what: row.value for row in norms.rows(results, EFFORT)}

    assert got["2 layers / pre-norm, without / 0.02"] == pytest.approx(0.72)
    assert got["2 layers / pre-norm, without / 0.02, lowest"] == pytest.approx(0.62)
    assert got["2 layers / post-norm, with warm-up / 0.01, highest"] == pytest.approx(
        0.21
    )
    assert len(got) == 2 * 2 * 2 * 3


def test_a_run_is_what_its_name_says(monkeypatch):
    built, trained = [], []
    build = models.transformer

    def transformer(**sizes):
        built.append((sizes["num_layers"], sizes["pre_norm"]))
        return build(**sizes)

    def train(model, task, config):
        trained.append((config.warmup_steps, config.learning_rate, config.seed))
        raise FloatingPointError("the loss is nan")

    monkeypatch.setattr(norms.models, "transformer", transformer)
    monkeypatch.setattr(norms, "train", train)

    # A model that could not be trained is judged all the same.
    assert 0 <= norms.measure(3, "post-norm", "without", 0.01, 5, norms.QUICK) < 0.5
    norms.measure(2, "pre-norm", "with warm-up", 0.02, 7, norms.QUICK)
    assert built == [(3, False), (2, True)]
    assert trained == [(0, 0.01, 5), (50, 0.02, 7)]


def test_the_verb_leaves_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(norms.report, "REPORTS", tmp_path)

    norms.main(["--quick"])

    written = json.loads((tmp_path / "norms-quick.json").read_text(encoding="utf-8"))
    table = report_table(
        written["rows"], "2 layers", "learning rate", ["0.01", "0.01, lowest"]
    )
    lines = [
        "pre-norm, with warm-up",
        "pre-norm, without",
        "post-norm, with warm-up",
        "post-norm, without",
    ]
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == [
        f"| {line}" for line in lines
    ]
