"""Set up training with Fabric: device, precision, processes and compilation.

The device of a trained model is chosen in `attention_course.runs.loading`.
"""

import os
import sys
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from torch import nn

from attention_course.training.precision import check_gpus

Precision = Literal["32-true", "64-true", "bf16-mixed"]


def launch(
    device: str = "auto", precision: Precision = "32-true", devices: int = 1
) -> Fabric:
    """Start Fabric, with one process for each device.

    Each additional process runs the calling program from its beginning, up to this call
    and on from there. Processes that `torchrun` has started are used as they are.

    Args:
        device: "auto", "cpu" or "cuda".
        precision: "32-true", "64-true", or "bf16-mixed": weights in single precision,
            products and activations in bfloat16.
        devices: number of GPUs, or of processes on a CPU; each takes its share of every
            batch.

    Returns:
        The Fabric, for `train`.

    Raises:
        ValueError: there is no such device; or `devices` is below 1, exceeds the number
            of GPUs, differs from the number of processes that `torchrun` has started,
            or is above 1 in a notebook.
    """
    started = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    nodes = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device is auto, cpu or cuda, got {device!r}")
    if devices < 1:
        raise ValueError(f"devices is at least 1, got {devices}")
    if started and devices not in (1, started):
        raise ValueError(
            f"torchrun has started {started} processes here, but devices is {devices}:"
            " leave it out"
        )
    devices = started or devices
    if devices > 1 and not started and in_notebook():
        raise ValueError(
            f"{devices} devices need a process each, which a notebook cannot start: run"
            " a script, or attention-course train, from a shell"
        )
    if device == "cuda":
        check_gpus(devices)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    fabric = Fabric(
        accelerator=device,
        strategy="ddp" if devices * nodes > 1 else "auto",
        devices=devices,
        num_nodes=nodes,
        precision=precision,
    )
    fabric.launch()
    return fabric


def in_notebook() -> bool:
    """Return whether this is a notebook or a prompt, with no script to run again."""
    return "ipykernel" in sys.modules or hasattr(sys, "ps1")


def fabric_at(device: torch.device) -> Fabric:
    """Return a Fabric with one process on a device, in single precision."""
    return Fabric(
        accelerator=device.type, devices=1 if device.index is None else [device.index]
    )


def compiled(module: nn.Module) -> Any:
    """Compile a module's forward pass, and with it the backward pass.

    Raises:
        ValueError: the module has recurrent layers, whose steps would be unrolled and
            compiled again for every length.
    """
    if any(isinstance(part, nn.RNNBase | nn.RNNCellBase) for part in module.modules()):
        raise ValueError(
            "a recurrent model is not compiled, since it would be again for every new"
            " length: leave out compile"
        )
    return torch.compile(module)
