"""The dates task: convert dates written in several languages to ISO 8601.

"Wednesday 9 May 2018" becomes "2018-05-09".
"""

import random
from collections.abc import Sequence
from datetime import date, timedelta
from functools import cache

from babel import Locale, UnknownLocaleError
from babel.dates import DateTimeFormat, tokenize_pattern

from attention_course.tasks.sequences import Example, SequenceTask, make_task

LOCALES = ("en", "en_GB", "de", "fr", "es", "it", "nl", "pt", "sv")

# Two-digit years as in POSIX strptime: 69-99 are 1969-1999, 00-68 are 2000-2068. The
# task only has dates whose year can be written with two digits under this rule, so
# that a short form has one reading.
FIRST, LAST = date(1969, 1, 1), date(2068, 12, 31)

# For each character of the target, the source field that it comes from.
ISO_FIELDS = ("y", "y", "y", "y", None, "M", "M", None, "d", "d")


def dates(
    locales: Sequence[str] = LOCALES,
    train_size: int = 10_000,
    held_out_size: int = 500,
    seed: int = 0,
) -> SequenceTask:
    """Make the dates task: random dates in the CLDR formats of some locales.

    The target is the ISO form.

    Source and target are split into characters. No *date* is in two splits. Formats
    that any of the given locales, or of `LOCALES`, would read as a different date
    ("1/2/05") are left out.

    Args:
        locales: CLDR names, as Babel takes them.
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the dates and their formats.

    Returns:
        The task. Its gold alignment links the digits of the year, month or day to all
        source characters of that field.

    Raises:
        ValueError: there is no locale, Babel does not know a locale, or there are fewer
            dates than examples.
    """
    if not locales:
        raise ValueError("dates need at least one locale, got 0")
    days = (LAST - FIRST).days + 1
    sizes = (held_out_size, held_out_size, train_size)
    if sum(sizes) > days:
        raise ValueError(
            f"{sum(sizes)} examples were asked for, of {days} dates that there are"
        )
    forms = [
        (locale, pattern)
        for locale in locales
        for pattern in patterns(locale, (*LOCALES, *locales))
    ]
    rng = random.Random(seed)
    drawn = (
        FIRST + timedelta(days=offset) for offset in rng.sample(range(days), sum(sizes))
    )
    test, validation, train = (
        [write(next(drawn), *rng.choice(forms)) for _ in range(size)] for size in sizes
    )
    return make_task("dates", [train, validation, test])


def write(day: date, locale: str, pattern: str) -> Example:
    """Write a date in a CLDR pattern, and record which characters hold each field."""
    text, spans = "", {}
    for _, value in tokenize_pattern(pattern):
        if isinstance(value, str):
            text += value
        else:
            letter, width = value
            field = DateTimeFormat(day, locale)[letter * width]
            spans[letter] = frozenset(range(len(text), len(text) + len(field)))
            text += field
    gold = tuple(spans[letter] if letter else frozenset() for letter in ISO_FIELDS)
    return Example(tuple(text), tuple(day.isoformat()), gold)


@cache
def patterns(locale: str, others: tuple[str, ...] = LOCALES) -> tuple[str, ...]:
    """List a locale's CLDR date patterns that every locale reads in the same way.

    A pattern that spells out the month has one reading. A pattern of digits is left out
    if another one looks the same but has its fields in a different order: "9/5/2018" is
    in May in London and in September in New York.

    Args:
        locale: a CLDR name.
        others: the locales whose readings count.

    Returns:
        Patterns in CLDR's notation: "EEEE, MMMM d, y".

    Raises:
        ValueError: Babel does not know the locale.
    """
    orders: dict[str, set[str]] = {}
    for pattern in (p for known in {*others, locale} for p in _cldr_patterns(known)):
        shape, order = _shape_and_order(pattern)
        orders.setdefault(shape, set()).add(order)
    return tuple(
        p for p in _cldr_patterns(locale) if len(orders[_shape_and_order(p)[0]]) == 1
    )


@cache
def _cldr_patterns(locale: str) -> tuple[str, ...]:
    try:
        cldr = Locale.parse(locale)
    except (UnknownLocaleError, ValueError) as error:
        raise ValueError(
            f"locale {locale!r} is not known to CLDR; try one of {', '.join(LOCALES)}"
        ) from error
    named = [
        cldr.date_formats[width].pattern
        for width in ("full", "long", "medium", "short")
    ]
    skeletons = [
        str(cldr.datetime_skeletons[name]) for name in sorted(cldr.datetime_skeletons)
    ]
    return tuple(dict.fromkeys(p for p in named + skeletons if _is_a_date(p)))


def _is_a_date(pattern: str) -> bool:
    """Check for year, month and day, perhaps a weekday, each once, and nothing else."""
    letters = sorted(
        value[0] for _, value in tokenize_pattern(pattern) if not isinstance(value, str)
    )
    return letters in (["M", "d", "y"], ["E", "M", "d", "y"])


def _shape_and_order(pattern: str) -> tuple[str, str]:
    """Return what a date in this pattern looks like, and the order of its fields.

    For example, these are "##/##/####" and "Mdy". Weekdays are left out.
    """
    shape, order = "", ""
    for _, value in tokenize_pattern(pattern):
        if isinstance(value, str):
            shape += value if order else ""
            continue
        letter, width = value
        if letter == "M" and width > 2:
            shape += pattern  # a word: looks like no other pattern
        elif letter != "E":
            shape += "####" if (letter, width) == ("y", 1) else "##"
        order += letter if letter != "E" else ""
    return shape, order
