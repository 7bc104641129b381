import json

import pytest
from measure import ladder

from attention_course.plotting import report_table

SMALL = ladder.Effort(
    seeds=(0, 1), steps=2, sizes=(("train_size", 300), ("held_out_size", 40))
)


@pytest.fixture(autouse=True)
def one_task(monkeypatch):
    monkeypatch.setattr(ladder, "TRIALS", {"reversal": ladder.TRIALS["reversal"]})


@pytest.fixture
def two_rungs(monkeypatch):
    monkeypatch.setattr(
        ladder,
        "RUNGS",
        {name: ladder.RUNGS[name] for name in ("final state", "Bahdanau")},
    )


def figures(cells, seeds=(0, 1)):
    return {tuple(row.what.split(" / ")[1:]): row for row in ladder.rows(cells, seeds)}


def test_every_rung_gets_through(tmp_path):
    cells = ladder.measure_all(ladder.QUICK, 1, tmp_path)

    assert {rung for _, rung, _ in cells} == set(ladder.RUNGS)
    bahdanau = cells["reversal", "Bahdanau", 0].parameters
    for (_, rung, _), cell in cells.items():
        assert abs(cell.parameters / bahdanau - 1) < 0.15, rung
        # A memory of one slot is not asked; two steps teach nobody where to look.
        assert (cell.alignment_error is None) == ladder.RUNGS[rung].one_slot
        assert cell.alignment_error is None or 0.5 < cell.alignment_error <= 1
        # Every reversed letter has one source, so the two say the same.
        assert cell.hit_rate is None or cell.hit_rate == pytest.approx(
            1 - cell.alignment_error
        )
        assert (
            0 <= cell.exact_match < 0.5
            and cell.cpu_seconds > 0
            and cell.tokens_per_second > 0
        )


def test_a_killed_run_goes_on_where_it_was(two_rungs, tmp_path, monkeypatch, capsys):
    measure, measured = ladder.measure, []

    def killed_at_the_third(*where):
        measured.append(where)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return measure(*where)

    monkeypatch.setattr(ladder, "measure", killed_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        ladder.measure_all(SMALL, 1, tmp_path)
    first = ladder.measure_all(SMALL, 1, tmp_path)
    assert len(measured) == 3 + 2  # of four cells two were there
    assert ladder.measure_all(SMALL, 1, tmp_path) == first
    assert len(measured) == 5
    assert "4 cells, 2 of them measured earlier" in capsys.readouterr().out


def test_cells_of_other_code_do_not_count(tmp_path, monkeypatch):
    def key(rung="Bahdanau", effort=SMALL):
        return ladder.key("reversal", rung, 0, effort)

    keys = [key(), key("Luong"), key(effort=ladder.QUICK._replace(steps=3))]
    # More seeds do not change those that are there.
    assert key(effort=SMALL._replace(seeds=(5,))) == keys[0]
    monkeypatch.setitem(ladder.RUNGS, "Luong", ladder.RUNGS["local-m"])
    assert key() == keys[0]
    keys.append(key("Luong"))
    other = tmp_path / "other.py"
    other.write_text("other = True")
    monkeypatch.setattr(ladder.models, "__file__", str(other))
    keys.append(key())
    assert len(set(keys)) == 5


def test_the_figures_are_those_of_the_seeds(two_rungs):
    shares = {0: [1.0, 0.5, None, 0.25], 1: [0.5, 0.5, None, 0.0]}
    cells = {
        ("reversal", rung, seed): ladder.Cell(
            parameters=7,
            cpu_seconds=10.0 + seed,
            exact_match=0.98 + seed / 50,
            by_length=shares[seed],
            hit_rate=None if rung == "final state" else 0.8 - seed / 5,
            alignment_error=None if rung == "final state" else 0.1 + seed / 5,
            tokens_per_second=100,
        )
        for rung in ladder.RUNGS
        for seed in (0, 1)
    }
    got = figures(cells)

    exact = got["Bahdanau", "exact match"]
    assert exact.value == pytest.approx(0.99) and (exact.target, exact.holds) == (
        ">= 0.99",
        True,
    )
    assert [
        got["Bahdanau", f"exact match, {end}"].value for end in ("lowest", "highest")
    ] == [0.98, 1.0]
    assert (
        got["Bahdanau", "CPU time"].value == 10.5 and got["Bahdanau", "CPU time"].holds
    )
    assert got["Bahdanau", "exact match, 1 to 4 letters"].value == 0.75
    assert got["Bahdanau", "exact match, 10 to 14 letters"].value is None
    assert got["Bahdanau", "hit rate"].value == pytest.approx(0.7)
    assert got["Bahdanau", "alignment error rate"].value == pytest.approx(0.2)
    assert got["Bahdanau", "alignment error rate, lowest"].value == pytest.approx(0.1)
    for name in ("hit rate", "alignment error rate"):
        assert got["final state", name].value is None
    # The bottleneck is held to being one, and to nothing else.
    long = got["final state", "exact match, 15 to 20 letters"]
    assert long.value == 0.125 and (long.target, long.holds) == ("<= 0.05", False)
    assert got["final state", "exact match"].holds is None


def test_another_process_measures_the_same():
    where = "reversal", "final state", 0
    (here,), (there,) = (ladder._each([where], ladder.QUICK, jobs) for jobs in (1, 2))

    assert _untimed(*here) == _untimed(*there)


def _untimed(where, cell):
    return where, cell._replace(cpu_seconds=0, tokens_per_second=0)


def test_the_verb_leaves_a_report(two_rungs, tmp_path, monkeypatch):
    monkeypatch.setattr(ladder, "CELLS", tmp_path / "cells")
    monkeypatch.setattr(ladder.report, "REPORTS", tmp_path)

    ladder.main(["--quick"])

    written = json.loads((tmp_path / "ladder-quick.json").read_text(encoding="utf-8"))
    table = report_table(
        written["rows"],
        "reversal",
        "model",
        ["parameters", "CPU time", "decoding", "hit rate", "alignment error rate"],
    )
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == [
        "| final state",
        "| Bahdanau",
    ]
    assert table.splitlines()[2].endswith("| – | – |")
