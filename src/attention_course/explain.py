"""Does attention explain an answer? What one does to a `Classifier` of sentences to
find out."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.pooling import Classifier
from attention_course.tasks.labels import LabelBatch, LabelTask


def answer_with(
    model: Classifier,
    source: Int[Tensor, "B S"],
    lengths: Int[Tensor, " B"],
    weights: Float[Tensor, "B 1 S"],
) -> Float[Tensor, "B V"]:
    """Let a model answer with weights that are not its own.

    Args:
        model: anything else in it stays as it is.
        source: token ids.
        lengths: tokens in each source, on the CPU.
        weights: over the source, 0 on padding.

    Returns:
        Logits of the classes.
    """
    value = (
        model.encoder(source, lengths).states
        if model.values is None
        else model.values(source)
    )
    return model.head((weights @ value)[:, 0])


def gradient_times_input(
    model: Classifier, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B S"]:
    r"""Ask by the gradient how much each word did for the answer.

    .. math:: g_s = \frac{\partial (z_1 - z_2)}{\partial x_s} \cdot x_s

    where z_1 and z_2 are the largest logit and the next, and x_s is the embedding of
    word s: to first order, what the lead of the answer would lose if the embedding were
    zero. Whatever x_s goes through on its way counts, the weights too.

    Args:
        model: has an embedding in its encoder.
        source: token ids.
        lengths: tokens in each source, on the CPU.

    Returns:
        A number per word: above 0 it speaks for the answer, below 0 against it.
    """
    embedded: list[Tensor] = []  # twice, where embeddings are looked up too
    hook = model.encoder.get_submodule("embedding").register_forward_hook(
        lambda *call: embedded.append(call[-1])
    )
    first, second = model(source, lengths)[0].topk(2).values.unbind(dim=-1)
    hook.remove()
    gradients = torch.autograd.grad((first - second).sum(), embedded)
    return (
        torch.stack([(g * x).sum(dim=-1) for g, x in zip(gradients, embedded)])
        .sum(dim=0)
        .detach()
    )


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

    name, metric = "look elsewhere", "accuracy"

    def __init__(self, task: LabelTask, other: nn.Module, strength: float = 1.0):
        self.train, self.validation, self.test = task.train, task.validation, task.test
        self.task = task
        self.other = other
        self.strength = strength

    def collate(
        self, examples: Sequence[Any], device: torch.device | str = "cpu"
    ) -> LabelBatch:
        """Pad examples to a batch."""
        return self.task.collate(examples, device)

    def loss(
        self, model: Callable[..., Any], batch: LabelBatch, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], int]:
        """Return the sum of the examples' losses, and how many they are; the labels are
        not looked at."""
        logits, weights = model(batch.source, batch.lengths)
        with torch.no_grad():
            right, taken = self.other(batch.source, batch.lengths)
        differ = -(right.softmax(dim=-1) * logits.log_softmax(dim=-1)).sum()
        return differ + self.strength * shared_weight(weights, taken).sum(), len(
            batch.source
        )

    def score(
        self, model: nn.Module, examples: Sequence[Any], batch_size: int = 256
    ) -> float:
        """Return the share of labels that are right."""
        return self.task.score(model, examples, batch_size)

    def view(self, example: Any) -> str:
        """Write an example on one line."""
        return self.task.view(example)
