"""Runs that are stopped, and what is left of them."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import zipfile

import pytest
import torch
from torch.testing import assert_close

from attention_course import models
from attention_course.tasks.reversal import reversal
from attention_course.training import TrainConfig, train
from attention_course.training.checkpoints import Checkpoints
from attention_course.training.folder import read

CONFIG = TrainConfig(steps=12, batch_size=7, warmup_steps=3, validate_every=4)

# After its seventh step it says so and waits to be stopped, between two checkpoints.
STOPPED_RUN = """
import signal, sys
from pathlib import Path
from attention_course.training import loop
from tests.test_checkpoints import run

in_time, steps = loop.train_step, []
def waiting(*arguments):
    if len(steps) == 7:
        print("seven steps", flush=True)
        signal.pause()
    steps.append(in_time(*arguments))
    return steps[-1]
loop.train_step = waiting
run(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def task():
    return small_task()


def small_task():
    return reversal(max_length=4, train_size=50, held_out_size=11)


def run(folder=None, config=CONFIG, every=5, dim=8, **about):
    """Train a Transformer with dropout, whose weights depend on the order of examples
    and on the state of chance."""
    task = small_task()
    torch.manual_seed(0)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=dim,
        num_heads=2,
        hidden_dim=11,
        num_layers=1,
        dropout=0.2,
    )
    history = train(
        model, task, config, checkpoints=folder and Checkpoints(folder, every, about)
    )
    return model, history


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path):
    command = [sys.executable, "-c", STOPPED_RUN, str(tmp_path)]
    killed = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert killed.stdout.readline() == b"seven steps\n"
    killed.kill()
    killed.communicate()
    assert len(read(tmp_path)["history"]) == 5

    _, whole = run(tmp_path / "unbroken")
    _, pieced = run(tmp_path)
    unbroken, resumed = read(tmp_path / "unbroken"), read(tmp_path)
    for part in ("model", "optimizer", "best"):
        assert_close(resumed[part], unbroken[part], rtol=0, atol=0)
    assert resumed["schedule"] == unbroken["schedule"]
    assert [row[:4] for row in pieced] == [row[:4] for row in whole]
    seconds = [row.seconds for row in pieced]
    assert seconds == sorted(seconds)


def test_a_checkpoint_is_written_at_once_and_then_now_and_then(tmp_path, monkeypatch):
    """A disk without room for it is noticed before the work."""
    saved = []
    save = Checkpoints.save
    monkeypatch.setattr(
        *(Checkpoints, "save"),
        lambda self, fabric, run, settings: (
            saved.append(run.step) or save(self, fabric, run, settings)
        ),
    )
    _, history = run(tmp_path)

    assert saved == [1, *range(5, len(history) + 1, 5), len(history)]
    assert json.loads((tmp_path / "run.json").read_text())["step"] == len(history)


def test_a_run_that_has_ended_is_read_and_not_repeated(tmp_path, monkeypatch):
    first, history = run(tmp_path)
    monkeypatch.setattr("attention_course.training.loop.train_step", None)
    second, again = run(tmp_path)

    assert again == history
    assert_close(second.state_dict(), first.state_dict(), rtol=0, atol=0)


def test_the_history_is_a_table(tmp_path):
    _, history = run(tmp_path)
    with (tmp_path / "history.csv").open(newline="") as file:
        names, *rows = csv.reader(file)

    assert names == ["step", "tokens", "loss", "metric", "seconds"]
    assert [
        tuple(float(cell) if cell else None for cell in row) for row in rows
    ] == history
    assert [row.step for row in history if row.metric is not None] == [4, 8, 12]


def test_what_a_checkpoint_is_of_stands_in_it(tmp_path):
    run(tmp_path, task="reversal", dim=8)

    assert read(tmp_path)["about"] == {"task": "reversal"}


def with_another_number(whole):
    """Change a byte of the largest tensor."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        largest = max(archive.infolist(), key=lambda part: part.file_size)
        at = whole.index(archive.read(largest)) + 5
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


@pytest.mark.plain
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-100],
        lambda whole: b"",
        lambda whole: b"PK" + whole[:50],
        with_another_number,
    ],
)
def test_a_damaged_checkpoint_is_refused_and_left(tmp_path, damage):
    run(tmp_path)
    path = tmp_path / "checkpoint.pt"
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)

    with pytest.raises(ValueError, match="is damaged or no checkpoint"):
        run(tmp_path)
    assert path.read_bytes() == damaged


class Foreign:
    def __reduce__(self):
        return (print, ("code from a checkpoint was run",))


@pytest.mark.plain
@pytest.mark.parametrize(
    "content", [{"weights": torch.zeros(3)}, [1, 2], {"format": "another", "model": {}}]
)
def test_a_foreign_checkpoint_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "checkpoint.pt")

    with pytest.raises(ValueError, match="not a checkpoint of this package"):
        run(tmp_path)


@pytest.mark.plain
def test_no_code_is_run_from_a_checkpoint(tmp_path, capsys):
    torch.save(Foreign(), tmp_path / "checkpoint.pt")

    with pytest.raises(ValueError, match="is damaged or no checkpoint"):
        run(tmp_path)
    assert "code from a checkpoint" not in capsys.readouterr().out


@pytest.mark.plain
@pytest.mark.parametrize(
    ("other", "named"),
    [
        (
            {
                "config": TrainConfig(
                    steps=13, batch_size=7, warmup_steps=3, validate_every=4
                )
            },
            "its steps is 12, not 13",
        ),
        ({"task": "dates"}, "its task is 'reversal', not 'dates'"),
        ({"dim": 10}, "of another model than this EncoderDecoder"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, other, named):
    run(tmp_path, task="reversal")
    before = (tmp_path / "checkpoint.pt").read_bytes()

    with pytest.raises(ValueError, match=named):
        run(tmp_path, **{"task": "reversal"} | other)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


@pytest.mark.plain
def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"no checkpoint in {tmp_path}"):
        read(tmp_path)


@pytest.mark.plain
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path):
    """The file that is being written may be as long as half a checkpoint: a limit of
    the system, no mock."""
    resource = pytest.importorskip("resource")
    run(tmp_path, CONFIG)
    path = tmp_path / "checkpoint.pt"
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
        with pytest.raises(
            OSError,
            match=(
                r"no checkpoint of step 12 .* \(File too large\); the one before it is"
                r" still"
            ),
        ):
            run(tmp_path, CONFIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "checkpoint.pt",
        "history.csv",
        "run.json",
    ]
