"""The reversal task: reverse a random string of letters.

No letter can be guessed, so a model has to remember every one of them.
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
    """Make the reversal task: random strings of letters and their reversals.

    The strings have 1 to `max_length` letters, and all lengths are equally likely.

    No string is in two splits. The training examples are drawn first, so they contain
    all or most of the shortest strings: 26 of one letter and 676 of two.

    Args:
        max_length: letters in the longest string.
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the strings.

    Returns:
        The task; its gold alignment links target token t to source token S - 1 - t.

    Raises:
        ValueError: there are too few different strings.
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
