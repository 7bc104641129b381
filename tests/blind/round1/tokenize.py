from blind import right, wrong
import re
import string
from itertools import groupby


@right('regular expression, lower case per token')
def tokenize(text):
    return tuple(t.lower() for t in re.findall(r"[^\W_]+|[^\w\s]|_", text))


@right('groupby over kinds of characters')
def tokenize(text):
    out = []
    for kind, run in groupby(text.lower(), lambda c: 0 if c.isspace() else 1 if c.isalnum() else 2):
        run = list(run)
        out += [] if kind == 0 else ["".join(run)] if kind == 1 else run
    return tuple(out)


@right('state machine over characters')
def tokenize(text):
    out, word = [], ""
    for c in text.lower() + " ":
        if c.isalnum():
            word += c
            continue
        if word:
            out.append(word)
            word = ""
        if not c.isspace():
            out.append(c)
    return tuple(out)


@right('white space set around each sign, then split')
def tokenize(text):
    return tuple(re.sub(r"([\W_])", r" \1 ", text.lower()).split())


@wrong('splits at white space only', breaks='any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens;', name='signs stay on the words', subtle=False)
def tokenize(text):
    return tuple(text.lower().split())


@wrong('does not lower', breaks='upper and lower case make no difference: all letters become small;', name='case kept', subtle=False)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong('returns a list', breaks='Cut a text into words and signs, in small letters: a tuple of strings.', name='list in place of tuple', subtle=False)
def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@wrong('letters only up to Latin-1: oe ligature, c with caron or Greek become signs', breaks='a word is a run of letters and digits, and letters may have accents;', name='alphabet fitted to one language', subtle=True)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9à-öø-ÿ]+|[^a-z0-9à-öø-ÿ\s]", text.lower()))


@wrong('lowers only the letters A to Z', breaks='upper and lower case make no difference: all letters become small;', name='accented capitals stay large', subtle=True)
def tokenize(text):
    text = text.translate(str.maketrans(string.ascii_uppercase, string.ascii_lowercase))
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong('only the blank is white space: tabs and line ends become tokens', breaks='white space separates and is no token.', name='white space is more than the blank', subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w ]", text.lower()))


@wrong('only the signs of ASCII are tokens: others are dropped', breaks='any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens;', name='signs outside ASCII lost', subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+|[" + re.escape(string.punctuation) + "]", text.lower()))


@wrong('cuts between letters and digits of one word', breaks='a word is a run of letters and digits, and letters may have accents;', name='letters and digits set apart', subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\d+|[^\W\d]+|[^\w\s]", text.lower()))


@wrong('white space at the beginning or end leaves an empty token', breaks='white space separates and is no token.', name='empty tokens at the edges', subtle=True)
def tokenize(text):
    text = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    text = re.sub(r"\s+", " ", text)
    return tuple(text.split(" "))


@wrong('several signs in a row are one token', breaks='any other sign that is not white space is a token of its own, a hyphen as well as a comma: "ninety-nine" is three tokens;', name='run of signs joined', subtle=True)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))
