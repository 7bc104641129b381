"""`make bench`: the harness runs, leaves no peer out, and measures what it says."""

import time

import pytest
import torch
from measure import bench, peers

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


@pytest.fixture(scope="module")
def rows():
    """The quick run, where no peer has been fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "FOLDER", peers.FOLDER / "nothing here")
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
        if not any(name in what for name in ("joeynmt", "d2l", "x-transformers")):
            assert row.value is not None, row
            assert row.unit in ("x", "of the time", "tensors", "MiB", "ms")


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
