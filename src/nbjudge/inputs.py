"""Random inputs for requests: lengths of axes, tensors, masks and parameters.

The numbers are too small to saturate anything, nothing is symmetric, and every axis has
a different length.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Axis:
    """An axis of the inputs, or another number that they depend on.

    Attributes:
        words: what the length counts: "queries".
        least: the smallest length that the lab allows.
        most: the largest length that is drawn ordinarily; the smallest is 3, so that a
            mask can forbid something and still leave a choice.
        long: a length far beyond `most` that an answer has to handle, too; 0 for none.
        fixed: whether an object is constructed with this length and keeps it.
    """

    words: str
    least: int = 1
    most: int = 10
    long: int = 0
    fixed: bool = False


class Draw(torch.Generator):
    """Random numbers and the lengths of axes: `draw.T` is the length of axis T.

    Attributes:
        leading: the lengths of the leading axes, where there may be any number of them.
        whole: whether tensors hold small whole numbers, for examples in the feedback.
    """

    def __new__(cls, *args: object, **kwargs: object) -> "Draw":  # noqa: D102
        return super().__new__(cls)

    def __init__(
        self,
        seed: int,
        sizes: Mapping[str, int] | None = None,
        leading: tuple[int, ...] = (),
        whole: bool = False,
    ):
        super().__init__()
        self.manual_seed(seed)
        self.sizes, self.leading, self.whole = dict(sizes or {}), leading, whole

    def __getattr__(self, axis: str) -> int:
        try:
            return int(self.__dict__["sizes"][axis])
        except KeyError:
            raise AttributeError(f"there is no axis {axis!r}") from None

    def number(self, least: int, most: int) -> int:
        """Draw a whole number from least to most, both included."""
        return int(torch.randint(least, most + 1, (), generator=self))

    def one_of(self, choices: Iterable[Any]) -> Any:
        """Draw one of several choices."""
        listed = list(choices)
        return listed[self.number(0, len(listed) - 1)]


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw from the standard normal distribution, in double precision.

    For examples in the feedback, draw whole numbers from -3 to 3 instead.
    """
    if getattr(generator, "whole", False):
        return torch.randint(-3, 4, shape, generator=generator).double()
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def some_allowed(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw a random mask.

    Every row allows at least two positions, so that there is something to choose, and
    forbids at least one. A row of length two allows one position, and a row of length
    one allows its only position.
    """
    last = shape[-1] - 1
    order = torch.rand(*shape, generator=generator).argsort(dim=-1)
    coin = torch.rand(*shape, generator=generator) < 0.5
    return (order < min(2, max(last, 1))) | ((order < last) & coin)


def parameters(
    generator: torch.Generator, make: Callable[[], nn.Module]
) -> dict[str, Tensor]:
    """Draw parameters for a module, small enough that nothing saturates."""
    with torch.device("meta"):
        shapes = {
            name: parameter.shape for name, parameter in make().named_parameters()
        }
    whole = getattr(generator, "whole", False)
    return {
        name: normal(generator, *shape) / (1 if whole else max(shape[-1], 2) ** 0.5)
        for name, shape in shapes.items()
    }
