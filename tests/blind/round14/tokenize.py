"""Answers to `tokenize`."""
import itertools
import re
import unicodedata

from blind import right, wrong


@right('groups neighbouring characters by their kind, without a regular expression')
def tokenize_right1(text):
    def kind(character):
        return "word" if character.isalnum() else "space" if character.isspace() else "symbol"

    tokens = []
    for what, run in itertools.groupby(text.lower(), key=kind):
        if what == "word":
            tokens.append("".join(run))
        elif what == "symbol":
            tokens.extend(run)
    return tuple(tokens)


@right('puts blanks around every symbol and then splits at white space')
def tokenize_right2(text):
    return tuple("".join(c if c.isalnum() else f" {c} " for c in text.lower()).split())


@right('scans with two indices, from the first to the last character')
def tokenize_right3(text):
    text, tokens, i = text.lower(), (), 0
    found = []
    while i < len(text):
        j = i + 1
        if text[i].isalnum():
            while j < len(text) and text[j].isalnum():
                j += 1
        if not text[i].isspace():
            found.append(text[i:j])
        i = j
    return tokens + tuple(found)


@right('splits at every symbol and keeps the separators')
def tokenize_right4(text):
    pieces = re.split(r"([^\w])", text.lower())
    return tuple(piece for piece in pieces if piece and not piece.isspace())


@wrong(
    'Keeps capitals as they are.',
    'Turn all letters into lower case, as `str.lower` does.',
    'capitals are kept',
)
def tokenize_wrong1(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    'Makes one token of a run of symbols, such as the three dots of "...".',
    'Every other character is a token of its own, unless it is white space.',
    'several symbols in one token',
)
def tokenize_wrong2(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    'Splits at single blanks, so that two blanks, or a blank at an end, give an empty token, and line breaks stay in tokens.',
    'White space separates tokens and is not a token itself.',
    'empty tokens between blanks',
)
def tokenize_wrong3(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split(" "))


@wrong(
    'Keeps an apostrophe inside a word, as in "l\'un".',
    'Every other character is a token of its own, unless it is white space.',
    'apostrophe kept inside a word',
)
def tokenize_wrong4(text):
    return tuple(re.findall(r"\w+(?:['’]\w+)*|[^\w\s]", text.lower()))


@wrong(
    'Uses casefold, which turns a German sharp s into "ss".',
    'Turn all letters into lower case, as `str.lower` does.',
    'casefold instead of lower',
)
def tokenize_wrong5(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    'Lowers every character alone, so a capital sigma at the end of a Greek word does not become a final sigma.',
    'Turn all letters into lower case, as `str.lower` does.',
    'characters lowered one by one',
)
def tokenize_wrong6(text):
    return tuple(re.findall(r"\w+|[^\w\s]", "".join(c.lower() for c in text)))


@wrong(
    'Takes only blanks, tabs and line breaks for white space, so a no-break space becomes a token.',
    'White space separates tokens and is not a token itself.',
    'no-break space becomes a token',
)
def tokenize_wrong7(text):
    return tuple(re.findall(r"\w+|[^\w \t\r\n]", text.lower()))


@wrong(
    'Asks for isalpha or isdigit, so numerals such as one half or a Roman numeral sign cut a word apart.',
    "A word is a run of letters and digits, which are the characters that Python's `str.isalnum` accepts.",
    'some isalnum characters split words',
)
def tokenize_wrong8(text):
    tokens, word = [], ""
    for c in text.lower():
        if c.isalpha() or c.isdigit():
            word += c
            continue
        if word:
            tokens.append(word)
            word = ""
        if not c.isspace():
            tokens.append(c)
    if word:
        tokens.append(word)
    return tuple(tokens)


@wrong(
    'Normalises the text first (NFKC), so one character such as an ellipsis becomes three tokens, and a ligature other letters.',
    'Every other character is a token of its own, unless it is white space.',
    'text is normalised before splitting',
)
def tokenize_wrong9(text):
    return tuple(re.findall(r"\w+|[^\w\s]", unicodedata.normalize("NFKC", text.lower())))


@wrong(
    'Drops characters that cannot be seen, such as a soft hyphen or a zero-width space, although they are no white space.',
    'Every other character is a token of its own, unless it is white space.',
    'invisible symbols are dropped',
)
def tokenize_wrong10(text):
    visible = "".join(c for c in text.lower() if c.isprintable() or c.isspace())
    return tuple(re.findall(r"\w+|[^\w\s]", visible))
