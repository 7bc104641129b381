# Load this file by its path: on sys.path, it would hide the tokenize of Python.
import re
import string
from itertools import groupby

from blind import right, wrong

WORD = (
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts."
)
ACCENTS = "Letters may have accents."
OTHER = "Every other character is a token of its own, unless it is white space."
SPACE = "White space separates tokens and is not a token itself."
NONE = "A text may contain no tokens."
LOWER = "Turn all letters into lower case, as `str.lower` does."
TUPLE = "Split a text into words and symbols, in lower case: a tuple of strings."

CAPITALS = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@right("groups neighbours by isalnum, then takes the symbols one by one")
def tokenize(text):
    tokens = []
    for is_word, run in groupby(text.lower(), str.isalnum):
        if is_word:
            tokens.append("".join(run))
        else:
            tokens.extend(c for c in run if not c.isspace())
    return tuple(tokens)


@right("puts spaces around every symbol and then splits at white space")
def tokenize(text):
    return tuple(
        "".join(c if c.isalnum() else f" {c} " for c in text.lower()).split()
    )


@right("splits at every non-word character, keeps the separators, drops the blank ones")
def tokenize(text):
    return tuple(piece for piece in re.split(r"(\W)", text.lower()) if piece.strip())


@right("walks backwards over the characters and builds the tokens from the end")
def tokenize(text):
    tokens, word = [], ""
    for c in reversed(" " + text.lower()):
        if c.isalnum():
            word = c + word
            continue
        if word:
            tokens.insert(0, word)
            word = ""
        if not c.isspace():
            tokens.insert(0, c)
    return tuple(tokens)


@wrong(
    "splits at white space only, so 'ninety-nine' is one token",
    breaks=OTHER,
    name="symbols stick to the words",
)
def tokenize(text):
    return tuple(text.lower().split())


@wrong(
    "does not turn capitals into lower case",
    breaks=LOWER,
    name="capitals are kept",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "takes a run of symbols as one token, so '...' is one",
    breaks=OTHER,
    name="neighbouring symbols are merged",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "knows only the letters from a to z, so 'zéro' falls into three",
    breaks=ACCENTS,
    name="an accented letter is taken for a symbol",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()))


@wrong(
    "uses casefold, which turns ß into ss",
    breaks=LOWER,
    name="casefold instead of lower",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "takes isalpha or isdigit for isalnum, so 'x½' falls into two",
    breaks=WORD,
    name="numeric characters that are no digits are taken for symbols",
)
def tokenize(text):
    tokens, word = [], ""
    for c in text.lower():
        if c.isalpha() or c.isdigit():
            word += c
        else:
            if word:
                tokens.append(word)
            word = ""
            if not c.isspace():
                tokens.append(c)
    if word:
        tokens.append(word)
    return tuple(tokens)


@wrong(
    "knows only blank, tab and newline, so a no-break space becomes a token",
    breaks=SPACE,
    name="unusual white space becomes a token",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w \t\r\n]", text.lower()))


@wrong(
    "keeps only the symbols of string.punctuation, so « and € get lost",
    breaks=OTHER,
    name="symbols outside ASCII are lost",
)
def tokenize(text):
    symbols = re.escape(string.punctuation)
    return tuple(re.findall(rf"\w+|[{symbols}]", text.lower()))


@wrong(
    "returns one empty token for a text without tokens",
    breaks=NONE,
    name="an empty text has one token",
)
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(re.split(r"\s+", spaced.strip()))


@wrong(
    "turns only the capitals from A to Z into lower case, so É stays",
    breaks=LOWER,
    name="accented capitals are kept",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.translate(CAPITALS)))
