"""Label tasks: one label per source (classification) or per position (labeling).

Tasks whose target is a sequence of tokens are in `sequences`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_course.metrics import alignment_hit_rate, exact_match
from attention_course.tasks.core import Length, Vocabulary, batches, source_batch

NO_LABEL = -100  # the label of padding, which `F.cross_entropy` ignores


class LabelledExample(NamedTuple):
    """A source, its labels, and the source positions that decide them.

    Attributes:
        source: tokens, or whatever else the task's `read` takes.
        labels: one for the whole source, or one per position.
        gold: for each label, the source positions that decide it; empty if unknown.
    """

    source: Any
    labels: tuple[str, ...]
    gold: tuple[Collection[int], ...] = ()


class LabelBatch(NamedTuple):
    """A batch of examples, as padded tensors.

    Attributes:
        source: token ids (B, S), or frames (B, S, F), or images (B, C, height, width).
        lengths: (B,), number of tokens in each source.
        labels: (B, 1) or (B, S), label ids; NO_LABEL on padding.
    """

    source: Shaped[Tensor, "B ..."]
    lengths: Int[Tensor, " B"]
    labels: Int[Tensor, "B N"]


@runtime_checkable
class Reader(Protocol):
    """The interface for turning sources into the inputs of an encoder.

    Attributes:
        size: tokens in the vocabulary, numbers in a frame, or cells in an image's grid.
    """

    @property
    def size(self) -> int: ...  # noqa: D102

    def __call__(
        self, sources: Sequence[Any], device: torch.device | str = "cpu"
    ) -> tuple[Tensor, Tensor]:
        """Return a source tensor and lengths, one per source."""


@dataclass(frozen=True)
class LabelTask:
    """A task that assigns labels to sources, for a `Classifier` or a `Labeller`.

    Attributes:
        name: the task's name in tables.
        train: examples to train on.
        validation: examples for choosing a model.
        test: examples for the reported scores.
        labels: all possible labels; the id of a label is its index here.
        read: turns sources into the inputs of the encoder.
        write: formats a source for display, on one line.
        metric: what `score` measures.
    """

    name: str
    train: Sequence[LabelledExample]
    validation: Sequence[LabelledExample]
    test: Sequence[LabelledExample]
    labels: tuple[str, ...]
    read: Reader
    write: Callable[[Any], str]
    metric: str = "accuracy"

    @property
    def source_size(self) -> int:
        """Return the input size of the encoder, which `read` knows."""
        return self.read.size

    @property
    def target_size(self) -> int:
        """Return the number of possible labels."""
        return len(self.labels)

    @property
    def length(self) -> Length | None:
        """Return None: examples of any length may share a batch."""
        return None

    def collate(
        self, examples: Sequence[LabelledExample], device: torch.device | str = "cpu"
    ) -> LabelBatch:
        """Combine examples into a padded batch.

        Args:
            examples: at least one, none with an empty source.
            device: device of the source, lengths and labels.

        Returns:
            The batch, padded to the longest source in it.

        Raises:
            ValueError: there are no examples, a source is empty, or the task does not
                know a label.
        """
        source, lengths = self.read([example.source for example in examples], device)
        longest = max(len(example.labels) for example in examples)
        rows = [[self._id(label) for label in example.labels] for example in examples]
        labels = torch.tensor(
            [row + [NO_LABEL] * (longest - len(row)) for row in rows], device=device
        )
        return LabelBatch(source, lengths, labels)

    def loss(
        self, model: Callable[..., Any], batch: LabelBatch, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Return the summed cross-entropy of the labels, without padding.

        Args:
            model: called as model(source, lengths) -> (logits, weights), with logits
                (B, V) or (B, S, V).
            batch: from `collate`.
            label_smoothing: share of the label's probability that is spread over all
                labels.

        Returns:
            The sum of the losses in nats, and the number of labels in that sum.
        """
        logits, _ = model(batch.source, batch.lengths)
        total = F.cross_entropy(
            logits.flatten(0, -2),  # (B, V) or (B * S, V)
            batch.labels.flatten(),
            ignore_index=NO_LABEL,
            reduction="sum",
            label_smoothing=label_smoothing,
        )
        return total, (batch.labels != NO_LABEL).sum()

    @torch.no_grad()
    def predict(
        self,
        model: nn.Module,
        examples: Sequence[LabelledExample],
        batch_size: int = 256,
    ) -> list[tuple[str, ...]]:
        """Return the most probable label of each source, or of each position.

        The model is left in `eval()` mode.
        """
        model.eval()
        predictions: list[tuple[str, ...]] = []
        for batch in batches(
            self, examples, batch_size, next(model.parameters()).device
        ):
            best = (
                model(batch.source, batch.lengths)[0]
                .argmax(dim=-1)
                .view_as(batch.labels)
            )
            for row, right in zip(best.tolist(), batch.labels.tolist()):
                predictions.append(
                    tuple(self.labels[i] for i, j in zip(row, right) if j != NO_LABEL)
                )
        return predictions

    def score(
        self,
        model: nn.Module,
        examples: Sequence[LabelledExample],
        batch_size: int = 256,
    ) -> float:
        """Return the accuracy, the share of labels that are right."""
        return accuracy(
            self.predict(model, examples, batch_size),
            [example.labels for example in examples],
        )

    @torch.no_grad()
    def hit_rate(
        self,
        model: nn.Module,
        examples: Sequence[LabelledExample],
        batch_size: int = 256,
    ) -> float:
        """Return how often a classifier's largest weight is on a gold position.

        See `alignment_hit_rate`.
        """
        model.eval()
        weights: list[list[list[float]]] = []
        for batch in batches(
            self, examples, batch_size, next(model.parameters()).device
        ):
            weights += model(batch.source, batch.lengths)[1].tolist()
        return alignment_hit_rate(weights, [example.gold for example in examples])

    def view(self, example: LabelledExample) -> str:
        """Write an example on one line: source -> labels."""
        return f"{self.write(example.source)} -> {' '.join(example.labels)}"

    def _id(self, label: str) -> int:
        if label not in self.labels:
            raise ValueError(
                f"label {label!r} is not one of the {len(self.labels)} that the task"
                " knows"
            )
        return self.labels.index(label)


def accuracy(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> float:
    """Return the share of labels that are right, over all labels of all examples.

    Args:
        predictions: labels, per example.
        references: the right labels, in the same order.

    Returns:
        The share, in [0, 1].

    Raises:
        ValueError: predictions and references differ in number, or there are none.
    """
    flat, right = (
        [(label,) for labels in side for label in labels]
        for side in (predictions, references)
    )
    return exact_match(flat, right)


class ReadTokens:
    """The `read` of a task whose sources are sentences.

    Args:
        vocabulary: the vocabulary of the training sources.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.size = len(vocabulary)

    def __call__(
        self, sources: Sequence[Sequence[str]], device: torch.device | str = "cpu"
    ) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
        """Turn sentences into ids and lengths. See `source_batch`."""
        return source_batch(
            [self.vocabulary.encode(source) for source in sources],
            len(self.vocabulary),
            device,
        )
