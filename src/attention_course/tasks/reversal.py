"""Reversal: say a random string backwards.

Nothing can be guessed, so every letter has to be remembered.
"""

import random
import string

from attention_course.tasks.sequences import Example, SequenceTask, make_task


def reversal(
    max_length: int = 20,
    train_size: int = 20_000,
    held_out_size: int = 1_000,
    seed: int = 0,
) -> SequenceTask:
    """Make random strings of letters, and their reversals.

    They have 1 to `max_length` letters, each length equally likely.

    No string is in two splits. The training examples are drawn first: of the shortest
    strings, 26 of one letter and 676 of two, all or most are among them.

    Args:
        max_length: letters in the longest string.
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: of the strings.

    Returns:
        The task; the target's token t came from the source's token S - 1 - t.

    Raises:
        ValueError: there are not that many different strings.
    """
    wanted = [train_size, held_out_size, held_out_size]
    if (available := sum(26**n for n in range(1, min(max_length, 6) + 1))) < 2 * sum(
        wanted
    ):
        raise ValueError(
            f"{sum(wanted)} different strings were asked for, of about {available} that"
            " there are"
        )
    rng = random.Random(seed)
    seen: set[str] = set()
    splits: list[list[Example]] = []
    for size in wanted:
        split: list[Example] = []
        while len(split) < size:
            text = "".join(
                rng.choices(string.ascii_lowercase, k=rng.randint(1, max_length))
            )
            if text not in seen:
                seen.add(text)
                split.append(_example(text))
        splits.append(split)
    return make_task("reversal", splits)


def _example(text: str) -> Example:
    gold = tuple(frozenset({s}) for s in reversed(range(len(text))))
    return Example(tuple(text), tuple(reversed(text)), gold)
