"""Is attention an explanation? A task that wants the same answers by other weights.

If that can be learned, the weights of the other model were not the reason for its
answers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_course.tasks.labels import LabelBatch, LabelledExample, LabelTask


def shared_weight(
    one: Float[Tensor, "B 1 S"], other: Float[Tensor, "B 1 S"]
) -> Float[Tensor, " B"]:
    r"""Return how much of their weight two models put on the same words, in [0, 1].

    .. math:: \sum_s \min(\alpha_s, \beta_s)
    """
    return torch.minimum(one, other).sum(dim=(1, 2))


class LookElsewhere:
    r"""A task: give another model's answers, but look elsewhere.

    .. math:: L = -\sum_y P(y) \ln Q(y) + \lambda \sum_s \min(\alpha_s, \beta_s)

    where P and the weights alpha are the other model's, and Q and beta are those of the
    model that is trained. In the manner of Wiegreffe and Pinter (2019), who train a
    model against another one end to end, with other distances between answers and
    between weights.

    Args:
        task: brings the examples.
        other: a trained model.
        strength: lambda, what looking at the same place costs, in nats.
    """

    name, metric, length = "look elsewhere", "accuracy", None

    def __init__(self, task: LabelTask, other: nn.Module, strength: float = 1.0):
        self.train, self.validation, self.test = task.train, task.validation, task.test
        self.source_size, self.target_size = task.source_size, task.target_size
        self.read = task.read
        self.task = task
        self.other = other
        self.strength = strength

    def collate(
        self, examples: Sequence[LabelledExample], device: torch.device | str = "cpu"
    ) -> LabelBatch:
        """Pad examples to a batch."""
        return self.task.collate(examples, device)

    def loss(
        self, model: Callable[..., Any], batch: LabelBatch, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], int]:
        """Return the sum of the examples' losses, and how many they are.

        The labels are not looked at.
        """
        logits, weights = model(batch.source, batch.lengths)
        with torch.no_grad():
            right, taken = self.other(batch.source, batch.lengths)
        differ = -(right.softmax(dim=-1) * logits.log_softmax(dim=-1)).sum()
        return differ + self.strength * shared_weight(weights, taken).sum(), len(
            batch.source
        )

    def score(
        self,
        model: nn.Module,
        examples: Sequence[LabelledExample],
        batch_size: int = 256,
    ) -> float:
        """Return the share of labels that are right."""
        return self.task.score(model, examples, batch_size)

    def view(self, example: LabelledExample) -> str:
        """Write an example on one line."""
        return self.task.view(example)
