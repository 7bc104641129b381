"""How to train: the settings, and what values make sense.

It imports no torch, so that the command line can refuse a value at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Limit = tuple[str, Callable[[float], bool]]
AT_LEAST_1: Limit = ("at least 1", lambda value: value >= 1)
AT_LEAST_0: Limit = ("at least 0", lambda value: value >= 0)
SHARE: Limit = ("a share between 0 and 1", lambda value: 0 <= value <= 1)
# Of the fields of `TrainConfig`; nan is within none of them.
LIMITS: dict[str, Limit] = {
    "steps": AT_LEAST_1,
    "batch_size": AT_LEAST_1,
    "learning_rate": ("finite and above 0", lambda value: 0 < value < math.inf),
    "warmup_steps": AT_LEAST_0,
    "clip_norm": ("above 0", lambda value: value > 0),  # inf: nothing is clipped
    "label_smoothing": SHARE,
    "teacher_forcing": SHARE,
    "validate_every": AT_LEAST_1,
    "patience": AT_LEAST_1,
    "seed": AT_LEAST_0,
}


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Attributes:
        steps: batches to train on.
        batch_size: examples per batch; with several processes, of all of them together.
        learning_rate: Adam's, at its highest.
        warmup_steps: over which the learning rate rises to it; after them it falls to
            zero along a cosine.
        clip_norm: longest allowed gradient.
        label_smoothing: share of a target's probability that is spread over the whole
            vocabulary.
        teacher_forcing: how often a decoder is given the right last token; below 1 see
            `OwnTokens`.
        validate_every: steps between two validations, the last step having one always;
            None: there are none.
        patience: validations in a row without a better one after which training ends;
            None: it goes on.
        seed: of the order of the examples.

    Raises:
        ValueError: a field has a value that makes no sense.
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
