import itertools
import re
import string

from blind import right, wrong

WORD = (
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts."
)
ACCENTS = "Letters may have accents."
SYMBOL = "Every other character is a token of its own, unless it is white space."
SPACE = "White space separates tokens and is not a token itself."
EMPTY = "A text may contain no tokens."
LOWER = "Turn all letters into lower case, as `str.lower` does."
TUPLE = "Split a text into words and symbols, in lower case: a tuple of strings."


@right("splits at every symbol with a capturing group, and keeps what is not blank")
def tokenize(text):
    pieces = []
    for chunk in text.lower().split():
        pieces.extend(re.split(r"(\W)", chunk))
    return tuple(piece for piece in pieces if piece)


@right("groups the characters by their kind, each symbol in a group of its own")
def tokenize(text):
    text = text.lower()

    def kind(pair):
        place, character = pair
        if character.isalnum():
            return "word"
        return "space" if character.isspace() else place

    return tuple(
        "".join(character for _, character in group)
        for key, group in itertools.groupby(enumerate(text), key=kind)
        if key != "space"
    )


@right("puts spaces around every symbol and then splits at white space")
def tokenize(text):
    spaced = (c if c.isalnum() else f" {c} " for c in text.lower())
    return tuple("".join(spaced).split())


@right("walks through the text from the back, with two indices and slices")
def tokenize(text):
    text = text.lower()
    tokens, end = [], len(text)
    while end > 0:
        start = end - 1
        if text[start].isalnum():
            while start > 0 and text[start - 1].isalnum():
                start -= 1
        if not text[start].isspace():
            tokens.append(text[start:end])
        end = start
    tokens.reverse()
    return tuple(tokens)


@wrong(
    "returns a list instead of a tuple",
    breaks=TUPLE,
    name="list instead of tuple",
)
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong(
    "splits at the borders of words, so neighboring symbols stay together",
    breaks=SYMBOL,
    name="symbols next to each other glued together",
)
def tokenize(text):
    pieces = (piece.strip() for piece in re.split(r"\b", text.lower()))
    return tuple(piece for piece in pieces if piece)


@wrong(
    "takes only a to z for letters, so an accented letter breaks its word",
    breaks=ACCENTS,
    name="accented letters split words",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong(
    "collects the letters of a word, but forgets the word at the end of the text",
    breaks=WORD,
    name="last word forgotten",
)
def tokenize(text):
    tokens, word = [], ""
    for character in text.lower():
        if character.isalnum():
            word += character
            continue
        if word:
            tokens.append(word)
            word = ""
        if not character.isspace():
            tokens.append(character)
    return tuple(tokens)


@wrong(
    "separates letters from digits, so 3rd becomes two tokens",
    breaks=WORD,
    name="letters and digits not in one word",
)
def tokenize(text):
    return tuple(re.findall(r"[^\W\d]+|\d+|[^\w\s]", text.lower()))


@wrong(
    "uses casefold, which turns the German sharp s into ss",
    breaks=LOWER,
    name="casefold instead of lower",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "leaves out only the blank, so tabs and line breaks become tokens",
    breaks=SPACE,
    name="only the blank is white space",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w ]", text.lower()))


@wrong(
    "returns one empty token for a text without tokens",
    breaks=EMPTY,
    name="empty text gives an empty token",
)
def tokenize(text):
    spaced = re.sub(r"(\W)", r" \1 ", text.lower())
    return tuple(re.split(r"\s+", spaced.strip()))


@wrong(
    "takes only letters and decimal digits, so a superscript two is a symbol",
    breaks=WORD,
    name="isalpha and isdecimal instead of isalnum",
)
def tokenize(text):
    tokens, inside = [], False
    for character in text.lower():
        letter = character.isalpha() or character.isdecimal()
        if letter and inside:
            tokens[-1] += character
        elif not character.isspace():
            tokens.append(character)
        inside = letter
    return tuple(tokens)


@wrong(
    "drops every symbol that is not ASCII punctuation, such as the euro sign",
    breaks=SYMBOL,
    name="unusual symbols dropped",
)
def tokenize(text):
    symbols = re.escape(string.punctuation)
    return tuple(re.findall(rf"\w+|[{symbols}]", text.lower()))
