"""Random strings of letters that repeat with a period, to study induction heads.

The next letter can be predicted from the string itself, and from nothing else.
"""

import torch
from jaxtyping import Int
from torch import Tensor


def repeated_strings(
    size: int,
    length: int,
    periods: tuple[int, int],
    num_letters: int = 26,
    all_different: bool = False,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]:
    """Draw random strings, each of which repeats with a period of its own.

    Args:
        size: B, number of strings.
        length: T, number of letters in a string.
        periods: the shortest and the longest period, in letters; all periods in this
            range are equally likely.
        num_letters: number of different letters to draw from, all equally likely.
        all_different: whether no letter may occur twice within a period.
        generator: the random number generator; None: torch's default.

    Returns:
        The letters as ids from 0, and the period p of each string, in which letter t
        equals letter t - p.

    Raises:
        ValueError: the periods are below 1 or not in ascending order, or
            `all_different` is set and the longest period exceeds `num_letters`.
    """
    shortest, longest = periods
    if not 1 <= shortest <= longest:
        raise ValueError(f"periods ascend from 1, got {shortest} to {longest} letters")
    if all_different and longest > num_letters:
        raise ValueError(
            f"a period of {longest} different letters cannot be drawn from"
            f" {num_letters}"
        )
    period = torch.randint(shortest, longest + 1, (size, 1), generator=generator)
    if all_different:
        letters = torch.rand(size, num_letters, generator=generator).argsort(dim=-1)
    else:
        letters = torch.randint(num_letters, (size, longest), generator=generator)
    return letters.gather(1, torch.arange(length) % period), period[:, 0]
