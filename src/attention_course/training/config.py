"""Training settings (hyperparameters): `TrainConfig`, and the range of each setting.

This module does not import torch, so that the command line can refuse a value at once.
The sizes of models are in `attention_course.registry`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Limit = tuple[str, Callable[[float], bool]]
AT_LEAST_1: Limit = ("at least 1", lambda value: value >= 1)
AT_LEAST_0: Limit = ("at least 0", lambda value: value >= 0)
SHARE: Limit = ("a share between 0 and 1", lambda value: 0 <= value <= 1)
# The ranges of the fields of `TrainConfig`; none of them contains nan.
LIMITS: dict[str, Limit] = {
    "steps": AT_LEAST_1,
    "batch_size": AT_LEAST_1,
    "learning_rate": ("finite and above 0", lambda value: 0 < value < math.inf),
    "warmup_steps": AT_LEAST_0,
    "clip_norm": ("above 0", lambda value: value > 0),  # inf: nothing is clipped
    # the right token keeps some of the probability
    "label_smoothing": ("at least 0 and below 1", lambda value: 0 <= value < 1),
    "teacher_forcing": SHARE,
    "validate_every": AT_LEAST_1,
    "patience": AT_LEAST_1,
    "seed": ("at least 0 and below 2^63", lambda value: 0 <= value < 2**63),
}


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run.

    Attributes:
        steps: batches to train on.
        batch_size: examples per batch, in all processes together.
        learning_rate: the peak learning rate of Adam.
        warmup_steps: steps over which the learning rate rises to its peak; after them,
            it falls to zero along a cosine.
        clip_norm: largest allowed norm of the gradient.
        label_smoothing: share of a target's probability that is spread over the whole
            vocabulary.
        teacher_forcing: how often a decoder is given the right previous token; for
            values below 1, see `OwnTokens`.
        validate_every: steps between two validations; the last step always has one.
            None: no validation.
        patience: number of validations in a row without improvement after which
            training stops early; None: no early stopping.
        seed: random seed for the order of the examples.

    Raises:
        ValueError: a field has a value outside its range.
    """

    steps: int = 300
    batch_size: int = 64
    learning_rate: float = 5e-3
    warmup_steps: int = 50
    clip_norm: float = 1.0
    label_smoothing: float = 0.0
    teacher_forcing: float = 1.0
    validate_every: int | None = None
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (what, holds) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not holds(value):
                raise ValueError(f"{name} is {what}, got {value}")
