"""What all tasks share: the `Task` protocol, `Vocabulary`, batching and padding.

Masks over padding are in `attention_course.masks`.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")

# Maps an example to its length: one number, or one number per sequence in it.
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
    """The interface of a task for the command line, training and evaluation.

    Each task chooses the types of its examples, batches and model.

    Attributes:
        name: the task's name in tables.
        metric: the name of what `score` measures, such as "exact match".
        train: examples to train on.
        validation: examples for choosing a model.
        test: examples for the reported scores.
        source_size: the input size of a model's encoder: tokens in the vocabulary,
            numbers in a frame, or cells in an image's grid.
        target_size: number of tokens or labels that a model chooses from.
        length: maps an example to the number of tokens in each of its sequences, one
            number or several; examples of similar length then share a batch. None: any
            examples may share a batch.
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
        """Turn sources into the inputs of an encoder: a source tensor and lengths."""

    def collate(
        self, examples: Sequence[Any], device: torch.device | str = "cpu"
    ) -> Any:
        """Combine examples into a padded batch.

        Lengths, ids and empty examples are checked here.
        """

    def loss(
        self, model: Any, batch: Any, label_smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""] | int]:
        """Return the summed loss in nats, and the number of predictions in the sum.

        Padding is left out.
        """

    def score(
        self, model: Any, examples: Sequence[Any], batch_size: int = 256
    ) -> float:
        """Return the metric on the examples; higher is better.

        The model is left in `eval()` mode.
        """

    def view(self, example: Any) -> str:
        """Format an example for display, on one line."""


def batches(
    task: Task,
    examples: Sequence[Any],
    batch_size: int,
    device: torch.device | str = "cpu",
) -> Iterator[Any]:
    """Yield all examples once, in order, in batches of at most `batch_size`."""
    for i in range(0, len(examples), batch_size):
        yield task.collate(examples[i : i + batch_size], device)


def shuffled_forever(
    examples: Sequence[Any],
    batch_size: int,
    seed: int,
    length: Length | None = None,
) -> Iterator[list[Any]]:
    """Yield batches of examples forever, shuffled anew at every pass.

    Args:
        examples: what to draw from; not changed.
        batch_size: examples per batch; the last batch of a pass may be smaller.
        seed: random seed for the order.
        length: maps an example to its length, one number or several; examples of
            similar length then share a batch, which leaves little padding. None: any
            examples may share a batch.

    Returns:
        An infinite iterator over lists of examples, for `Task.collate`.

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
        # Sort pools of 50 batches rather than all examples, so that each pass differs
        # from the one before it.
        pools = (sorted(pool, key=length) for pool in _cut(order, 50 * batch_size))
        grouped = [batch for pool in pools for batch in _cut(pool, batch_size)]
        rng.shuffle(grouped)
        yield from grouped


def padded_share(
    drawn: Iterable[Sequence[Any]], length: Callable[[Any], Sequence[int]]
) -> float:
    """Return the share of padding in batches, over all sequences of the examples."""
    tokens = places = 0
    for examples in drawn:
        for counts in zip(*map(length, examples)):
            tokens += sum(counts)
            places += len(counts) * max(counts)
    return 1 - tokens / places


def _cut(examples: list[Any], size: int) -> Iterator[list[Any]]:
    return (examples[i : i + size] for i in range(0, len(examples), size))


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B T"]:
    """Pad rows of ids with PAD to the length of the longest row."""
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


def source_batch(
    rows: Sequence[Sequence[int]], vocab_size: int, device: torch.device | str = "cpu"
) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    """Pad the token ids of sources, and count the tokens in each.

    Every `encode(source, lengths)` takes these two tensors.

    Args:
        rows: token ids, one row per source.
        vocab_size: V, number of tokens in the vocabulary.
        device: device of the ids and lengths.

    Returns:
        The ids, padded to the longest source, and the number of tokens in each.

    Raises:
        ValueError: there are no sources, or `check_source` refuses them.
    """
    if not rows:
        raise ValueError("a batch needs at least one example, got 0")
    source, lengths = pad(rows), torch.tensor([len(row) for row in rows])
    check_source(source, lengths, vocab_size)
    return source.to(device), lengths.to(device)


def check_source(
    source: Int[Tensor, "B S"], lengths: Int[Tensor, " N"], vocab_size: int
) -> None:
    """Raise an error for ids or lengths that no model can read.

    Models check only shapes, so the code that makes a batch calls this function once.

    Args:
        source: token ids, padded.
        lengths: number of tokens in each source.
        vocab_size: V, number of tokens in the vocabulary.

    Raises:
        ValueError: there is not one length per source, a source is empty or longer than
            its row, or an id is outside the vocabulary.
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
