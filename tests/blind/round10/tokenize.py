import functools
import itertools
import re
import string
import unicodedata

from blind import right, wrong


@right("walks over the characters with isalnum and isspace, no regular expression")
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


@right("puts blanks around every symbol and then splits at white space")
def tokenize(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split())


@right("groups neighbouring characters by their kind with itertools.groupby")
def tokenize(text):
    def kind(character):
        if character.isalnum():
            return "word"
        return "space" if character.isspace() else "symbol"

    tokens = []
    for what, run in itertools.groupby(text.lower(), key=kind):
        if what == "word":
            tokens.append("".join(run))
        elif what == "symbol":
            tokens.extend(run)
    return tuple(tokens)


@right("remembers texts it has seen (the tuples cannot be changed); finditer")
@functools.lru_cache(maxsize=128)
def tokenize(text, pattern=re.compile(r"\w+|\S")):
    return tuple(match.group() for match in pattern.finditer(str.lower(text)))


@wrong(
    "splits at white space only, so symbols stay glued to words: 'ninety-nine'",
    'So "ninety-nine" has three tokens.',
    "symbols are not split from words",
)
def tokenize(text):
    return tuple(text.lower().split())


@wrong(
    "finds only the words and throws the symbols away: 'a, b'",
    "- Every other character is a token of its own, unless it is white space.",
    "symbols are dropped",
)
def tokenize(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong(
    "keeps capitals: 'Ninety'",
    "- Turn all letters into lower case, as `str.lower` does.",
    "forgot the lower case",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong(
    "neighbouring symbols become one token: 'wait...' or '?!'",
    "- Every other character is a token of its own, unless it is white space.",
    "a run of symbols becomes one token",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong(
    "knows only the white space of a blank: a tab or a line break becomes a token",
    "- White space separates tokens and is not a token itself.",
    "tabs and line breaks count as tokens",
)
def tokenize(text):
    pieces = re.split(r"(\W)", text.lower())
    return tuple(piece for piece in pieces if piece not in ("", " "))


@wrong(
    "puts blanks around ASCII punctuation only: '«oui»' or '5€' stay in one piece",
    "- Every other character is a token of its own, unless it is white space.",
    "only ASCII punctuation is split off",
)
def tokenize(text):
    table = {ord(symbol): f" {symbol} " for symbol in string.punctuation}
    return tuple(text.lower().translate(table).split())


@wrong(
    "separates letters from digits: 'b12' gives two tokens",
    "- A word is a run of letters and digits. Letters may have accents.",
    "letters and digits are split from each other",
)
def tokenize(text):
    return tuple(re.findall(r"[^\W\d]+|\d+|[^\w\s]", text.lower()))


@wrong(
    "lists the accented letters as the range à-ÿ: 'œ' in 'cœur' (or 'ł') splits the word,"
    " and the sign '÷' counts as a letter",
    "- A word is a run of letters and digits. Letters may have accents.",
    "letter range misses œ and includes ÷",
)
def tokenize(text):
    return tuple(re.findall(r"[a-z0-9à-ÿ]+|[^\sa-z0-9à-ÿ]", text.lower()))


@wrong(
    "casefold instead of lower: 'Straße' gives 'strasse'",
    "- Turn all letters into lower case, as `str.lower` does.",
    "casefold rewrites ß, which str.lower keeps",
)
def tokenize(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.casefold()))


@wrong(
    "normalizes the text first (NFKC), which turns one symbol into other ones: '…' gives"
    " three full stops, '™' gives the word 'tm'",
    "- Every other character is a token of its own, unless it is white space.",
    "normalization replaces symbols by other characters",
)
def tokenize(text):
    text = unicodedata.normalize("NFKC", text)
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))
