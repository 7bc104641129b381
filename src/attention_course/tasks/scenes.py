"""The captions and focus tasks: images of handwritten digits among clutter.

`captions` asks for a description of an image ("a three above a seven"), and `focus` for
its only digit.

The digits are real: 8 x 8 pixels each, written by 43 people (Alpaydin and Kaynak, 1998;
the copy that ships with scikit-learn, 1,797 images). Their positions and their
surroundings are synthetic: each canvas has noise, and scraps of other digits that are
too small to read. No image of a digit is in two splits, not even as a scrap.

An encoder sees a canvas as a grid of cells, 4 x 4 pixels each, row by row. A digit
covers four cells, which are the gold positions of its word.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.tasks.core import Vocabulary
from attention_course.tasks.labels import LabelledExample, LabelTask
from attention_course.tasks.sequences import Example, SequenceTask

# side lengths in pixels: canvas, grid cell, digit and scrap
SIZE, CELL, DIGIT, SCRAP = 24, 4, 8, 4
SIDE = SIZE // CELL  # cells per side
GRID = SIDE * SIDE
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Handwriting(NamedTuple):
    """Images of handwritten digits and their values.

    Attributes:
        images: (N, DIGIT, DIGIT), brightness from 0 to 1.
        values: (N,), the digit in each image.
    """

    images: Tensor
    values: Tensor


@dataclass(frozen=True)
class CaptionTask(SequenceTask):
    """A task that describes images in words; its `source_vocabulary` is not used."""

    @property
    def source_size(self) -> int:
        """Return how many cells an image's grid has."""
        return GRID

    def read(
        self, sources: Sequence[Any], device: torch.device | str = "cpu"
    ) -> tuple[Float[Tensor, "B 1 size size"], Int[Tensor, " B"]]:
        """Stack images. See `ReadImages`."""
        return ReadImages()(sources, device)

    def view(self, example: Any) -> str:
        """Format an example on one line: the image's size -> its caption."""
        return f"{_write(example.source)} -> {' '.join(example.target)}"


def captions(
    train_size: int = 20_000, held_out_size: int = 500, seed: int = 0
) -> CaptionTask:
    """Make the captions task: two digits, one above or to the left of the other.

    An example of a caption is "a three above a seven".

    Args:
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the split of the digits, and for all scenes.

    Returns:
        The task; the gold positions of a word that names a digit are the digit's cells.
    """
    rng = random.Random(seed)
    sizes = (train_size, held_out_size, held_out_size)
    train, validation, test = (
        [pair(rng, pool) for _ in range(size)] for size, pool in zip(sizes, _pools(rng))
    )
    words = Vocabulary(word for scene in train for word in scene.target)
    return CaptionTask(
        "captions", train, validation, test, Vocabulary(()), words, separator=" "
    )


def focus(
    train_size: int = 6_000, held_out_size: int = 500, seed: int = 0
) -> LabelTask:
    """Make the focus task: classify the only digit on a canvas.

    The arguments are those of `captions`; the gold positions are the digit's cells.
    """
    rng = random.Random(seed)
    sizes = (train_size, held_out_size, held_out_size)
    train, validation, test = (
        [single(rng, pool) for _ in range(size)]
        for size, pool in zip(sizes, _pools(rng))
    )
    return LabelTask("focus", train, validation, test, WORDS, ReadImages(), _write)


def pair(rng: random.Random, pool: Handwriting) -> Example:
    """Draw a scene of two digits; the caption names the upper or the left one first.

    The two share columns if one is above the other, and rows if one is to the left, so
    only one caption is true.
    """
    near = rng.randrange(0, SIZE - 2 * DIGIT + 1, CELL)
    far = rng.randrange(near + DIGIT, SIZE - DIGIT + 1, CELL)
    across = anywhere(rng), anywhere(rng)
    while abs(across[0] - across[1]) >= DIGIT:
        across = anywhere(rng), anywhere(rng)
    above = rng.random() < 0.5
    corners = list(zip((near, far), across) if above else zip(across, (near, far)))
    image, values = compose(rng, pool, corners)
    relation = ("above",) if above else ("left", "of")
    first, second = (cells(*corner) for corner in corners)
    nothing: frozenset[int] = frozenset()
    target = ("a", WORDS[values[0]], *relation, "a", WORDS[values[1]])
    return Example(
        image, target, (nothing, first, *[nothing] * len(relation), nothing, second)
    )


def single(rng: random.Random, pool: Handwriting) -> LabelledExample:
    """Draw a scene of one digit."""
    corner = anywhere(rng), anywhere(rng)
    image, values = compose(rng, pool, [corner])
    return LabelledExample(image, (WORDS[values[0]],), (cells(*corner),))


def anywhere(rng: random.Random) -> int:
    """Draw the first row, or column, of a digit.

    It is also the first row of a cell, so that a network has only one view of each
    digit to learn.
    """
    return rng.randrange(0, SIZE - DIGIT + 1, CELL)


def compose(
    rng: random.Random, pool: Handwriting, corners: Sequence[tuple[int, int]]
) -> tuple[Float[Tensor, "1 size size"], list[int]]:
    """Compose a canvas: scraps, a random digit at each place over them, and noise.

    Args:
        rng: draws everything.
        pool: the images that digits and scraps come from.
        corners: row and column of each digit's upper left pixel.

    Returns:
        The canvas, and the values of the digits.
    """
    canvas = torch.zeros(SIZE, SIZE)
    for _ in range(6):
        row, column = rng.randint(0, SIZE - SCRAP), rng.randint(0, SIZE - SCRAP)
        top, left = rng.randint(0, DIGIT - SCRAP), rng.randint(0, DIGIT - SCRAP)
        image = pool.images[rng.randrange(len(pool.images))]
        canvas[row : row + SCRAP, column : column + SCRAP] = image[
            top : top + SCRAP, left : left + SCRAP
        ]
    values = []
    for row, column in corners:
        i = rng.randrange(len(pool.images))
        canvas[row : row + DIGIT, column : column + DIGIT] = pool.images[i]
        values.append(int(pool.values[i]))
    noise = torch.randn(
        canvas.shape, generator=torch.Generator().manual_seed(rng.getrandbits(32))
    )
    return (canvas + 0.1 * noise)[None], values


def cells(row: int, column: int) -> frozenset[int]:
    """List the four cells of a digit.

    Args:
        row: row of the digit's upper left pixel, a multiple of CELL.
        column: column of the digit's upper left pixel, a multiple of CELL.

    Returns:
        The numbers of the cells, which are counted row by row.
    """
    first = SIDE * (row // CELL) + column // CELL
    return frozenset({first, first + 1, first + SIDE, first + SIDE + 1})


def _pools(rng: random.Random) -> Iterator[Handwriting]:
    """Split the digits into training, validation and test: 4/6, 1/6 and 1/6."""
    everything = _handwriting()
    order = list(range(len(everything.values)))
    rng.shuffle(order)
    sixth = len(order) // 6
    for part in (order[2 * sixth :], order[:sixth], order[sixth : 2 * sixth]):
        yield Handwriting(everything.images[part], everything.values[part])


@cache
def _handwriting() -> Handwriting:
    from sklearn.datasets import load_digits  # the import takes a second

    digits = load_digits()
    return Handwriting(
        torch.tensor(digits.images / 16, dtype=torch.float32),
        torch.tensor(digits.target),
    )


class ReadImages:
    """The `read` of a task whose sources are images: stack images, count cells."""

    size = GRID

    def __call__(
        self,
        sources: Sequence[Float[Tensor, "1 size size"]],
        device: torch.device | str = "cpu",
    ) -> tuple[Float[Tensor, "B 1 size size"], Int[Tensor, " B"]]:
        """Stack images, and count their cells.

        Args:
            sources: one image per example.
            device: device of the images and the counts.

        Returns:
            The images, and the number of cells of each, which is the same for all.

        Raises:
            ValueError: there are no images, or one has the wrong size.
        """
        if not sources:
            raise ValueError("a batch needs at least one example, got 0")
        for i, source in enumerate(sources):
            if source.shape != (1, SIZE, SIZE):
                raise ValueError(
                    f"the image of example {i} has shape {tuple(source.shape)},"
                    f" expected {(1, SIZE, SIZE)}"
                )
        cells = torch.full((len(sources),), GRID, device=device)
        return torch.stack(list(sources)).to(device), cells


def _write(source: Tensor) -> str:
    return f"{source.size(1)} x {source.size(2)} pixels"
