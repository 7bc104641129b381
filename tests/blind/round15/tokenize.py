import itertools
import re
import string
import unicodedata

from blind import right, wrong

EVERY_OTHER = "Every other character is a token of its own, unless it is white space."


@right(r"pattern \w+|\S: what is left after the words is a single character")
def tokenize(text):
    return tuple(re.findall(r"\w+|\S", text.lower()))


@right("a loop over the characters with an open word")
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
    return tuple(tokens + [word] if word else tokens)


@right("groupby on the kind of character")
def tokenize(text):
    def kind(character):
        return "word" if character.isalnum() else "space" if character.isspace() else "symbol"

    tokens = []
    for name, run in itertools.groupby(text.lower(), key=kind):
        if name == "word":
            tokens.append("".join(run))
        elif name == "symbol":
            tokens.extend(run)
    return tuple(tokens)


@right("sets every symbol between blanks, then splits at white space")
def tokenize(text):
    spaced = (c if c.isalnum() or c.isspace() else f" {c} " for c in text.lower())
    return tuple("".join(spaced).split())


@wrong("a run of symbols becomes one token: '...' or ').' stay together", breaks=EVERY_OTHER,
       name="runs of symbols are one token")
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong("a hyphen inside a word stays in the word", breaks='So "ninety-nine" has three tokens.',
       name="hyphenated words are one token")
def tokenize(text):
    return tuple(re.findall(r"\w+(?:-\w+)*|[^\w\s]", text.lower()))


@wrong("symbols are those of string.punctuation only, so guillemets, dashes and curly quotes stick to words",
       breaks=EVERY_OTHER, name="knows only ASCII punctuation")
def tokenize(text):
    symbols = re.escape(string.punctuation)
    return tuple(re.findall(rf"[^\s{symbols}]+|[{symbols}]", text.lower()))


@wrong("letters are a-z only, so accented letters cut a word", breaks="Letters may have accents.",
       name="ASCII letters only")
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong("strips the accents from the letters before it splits",
       breaks="Letters may have accents.", name="accents removed")
def tokenize(text):
    plain = "".join(
        c if not c.isalnum() else unicodedata.normalize("NFD", c)[0] for c in text.lower()
    )
    return tuple(re.findall(r"\w+|[^\w\s]", plain))


@wrong("casefold turns the German sharp s into ss",
       breaks="Turn all letters into lower case, as `str.lower` does.", name="casefold instead of lower")
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong("only blank, tab and newline are white space: a no-break space becomes a token",
       breaks="White space separates tokens and is not a token itself.",
       name="no-break space taken for a symbol")
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w \t\r\n]", text.lower()))


@wrong("a text without tokens gives one empty token", breaks="A text may contain no tokens.",
       name="empty token for an empty text")
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower())
    return tuple(re.sub(r"\s+", " ", spaced).strip().split(" "))


@wrong("isalpha or isdecimal: superscripts and fractions are cut off from their word",
       breaks="A word is a run of letters and digits, which are the characters that Python's `str.isalnum` accepts.",
       name="isdecimal instead of isalnum")
def tokenize(text):
    tokens, inside = [], False
    for c in text.lower():
        in_word = c.isalpha() or c.isdecimal()
        if in_word and inside:
            tokens[-1] += c
        elif not c.isspace():
            tokens.append(c)
        inside = in_word
    return tuple(tokens)


@wrong("the word still open at the end of the text is lost",
       breaks="Write `tokenize`, which splits a text into its tokens.", name="last word not flushed")
def tokenize(text):
    tokens, word = [], ""
    for c in text.lower():
        if c.isalnum():
            word += c
        else:
            if word:
                tokens.append(word)
            word = ""
            if not c.isspace():
                tokens.append(c)
    return tuple(tokens)
