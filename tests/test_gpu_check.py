"""`make gpu-check`: every part of it runs, here on a CPU and in tiny sizes."""

import json
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest
import torch
from measure import gpu_check, peers, report
from measure.gpu_check import Effort, Place
from measure.report import Row, row

TINY = Effort(
    dim=8,
    heads=2,
    hidden_dim=16,
    layers=1,
    vocab_size=17,
    batch=2,
    length=4,
    rounds=1,
    learning=2,
    backend="aot_eager",
)
PLACE = Place(torch.device("cpu"), TINY)
# torch.compile traces what runs; types are not checked at the same time.
pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def rows(kept):
    """A run on the CPU, where no peer has been fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "FOLDER", peers.FOLDER / "nothing here")
        patch.setitem(sys.modules, "x_transformers", None)
        return gpu_check.run(PLACE, kept)


def test_every_part_runs_but_for_the_peer_that_is_not_there(rows):
    failed = {found.what: found.note for found in rows if "not run" in found.note}
    assert failed.keys() == {
        f"{kind}, x-transformers, {how}"
        for kind in ("decoding", "training")
        for how in ("eager", "compiled")
    }
    for found in rows:
        if found.what in failed:
            assert (found.value, found.holds) == (None, False)
            assert "x_transformers" in found.note


def test_what_only_cuda_tells_is_absent_elsewhere(rows):
    found = {row.what: row for row in rows}
    for kind in (
        "decoding / transformer, compiled",
        "training / nn.Transformer, eager",
    ):
        for what in ("memory", "kernels per step", "waits per step"):
            absent = found[f"{kind} / {what}"]
            assert (absent.value, absent.note) == (None, "only CUDA tells")
        assert found[f"{kind} / speed"].value > 0
    assert found["machine / device"].value == "a CPU, and so nothing of a GPU"


def test_a_model_is_as_on_the_cpu(rows):
    found = [row for row in rows if "largest difference" in row.what]
    assert {row.what.split(" / ")[1] for row in found} == {*gpu_check.COMPARED}
    assert all(row.holds for row in found)


def test_goals_compare_speeds():
    rows = [
        row(f"{what} / speed", value, "tokens/s")
        for what, value in {
            "decoding / transformer, compiled": 50.0,
            "decoding / nn.Transformer, eager": 4.0,
            "decoding / x-transformers, eager": 20.0,
            "decoding / x-transformers, compiled": 30.0,
            "training / transformer, compiled": 9.0,
            "training / nn.Transformer, compiled": 10.0,
        }.items()
    ]
    assert [(row.value, row.holds) for row in gpu_check.goals(rows)] == [
        (12.5, True),
        (pytest.approx(5 / 3), False),
        (0.9, False),
    ]
    assert [row.holds for row in gpu_check.goals(rows[:1])] == [False] * 3


def test_a_run_that_was_stopped_goes_on_where_it_was(rows, kept, monkeypatch, capsys):
    (folder,) = kept.iterdir()
    (folder / "parity,_llama.json").unlink()
    measured = []
    monkeypatch.setattr(
        gpu_check,
        "measure",
        lambda name, part, place: measured.append(name) or [Row(name, 1, "")],
    )
    again = gpu_check.run(PLACE, kept)

    # what failed is tried once more, after what is new
    peer = [
        f"{kind}, x-transformers, {how}"
        for how in ("eager", "compiled")
        for kind in ("decoding", "training")
    ]
    assert measured == ["parity, llama", *peer]
    assert len(again) == len(rows) and Row("parity, llama", 1, "") in again
    assert "parity, llama" in capsys.readouterr().out
    gpu_check.run(PLACE, kept)
    assert len(measured) == 5


def test_a_part_that_stops_the_process_is_said_and_tried_last(
    tmp_path, monkeypatch, capsys
):
    tried = []

    def measure(name, part, place):
        tried.append(name)
        if tried == ["a"]:
            raise SystemExit
        return [Row(name, 1, "")]

    monkeypatch.setattr(gpu_check, "parts", lambda: [(name, None) for name in "abc"])
    monkeypatch.setattr(gpu_check, "measure", measure)
    with pytest.raises(SystemExit):
        gpu_check.run(PLACE, tmp_path)
    found = gpu_check.run(PLACE, tmp_path, minutes=-1)
    notes = {row.what: row.note for row in found if row.target == "runs"}
    assert notes == {
        "a": "the run was stopped in this part",
        **dict.fromkeys("bc", "not measured yet"),
    }
    assert "3 parts are left: run again" in capsys.readouterr().out
    found = gpu_check.run(PLACE, tmp_path)
    assert tried == ["a", "b", "c", "a"]
    assert not [row for row in found if row.target == "runs"]


def test_a_gpu_that_is_lost_ends_the_run(tmp_path, monkeypatch, capsys):
    def broken(place):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpu_check, "parts", lambda: [("a", broken), ("b", broken)])
    monkeypatch.setattr(gpu_check, "_wait", broken)
    found = {row.what: row.note for row in gpu_check.run(PLACE, tmp_path)}
    assert "an illegal memory access" in found["a"]
    assert found["b"] == "not measured yet"
    assert "run again to go on" in capsys.readouterr().out


def test_other_sizes_are_measured_anew():
    other = Place(PLACE.device, TINY._replace(batch=3))
    assert gpu_check.code_key(other) != gpu_check.code_key(PLACE)


def test_a_model_learns_before_its_score_is_taken():
    place = Place(PLACE.device, TINY._replace(learning=150))
    (found,) = gpu_check.score_in_bf16("transformer", place)

    half_precision, single = map(float, found.note.split(": ")[1].split(", "))
    assert single > 0.5 and found.holds
    assert found.value == pytest.approx(half_precision - single, abs=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_cuda_gets_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "measure.gpu_check"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == (
        "error: gpu-check needs a GPU with CUDA, and torch finds none here: run it on a"
        " machine that has one\n"
    )


def test_an_old_torch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu128")
    assert "torch 2.10 or newer, and this is 2.9.1" in gpu_check.missing()


def section_of_the_book(folder, monkeypatch):
    """Run the cell of chapter 15 as if the book stood in a folder."""
    page = (gpu_check.ROOT / "book" / "15_cost.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", page, re.M | re.S)
    (code,) = [cell.split("---\n")[-1] for cell in cells if "gpu.json" in cell]
    names = {"Path": Path, "HTML": str, "json": json, "escape": escape}
    monkeypatch.chdir(folder)
    exec(code, names)
    return names["measured_on_a_gpu"]()


def test_the_book_says_that_nothing_has_been_measured(tmp_path, monkeypatch):
    said = section_of_the_book(tmp_path, monkeypatch)
    assert "Nothing has been measured on a GPU yet" in said and "make gpu-check" in said


def test_the_book_shows_what_has_been_measured(rows, tmp_path, monkeypatch):
    made = [Row("goal / made", 12.3456, "x", ">= 10", True, "a < b"), *rows]
    report.write("gpu", made, 1.0, tmp_path / "reports")
    said = section_of_the_book(tmp_path, monkeypatch)
    assert "Nothing has been measured" not in said
    for part in ("goal / made", "12.3 x", "&gt;= 10", "a &lt; b", "machine / device"):
        assert part in said
    assert said.count("<tr>") == 1 + sum(
        row.what.startswith(("machine", "goal")) or row.what.endswith(" / speed")
        for row in made
    )


def test_the_report_goes_to_the_book(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_check, "missing", lambda: None)
    monkeypatch.setattr(gpu_check, "STORED", tmp_path)
    made = [row("speed", 2.0, "x", 1)]
    monkeypatch.setattr(gpu_check, "run", lambda place, minutes: made)
    gpu_check.main([])
    written = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert written["name"] == "gpu" and written["rows"][0]["holds"]


def test_a_peer_that_is_told_of_its_mask_computes_the_same():
    peer = peers.TorchTransformer(17, 8, 2, 16, 1, dropout=0.0).eval()
    given = torch.randint(4, 17, (2, 5)), torch.zeros(2, 5, dtype=torch.bool)
    target = torch.randint(4, 17, (2, 4))
    found = peer(*given, target)
    peer.told_causal = True
    torch.testing.assert_close(peer(*given, target), found)
