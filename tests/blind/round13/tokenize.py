import re
import string
from itertools import groupby

from blind import right, wrong


@right("walks along the text with two indices")
def tokenize(text):
    text = text.lower()
    tokens, start = [], 0
    while start < len(text):
        end = start + 1
        if text[start].isalnum():
            while end < len(text) and text[end].isalnum():
                end += 1
        if not text[start].isspace():
            tokens.append(text[start:end])
        start = end
    return tuple(tokens)


@right("itertools.groupby by the kind of character, no pattern at all")
def tokenize(text):
    def kind(character):
        if character.isalnum():
            return "word"
        return "space" if character.isspace() else "symbol"

    tokens = []
    for name, run in groupby(text.lower(), key=kind):
        if name == "word":
            tokens.append("".join(run))
        elif name == "symbol":
            tokens.extend(run)
    return tuple(tokens)


@right("puts spaces around symbols and calls split without an argument")
def tokenize(text):
    spaced = "".join(
        character if character.isalnum() else f" {character} "
        for character in text.lower()
    )
    return tuple(spaced.split())


@right("finditer, with \\S for what is left after the words")
def tokenize(text):
    pattern = re.compile(r"[^\W_]+|\S")
    return (*(match.group() for match in pattern.finditer(text.lower())),)


@wrong(
    "returns the list of re.findall",
    "Split a text into words and symbols, in lower case: a tuple of strings.",
    "a list instead of a tuple",
)
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong(
    "finds the words only, so hyphens and commas are lost",
    "Every other character is a token of its own, unless it is white space.",
    "symbols dropped",
)
def tokenize(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong(
    "collects a word in a buffer and forgets the buffer at the end of the text",
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts.",
    "last word lost",
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
    "knows only the letters a to z, so 'zéro' becomes three tokens",
    "Letters may have accents.",
    "accented letters split words",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong(
    "makes one token of a run of symbols, as in '?!' or '...'",
    "Every other character is a token of its own, unless it is white space.",
    "several symbols in one token",
    subtle=True,
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "knows only the white space of ASCII; the no-break space of 'quoi\\u00a0?' becomes"
    " a token",
    "White space separates tokens and is not a token itself.",
    "only ASCII white space skipped",
    subtle=True,
)
def tokenize(text):
    tokens, word = [], ""
    for character in text.lower():
        if character.isalnum():
            word += character
        else:
            if word:
                tokens.append(word)
            word = ""
            if character not in string.whitespace:
                tokens.append(character)
    if word:
        tokens.append(word)
    return tuple(tokens)


@wrong(
    "splits first and lowers each token; 'İzmir' stays one token, but its lower case"
    " has a combining dot, which is no letter",
    "Turn the text into lower case before you split it, as `str.lower` does.",
    "lower case after the split",
    subtle=True,
)
def tokenize(text):
    return tuple(token.lower() for token in re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "casefold instead of lower: 'Straße' becomes 'strasse'",
    "Turn the text into lower case before you split it, as `str.lower` does.",
    "casefold is not lower",
    subtle=True,
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "takes isalpha or isdecimal for isalnum; 'm²' and '1½' are split",
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts.",
    "isalnum built from too narrow parts",
    subtle=True,
)
def tokenize(text):
    tokens, in_word = [], False
    for character in text.lower():
        is_word = character.isalpha() or character.isdecimal()
        if is_word and in_word:
            tokens[-1] += character
        elif not character.isspace():
            tokens.append(character)
        in_word = is_word
    return tuple(tokens)


@wrong(
    "splits at white space with re.split; a text without tokens gives one empty token",
    "A text may contain no tokens.",
    "an empty string as a token",
    subtle=True,
)
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower()).strip()
    return tuple(re.split(r"\s+", spaced))
