"""tokenize: a text is cut into words and signs."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attention_labs.lab01_preprocessing.strings import (
    ONCE,
    PLAIN,
    as_letters,
    as_texts,
    as_tokens,
    draw_words,
    same_tokens,
    sees,
)
from nbjudge import Finding, Mistake, Property, Question, Reply, Request, error_like


def tokenize(text: str) -> tuple[str, ...]:
    """Cut a text into words and signs, in small letters."""
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))


def _use_tokenize(cut: Callable[[str], Any], text: Tensor) -> Tensor | None:
    return as_tokens(cut(as_texts(text)[0]))


def _text(*parts: str) -> Request:
    return Request((as_letters(["".join(parts)]),))


def _in_words(g: torch.Generator) -> Iterator[Request]:
    for count in (3, 1, 5):
        yield _text(" ".join(draw_words(g, count)))
    a, b = draw_words(g, 2)
    yield _text(" ".join((a, "i", b, a)))


def _in_signs(g: torch.Generator) -> Iterator[Request]:
    a, b, c = draw_words(g, 3)
    yield _text(a, "-", b, " ", c)
    yield _text(a, ", ", b, "?!")
    yield _text("(", a, ") ", b, " - ", c, ".")
    yield _text(a, "--", b, "'", c)


def _in_all_letters(g: torch.Generator) -> Iterator[Request]:
    a, b, c = draw_words(g, 3)
    yield _text(a.upper(), " ", b.capitalize(), " ", c)
    yield _text(*draw_words(g, 1, "éèüñö"), a, " ", *draw_words(g, 1, "ÀÉÜÑ"))
    yield _text(a, " ", *draw_words(g, 1, "0123456789"), " ", b, "7")
    yield _text("  ", a, "  ", b, "\t", c, "\n")


def _cut_rightly(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    finding = same_tokens(request, reply, reference)
    if (
        finding is None
        or reply.error
        or len(reply.outputs) != 1
        or request.inputs[0] is None
    ):
        return finding
    cut, wanted = as_texts(reply.outputs[0]), len(as_texts(reference.outputs[0]))
    seen = f"{as_texts(request.inputs[0])[0]!r} cut into {' | '.join(cut)}"
    return Finding(seen, f"{wanted} tokens" if len(cut) != wanted else "other tokens")


def _no_signs(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token.isalnum()]


TOKENIZE = Question(
    name="tokenize",
    reference=tokenize,
    use=_use_tokenize,
    plain=True,
    properties=(
        Property("words, cut where a space stands", 1, _in_words, _cut_rightly),
        Property("signs are tokens of their own", 1, _in_signs, _cut_rightly),
        Property(
            "capital letters, accents, digits and any white space",
            1,
            _in_all_letters,
            _cut_rightly,
        ),
    ),
    mistakes=(
        Mistake(
            "a text cut into letters",
            "A tuple of a string holds its letters: here a whole word is a token.",
            made_by=lambda text: tuple(text.lower()),
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
            made_by=lambda text: tuple(text.lower().split()),
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
                    _no_signs(given) == _no_signs(wanted)
                    and len(given) < len(wanted)
                    and set(given) <= set(wanted)
                )
            ),
        ),
        Mistake(
            "capital letters kept",
            "'One' and 'one' are the same token: make all letters small.",
            sign=sees(
                lambda given, wanted: (
                    given != wanted and [token.lower() for token in given] == wanted
                )
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
