import itertools
import re
import unicodedata

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "splits at white space only, so symbols stay glued to words",
    "Every other character is a token of its own, unless it is white space.",
    "symbols not split off",
)
def tokenize(text):
    return tuple(text.lower().split())


@wrong(
    "never turns letters into lower case",
    "Turn all letters into lower case, as `str.lower` does.",
    "no lower case",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "lists the words only and throws the symbols away",
    "Every other character is a token of its own, unless it is white space.",
    "symbols dropped",
)
def tokenize(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong(
    "takes only a-z and 0-9 for letters, so an accented letter cuts its word",
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts.",
    "ASCII letters only",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong(
    "makes one token of a run of symbols: '...' is one token",
    "Every other character is a token of its own, unless it is white space.",
    "run of symbols is one token",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "only the blank counts as white space: a tab or a line break becomes a token",
    "White space separates tokens and is not a token itself.",
    "only the blank is white space",
    subtle=True,
)
def tokenize(text):
    tokens, word = [], ""
    for c in text.lower():
        if c.isalnum():
            word += c
            continue
        if word:
            tokens.append(word)
            word = ""
        if c != " ":
            tokens.append(c)
    if word:
        tokens.append(word)
    return tuple(tokens)


@wrong(
    "uses casefold, which turns the German sharp s of 'Straße' into 'ss'",
    "Turn all letters into lower case, as `str.lower` does.",
    "casefold instead of lower",
    subtle=True,
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "a digit is what isdecimal accepts, so 'm²' and '2½' fall into two tokens",
    "A word is a run of letters and digits, which are the characters that Python's"
    " `str.isalnum` accepts.",
    "isalpha or isdecimal instead of isalnum",
    subtle=True,
)
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


@wrong(
    "splits a spaced text with re.split: a text without tokens gives one empty token",
    "A text may contain no tokens.",
    "empty text gives an empty token",
    subtle=True,
)
def tokenize(text):
    spaced = re.sub(r"([^\w\s])", r" \1 ", text.lower()).strip()
    return tuple(re.split(r"\s+", spaced))


@wrong(
    "normalises the text first: an e and a combining accent after it become one letter",
    "Every other character is a token of its own, unless it is white space.",
    "Unicode normalisation changes the characters",
    subtle=True,
)
def tokenize(text):
    text = unicodedata.normalize("NFC", text)
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))


# ---------------------------------------------------------------- right answers


@right("a loop over characters that collects a word and flushes it")
def tokenize(text):
    tokens, word = [], []

    def flush():
        if word:
            tokens.append("".join(word))
            word.clear()

    for c in text.lower():
        if c.isalnum():
            word.append(c)
        else:
            flush()
            if not c.isspace():
                tokens.append(c)
    flush()
    return tuple(tokens)


@right("itertools.groupby on isalnum")
def tokenize(text):
    tokens = ()
    for is_word, group in itertools.groupby(text.lower(), key=str.isalnum):
        if is_word:
            tokens += ("".join(group),)
        else:
            tokens += tuple(c for c in group if not c.isspace())
    return tokens


@right("puts blanks around all that is not in a word, then str.split()")
def tokenize(text):
    return tuple(
        "".join(c if c.isalnum() else f" {c} " for c in text.lower()).split()
    )


def _scan_for_tokens(text):
    start = 0
    while start < len(text):
        end = start + 1
        if text[start].isalnum():
            while end < len(text) and text[end].isalnum():
                end += 1
        if not text[start].isspace():
            yield text[start:end]
        start = end


@right("a helper that generates slices between two indices")
def tokenize(text):
    return tuple(_scan_for_tokens(text.lower()))
