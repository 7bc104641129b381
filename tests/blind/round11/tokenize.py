import re
from itertools import groupby
from string import ascii_lowercase, ascii_uppercase

from blind import right, wrong


@right("groupby over str.isalnum, no regular expression")
def tokenize(text):
    tokens = []
    for is_word, run in groupby(text.lower(), key=str.isalnum):
        if is_word:
            tokens.append("".join(run))
        else:
            tokens.extend(c for c in run if not c.isspace())
    return tuple(tokens)


@right("puts spaces around every symbol and splits at white space")
def tokenize(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split())


@right("characters one by one, with a buffer for the current word")
def tokenize(text):
    tokens, word = [], ""
    for c in text.lower() + " ":
        if c.isalnum():
            word += c
            continue
        if word:
            tokens.append(word)
            word = ""
        if not c.isspace():
            tokens.append(c)
    return tuple(tokens)


@right("re.split with a group keeps the separators; lower case only at the end")
def tokenize(text):
    pieces = re.split(r"(\W)", text)
    return tuple(piece.lower() for piece in pieces if piece and not piece.isspace())


@wrong(
    "splits only at white space, so symbols stick to words",
    'So "ninety-nine" has three tokens.',
    "symbols are not tokens of their own",
)
def tokenize(text):
    return tuple(text.lower().split())


@wrong(
    "finds only the words and loses every symbol",
    "Every other character is a token of its own, unless it is white space.",
    "symbols are dropped",
)
def tokenize(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong(
    "returns a list",
    "Split a text into words and symbols, in lower case: a tuple of strings.",
    "a list instead of a tuple",
)
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong(
    "several symbols in a row become one token",
    "Every other character is a token of its own, unless it is white space.",
    "runs of symbols are merged",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "letters and digits that stand side by side become separate words",
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts.",
    "words are split between letters and digits",
)
def tokenize(text):
    tokens = []
    for kind, run in groupby(text.lower(), key=lambda c: (c.isalpha(), c.isalnum())):
        if kind[1]:
            tokens.append("".join(run))
        else:
            tokens += [c for c in run if not c.isspace()]
    return tuple(tokens)


@wrong(
    "a text without tokens gives one empty token",
    "A text may contain no tokens.",
    "an empty token for an empty text",
)
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(re.split(r"\s+", spaced.strip()))


@wrong(
    "turns only A to Z into lower case, so accented capitals stay",
    "Turn all letters into lower case, as `str.lower` does.",
    "accented capitals stay upper case",
)
def tokenize(text):
    table = str.maketrans(ascii_uppercase, ascii_lowercase)
    return tuple(re.findall(r"\w+|[^\w\s]", text.translate(table)))


@wrong(
    "casefold turns sharp s into ss",
    "Turn all letters into lower case, as `str.lower` does.",
    "casefold instead of lower",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "isalpha or isdecimal: superscript digits and fractions, which isalnum accepts,"
    " become symbols",
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts.",
    "not all characters of str.isalnum belong to words",
)
def tokenize(text):
    tokens, inside = [], False
    for c in text.lower():
        letter = c.isalpha() or c.isdecimal()
        if letter and inside:
            tokens[-1] += c
        elif not c.isspace():
            tokens.append(c)
        inside = letter
    return tuple(tokens)


@wrong(
    "knows only the white space of ASCII: a no-break space, as before French"
    " punctuation, becomes a token",
    "White space separates tokens and is not a token itself.",
    "some white space becomes a token",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w \t\n\r\f\v]", text.lower()))
