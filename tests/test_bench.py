"""`make bench`: the harness runs, leaves no peer out, and measures what it says."""

import time

import pytest
import torch
from measure import bench, operators, peers

# The table: what is compared with what.
HELD = (
    "Transformer greedy decoding, {}, vs nn.Transformer",
    "Transformer training step, {}, vs nn.Transformer",
    "Transformer training step, {}, vs nn.Transformer, equal dropout",
    "Transformer beam of 5, {}, vs joeynmt",
    "Bahdanau training step, vs joeynmt",
    "Bahdanau greedy decoding, vs joeynmt",
    "Luong training step, all steps in one pass, vs joeynmt",
    "Additive attention alone, keys projected once, vs concatenating at every step",
)


def counted(commit=None):
    """Stand in for counts, of a clone that has no history."""
    if commit:
        raise OSError(f"there is no commit {commit} here")
    training = {"all": 9, operators.READ: 0.5, "nonzero": 0, operators.COPY: 4}
    return {"training": training, "decoding": training}


def started(words):
    """Stand in for the time that starting takes."""
    modules = " ".join(words)
    return 3.0 if "writing" in modules else 2.25 if "import" in modules else 0.25


@pytest.fixture(scope="module")
def rows():
    """The quick run, where no peer has been fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "FOLDER", peers.FOLDER / "nothing here")
        patch.setattr(operators, "counted", counted)
        patch.setattr(bench, "seconds_of_process", started)
        return {row.what: row for row in bench.measure(bench.QUICK)}


def test_every_row_of_the_table_is_there(rows):
    assert {what.format("tiny") for what in HELD} <= set(rows)


def test_a_peer_that_cannot_be_had_is_a_row_that_does_not_hold(rows):
    for what in (
        "Bahdanau training step, vs joeynmt",
        "Transformer training step, tiny, vs joeynmt",
    ):
        assert rows[what].holds is False and rows[what].value is None
        assert "does not run: ModuleNotFoundError" in rows[what].note


def test_what_needs_no_peer_is_measured(rows):
    for what, row in rows.items():
        absent = ("joeynmt", "d2l", "x-transformers", operators.BEFORE)
        if not any(name in what for name in absent):
            assert row.value is not None, row
            assert row.unit in ("", "s", "x", "of the time", "tensors", "MiB", "ms")


def test_commands_are_held_to_what_starting_may_take(rows):
    at = {what: row for what, row in rows.items() if what.startswith("start / ")}
    assert at["start / --help"].value == at["start / ls"].value == 0.25
    beyond = {what: row for what, row in at.items() if "without" in what}
    assert {row.what.split()[2]: (row.value, row.holds) for row in beyond.values()} == {
        "translate,": (0.0, True),
        "write,": (0.75, False),
        "evaluate,": (0.0, True),
    }


def test_a_process_takes_the_time_that_it_computes():
    idle, busy = (
        bench.seconds_of_process(["-c", f"sum(range({n}))"]) for n in (1, 10**7)
    )
    assert 0 < idle < busy


def test_operators_are_held_to_what_a_gpu_may_be_asked(rows):
    made = {what: row for what, row in rows.items() if what.startswith("operators")}
    before = [row for what, row in made.items() if operators.BEFORE in what]
    assert len(made) == 2 * len(before) == 14
    for row in before:
        assert (row.value, row.holds) == (None, False) and "no commit" in row.note
    start = "operators / training, per step"
    assert made[f"{start} / operators, now"].holds is None
    assert made[f"{start} / values read, now"].holds is False
    assert made[f"{start} / copies to the device, now"].holds is True
    decoding = made["operators / decoding, per step / values read, now"]
    assert (decoding.value, decoding.holds) == (0.5, False)


def test_long_attention_without_weights_keeps_no_score():
    kept = {
        row.what: row.value
        for row in bench.score_memory(bench.FULL)
        if row.unit == "tensors"
    }

    assert kept == {
        "score memory at T = S = 2048, no weights asked for: (T, S) tensors kept for the backward pass": (
            0
        ),
        "score memory at T = S = 2048, with weights: (T, S) tensors kept for the backward pass": (
            2
        ),
    }


def test_calls_take_turns_and_the_ratio_is_the_peers_time_over_ours(monkeypatch):
    clock, turns = [0.0], []
    monkeypatch.setattr(time, "process_time", lambda: clock[0])

    def takes(name, seconds):
        def call():
            turns.append(name)
            clock[0] += seconds

        return lambda: call

    contest = bench.Contest(ours=takes("ours", 2.0), peer=takes("peer", 3.0)).run(
        rounds=3
    )

    assert turns == ["ours", "peer"] * 4  # the first pair is not counted
    row = contest.ratio("work", "peer", at_least=1.4)
    assert (row.value, row.holds) == (1.5, True)
    assert contest.ratio("work", "peer", at_least=1.6).holds is False


@pytest.mark.parametrize(
    "mode", [torch.enable_grad, torch.no_grad, torch.inference_mode]
)
def test_the_floor_has_the_same_products_and_nothing_else(mode):
    a, layer, c = torch.randn(3, 5), torch.nn.Linear(5, 7), torch.randn(2, 7, 4)
    with mode():
        floor = bench.Products(lambda: torch.relu(layer(a)).expand(2, 3, 7) @ c)

    shapes = [sorted(tuple(arg.shape) for arg in args) for _, args in floor.seen]
    # turned within `linear`
    weight = (5, 7) if mode is not torch.inference_mode else (7, 5)
    assert shapes == [sorted([(3, 5), weight, (7,)]), [(2, 3, 7), (2, 7, 4)]]
    floor()  # whatever made them, they can be made again


def test_a_drop_in_equal_places_is_one():
    model = peers.TorchTransformer(17, 8, 2, 16, 1, dropout=0.5).drop_like_the_paper()
    body = model.body
    assert (
        body.encoder.layers[0].self_attn.dropout
        == body.decoder.layers[0].multihead_attn.dropout
        == 0
    )
    assert body.encoder.layers[0].dropout.p == body.decoder.layers[0].dropout.p == 0
    assert (
        body.encoder.layers[0].dropout1.p
        == body.decoder.layers[0].dropout3.p
        == model.dropout.p
        == 0.5
    )
