import re
import unicodedata
from itertools import groupby

from blind import right, wrong

SIGN = "any other sign that is not white space is a token of its own, a hyphen as well as a comma"
WORD = "a word is a run of letters and digits, and letters may have accents;"
LOWER = "upper and lower case make no difference: all letters become small, as `str.lower` makes them;"
SPACE = "white space separates and is no token."
TUPLE = "Cut a text into words and signs, in small letters: a tuple of strings."


@right("a loop over the characters with a buffer")
def tokenize(text):
    found, word = [], ""
    for c in text.lower():
        if c.isalnum():
            word += c
            continue
        if word:
            found.append(word)
            word = ""
        if not c.isspace():
            found.append(c)
    return tuple(found + [word] if word else found)


@right("groupby, and runs of signs taken apart")
def tokenize(text):
    out = []
    for is_word, run in groupby(text.lower(), key=str.isalnum):
        out += ["".join(run)] if is_word else [c for c in run if not c.isspace()]
    return tuple(out)


@right("re.split with a group, blanks thrown out")
def tokenize(text):
    return tuple(p for p in re.split(r"(\W)", text.lower()) if p.strip())


@right("spaces set around every sign, then split")
def tokenize(text):
    return tuple("".join(c if c.isalnum() else f" {c} " for c in text.lower()).split())


@wrong("split at white space only", breaks=SIGN, name="signs stay glued to words")
def tokenize(text):
    return tuple(text.lower().split())


@wrong("a list", breaks=TUPLE, name="a list in place of a tuple")
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong("no lower case", breaks=LOWER, name="case kept")
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong("only ASCII letters make words", breaks=WORD, name="accented letters cut out of words", subtle=True)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()))


@wrong("a run of signs is one token", breaks=SIGN, name="signs in runs", subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong("casefold in place of lower", breaks=LOWER, name="casefold", subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong("digits and letters never in one word", breaks=WORD, name="letters and digits parted", subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\d+|[^\W\d]+|[^\w\s]", text.lower()))


@wrong("only the blank is white space", breaks=SPACE, name="tabs and line ends are tokens", subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w ]", text.lower()))


@wrong("apostrophes and points inside words stay", breaks=SIGN, name="inner signs kept in the word", subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+(?:['.]\w+)*|[^\w\s]", text.lower()))


@wrong("accents are taken off", breaks=WORD, name="accents lost", subtle=True)
def tokenize(text):
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return tuple(re.findall(r"\w+|[^\w\s]", plain.lower()))
