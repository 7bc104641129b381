"""tokenize: a text is cut into words and signs."""

import re

import torch

from attention_labs.lab01_preprocessing.shared import (
    ONCE,
    PLAIN,
    as_letters,
    draw_words,
    same_tokens,
    sees,
)
from nbjudge import Mistake, Property, Question, Request, edit, error_like


def tokenize(text: str) -> tuple[str, ...]:
    """Cut a text into words and signs, in small letters."""
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))


FOUND = r're.findall(r"\w+|[^\w\s]", text.lower())'


def _texts(*texts: str) -> list[Request]:
    return [Request((text,)) for text in texts]


def _in_words(g: torch.Generator) -> list[Request]:
    lists = [draw_words(g, count) for count in (3, 1, 5)]
    a, b = draw_words(g, 2)
    return _texts(*map(" ".join, lists), f"{a} i {b} {a}")


def _in_signs(g: torch.Generator) -> list[Request]:
    a, b, c = draw_words(g, 3)
    return _texts(f"{a}-{b} {c}", f"{a}, {b}?!", f"({a}) {b} - {c}.", f"{a}--{b}'{c}")


def _in_all_letters(g: torch.Generator) -> list[Request]:
    a, b, c = draw_words(g, 3)
    small, large, digits = (
        draw_words(g, 1, letters)[0] for letters in ("éèüñö", "ÀÉÜÑ", "0123456789")
    )
    return _texts(
        f"{a.upper()} {b.capitalize()} {c}",
        f"{small}{a} {large}",
        f"{a} {digits} {b}7",
        f"  {a}  {b}\t{c}\n",
    )


TOKENIZE = Question(
    name="tokenize",
    reference=tokenize,
    use=lambda cut, text: as_letters(cut(text)),
    properties=(
        Property("words, cut where a space stands", 1, _in_words, same_tokens),
        Property("signs are tokens of their own", 1, _in_signs, same_tokens),
        Property(
            "capital letters, accents, digits and any white space",
            1,
            _in_all_letters,
            same_tokens,
        ),
    ),
    mistakes=(
        Mistake(
            "a text cut into letters",
            "A tuple of a string holds its letters: here a whole word is a token.",
            made_by=edit(tokenize, FOUND, "text.lower()"),
            sign=sees(
                lambda given, wanted: (
                    len(given) > len(wanted) and all(len(token) == 1 for token in given)
                )
            ),
        ),
        Mistake(
            "signs stay at the words",
            "Splitting at white space leaves 'ninety-nine,' in one piece: signs are"
            " tokens of their own.",
            made_by=edit(tokenize, FOUND, "text.lower().split()"),
            sign=sees(
                lambda given, wanted: any(
                    not token.isalnum() and any(map(str.isalnum, token))
                    for token in given
                )
            ),
        ),
        Mistake(
            "signs thrown away",
            "A hyphen or a comma is a token, too, and so is every other sign that is no"
            " white space.",
            sign=sees(
                lambda given, wanted: (
                    [*filter(str.isalnum, given)] == [*filter(str.isalnum, wanted)]
                    and len(given) < len(wanted)
                    and set(given) <= set(wanted)
                )
            ),
        ),
        Mistake(
            "capital letters kept",
            "'One' and 'one' are the same token: make all letters small.",
            sign=sees(
                lambda given, wanted: given != wanted == [*map(str.lower, given)]
            ),
        ),
        Mistake(
            "letters with accents torn off",
            "[a-z] are the letters of English only; \\w and str.isalpha know those of"
            " all languages.",
            sign=sees(
                lambda given, wanted: (
                    any(not c.isascii() for c in "".join(wanted))
                    and [c for c in "".join(given).lower() if c.isascii()]
                    == [c for c in "".join(wanted) if c.isascii()]
                )
            ),
        ),
        Mistake(
            "digits are no part of a word",
            "A run of letters and digits is one token.",
            sign=sees(lambda given, wanted: any(c.isdigit() for c in "".join(wanted))),
        ),
        Mistake(
            "white space among the tokens",
            "White space separates and is no token, however much there is; nor is the"
            " nothing between two spaces.",
            sign=sees(lambda given, wanted: any(not token.strip() for token in given)),
        ),
        Mistake(
            "words lost or out of order",
            "The tokens stand in the order of the text, a token that occurs twice is"
            " there twice, and a word may have one letter.",
            sign=sees(
                lambda given, wanted: given != wanted and set(given) <= set(wanted)
            ),
        ),
        ONCE,
        Mistake(
            "no tuple of strings",
            "What comes back is a tuple with a string for each token.",
            sign=error_like("a token is a string|a string was returned|not iterable"),
        ),
        *PLAIN,
        Mistake(
            "signs run together",
            "Each sign is a token by itself: '?!' are two.",
            sign=sees(
                lambda given, wanted: (
                    given != wanted and "".join(given) == "".join(wanted)
                )
            ),
        ),
    ),
)
