import itertools
import re
import string

from blind import right, wrong


# Right
@right("regular expression with \\S as the alternative, small letters first")
def r1(text):
    return (*re.findall(r"\w+|\S", text.lower()),)


@right("groups of isalnum by itertools.groupby, no regular expression")
def r2(text):
    out = []
    for word, run in itertools.groupby(text.lower(), key=str.isalnum):
        if word:
            out.append("".join(run))
        else:
            out.extend(sign for sign in run if not sign.isspace())
    return tuple(out)


@right("spaces around every sign by re.sub, then split at white space")
def r3(text):
    return tuple(re.sub(r"(\W)", r" \1 ", text.lower()).split())


@right("an automaton that walks backwards over the text and flushes words")
def r4(text):
    found, word = [], ""
    for sign in reversed("\n" + text.lower()):
        if sign.isalnum():
            word = sign + word
            continue
        if word:
            found.append(word)
            word = ""
        if sign.strip():
            found.append(sign)
    return tuple(found[::-1])


# Wrong
@wrong(
    "only a-z and 0-9 count as letters and digits",
    breaks="a word is a run of letters and digits, and letters may have accents",
    name="letters without accents only",
    subtle=True,
)
def w1(text):
    return tuple(re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()))


@wrong(
    "runs of letters and runs of digits are two words",
    breaks="a word is a run of letters and digits",
    name="letters and digits are separated",
    subtle=True,
)
def w2(text):
    return tuple(re.findall(r"[^\W\d_]+|\d+|[^\w\s]", text.lower()))


@wrong(
    "several signs in a row become one token",
    breaks="any other sign that is not white space is a token of its own",
    name="signs in a row stick together",
    subtle=True,
)
def w3(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "casefold in place of lower: the sharp s becomes ss",
    breaks="all letters become small, as `str.lower` makes them",
    name="casefold is not lower",
    subtle=True,
)
def w4(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "excludes only the blank: tabs, line ends and no-break spaces are tokens",
    breaks="white space separates and is no token",
    name="only the blank is white space",
    subtle=True,
)
def w5(text):
    return tuple(re.findall(r"\w+|[^\w ]", text.lower()))


@wrong(
    "keeps an apostrophe between letters inside of the word",
    breaks="any other sign that is not white space is a token of its own",
    name="apostrophes inside words",
    subtle=True,
)
def w6(text):
    return tuple(re.findall(r"\w+(?:['’]\w+)*|[^\w\s]", text.lower()))


@wrong(
    "collects in a default argument, which remembers the texts before",
    breaks="Cut a text into words and signs, in small letters: a tuple of strings.",
    name="a list as a default argument",
    subtle=True,
)
def w7(text, found=[]):  # noqa: B006
    for token in re.findall(r"\w+|[^\w\s]", text.lower()):
        found.append(token)
    return tuple(found)


@wrong(
    "puts blanks around string.punctuation, so « or € sticks to its word",
    breaks="any other sign that is not white space is a token of its own",
    name="only the signs of ASCII",
    subtle=True,
)
def w8(text):
    text = text.lower()
    for sign in string.punctuation:
        text = text.replace(sign, f" {sign} ")
    return tuple(text.split())


@wrong(
    "makes small letters with a table of A to Z: É stays",
    breaks="all letters become small, as `str.lower` makes them",
    name="only A to Z become small",
    subtle=True,
)
def w9(text):
    table = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
    return tuple(re.findall(r"\w+|[^\w\s]", text.translate(table)))


@wrong(
    "list of tokens",
    breaks="a tuple of strings",
    name="a list, not a tuple",
)
def w10(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())
