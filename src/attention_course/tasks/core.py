"""What all tasks share: examples, vocabularies, batches and the loss."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


class Example(NamedTuple):
    """One source, its target, and where each target token came from.

    Attributes:
        source: tokens.
        target: tokens.
        gold: for each target token the source positions that it came from; empty where it came from none.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: tuple[frozenset[int], ...]


class Vocabulary:
    """Tokens and their ids; the first four ids are PAD, BOS, EOS and UNK.

    Args:
        tokens: the tokens that get an id, in any order, repeated or not.
    """

    def __init__(self, tokens: Iterable[str]):
        self.tokens = (*SPECIALS, *sorted(set(tokens) - set(SPECIALS)))
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Map tokens to ids; a token that is not in the vocabulary becomes UNK."""
        return [self._ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Map ids to tokens, up to the first EOS and without PAD and BOS."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


class Batch(NamedTuple):
    """Examples as padded tensors.

    Attributes:
        source: (B, S), token ids.
        lengths: (B,), tokens in each source, on the CPU.
        target_in: (B, T), BOS and the target: what the decoder is given.
        target_out: (B, T), the target and EOS: what it should say.
    """

    source: Int[Tensor, "B S"]
    lengths: Int[Tensor, " B"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]


@dataclass(frozen=True)
class Task:
    """Sequences in, sequences out.

    Attributes:
        name: how the task is called in tables.
        train: examples to train on.
        validation: examples to choose a model by.
        test: examples to report on.
        source_vocabulary: of the training sources.
        target_vocabulary: of the training targets.
    """

    name: str
    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def collate(self, examples: Sequence[Example], device: torch.device | str = "cpu") -> Batch:
        """Pad examples to a batch.

        Args:
            examples: at least one, none with an empty source.
            device: where the token ids go.

        Returns:
            The batch; sources and targets are padded to the longest in it.

        Raises:
            ValueError: no examples, or one whose source is empty.
        """
        if not examples:
            raise ValueError("a batch needs at least one example, got 0")
        for i, example in enumerate(examples):
            if not example.source:
                raise ValueError(f"the source of example {i} has 0 tokens; attention needs at least 1")
        sources = [self.source_vocabulary.encode(example.source) for example in examples]
        targets = [self.target_vocabulary.encode(example.target) for example in examples]
        return Batch(
            source=_pad(sources).to(device),
            lengths=torch.tensor([len(source) for source in sources]),
            target_in=_pad([[BOS, *target] for target in targets]).to(device),
            target_out=_pad([[*target, EOS] for target in targets]).to(device),
        )

    def batches(
        self, examples: Sequence[Example], batch_size: int, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """Go through examples once, in order, at most `batch_size` at a time."""
        for i in range(0, len(examples), batch_size):
            yield self.collate(examples[i : i + batch_size], device)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Float[Tensor, ""], int]:
        """Compare what the model says with what it should say; padding does not count.

        Args:
            model: called as model(source, lengths, target_in) -> (logits, weights).
            batch: from `collate`.

        Returns:
            The sum of the losses in nats, and the number of tokens in that sum.
        """
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum")
        return total, int((batch.target_out != PAD).sum())


def make_task(name: str, splits: Sequence[Sequence[Example]]) -> Task:
    """Assemble a task from its training, validation and test examples; vocabularies come from the training ones."""
    train, validation, test = splits
    source_vocabulary = Vocabulary(token for example in train for token in example.source)
    target_vocabulary = Vocabulary(token for example in train for token in example.target)
    return Task(name, train, validation, test, source_vocabulary, target_vocabulary)


def shuffled_forever(task: Task, batch_size: int, seed: int, device: torch.device | str = "cpu") -> Iterator[Batch]:
    """Draw training batches without end, in a new order at every pass.

    Args:
        task: its training examples are used.
        batch_size: examples per batch; the last batch of a pass may be smaller.
        seed: of the order.
        device: where the token ids go.

    Returns:
        An endless iterator.

    Raises:
        ValueError: the task has no training examples.
    """
    if not task.train:
        raise ValueError("training needs at least one example, got 0")
    order, rng = list(task.train), random.Random(seed)
    while True:
        rng.shuffle(order)
        yield from task.batches(order, batch_size, device)


def _pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B T"]:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])
