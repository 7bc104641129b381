"""What all tasks share: the protocol `Task`, `Vocabulary`, batches and padding."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")

# Of an example: one number, or one for each of its sequences.
Length = Callable[[Any], Any]


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


@runtime_checkable
class Task(Protocol):
    """What the command line, training and evaluation ask of a task.

    Its examples, its batches and its kind of model are its own affair.

    Attributes:
        name: how the task is called in tables.
        metric: what `score` measures ("exact match").
        train: examples to train on.
        validation: examples to choose a model by.
        test: examples to report on.
        source_size: what a model's encoder is built for: tokens in the vocabulary,
            numbers in a frame, or cells in an image's grid.
        target_size: tokens or labels that a model chooses from.
        length: example -> how many tokens its sequences have, one number or several;
            examples of like length then share a batch. None: any examples may.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def metric(self) -> str: ...  # noqa: D102
    @property
    def train(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def validation(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def test(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def source_size(self) -> int: ...  # noqa: D102
    @property
    def target_size(self) -> int: ...  # noqa: D102
    @property
    def length(self) -> Length | None: ...  # noqa: D102

    def read(
        self, sources: Sequence[Any], device: torch.device | str = "cpu"
    ) -> tuple[Tensor, Tensor]:
        """Turn sources into what an encoder takes: a source tensor and lengths."""

    def collate(
        self, examples: Sequence[Any], device: torch.device | str = "cpu"
    ) -> Any:
        """Pad examples to a batch.

        This is where lengths, ids and empty examples are checked.
        """

    def loss(
        self, model: Any, batch: Any, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""] | int]:
        """Return the sum of the losses in nats, and how many predictions it is of.

        Padding is not in it.
        """

    def score(
        self, model: Any, examples: Sequence[Any], batch_size: int = 256
    ) -> float:
        """Return the metric on examples; higher is better.

        The model is left in `eval()` mode.
        """

    def view(self, example: Any) -> str:
        """Write an example for people, on one line."""


def batches(
    task: Task,
    examples: Sequence[Any],
    batch_size: int,
    device: torch.device | str = "cpu",
) -> Iterator[Any]:
    """Go through examples once, in order, at most `batch_size` at a time."""
    for i in range(0, len(examples), batch_size):
        yield task.collate(examples[i : i + batch_size], device)


def shuffled_forever(
    examples: Sequence[Any],
    batch_size: int,
    seed: int,
    length: Length | None = None,
) -> Iterator[list[Any]]:
    """Draw batches of examples without end, in a new order at every pass.

    Args:
        examples: what to draw from; left as they are.
        batch_size: examples per batch; the last batch of a pass may be smaller.
        seed: of the order.
        length: of an example, one number or several; those of like length then share a
            batch, which leaves little to pad. None: any may.

    Returns:
        An endless iterator over lists of examples, for `Task.collate`.

    Raises:
        ValueError: there are no examples.
    """
    if not examples:
        raise ValueError("training needs at least one example, got 0")
    order, rng = list(examples), random.Random(seed)
    while True:
        rng.shuffle(order)
        if length is None:
            yield from _cut(order, batch_size)
            continue
        # Sorted are pools of 50 batches, not all examples, so that a pass differs from
        # the one before it.
        pools = (sorted(pool, key=length) for pool in _cut(order, 50 * batch_size))
        grouped = [batch for pool in pools for batch in _cut(pool, batch_size)]
        rng.shuffle(grouped)
        yield from grouped


def padded_share(
    drawn: Iterable[Sequence[Any]], length: Callable[[Any], Sequence[int]]
) -> float:
    """Return which share of batches is padding, over all sequences of an example."""
    tokens = places = 0
    for examples in drawn:
        for counts in zip(*map(length, examples)):
            tokens += sum(counts)
            places += len(counts) * max(counts)
    return 1 - tokens / places


def _cut(examples: list[Any], size: int) -> Iterator[list[Any]]:
    return (examples[i : i + size] for i in range(0, len(examples), size))


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B T"]:
    """Fill rows of ids up with PAD to the longest of them."""
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


def source_batch(
    rows: Sequence[Sequence[int]], vocab_size: int, device: torch.device | str = "cpu"
) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    """Pad the ids of sources, and count them.

    That is what every `encode(source, lengths)` takes.

    Args:
        rows: token ids, a row per source.
        vocab_size: V, tokens in the vocabulary.
        device: where ids and lengths go.

    Returns:
        The ids, padded to the longest source, and the number of tokens in each.

    Raises:
        ValueError: there are no sources, or what `check_source` raises.
    """
    if not rows:
        raise ValueError("a batch needs at least one example, got 0")
    source, lengths = pad(rows), torch.tensor([len(row) for row in rows])
    check_source(source, lengths, vocab_size)
    return source.to(device), lengths.to(device)


def check_source(
    source: Int[Tensor, "B S"], lengths: Int[Tensor, " N"], vocab_size: int
) -> None:
    """Refuse values that no model can read.

    Models look at shapes only; whoever makes a batch calls this, once.

    Args:
        source: token ids, padded.
        lengths: tokens in each source.
        vocab_size: V, tokens in the vocabulary.

    Raises:
        ValueError: not one length per source, a source that is empty or longer than its
            row, or an id beyond the vocabulary.
    """
    if len(lengths) != len(source):
        raise ValueError(f"{len(lengths)} lengths for {len(source)} sources")
    for i, length in enumerate(lengths.tolist()):
        if length < 1:
            raise ValueError(
                f"the source of example {i} has {length} tokens; attention needs at"
                " least 1"
            )
        if length > source.size(1):
            raise ValueError(
                f"the source of example {i} has {length} tokens, but its row in the"
                f" batch {source.size(1)}"
            )
    for extreme in (int(source.min()), int(source.max())):
        if not 0 <= extreme < vocab_size:
            raise ValueError(
                f"token id {extreme} is not in a vocabulary of {vocab_size} tokens, 0"
                f" to {vocab_size - 1}"
            )
