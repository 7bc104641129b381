"""What asks a device for more than it computes: operators, counted while they run.

As a module, it prints as JSON how many operators a step of training and of decoding
has, in whichever `attention_course` is on the path:

    PYTHONPATH=src:tests python -m measure.operators

So it can also count in the course as it was before a change; see `counted`.
"""

import functools
import inspect
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).parents[2]
# The last commit whose training waits for the device at each step, and whose decoding
# copies its cache.
BEFORE = "33e9112"
# What the host waits for, or may: copies from device to device, values that are read,
# sizes that depend on values.
COPY = "_to_copy"
READ = "_local_scalar_dense"
WAITS = (COPY, READ, "nonzero")
# In inference mode, these are not taken apart into the operators below them.
WHOLE = {"item": READ, "is_nonzero": READ}


class Operators(TorchDispatchMode):
    """Counts the operators that are called while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Count one, and run it."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        name = WHOLE.get(name, name)
        self.total += 1
        # Another dtype on the same device is computed there.
        converts = name == COPY and kwargs.get("device") in (None, args[0].device)
        if name in WAITS and not converts:
            self.waits[name] += 1
        return func(*args, **kwargs)


# Models and batches are small, since their size changes no count.
LAYERS, BATCH = 2, 7
# Steps after which a loss is read, and an end is looked for.
READ_EVERY, LOOK_EVERY = 20, 16


def per_step(call: Callable[[int], object], steps: int) -> dict[str, float]:
    """Count what each further step of a call adds.

    Args:
        call: takes a number of steps.
        steps: how many to add.

    Returns:
        Operators by name, all of them under "all".
    """
    few, many = counts(lambda: call(steps)), counts(lambda: call(2 * steps))
    return {name: (many[name] - few[name]) / steps for name in few}


def counts(call: Callable[[], object]) -> dict[str, int]:
    """Count a call's operators by name, all of them under "all"."""
    with Operators() as operators:
        call()
    return {"all": operators.total, **{name: operators.waits[name] for name in WAITS}}


def count() -> dict[str, dict[str, float]]:
    """Count the operators per step of training and of decoding.

    The host does as with a GPU: it reads losses and looks for ends as seldom as it does
    there. A batch is made on the CPU in any case, which is not counted. Copies are
    those of a batch that is made for the device "meta" and read there.
    """
    from attention_course import decoding, models
    from attention_course.scores import AdditiveScore
    from attention_course.tasks.reversal import reversal
    from attention_course.training import TrainConfig, train

    torch.manual_seed(0)
    task = reversal(max_length=5, train_size=BATCH, held_out_size=5)
    ends = {"source_size": task.source_size, "target_size": task.target_size}
    built = {
        "Transformer": lambda: models.transformer(
            **ends, dim=14, num_heads=2, hidden_dim=11, num_layers=LAYERS, dropout=0.1
        ),
        "Bahdanau": lambda: models.bahdanau(
            **ends,
            embedding_dim=7,
            hidden_dim=11,
            score=AdditiveScore(11, 22, 13),
            num_layers=LAYERS,
        ),
    }
    adam, found = torch.optim.Adam, {}

    # A fused optimizer, as on a GPU; others read the number of their step, on the CPU.
    def fused(*given: Any, **asked: Any) -> torch.optim.Optimizer:
        return adam(*given, **{**asked, "fused": True})

    seldom = "read_every" in inspect.signature(train).parameters
    read_every = {"read_every": READ_EVERY} if seldom else {}
    given = task.collate(task.train)
    making = counts(lambda: task.collate(task.train))
    for name, build in built.items():

        def trained(steps: int, build: Callable = build) -> None:
            config = TrainConfig(steps=steps, batch_size=BATCH)
            train(build(), task, config, **read_every)

        with patch.object(torch.optim, "Adam", fused):
            step = per_step(trained, READ_EVERY)
        step = {kind: step[kind] - making[kind] for kind in step}
        reading = functools.partial(read_elsewhere, task, build().to("meta"))
        step[COPY] = counts(reading)[COPY]
        found[f"{name}, training"] = step

        model = build().eval()
        asked = model, given.source, given.lengths, 1, -1
        searches = {"greedy decoding": functools.partial(decoding.greedy, *asked)}
        if name == "Transformer":
            beam = functools.partial(decoding.beam_search, *asked, beam_size=4)
            searches["decoding, beam of 4"] = beam
        for how, search in searches.items():
            with as_elsewhere(decoding):
                found[f"{name}, {how}"] = per_step(search, LOOK_EVERY)
    return found


def read_elsewhere(task: Any, model: Any) -> None:
    """Make a batch for the device "meta", and read it."""
    batch = task.collate(task.train, "meta")
    model(batch.source, batch.lengths, batch.target_in)


def as_elsewhere(decoding: Any) -> Any:
    """Let decoding ask a CPU no more often than it asks a GPU."""
    if not hasattr(decoding, "LOOK_EVERY"):
        return nullcontext()
    end, lineage = decoding._End, decoding.Lineage

    def unseen(rows: int, device: torch.device) -> Any:
        made = lineage(rows, device)
        made._looks = False
        return made

    seldom = functools.partial(end, torch.device("meta"))
    return patch.multiple(decoding, _End=lambda _: seldom(), Lineage=unseen)


def counted(commit: str | None = None) -> dict[str, dict[str, float]]:
    """Count in another process, in the course as it is or as it was at a commit.

    Raises:
        OSError: there is no git, or not this commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = ROOT / "src"
        if commit:
            archive = subprocess.run(
                ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True
            )
            if archive.returncode:
                raise OSError(f"there is no commit {commit} here")
            source = Path(folder) / "src"
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
                files.extractall(folder, filter="data")
        path = os.pathsep.join(map(str, [source, ROOT / "tests"]))
        done = subprocess.run(
            [sys.executable, "-m", "measure.operators"],
            env={**os.environ, "PYTHONPATH": path, "TQDM_DISABLE": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise OSError(f"counting failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(count()))
