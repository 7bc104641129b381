"""Train and evaluate any model on any task: training loop, settings and checkpoints.

Lightning Fabric takes care of device, precision and processes; it wraps a model, and
the training loop itself is in `loop`. All random draws depend on the seed, and a run
that was stopped resumes from its last checkpoint and ends with the same weights. What
the commands `train` and `evaluate` do is in `attention_course.runs`.

Each module is imported only when something in it is used: importing Fabric takes a
second, and decoding and scoring should not have to wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attention_course.training.checkpoints import Checkpoints, Row, Run
    from attention_course.training.config import TrainConfig
    from attention_course.training.devices import fabric_at, launch
    from attention_course.training.evaluation import (
        Evaluation,
        alignment,
        evaluate,
        validation_loss,
    )
    from attention_course.training.loop import (
        Objective,
        progress_bar,
        read,
        train,
        train_step,
    )
    from attention_course.training.own_tokens import OwnTokens

MODULES = {
    "checkpoints": ["Checkpoints", "Row", "Run"],
    "config": ["TrainConfig"],
    "evaluation": ["Evaluation", "alignment", "evaluate", "validation_loss"],
    "devices": ["fabric_at", "launch"],
    "loop": ["Objective", "progress_bar", "read", "train", "train_step"],
    "own_tokens": ["OwnTokens"],
}

__all__ = [
    "Checkpoints",
    "Evaluation",
    "Objective",
    "OwnTokens",
    "Row",
    "Run",
    "TrainConfig",
    "alignment",
    "evaluate",
    "fabric_at",
    "launch",
    "progress_bar",
    "read",
    "train",
    "train_step",
    "validation_loss",
]


def __getattr__(name: str) -> Any:
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__} has no {name!r}")
