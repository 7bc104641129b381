"""Sequence-to-sequence tasks: examples with gold alignments, batches, exact match.

Tasks that assign labels are in `labels`; greedy decoding and beam search are in
`attention_course.decoding`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_course.decoding import beam_search, greedy
from attention_course.metrics import exact_match
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import (
    BOS,
    EOS,
    PAD,
    Length,
    Vocabulary,
    pad,
    source_batch,
)


class Example(NamedTuple):
    """A source, its target, and the gold alignment: where each target token came from.

    Attributes:
        source: tokens, or whatever else the task's `read` takes.
        target: tokens.
        gold: for each target token, the source positions that it came from; empty if
            there are none.
    """

    source: Any
    target: tuple[str, ...]
    gold: tuple[frozenset[int], ...]


class Prediction(NamedTuple):
    """A model's answer for one source.

    Attributes:
        tokens: the tokens of the target.
        score: log-probability of the tokens, in nats; with beam search, it is divided
            by the length penalty.
    """

    tokens: tuple[str, ...]
    score: float


class Batch(NamedTuple):
    """A batch of examples, as padded tensors.

    Attributes:
        source: (B, S), token ids; or images (B, C, height, width).
        lengths: (B,), number of tokens in each source (for images, of slots in the
            memory).
        target_in: (B, T), BOS and the target (shifted right): the decoder's input.
        target_out: (B, T), the target and EOS: the tokens to predict.
    """

    source: Shaped[Tensor, "B ..."]
    lengths: Int[Tensor, " B"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]


@dataclass(frozen=True)
class SequenceTask:
    """A task that turns sequences into sequences.

    A subclass whose sources are not tokens overrides `read` and `source_size`; one
    whose targets may be longer than those in training overrides `max_length`.

    Attributes:
        name: the task's name in tables.
        train: examples to train on.
        validation: examples for choosing a model.
        test: examples for the reported scores.
        source_vocabulary: vocabulary of the training sources.
        target_vocabulary: vocabulary of the training targets.
        separator: text between two tokens in the display of an example.
        metric: what `score` measures.
        longest: number of tokens in the longest target, if it is not among the
            examples.
    """

    name: str
    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    separator: str = ""
    metric: str = "exact match"
    longest: int = 0

    @property
    def source_size(self) -> int:
        """Return the number of tokens in the source vocabulary."""
        return len(self.source_vocabulary)

    @property
    def target_size(self) -> int:
        """Return the number of tokens in the target vocabulary."""
        return len(self.target_vocabulary)

    @property
    def length(self) -> Length | None:
        """Return None: examples of any length may share a batch."""
        return None

    def collate(
        self, examples: Sequence[Example], device: torch.device | str = "cpu"
    ) -> Batch:
        """Combine examples into a padded batch.

        Args:
            examples: at least one, none with an empty source.
            device: device of the ids and lengths.

        Returns:
            The batch; sources and targets are padded to the longest ones in it.

        Raises:
            ValueError: there are no examples, or a source is empty.
        """
        source, lengths = self.read([example.source for example in examples], device)
        targets = [
            self.target_vocabulary.encode(example.target) for example in examples
        ]
        return Batch(
            source=source,
            lengths=lengths,
            target_in=pad([[BOS, *target] for target in targets]).to(device),
            target_out=pad([[*target, EOS] for target in targets]).to(device),
        )

    def read(
        self, sources: Sequence[Any], device: torch.device | str = "cpu"
    ) -> tuple[Shaped[Tensor, "B ..."], Int[Tensor, " B"]]:
        """Turn sources into the inputs of the encoder: ids and lengths.

        See `source_batch`.

        Raises:
            TypeError: a text was given in place of a list of sources.
            ValueError: there are no sources, or one is empty.
        """
        if isinstance(sources, str):
            raise TypeError(
                "a list of sources is read, each a sequence of tokens; for a text, take"
                " [task.example(text).source]"
            )
        rows = [self.source_vocabulary.encode(source) for source in sources]
        return source_batch(rows, len(self.source_vocabulary), device)

    def loss(
        self, model: nn.Module, batch: Batch, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Return the summed cross-entropy of the target tokens, without padding.

        Args:
            model: called as model(source, lengths, target_in) -> (logits, weights).
            batch: from `collate`.
            label_smoothing: share of the target's probability that is spread over the
                whole vocabulary.

        Returns:
            The sum of the losses in nats, and the number of tokens in that sum.
        """
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        total = F.cross_entropy(
            logits.flatten(0, 1),  # (B * T, V)
            batch.target_out.flatten(),
            ignore_index=PAD,
            reduction="sum",
            label_smoothing=label_smoothing,
        )
        return total, (batch.target_out != PAD).sum()

    def predict(
        self,
        model: EncoderDecoder,
        examples: Sequence[Example],
        batch_size: int = 256,
        beam_size: int = 1,
        length_penalty: float = 0.0,
    ) -> list[tuple[str, ...]]:
        """Decode examples; the model is left in `eval()` mode.

        Args:
            model: the model that decodes.
            examples: their sources are decoded; sources of similar length share a
                batch.
            batch_size: examples per batch.
            beam_size: hypotheses kept per example; 1 is greedy decoding.
            length_penalty: see `gnmt_length_penalty`.

        Returns:
            The tokens of each prediction, in the order of the examples.
        """
        decoded = self.decode(model, examples, batch_size, beam_size, length_penalty)
        return [prediction.tokens for prediction in decoded]

    @torch.no_grad()
    def decode(
        self,
        model: EncoderDecoder,
        examples: Sequence[Example],
        batch_size: int = 256,
        beam_size: int = 1,
        length_penalty: float = 0.0,
    ) -> list[Prediction]:
        """Decode examples as `predict` does, and return log-probabilities as well.

        Returns:
            The predictions, in the order of the examples.
        """
        model.eval()
        device = next(model.parameters()).device
        order = sorted(range(len(examples)), key=lambda i: len(examples[i].source))
        predictions = [Prediction((), 0.0)] * len(examples)
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            rows = [examples[i] for i in places]
            batch = self.collate(rows, device)
            given = model, batch.source, batch.lengths, BOS, EOS, self.max_length(rows)
            decoded = (
                greedy(*given)
                if beam_size == 1
                else beam_search(*given, beam_size, length_penalty)
            )
            for i, ids, score in zip(
                places, decoded.tokens.tolist(), decoded.scores.tolist()
            ):
                tokens = self.target_vocabulary.decode(ids)
                predictions[i] = Prediction(tokens, score)
        return predictions

    def max_length(self, examples: Sequence[Example]) -> int:
        """Return the maximum number of tokens to decode, including EOS.

        It is the number of tokens in the longest target, in training or in `examples`.
        """
        targets = [
            len(example.target) for split in (examples, self.train) for example in split
        ]
        return 1 + max(self.longest, *targets)

    def score(
        self, model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256
    ) -> float:
        """Return the exact match: the share of targets decoded right in every token.

        Decoding is greedy.
        """
        return exact_match(
            self.predict(model, examples, batch_size),
            [example.target for example in examples],
        )

    def example(self, source: str, target: str = "") -> Example:
        """Split texts into tokens; the example has no gold positions."""
        given, wanted = (
            tuple(
                filter(None, map(str.strip, text.split(self.separator.strip() or None)))
            )
            if self.separator
            else tuple(text)
            for text in (source, target)
        )
        return Example(given, wanted, (frozenset(),) * len(wanted))

    def text(self, tokens: Sequence[str]) -> str:
        """Join tokens into text for display."""
        return self.separator.join(tokens)

    def view(self, example: Example) -> str:
        """Write an example on one line: source -> target."""
        return f"{self.text(example.source)} -> {self.text(example.target)}"


def make_task(
    name: str, splits: Sequence[Sequence[Example]], separator: str = ""
) -> SequenceTask:
    """Assemble a task from its training, validation and test examples.

    The vocabularies come from the training examples.
    """
    train, validation, test = splits
    source_vocabulary = Vocabulary(
        token for example in train for token in example.source
    )
    target_vocabulary = Vocabulary(
        token for example in train for token in example.target
    )
    return SequenceTask(
        name, train, validation, test, source_vocabulary, target_vocabulary, separator
    )
