"""The numerals task: translate English number words to German or French ones.

The parts of a number come in a different order, or the languages count differently:
"thirty-four" is "vierunddreißig" (four-and-thirty), and "ninety-nine" is
"quatre-vingt-dix-neuf" (four-twenty-ten-nine). The words are real, from num2words; the
numbers are random.
"""

import random
import re
from collections.abc import Sequence
from functools import cache

from num2words import num2words

from attention_course.tasks.sequences import Example, SequenceTask, make_task

# A German numeral is one word, which is split before and after these parts.
PIECES = {
    "en": r"\w+|-|,",
    "de": r"hundert|tausend|und|\w+?(?=hundert|tausend|und|$)",
    "fr": r"\w+|-",
}
LANGUAGES = ("de", "fr")

# The place in a number that a piece stands for: "thousand", or "hundred" or a digit in
# one of the groups of three digits, counted from the right. The word or hyphen between
# tens and units ("-", "und", "et") is a place of its own.
Place = tuple[str] | tuple[str, int]


def numerals(
    language: str = "de",
    digits: int = 6,
    train_size: int = 10_000,
    held_out_size: int = 500,
    seed: int = 0,
) -> SequenceTask:
    """Make the numerals task: random numbers in English words and in another language.

    The target is the same number in the other language.

    Tokens are words, hyphens and commas. A German word is split into its parts, which
    `"".join` puts together again. Every digit is 0 with a probability of one third, so
    that short numbers and gaps are not rare. No number is in two splits, and all
    numbers below 100, including the irregular ones, are in the training examples.

    Args:
        language: the target language, "de" or "fr".
        digits: number of digits in the longest number, 3 to 6.
        train_size: examples to train on, at least 100.
        held_out_size: examples in each of validation and test.
        seed: random seed for the numbers.

    Returns:
        The task. Its gold alignment links a piece to the English words for the same
        digit: "onze" in "soixante et onze" to both "seventy" and "one". "und", "et" or
        "-" between tens and units is linked to the hyphen; the English "and" is linked
        to nothing.

    Raises:
        ValueError: the language or the number of digits is not available, there are too
            few training examples, or there are too many examples.
    """
    if language not in LANGUAGES:
        raise ValueError(
            f"numerals are translated to one of {', '.join(LANGUAGES)}, got"
            f" {language!r}"
        )
    if not 3 <= digits <= 6:
        raise ValueError(f"numerals have 3 to 6 digits, got {digits}")
    if train_size < 100:
        raise ValueError(
            "the numbers below 100 are trained on, so train_size is at least 100, got"
            f" {train_size}"
        )
    wanted = train_size + 2 * held_out_size
    if 2 * wanted > 10**digits:
        raise ValueError(
            f"{wanted} different numbers were asked for, of {10**digits}; at most half"
            " can be had"
        )
    rng = random.Random(seed)
    numbers = dict.fromkeys(range(100))  # a set that keeps its order
    while len(numbers) < wanted:
        numbers[
            sum(
                10**i * rng.randint(1, 9) * (rng.random() > 1 / 3)
                for i in range(digits)
            )
        ] = None
    examples = [translate(number, language) for number in numbers]
    ends = train_size, train_size + held_out_size
    splits = examples[: ends[0]], examples[ends[0] : ends[1]], examples[ends[1] :]
    return make_task(f"numerals-{language}", splits, separator=" ")


def translate(number: int, language: str) -> Example:
    """Write a number below a million in English and in another language.

    The gold alignment links pieces that stand for the same place in the number.
    """
    source, said = _pieces(number, "en")
    target, to_say = _pieces(number, language)
    gold = tuple(
        frozenset(s for s, place in enumerate(said) if place & places)
        for places in to_say
    )
    return Example(source, target, gold)


def _pieces(
    number: int, language: str
) -> tuple[tuple[str, ...], list[frozenset[Place]]]:
    """Write a number, and list the places in it that each piece stands for."""
    pieces = _cut(number, language)
    high, low = divmod(number, 1000)
    if not high:
        return pieces, _below_1000(pieces, low, language, group=0)
    thousand = next(
        i for i, piece in enumerate(pieces) if piece in ("thousand", "tausend", "mille")
    )
    places = _below_1000(pieces[:thousand], high, language, group=1) + [
        frozenset({("thousand",)})
    ]
    return pieces, places + _below_1000(pieces[thousand + 1 :], low, language, group=0)


def _below_1000(
    pieces: Sequence[str], number: int, language: str, group: int
) -> list[frozenset[Place]]:
    hundred = {
        i
        for i, piece in enumerate(pieces)
        if piece in ("hundred", "hundert", "cent", "cents")
    }
    rest = iter(_below_100(number % 100, language))
    said: list[set[str]] = []
    for i, piece in enumerate(pieces):
        if piece in (",", "and"):
            said.append(set())
        elif i in hundred:
            said.append({"hundred"})
        else:
            said.append({"hundreds"} if i + 1 in hundred else next(rest))
    return [frozenset((place, group) for place in places) for places in said]


@cache
def _below_100(number: int, language: str) -> list[set[str]]:
    pieces, units = _cut(number, language), number % 10
    if number < 20 or not units:
        return [{"tens" if number >= 20 else "units"}] * len(pieces)
    said = [{"tens"}] * (len(pieces) - 2) + [{"join"}, {"units"}]
    if language == "de":
        return said[::-1]
    # French counts on from 60 and 80: "onze" in 71 stands for a ten and a one.
    return (
        said
        if pieces[-1] == num2words(units, lang=language)
        else [*said[:-1], {"tens", "units"}]
    )


def _cut(number: int, language: str) -> tuple[str, ...]:
    return tuple(re.findall(PIECES[language], num2words(number, lang=language)))
