import re
import string
import unicodedata

from blind import right, wrong


@right("one split with a captured sign, then the white space is thrown away")
def tokenize(text):
    pieces = re.split(r"(\W)", text.lower())
    return tuple(piece for piece in pieces if piece and not piece.isspace())


@right("no regular expression: a loop over the characters with str.isalnum")
def tokenize(text):
    tokens, word = [], ""
    for sign in text.lower() + " ":
        if sign.isalnum():
            word += sign
            continue
        if word:
            tokens.append(word)
            word = ""
        if not sign.isspace():
            tokens.append(sign)
    return tuple(tokens)


@right("puts blanks around every sign and splits at white space")
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(spaced.split())


@right("re.finditer with a compiled verbose pattern, a generator, lower case afterwards")
def tokenize(text, pattern=re.compile(r"(?P<word> \w+ ) | (?P<sign> \S )", re.VERBOSE)):
    def pieces():
        for match in pattern.finditer(text.lower()):
            yield match["word"] or match["sign"]

    return tuple(pieces())


@wrong(
    "splits only at white space: 'ninety-nine' stays one token",
    'any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens (no text contains an underscore);',
    "split only at white space",
)
def tokenize(text):
    return tuple(text.lower().split())


@wrong(
    "leaves capital letters as they are: 'Two' gives 'Two'",
    "upper and lower case make no difference: all letters become lower case, as `str.lower` makes them;",
    "no lower case",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "keeps only the words, all signs are lost: the hyphen of 'ninety-nine' is missing",
    'any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens (no text contains an underscore);',
    "signs are thrown away",
)
def tokenize(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong(
    "several signs in a row are one token: 'wait...' gives '...'",
    'any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens (no text contains an underscore);',
    "a run of signs becomes one token",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "lists the letters by hand and ends at Latin-1: 'œuf' or 'číslo' or Greek words fall apart",
    "a word is a run of letters and digits, and letters may have accents;",
    "only some letters with accents are known",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9à-öø-ÿß]+|\S", text.lower()))


@wrong(
    "an empty text, or one of white space only, gives ('',) and not ()",
    "white space separates tokens and is no token itself.",
    "empty text gives an empty token",
)
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(re.split(r"\s+", spaced.strip()))


@wrong(
    "knows only the signs of ASCII: '«deux»' or 'l’eau' stay in one piece",
    'any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens (no text contains an underscore);',
    "only ASCII punctuation is split off",
)
def tokenize(text):
    text = text.lower()
    for sign in string.punctuation:
        text = text.replace(sign, f" {sign} ")
    return tuple(text.split())


@wrong(
    "casefold is not lower: 'Straße' becomes 'strasse'",
    "upper and lower case make no difference: all letters become lower case, as `str.lower` makes them;",
    "casefold in place of lower",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "the list of tokens is a default argument: the second call also returns the tokens of the first",
    "inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "mutable default argument keeps earlier tokens",
)
def tokenize(text, tokens=[]):
    for match in re.finditer(r"\w+|[^\w\s]", text.lower()):
        tokens.append(match.group())
    return tuple(tokens)


@wrong(
    "a number with a comma or a point in it stays one token: '3,5' and '1.000'",
    'any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens (no text contains an underscore);',
    "decimal numbers are kept in one piece",
)
def tokenize(text):
    return tuple(re.findall(r"\d+(?:[.,]\d+)+|\w+|[^\w\s]", text.lower()))
