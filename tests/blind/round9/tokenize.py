import re
import string
import unicodedata

from blind import right, wrong


@right("walks over the characters and collects letters and digits in a buffer")
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
    if word:
        tokens.append(word)
    return tuple(tokens)


@right("splits at every non-word character, keeps the separators, drops the blank pieces")
def tokenize(text):
    pieces = re.split(r"(\W)", text.lower())
    return tuple(piece for piece in pieces if piece.strip())


@right("puts spaces around every symbol and lets str.split do the rest")
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(spaced.split())


@right("finditer with a compiled verbose pattern as a default argument")
def tokenize(
    text,
    pattern=re.compile(
        r"""
        [^\W_]+     # a run of letters and digits
        | \S        # or any single thing that is not white space
        """,
        re.VERBOSE,
    ),
):
    return (*(found.group() for found in pattern.finditer(text.lower())),)


@wrong(
    "splits at white space only, so 'ninety-nine' is one token",
    'Every other character is a token of its own, unless it is white space.',
    "symbols stay glued to the words",
)
def tokenize(text):
    return tuple(text.lower().split())


@wrong(
    "finds words only: hyphens and commas are lost",
    'Every other character is a token of its own, unless it is white space.',
    "symbols are thrown away",
)
def tokenize(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong(
    "keeps capitals: 'Two' stays 'Two'",
    "Turn all letters into lower case, as `str.lower` does.",
    "forgot to turn the text into lower case",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "a run of symbols becomes one token: 'wait...' or '?!'",
    'Every other character is a token of its own, unless it is white space.',
    "a plus too many: runs of symbols stay together",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "lists the accented letters of Latin-1 only: 'cœur' and Greek or Polish words fall apart",
    "A word is a run of letters and digits. Letters may have accents.",
    "the list of letters is incomplete",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9à-öø-ÿ]+|[^a-z0-9à-öø-ÿ\s]", text.lower()))


@wrong(
    "knows only blank, tab and newline as white space: a no-break space or a carriage"
    " return becomes a token",
    "White space separates tokens and is not a token itself.",
    "not every white space is treated as white space",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w \t\n]", text.lower()))


@wrong(
    "a text without any token gives one empty token ('',)",
    "A text may contain no tokens.",
    "an empty text gives an empty string as token",
)
def tokenize(text):
    text = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(re.split(r"\s+", text.strip()))


@wrong(
    "casefold is more than lower: 'Straße' becomes 'strasse'",
    "Turn all letters into lower case, as `str.lower` does.",
    "casefold instead of lower",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "only symbols of string.punctuation are separated: guillemets, typographic"
    " apostrophes, ellipsis and euro signs stick to the words",
    'Every other character is a token of its own, unless it is white space.',
    "only ASCII punctuation is split off",
)
def tokenize(text):
    table = {ord(symbol): f" {symbol} " for symbol in string.punctuation}
    return tuple(text.lower().translate(table).split())


@wrong(
    "lowers one character after the other, so a capital sigma at the end of a word becomes"
    " 'σ', where str.lower of the text gives 'ς'",
    "Turn all letters into lower case, as `str.lower` does.",
    "lower case per character, without its neighbours",
)
def tokenize(text):
    tokens, in_word = [], False
    for character in text:
        if character.isalnum():
            if in_word:
                tokens[-1] += character.lower()
            else:
                tokens.append(character.lower())
        elif not character.isspace():
            tokens.append(character)
        in_word = character.isalnum()
    return tuple(tokens)
