"""Where training runs: one device or several, by Fabric or by torchrun."""

import functools
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course import models
from attention_course.tasks.reversal import reversal
from attention_course.training import TrainConfig, devices, launch, train

CONFIG = TrainConfig(steps=10, batch_size=7, warmup_steps=3, learning_rate=1e-2)

# Every process runs this; the first one leaves the weights behind.
SCRIPT = """
import sys
import torch
from test_devices import trained

fabric, model = trained(int(sys.argv[2]))
assert fabric.world_size == 2
if fabric.is_global_zero:
    torch.save(model.state_dict(), sys.argv[1])
"""


def trained(number):
    """Train in double precision, without dropout."""
    torch.set_num_threads(1)
    fabric = launch("cpu", "64-true", number)
    task = reversal(max_length=5, train_size=60, held_out_size=5)
    torch.manual_seed(0)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=8,
        num_heads=2,
        hidden_dim=11,
        num_layers=2,
    )
    train(model, task, CONFIG, fabric)
    return fabric, model


def weights_of(tmp_path, *command):
    """Run the script; return the weights that it leaves."""
    script, saved = tmp_path / "script.py", tmp_path / "weights.pt"
    script.write_text(SCRIPT)
    number = "1" if "torch.distributed.run" in command else "2"
    own = {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    ran = subprocess.run(
        [sys.executable, *command, str(script), str(saved), number],
        env=environment | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    return torch.load(saved)


@pytest.mark.plain
@pytest.mark.parametrize(
    "command",
    [
        (),
        ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
    ],
    ids=["fabric", "torchrun"],
)
def test_two_processes_give_the_weights_of_one(tmp_path, command):
    _, alone = trained(1)
    together = weights_of(tmp_path, *command)

    for name, value in alone.state_dict().items():
        assert_close(value, together[name], rtol=0, atol=1e-9)


@pytest.mark.plain
def test_several_devices_in_a_notebook_are_refused(monkeypatch):
    monkeypatch.setattr(devices, "in_notebook", lambda: True)
    with pytest.raises(ValueError, match="2 devices .* a notebook cannot start"):
        launch("cpu", devices=2)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("device", "number", "started", "message"),
    [
        ("gpu", 1, None, "device is auto, cpu or cuda, got 'gpu'"),
        ("cpu", 0, None, "devices is at least 1, got 0"),
        ("cuda", 99, None, "99 GPUs are needed, one for each process"),
        ("cpu", 3, "2", "torchrun has started 2 processes here, but devices is 3"),
    ],
)
def test_devices_that_are_not_there_are_refused(
    device, number, started, message, monkeypatch
):
    if started:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", started)
    with pytest.raises(ValueError, match=message):
        launch(device, devices=number)


@pytest.mark.plain
def test_a_compiled_run_has_the_losses_of_another(monkeypatch):
    # without the compiler of kernels, which takes a minute
    eager = functools.partial(torch.compile, backend="eager")
    monkeypatch.setattr(devices.torch, "compile", eager)
    task = reversal(max_length=3, train_size=60, held_out_size=5)
    losses = []
    for compile in (False, True):
        torch.manual_seed(0)
        model = models.transformer(
            source_size=task.source_size,
            target_size=task.target_size,
            dim=8,
            num_heads=2,
            hidden_dim=11,
            num_layers=1,
        )
        history = train(model, task, TrainConfig(3, batch_size=7), compile=compile)
        losses.append([row.loss for row in history])
        assert not any("_orig_mod" in name for name in model.state_dict())

    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.plain
def test_a_recurrent_model_is_not_compiled():
    with pytest.raises(ValueError, match="a recurrent model is not compiled"):
        devices.compiled(nn.Sequential(nn.Linear(2, 3), nn.GRUCell(3, 5)))
