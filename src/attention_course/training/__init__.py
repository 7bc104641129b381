"""Training and evaluation of any model on any task.

Device, precision and processes come from Lightning Fabric, which wraps a model and
leaves the loop to be read in `loop`. What is drawn is the seed's, and a run that was
stopped goes on from its last checkpoint to the same weights.

A module is imported when something in it is asked for: Fabric takes a second, which
whoever only decodes or scores should not wait for.
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
