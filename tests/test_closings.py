"""What the labs say of their closing experiments holds from one seed, in short runs;
`make closings` measures the whole ones from three."""

import json

import matplotlib.pyplot as plt
import pytest
import torch
from measure import closings

QUICK = [closing for closing in closings.CLOSINGS if closing.claims]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Draw nothing on a screen, use one thread, and give back what was set."""
    threads, backend = torch.get_num_threads(), plt.get_backend()
    torch.set_num_threads(1)
    plt.switch_backend("agg")
    # Lab 7 forbids the library to fetch anything, for the rest of the process.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield
    torch.set_num_threads(threads)
    plt.switch_backend(backend)


def test_every_lab_has_a_closing_experiment():
    labs = {path.name for path in (closings.report.ROOT / "solutions").glob("lab*")}
    assert {closing.lab for closing in QUICK} == labs


@pytest.mark.plain
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("closing", QUICK, ids=lambda closing: closing.lab)
def test_what_the_lab_says_holds(closing):
    missed = [
        row for row in closings.measure(closing, seed=0, quick=True) if not row.holds
    ]
    assert not missed


def test_the_last_report_missed_no_bound():
    path = closings.report.ROOT / "book" / "reports" / "closings.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    claims = {
        f"{closing.lab} / seed {seed} / {claim.says}"
        for closing in closings.CLOSINGS
        for claim in (*closing.claims, *closing.also)
        for seed in closings.SEEDS
    }
    assert {row["what"] for row in rows} == claims
    assert all(row["holds"] for row in rows)


def test_a_change_that_fits_nowhere_is_refused():
    with pytest.raises(ValueError, match=r"lab01_preprocessing has 'steps=7' 0 times"):
        closings.run("lab01_preprocessing", 0, (("steps=7", "steps=8"),))
