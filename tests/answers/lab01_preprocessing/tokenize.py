"""Answers to tokenize."""

import itertools
import re

from answers.core import right, wide, wrong
from answers.lab01_preprocessing.texts import draw
from answers.signs import NOTHING

from nbjudge.question import Request


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
    return [match.group().lower() for match in re.finditer(r"\w+|\S", text)]


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
    for is_word, letters in itertools.groupby(text.casefold(), key=str.isalnum):
        run = "".join(letters)
        tokens += [run] if is_word else list("".join(run.split()))
    return tuple(tokens)


@right("tokenize")
def split_and_split_again(text):
    tokens = []
    for chunk in text.split():
        tokens.extend(re.findall(r"\w+|\W", chunk.lower()))
    return tokens


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


@wrong("tokenize", "signs stay at the words")
def split_only(text):
    return tuple(text.lower().split())


@wrong("tokenize", "signs thrown away")
def words_alone(text):
    return tuple(re.findall(r"\w+", text.lower()))


@wrong("tokenize", "capital letters kept")
def not_lowered(text):
    return tuple(re.findall(r"\w+|[^\w\s]", text))


@wrong("tokenize", "letters with accents torn off")
def english_letters_only(text):
    return tuple(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


@wrong("tokenize", "letters with accents torn off")
def accents_lost(text):
    return tuple(re.findall(r"[a-z0-9]+|[-,.?!()']", text.lower()))


@wrong("tokenize", "digits are no part of a word")
def no_digits(text):
    tokens, word = [], ""
    for letter in text.lower() + " ":
        if letter.isalpha():
            word += letter
            continue
        tokens += [word] * bool(word) + [letter] * (not letter.isspace())
        word = ""
    return tuple(tokens)


@wrong("tokenize", "white space among the tokens")
def split_at_one_space(text):
    return tuple(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split(" "))


@wrong("tokenize", "white space among the tokens")
def spaces_are_signs(text):
    return tuple(re.findall(r"\w+|\W", text.lower()))


@wrong("tokenize", "signs run together")
def many_signs_as_one(text):
    return tuple(re.findall(r"\w+|[^\w\s]+", text.lower()))


@wrong("tokenize", "no tuple of strings")
def matches(text):
    return tuple(re.finditer(r"\w+|[^\w\s]", text.lower()))


@wrong("tokenize", "no tuple of strings")
def joined_again(text):
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


@wrong("tokenize", "a text cut into letters")
def letters(text):
    return [letter for letter in text.lower() if letter != " "]


@wrong("tokenize", "signs stay at the words", "signs thrown away")
def stripped(text):
    return tuple(word.strip(",.?!()'") for word in text.lower().split())


@wrong("tokenize", NOTHING)
def no_return(text):
    re.findall(r"\w+|[^\w\s]", text.lower())


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


LOST = "words lost or out of order"
ONCE = "something that can be read only once"


@wrong("tokenize", "signs thrown away")
def some_signs(text):
    return tuple(re.findall(r"\w+|[-,.!?]", text.lower()))


@wrong("tokenize", LOST)
def as_a_set(text):
    return set(re.findall(r"\w+|[^\w\s]", text.lower()))


@wrong("tokenize", LOST)
def words_of_two_letters(text):
    return tuple(re.findall(r"\w\w+|[^\w\s]", text.lower()))


@wrong("tokenize", ONCE)
def mapped(text):
    return map(str.lower, re.findall(r"\w+|[^\w\s]", text))
