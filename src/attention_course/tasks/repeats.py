"""Repeats: strings of random letters that begin again and again.

What comes next can be read off the string itself, and off nothing else.
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
    """Draw strings, each with a period of its own, and repeat their beginnings.

    Args:
        size: B, strings to draw.
        length: T, letters in a string.
        periods: the shortest and the longest period, in letters; all from the one to
            the other are equally likely.
        num_letters: letters to draw from, each equally likely.
        all_different: within one period no letter occurs twice.
        generator: what draws; None: torch's own.

    Returns:
        Letters as ids from 0, where letter t is letter t - p of a string of period p;
        and the periods.

    Raises:
        ValueError: the periods do not ascend from 1, or all letters of a period should
            be different and there are fewer letters.
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
