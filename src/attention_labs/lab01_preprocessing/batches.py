"""What questions about batches share: sizes, ids, and a task of letters."""

from types import SimpleNamespace

import torch
from torch import Tensor

from attention_course.tasks.core import SPECIALS, Vocabulary

B, S, V = 3, 5, 11


def draw_ids(g: torch.Generator, *shape: int) -> Tensor:
    """Draw ids of tokens that are no specials."""
    return torch.randint(len(SPECIALS), V, shape, generator=g)


SOURCES, TARGETS = "abcdefg", "nopqrst"


def letter_task() -> SimpleNamespace:
    # Vocabulary, not core.Vocabulary: where answers are graded, a stub stands there.
    """Make a task whose vocabularies are letters."""
    return SimpleNamespace(
        source_vocabulary=Vocabulary(SOURCES), target_vocabulary=Vocabulary(TARGETS)
    )
