"""Question `tokenize`: split a text into words and symbols, in lower case."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

from attention_labs.lab01_preprocessing.shared import (
    some_of,
)
from nbjudge import (
    ONCE,
    PLAIN,
    PLAIN_SIGNS,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    another_kind,
    as_letters,
    each_of,
    edit,
    error_like,
    same_kind,
    same_tokens,
    sees,
    with_kind,
)

SMALL, LARGE = "abcdefghijkmnopqrstuvwxyz", "ÀÉÜÑŒČŽŁÅΑΒΓΔЖШЯ"
ABROAD = "éèüñößçœčžřłåøαβγδжшя中"
SIGNS = "-,.!?()[]{}<>'\"&%*/\\|^~`:;+=@#$€«»“”‘’…–—−×÷°☃😀"
BLANKS = (
    *(" ", "   ", "\t", "\n", "\r\n", "\v", "\f", " \n\t "),
    *("\u00a0", "\u2003", "\u202f", "\u3000"),
)
# Of other languages: what is part of a word, and what is not. A sigma depends on what
# follows it, and some capitals become two characters.
LETTERS = [
    c
    for c in map(chr, range(0x80, 0x3000))
    if c.isalnum() and c.lower().isalnum() and len(c.lower()) == 1 and c != "Σ"
]
SYMBOLS = [
    c
    for c in map(chr, range(0x80, 0x3000))
    if unicodedata.category(c)[0] in "PS" and c == c.lower()
]
# What is often kept in one piece, and has several tokens here.
PIECES = (
    "... -- -> <= != == // :: :-) -7 +3 $5 #1 @me e.g. U.S.A. 1,000.5 50% 1/2 7:30"
    " it's don't l'eau o'clock rock'n'roll <pad> <unk> </s> [sep] ##ing"
    " https://a.bc/d?e=f&g f@gh.ij 'tis dogs' C++ .5 3. (a) \\n &amp;"
)


def tokenize(text: str) -> tuple[str, ...]:
    """Split a text into words and signs, in lower case."""
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))


FOUND = r're.findall(r"\w+|[^\w\s]", text.lower())'


def _spelled(d: Draw, count: int, letters: str = SMALL) -> list[str]:
    """Draw words of two to seven letters."""
    return ["".join(some_of(d, letters, d.number(2, 7))) for _ in range(count)]


def _texts(*texts: str) -> list[Request]:
    return [Request((text,), about=f"the text {text!r:.100}") for text in texts]


def _in_signs(d: Draw) -> list[Request]:
    a, b, c = _spelled(d, 3)
    s, t, u = some_of(d, SIGNS, 3)
    return _texts(
        f"{a}-{b} {c}",
        f"{a}, {b}?!",
        f"{a}{s} {b}{t}{u}",
        f"({a}) {b} {s} {c}.",
        f"{a}{s}{s}{b}{t}{c}",
        f"{a}{SIGNS}{b}",
        f"{a} {' '.join(SIGNS)} {b}",
        " ".join(f"{a}{sign}{b}" for sign in SIGNS),
        " ".join(f"{sign}{a} {b}{sign} {sign * 3}" for sign in SIGNS),
        " ".join(f"{a[0]}{sign}{b[0]}{sign}" for sign in SIGNS),
        "".join(f"{a}{sign}" for sign in some_of(d, SYMBOLS, 30)),
        PIECES,
    )


def _rare(d: Draw) -> list[Request]:
    a, b, c = _spelled(d, 3)
    small, large, digits = (
        _spelled(d, 1, letters)[0] for letters in (ABROAD, LARGE, "0123456789٣")
    )
    return _texts(
        f"{a.upper()} {b.capitalize()} {c}",
        f"{small}{a} {b} {small}",
        f"{a} {large} {b}{large}",
        f"{ABROAD} {LARGE}",
        " ".join([a, *_spelled(d, 9, "".join(LETTERS))]),
        f"{a * 99} {b}",
        # by itself, an accent is no letter; nor is what joins or colours others
        f"{a}e\u0301{b} {a}\u00ad{b} ❤\ufe0f 👍\U0001f3fd 🇫🇷",
        f"ΟΔΟΣ {a} ΣΟΦΟΣ",  # a sigma is another letter at the end of a word
        f"{a} {digits} {b}{digits} {digits}{c}{digits[0]}",
        " ".join(f"{digits}{sign}{digits} {sign}{digits}{sign}" for sign in SIGNS),
        f"{a}² ½{b} {c}③",  # no decimal digits, but str.isalnum accepts them
        *(f"{a}{blank}{b}" for blank in BLANKS),
        f"  {a}  {b}\t{c}\n",
        f"\n{a}-{a} {a[0]} {a}",
        *BLANKS,
        *SIGNS,
        f"{SIGNS[0]} {a[0]}",
    )


def _use_tokenize(cut: Callable[[str], Any], text: str) -> Any:
    tokens = cut(text)
    return None if tokens is None else with_kind(as_letters(tokens), tokens)


BATTERY = Battery(
    PLAIN,
    lambda d: _texts(" ".join(_spelled(d, d.W))),
    {"W": Axis("words", least=0, long=1200)},
    leaves_out={"unchanged": "a string cannot be changed"},
)


QUESTION = Question(
    name="tokenize",
    reference=tokenize,
    use=_use_tokenize,
    battery=BATTERY,
    requirements={
        "words": "A word is a run of letters and digits, which are the characters that"
        " Python's `str.isalnum` accepts. Letters may have accents.",
        "signs": "Every other character is a token of its own, unless it is white"
        ' space. So "ninety-nine" has three tokens. (No text contains an underscore.)',
        "case": "Turn all letters into lower case, as `str.lower` does. It makes one"
        " letter of every capital here.",
        "space": "White space separates tokens and is not a token itself. A text may"
        " contain no tokens.",
        "returns": "Split a text into words and symbols, in lower case: a tuple of"
        " strings.",
    },
    properties=(
        BATTERY.numbers(
            "words, separated by spaces",
            1,
            same_tokens,
            checks=("words", "space"),
            gradients=False,
        ),
        BATTERY.line(
            "symbols are tokens of their own",
            1,
            _in_signs,
            same_tokens,
            checks=("signs",),
        ),
        BATTERY.edges(
            1,
            each_of(same_tokens, same_kind),
            checks=("words", "signs", "case", "space", "returns"),
            claim="edges: capital letters, accents, digits, all kinds of white space;"
            " one word, none, many; the result is a tuple; repeated calls",
            also=_rare,
        ),
    ),
    mistakes=(
        Mistake(
            "the text is split into characters",
            "tuple(text) holds the single characters of a text. Here a whole word is a"
            " token.",
            made_by=edit(tokenize, FOUND, "text.lower()"),
            sign=sees(
                lambda given, wanted: (
                    len(given) > len(wanted) and all(len(token) == 1 for token in given)
                )
            ),
        ),
        Mistake(
            "symbols stay attached to words",
            "Splitting at white space leaves 'ninety-nine,' in one piece, but symbols"
            " are tokens of their own.",
            made_by=edit(tokenize, FOUND, "text.lower().split()"),
            sign=sees(
                lambda given, wanted: any(
                    not token.isalnum() and any(map(str.isalnum, token))
                    for token in given
                )
            ),
        ),
        Mistake(
            "symbols thrown away",
            "A hyphen or a comma is a token, too, and so is every other character"
            " that is neither part of a word nor white space.",
            sign=sees(
                lambda given, wanted: (
                    [*filter(str.isalnum, given)] == [*filter(str.isalnum, wanted)]
                    and len(given) < len(wanted)
                    and set(given) <= set(wanted)
                )
            ),
        ),
        Mistake(
            "capital letters are kept",
            "'One' and 'one' are the same token: turn all letters into lower case.",
            made_by=edit(tokenize, ".lower()", ""),
            sign=sees(
                lambda given, wanted: given != wanted == [*map(str.lower, given)]
            ),
        ),
        Mistake(
            "letters are replaced by others",
            "str.casefold turns 'ß', which is a lower-case letter already, into 'ss'."
            " str.lower leaves it as it is.",
            made_by=edit(tokenize, ".lower()", ".casefold()"),
        ),
        Mistake(
            "words with non-ASCII letters are wrong",
            r"[a-z] matches only the letters of English. \w and str.isalpha accept the"
            " letters of all languages, with and without accents.",
            made_by=edit(tokenize, r"\w+|[^\w\s]", r"[a-z0-9]+|[^a-z0-9\s]"),
            sign=sees(
                lambda given, wanted: (
                    any(c.isalpha() and not c.isascii() for c in "".join(wanted))
                    and not {t for t in wanted if t[0].isalpha()} <= {*given}
                    and [c for c in "".join(given) if c.isascii()]
                    == [c for c in "".join(wanted) if c.isascii()]
                )
            ),
        ),
        Mistake(
            "digits are split off from words",
            "A run of letters and digits is one token.",
            made_by=(
                edit(tokenize, r"\w+", r"\d+|[^\W\d]+"),
                edit(tokenize, r"\w+|[^\w\s]", r"[^\W\d_]+|\S"),
            ),
        ),
        Mistake(
            "white space or empty strings among the tokens",
            "White space separates tokens and is not a token itself, however much of"
            " it there is. The empty string between two spaces is not a token either.",
            made_by=edit(tokenize, r"[^\w\s]", r"[^\w ]"),
            sign=sees(lambda given, wanted: any(not token.strip() for token in given)),
        ),
        Mistake(
            "tokens are missing, repeated or out of order",
            "The tokens keep the order of the text. A token that occurs twice appears"
            " twice, and a word may have a single letter.",
            sign=sees(
                lambda given, wanted: given != wanted and set(given) <= set(wanted)
            ),
        ),
        ONCE,
        Mistake(
            "the result is not a tuple of strings",
            "Your function has to return a tuple with a string for each token.",
            sign=error_like("a token is a string|a string was returned|not iterable"),
        ),
        another_kind(
            "a type other than a tuple",
            "A tuple and a list are never equal, so answers would not match: tuple(...)"
            " makes a tuple of a list.",
        ),
        *PLAIN_SIGNS,
        Mistake(
            "symbols run together",
            "Each symbol is a token by itself: '?!' is two tokens.",
            made_by=edit(tokenize, r"[^\w\s]", r"[^\w\s]+"),
            sign=sees(
                lambda given, wanted: (
                    given != wanted and "".join(given) == "".join(wanted)
                )
            ),
        ),
    ),
)
