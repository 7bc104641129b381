"""Is attention an explanation? Train for the same answers with different weights.

If a model can learn to give another model's answers with different attention weights,
the other model's weights were not the reason for its answers.
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
    r"""Return the share of weight that two models put on the same words, in [0, 1].

    .. math:: \sum_s \min(\alpha_s, \beta_s)
    """
    return torch.minimum(one, other).sum(dim=(1, 2))


class LookElsewhere:
    r"""A task: give another model's answers, but with different attention weights.

    .. math:: L = -\sum_y P(y) \ln Q(y) + \lambda \sum_s \min(\alpha_s, \beta_s)

    Here, P and alpha are the answer probabilities and weights of the other model, and Q
    and beta are those of the model in training. This follows Wiegreffe and Pinter
    (2019), who train a model against another one end to end, with different distances
    between answers and between weights.

    Args:
        task: provides the examples.
        other: a trained model.
        strength: lambda, the penalty for weight on the same positions, in nats.
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
        """Combine examples into a padded batch."""
        return self.task.collate(examples, device)

    def loss(
        self, model: Callable[..., Any], batch: LabelBatch, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], int]:
        """Return the summed loss, and the number of examples in the sum.

        The labels are not used.
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
