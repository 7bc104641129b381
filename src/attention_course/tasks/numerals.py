"""Numerals: English number words to German or French ones.

Their parts stand in another order, or follow another count.

"thirty-four" is "vierunddreißig", four-and-thirty, and "ninety-nine" is
"quatre-vingt-dix-neuf", four-twenty-ten-nine. The words are real, from num2words; which
numbers are asked for is random.
"""

import random
import re
from collections.abc import Sequence
from functools import cache

from num2words import num2words

from attention_course.tasks.sequences import Example, SequenceTask, make_task

# A German numeral is one word; it is cut before and after these parts.
PIECES = {
    "en": r"\w+|-|,",
    "de": r"hundert|tausend|und|\w+?(?=hundert|tausend|und|$)",
    "fr": r"\w+|-",
}
LANGUAGES = ("de", "fr")

# What a piece says: "thousand", or "hundred" or a digit of one of the groups of three,
# counted from the right. What joins tens and units ("-", "und", "et") is a place of its
# own.
Place = tuple[str] | tuple[str, int]


def numerals(
    language: str = "de",
    digits: int = 6,
    train_size: int = 10_000,
    held_out_size: int = 500,
    seed: int = 0,
) -> SequenceTask:
    """Write random numbers in English words.

    The target is the same number in another language.

    Tokens are words, hyphens and commas; the German word is cut into its parts, which
    `"".join` makes one word again. Every digit is 0 with a chance of one third, so that
    short numbers and gaps are not rare. No number is in two splits, and all below 100,
    among them the irregular ones, are in the training examples.

    Args:
        language: of the target, "de" or "fr".
        digits: of the longest number, 3 to 6.
        train_size: examples to train on, at least 100.
        held_out_size: examples in each of validation and test.
        seed: of the numbers.

    Returns:
        The task. A piece came from the words that say the same digit: "onze" in
        "soixante et onze" from both of "seventy" and "one". "und", "et" or "-" between
        tens and units came from the hyphen; the English "and" became nothing.

    Raises:
        ValueError: another language or number of digits, too few training examples, or
            too many examples.
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
    return make_task(f"numerals {language}", splits, separator=" ")


def translate(number: int, language: str) -> Example:
    """Write a number below a million in English and in another language.

    Gold says which pieces of the two say the same.
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
    """Write a number, and note which places of it each piece says."""
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
    # French counts on from 60 and 80: the "onze" of 71 says a ten and a one.
    return (
        said
        if pieces[-1] == num2words(units, lang=language)
        else [*said[:-1], {"tens", "units"}]
    )


def _cut(number: int, language: str) -> tuple[str, ...]:
    return tuple(re.findall(PIECES[language], num2words(number, lang=language)))
