import itertools
import re
import string
import unicodedata

import torch
from torch import nn
from blind import right, wrong

ISALNUM = "A word is a run of letters and digits, which are the characters that Python's `str.isalnum` accepts."
ACCENTS = "Letters may have accents."
OTHER = "Every other character is a token of its own, unless it is white space."
WHITE = "White space separates tokens and is not a token itself."
NONE = "A text may contain no tokens."
LOWER = "Turn all letters into lower case, as `str.lower` does."
TUPLE = "Split a text into words and symbols, in lower case: a tuple of strings."


@right('a loop over characters that keeps the current word')
def tokenize(text):
    tokens, word = [], ""
    for ch in text.lower() + " ":
        if ch.isalnum():
            word += ch
            continue
        if word:
            tokens.append(word)
            word = ""
        if not ch.isspace():
            tokens.append(ch)
    return tuple(tokens)


@right('puts spaces around every symbol and then splits at white space')
def tokenize(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split())


@right('groups neighbouring characters: words by one key, every other character by its own position')
def tokenize(text):
    def key(pair):
        i, ch = pair
        return -1 if ch.isalnum() else i

    groups = itertools.groupby(enumerate(text.lower()), key)
    pieces = ("".join(ch for _, ch in group) for _, group in groups)
    return tuple(piece for piece in pieces if not piece.isspace())


@right('a translation table made from the characters of this very text')
def tokenize(text):
    text = text.lower()
    symbols = {ch for ch in text if not ch.isalnum()} - {" "}
    table = {ord(ch): " " if ch.isspace() else f" {ch} " for ch in symbols}
    return tuple(text.translate(table).split())


@wrong(
    "lists only a to z and 0 to 9 as letters, so 'école' becomes 'é', 'cole'",
    breaks=ACCENTS,
    name='ASCII letters only',
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong(
    "a run of symbols becomes one token: '...' or '?!'",
    breaks=OTHER,
    name='symbols glued together',
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    'keeps a word with an apostrophe in one piece: "l\'eau"',
    breaks=OTHER,
    name='apostrophe kept inside a word',
)
def tokenize(text):
    return tuple(re.findall(r"\w+(?:['’]\w+)*|[^\w\s]", text.lower()))


@wrong(
    'returns a list',
    breaks=TUPLE,
    name='list instead of tuple',
)
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong(
    "lowers only A to Z, so 'École' keeps its capital É",
    breaks=LOWER,
    name='capitals with accents stay',
)
def tokenize(text):
    small = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
    return tuple(re.findall(r"\w+|[^\w\s]", text.translate(small)))


@wrong(
    "casefold turns 'Straße' into 'strasse'",
    breaks=LOWER,
    name='casefold instead of lower',
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "knows only the white space of ASCII: the no-break space of French ('oui\\u00a0!') becomes a token",
    breaks=WHITE,
    name='no-break space is a token',
)
def tokenize(text):
    tokens = re.findall(r"\w+|\W", text.lower())
    return tuple(t for t in tokens if t not in string.whitespace)


@wrong(
    "letters and digits are two kinds of words, so 'a4' or '2nd' is split",
    breaks=ISALNUM,
    name='digits split from letters',
)
def tokenize(text):
    return tuple(re.findall(r"[^\W\d]+|\d+|[^\w\s]", text.lower()))


@wrong(
    "normalizes the text with NFKC first: 'x²' becomes 'x2' and '½' becomes three tokens",
    breaks=ISALNUM,
    name='text rewritten by NFKC',
)
def tokenize(text):
    text = unicodedata.normalize("NFKC", text).lower()
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    'a text without tokens gives one empty token',
    breaks=NONE,
    name='an empty token',
)
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower()).strip()
    return tuple(re.split(r"\s+", spaced))
