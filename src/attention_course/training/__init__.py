"""Training and evaluation of any model on any task.

Device, precision and processes come from Lightning Fabric, which wraps a model and
leaves the loop to be read in `loop`. What is drawn is the seed's, and a run that was
stopped goes on from its last checkpoint to the same weights.
"""

from attention_course.training.checkpoints import Checkpoints, Row, Run
from attention_course.training.evaluation import (
    Evaluation,
    alignment,
    evaluate,
    validation_loss,
)
from attention_course.training.loop import (
    Objective,
    TrainConfig,
    fabric_at,
    progress_bar,
    train,
    train_step,
)
from attention_course.training.own_tokens import OwnTokens

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
    "progress_bar",
    "train",
    "train_step",
    "validation_loss",
]
