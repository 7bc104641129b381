import re
from itertools import groupby

from blind import right, wrong


@right("a loop over the characters with isalnum and isspace")
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


@right("groupby: runs of letters and digits together, signs one by one")
def tokenize(text):
    tokens = []
    for is_word, run in groupby(text.lower(), str.isalnum):
        run = list(run)
        tokens += ["".join(run)] if is_word else [c for c in run if not c.isspace()]
    return tuple(tokens)


@right("puts spaces around every sign and splits")
def tokenize(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split())


@right("finditer with a compiled pattern, the single character without a word tried second")
def tokenize(text, pattern=re.compile(r"\w+|\S")):
    return tuple(match.group() for match in pattern.finditer(text.lower()))


@wrong(
    "[a-z0-9] knows no accents: 'é' becomes a sign and splits the word",
    "a word is a run of letters and digits, and letters may have accents;",
    "only letters without accents",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong(
    "returns a list",
    "Split a text into words and signs, in lower case: a tuple of strings.",
    "list instead of tuple",
)
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong(
    "runs of signs become one token: '...' or '?!'",
    "every other character that is not white space is a sign and a token of its own, a hyphen as well as a comma:",
    "several signs as one token",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "keeps the apostrophe and the hyphen inside of words",
    "every other character that is not white space is a sign and a token of its own, a hyphen as well as a comma:",
    "hyphen and apostrophe stay in words",
)
def tokenize(text):
    return tuple(re.findall(r"\w+(?:['-]\w+)*|[^\w\s]", text.lower()))


@wrong(
    "splits at the single space: tabs and line ends stay in the text and become signs",
    "white space separates tokens and is not a token itself.",
    "only the space counts as white space",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w ]", text.lower()))


@wrong(
    "casefold instead of lower: 'ß' becomes 'ss'",
    "upper and lower case make no difference: all letters are turned into lower case, as `str.lower` does it;",
    "casefold is not lower",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "knows only string.punctuation-like signs: '€', '«', '…' or '–' disappear",
    "every other character that is not white space is a sign and a token of its own, a hyphen as well as a comma:",
    "signs outside ASCII are lost",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[!-/:-@\[-`{-~]", text.lower()))


@wrong(
    "letters and digits are separate runs: 'b12' becomes two tokens",
    "a word is a run of letters and digits, and letters may have accents;",
    "splits between letters and digits",
)
def tokenize(text):
    return tuple(re.findall(r"[^\W\d]+|\d+|[^\w\s]", text.lower()))


@wrong(
    "lower case only for texts that are not all capitals or that begin with one: it lowers the first letter of each word only, so 'McDONALD' keeps capitals",
    "upper and lower case make no difference: all letters are turned into lower case, as `str.lower` does it;",
    "lowers only the first letters",
)
def tokenize(text):
    return tuple(t[:1].lower() + t[1:] for t in re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "the range À-ÿ holds the letters of French and also the signs × and ÷, and ends before œ, ł and Greek letters",
    "a word is a run of letters and digits, and letters may have accents;",
    "range of letters ends with Latin-1",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9à-ÿ]+|[^a-z0-9à-ÿ\s]", text.lower()))
