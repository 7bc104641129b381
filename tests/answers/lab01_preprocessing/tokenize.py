"""Answers to tokenize."""

import itertools
import re

from answers.core import right, wide, wrong_edits
from answers.lab01_preprocessing.shared import draw
from answers.signs import NOTHING

from attention_labs.lab01_preprocessing.tokenize import tokenize
from nbjudge import Request, edit


@wide("tokenize")
def any_text(g):
    for alphabet in ("ab ", "aB-, ", "äÉ7 '\t", "xyz?!()  ", "q.W2;\n "):
        for size in (1, 2, 5, 12, 30):
            text = "".join(
                alphabet[i] for i in draw(g, size, low=0, high=len(alphabet))
            )
            yield Request((f"k{text}",))


@right("tokenize")
def one_pattern(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text.lower()))


@right("tokenize")
def words_then_signs(text):
    return (*(match.group().lower() for match in re.finditer(r"\w+|\S", text)),)


@right("tokenize")
def letter_by_letter(text):
    tokens, word = [], ""
    for letter in text.lower():
        if letter.isalnum():
            word += letter
        else:
            if word:
                tokens.append(word)
            word = ""
            if not letter.isspace():
                tokens.append(letter)
    if word:
        tokens.append(word)
    return tuple(tokens)


@right("tokenize")
def spaces_around_signs(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text).lower().split())


@right("tokenize")
def cut_at_borders(text):
    return tuple(piece.lower() for piece in re.split(r"(\W)", text) if piece.strip())


@right("tokenize")
def grouped(text):
    tokens = []
    for is_word, letters in itertools.groupby(text.lower(), key=str.isalnum):
        run = "".join(letters)
        tokens += [run] if is_word else list("".join(run.split()))
    return tuple(tokens)


@right("tokenize")
def split_and_split_again(text):
    tokens = []
    for chunk in text.split():
        tokens.extend(re.findall(r"\w+|\W", chunk.lower()))
    return tuple(tokens)


@right("tokenize")
def replaced_letter_by_letter(text):
    spaced = "".join(
        letter if letter.isalnum() or letter.isspace() else f" {letter} "
        for letter in text
    )
    return tuple(spaced.lower().split())


@right("tokenize")
def compiled(text):
    pattern = re.compile(
        r"""
        [^\W_]+   # a word
        | [^\s]   # a sign
        """,
        re.VERBOSE,
    )
    return tuple(map(str.lower, pattern.findall(text)))


@right("tokenize")
def from_the_end(text):
    tokens = []
    while text := text.rstrip():
        word = re.search(r"\w*$", text).group() or text[-1]
        tokens.insert(0, word.lower())
        text = text[: -len(word)]
    return tuple(tokens)


@right("tokenize")
def with_a_position(text):
    text, place, tokens = text.lower(), 0, ()
    while place < len(text):
        end = place
        while end < len(text) and text[end].isalnum():
            end += 1
        end = max(end, place + 1)
        tokens += (text[place:end],) * (not text[place:end].isspace())
        place = end
    return tokens


@right("tokenize")
def by_kinds_of_letters(text):
    def kind(c):
        return "word" if c.isalnum() else "space" if c.isspace() else "sign"

    runs = [(k, "".join(run)) for k, run in itertools.groupby(text.lower(), kind)]
    return tuple(
        token
        for k, run in runs
        if k != "space"
        for token in ([run] if k == "word" else run)
    )


PATTERN = r"\w+|[^\w\s]"
FOUND = r're.findall(r"\w+|[^\w\s]", text.lower())'
SIGNS, ACCENTS = "symbols thrown away", "words with non-ASCII letters are wrong"
SPACE, LOST = (
    "white space or empty strings among the tokens",
    "tokens are missing, repeated or out of order",
)
GLUED = "symbols stay attached to words"
ONCE, STRINGS = "an iterator is returned", "the result is not a tuple of strings"
wrong_edits(
    "tokenize",
    words_alone=(edit(tokenize, r"|[^\w\s]", ""), SIGNS),
    some_signs=(edit(tokenize, PATTERN, r"\w+|[-,.!?]"), SIGNS),
    not_lowered=(edit(tokenize, ".lower()", ""), "capital letters are kept"),
    english_letters_only=(
        edit(tokenize, PATTERN, r"[a-z0-9]+|[^a-z0-9\s]"),
        ACCENTS,
    ),
    accents_lost=(
        edit(tokenize, PATTERN, r"[a-z0-9]+|[-,.?!()']"),
        ACCENTS,
        "symbols thrown away",
    ),
    no_digits=(
        edit(tokenize, PATTERN, r"[^\W\d_]+|\S"),
        "digits are split off from words",
    ),
    spaces_are_signs=(edit(tokenize, PATTERN, r"\w+|\W"), SPACE),
    many_signs_as_one=(edit(tokenize, PATTERN, PATTERN + "+"), "symbols run together"),
    matches=(edit(tokenize, "findall", "finditer"), STRINGS),
    joined_again=(edit(tokenize, "tuple(", "' '.join("), STRINGS),
    letters=(
        edit(tokenize, FOUND, "c for c in text.lower() if c != ' '"),
        "the text is split into characters",
    ),
    stripped=(
        edit(tokenize, FOUND, 'w.strip(",.?!()\'") for w in text.lower().split()'),
        GLUED,
        SIGNS,
    ),
    no_return=(edit(tokenize, "return ", ""), NOTHING),
    as_a_set=(edit(tokenize, "tuple(", "set("), LOST),
    words_of_two_letters=(edit(tokenize, r"\w+", r"\w\w+"), LOST),
    three_dots=(edit(tokenize, PATTERN, r"\.{3}|" + PATTERN), "symbols run together"),
    two_dashes=(edit(tokenize, PATTERN, "--+|" + PATTERN), "symbols run together"),
    special_tokens_kept=(edit(tokenize, PATTERN, r"<\w+>|" + PATTERN), GLUED),
    below_zero=(edit(tokenize, PATTERN, r"(?<!\w)-\d+|" + PATTERN), GLUED),
    with_a_price=(edit(tokenize, PATTERN, r"(?<!\w)[$€]\d+|" + PATTERN), GLUED),
    abbreviated=(edit(tokenize, PATTERN, r"(?:\b[a-z]\.){2,}|" + PATTERN), GLUED),
    with_its_apostrophe=(edit(tokenize, PATTERN, r"\b[a-z]'|" + PATTERN), GLUED),
    no_backslash=(edit(tokenize, PATTERN, r"\w+|[^\w\s\\]"), SIGNS),
    no_emoji=(edit(tokenize, PATTERN, r"\w+|(?!\s)[!-\uffff]"), SIGNS),
    short_words=(edit(tokenize, r"\w+", r"\w{1,40}"), "symbols run together"),
    composed=(
        edit(
            tokenize,
            "text.lower()",
            "__import__('unicodedata').normalize('NFC', text.lower())",
        ),
    ),
    a_list=(edit(tokenize, "tuple(", "list("), "a type other than a tuple"),
    mapped=(edit(tokenize, "tuple(", "map(str.lower, "), ONCE),
)
wrong_edits(
    "tokenize",
    spaces_around_signs,
    split_at_one_space=(edit(spaces_around_signs, ".split()", ".split(' ')"), SPACE),
)
