"""Answers to lab01_preprocessing, written as in the lab: with its imports and the ids of the specials."""

import itertools
import re
import sys
from collections import Counter

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.signs import CUT, DEVICE, FITS, NO_NAME, NOTHING, TAKEN_OUT, TOO_MUCH
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from attention_course.questions.core import Request
from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch

# --- what equivalent answers agree on ---------------------------------------------------------------------------------


def rows_of_letters(texts):
    width = max((len(text) for text in texts), default=0)
    return torch.tensor([[*map(ord, text), *[0] * (width - len(text))] for text in texts]).reshape(len(texts), width)


def draw(g, *shape, low=4, high=11):
    return torch.randint(low, high, shape, generator=g)


@wide("tokenize")
def any_text(g):
    for alphabet in ("ab ", "aB-, ", "äÉ7 '\t", "xyz?!()  ", "q.W2;\n "):
        for size in (1, 2, 5, 12, 30):
            text = "".join(alphabet[i] for i in draw(g, size, low=0, high=len(alphabet)))
            yield Request((rows_of_letters([f"k{text}"]),))


@wide("vocabulary")
def any_vocabulary(g):
    for count in (1, 3, 12):
        words = ["".join("pqrs"[i] for i in draw(g, 2, low=0, high=4)) for _ in range(count)]
        known = rows_of_letters([*words, "<bos>", *words[::2]])
        yield Request((known, None, None))
        yield Request((known, rows_of_letters([*words[::-1], "zz", "<unk>", "<pad>"]), None))
        for size in (0, 1, 4, 9):
            yield Request((known, None, draw(g, size, low=0, high=len(set(words)) + 4)))


@wide("pad")
def any_rows(g):
    for sizes in ((1,), (3,), (1, 2), (5, 0, 2), (2, 2, 2), (9, 4, 7, 1)):
        yield Request((draw(g, len(sizes), max(sizes)), torch.tensor(sizes)))


@wide("padding_mask")
def any_lengths(g):
    for batch, size in ((1, 1), (1, 4), (3, 1), (4, 6), (2, 9)):
        for lowest in (0, 1):
            yield Request((draw(g, batch, low=lowest, high=size + 1), torch.empty(size, 0)))


@wide("collate")
def any_examples(g):
    for batch in (1, 2, 5):
        for longest in (1, 3, 8):
            sources, targets = draw(g, batch, longest), draw(g, batch, longest)
            sizes = [draw(g, batch, low=1, high=longest + 1) for _ in range(2)]
            yield Request((sources, sizes[0], targets, sizes[1], None))
            yield Request((sources, sizes[0], targets, sizes[1], torch.zeros(0)))


@wide("loss")
def any_batch(g):
    for batch in (1, 2, 5):
        for longest in (1, 3, 8):
            sizes = draw(g, batch, low=0, high=longest + 1).tolist()
            targets = [draw(g, size).tolist() for size in sizes]
            given, said = (padded_by_loop(rows) for rows in zip(*(([BOS, *row], [*row, EOS]) for row in targets)))
            table = torch.randn(11, 11, generator=g, dtype=torch.float64)
            lengths = torch.full((batch,), 4)
            yield Request((draw(g, batch, 4), lengths, given, said, table), gradients=True)


@wide("exact_match")
def any_answers(g):
    for rows in (1, 2, 6):
        for size in (1, 2, 5):
            references = draw(g, rows, size, low=1, high=9)
            predictions = torch.where(draw(g, rows, 1, low=0, high=2) > 0, references, draw(g, rows, size, low=0))
            yield Request((predictions % 9, references))


# --- tokenize ---------------------------------------------------------------------------------------------------------


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
    spaced = "".join(letter if letter.isalnum() or letter.isspace() else f" {letter} " for letter in text)
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
    return tuple(token for k, run in runs if k != "space" for token in ([run] if k == "word" else run))


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


# --- vocabulary -------------------------------------------------------------------------------------------------------


class SortedSet:
    def __init__(self, tokens):
        self.tokens = (*SPECIALS, *sorted(set(tokens) - set(SPECIALS)))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


right("vocabulary")(SortedSet)


def vocabulary(**methods):
    return type(next(reversed(methods.values())).__name__, (SortedSet,), methods)


def variation(**methods):
    right("vocabulary")(vocabulary(**methods))


def init_by_loop(self, tokens):
    self.tokens = list(SPECIALS)
    for token in sorted(tokens):
        if token not in self.tokens:
            self.tokens.append(token)
    self.ids = dict(zip(self.tokens, range(len(self.tokens))))


def init_by_dict(self, tokens):
    others = sorted(dict.fromkeys(token for token in tokens if token not in SPECIALS))
    self.tokens = list(SPECIALS) + others
    self.ids = {}
    for token in self.tokens:
        self.ids[token] = len(self.ids)


def init_by_groups(self, tokens):
    others = [token for token, _ in itertools.groupby(sorted(tokens)) if token not in SPECIALS]
    self.tokens = [*SPECIALS, *others]
    self.ids = dict(map(reversed, enumerate(self.tokens)))


def init_by_counter(self, tokens):
    count = Counter(tokens)
    for special in SPECIALS:
        count.pop(special, None)
    self.tokens = SPECIALS + tuple(sorted(count))
    self.ids = {self.tokens[i]: i for i in range(len(self.tokens))}


def encode_by_test(self, tokens):
    ids = []
    for token in tokens:
        if token in self.ids:
            ids.append(self.ids[token])
        else:
            ids.append(UNK)
    return ids


def encode_by_error(self, tokens):
    def number(token):
        try:
            return self.ids[token]
        except KeyError:
            return UNK

    return list(map(number, tokens))


def encode_by_search(self, tokens):
    return [self.tokens.index(token) if token in self.tokens else UNK for token in tokens]


def encode_as_tensor(self, tokens):
    return torch.tensor([self.ids.get(token, UNK) for token in tokens])


def decode_by_takewhile(self, ids):
    kept = itertools.takewhile(lambda i: i != EOS, ids)
    return tuple(self.tokens[i] for i in kept if i != PAD and i != BOS)


def decode_by_slice(self, ids):
    ids = list(ids)
    if EOS in ids:
        ids = ids[: ids.index(EOS)]
    return tuple([self.tokens[i] for i in ids if i not in {PAD, BOS}])


def decode_by_tokens(self, ids):
    tokens = [self.tokens[i] for i in ids] + ["<eos>"]
    return [token for token in tokens[: tokens.index("<eos>")] if token not in ("<pad>", "<bos>")]


def decode_by_return(self, ids):
    tokens = ()
    for i in ids:
        if i == EOS:
            return tokens
        if i > EOS:
            tokens += (self.tokens[i],)
    return tokens


variation(__init__=init_by_loop)
variation(__init__=init_by_dict, encode=encode_by_test)
variation(__init__=init_by_groups)
variation(__init__=init_by_counter, decode=decode_by_slice)
variation(encode=encode_by_test)
variation(encode=encode_by_error)
variation(encode=encode_by_search)
variation(encode=encode_as_tensor)
variation(decode=decode_by_takewhile)
variation(decode=decode_by_slice)
variation(decode=decode_by_tokens)
variation(decode=decode_by_return)


def init(function):
    return type(function.__name__, (SortedSet,), {"__init__": function})


def encode(function):
    return type(function.__name__, (SortedSet,), {"encode": function})


def decode(function):
    return type(function.__name__, (SortedSet,), {"decode": function})


def number(self, tokens):
    self.tokens = tokens
    self.ids = {token: i for i, token in enumerate(tokens)}


@wrong("vocabulary", "the specials are left out")
@init
def words_only(self, tokens):
    number(self, sorted(set(tokens)))


@wrong("vocabulary", "the tokens are not in order")
@init
def as_they_come(self, tokens):
    number(self, list(dict.fromkeys([*SPECIALS, *tokens])))


@wrong("vocabulary", "the tokens are not in order")
@init
def most_frequent_first(self, tokens):
    number(self, [*SPECIALS, *(t for t, _ in Counter(sorted(tokens)).most_common() if t not in SPECIALS)])


@wrong("vocabulary", "the tokens are not in order")
@init
def sorted_with_the_specials(self, tokens):
    number(self, sorted({*SPECIALS, *tokens}))


@wrong("vocabulary", "a token has two ids")
@init
def repeated(self, tokens):
    number(self, [*SPECIALS, *sorted(tokens)])


@wrong("vocabulary", "a token has two ids")
@init
def specials_twice(self, tokens):
    number(self, list(SPECIALS) + sorted(set(tokens)))


@wrong("vocabulary", "an unknown token is an error")
@encode
def looked_up(self, tokens):
    return [self.ids[token] for token in tokens]


@wrong("vocabulary", "an unknown token is an error")
@encode
def searched(self, tokens):
    return [self.tokens.index(token) for token in tokens]


@wrong("vocabulary", "unknown tokens are left out")
@encode
def skipped(self, tokens):
    return [self.ids[token] for token in tokens if token in self.ids]


@wrong("vocabulary", "what is no id is put out")
@encode
def none_for_unknown(self, tokens):
    return [self.ids.get(token) for token in tokens]


@wrong("vocabulary", "the answer goes on after its end")
@decode
def goes_on(self, ids):
    return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong("vocabulary", "specials among the answer's tokens")
@decode
def with_bos(self, ids):
    return SortedSet.decode(self, ids) if BOS not in ids else ("<bos>", *SortedSet.decode(self, ids))


@wrong("vocabulary", "specials among the answer's tokens")
@decode
def with_its_end(self, ids):
    tokens = []
    for i in ids:
        if i not in (PAD, BOS):
            tokens.append(self.tokens[i])
        if i == EOS:
            break
    return tuple(tokens)


@wrong("vocabulary", "unknown tokens left out of the answer")
@decode
def no_unknown(self, ids):
    kept = itertools.takewhile(lambda i: i != EOS, ids)
    return tuple(self.tokens[i] for i in kept if i >= len(SPECIALS))


@wrong("vocabulary", "an end is taken for granted")
@decode
def must_end(self, ids):
    return tuple(self.tokens[i] for i in ids[: ids.index(EOS)] if i not in (PAD, BOS))


@wrong("vocabulary", "no tuple of strings")
@decode
def one_string(self, ids):
    return " ".join(SortedSet.decode(self, ids))


@right("vocabulary")
@init
def init_tokens_as_dict(self, tokens):
    self.tokens = dict(enumerate([*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]))
    self.ids = {token: i for i, token in self.tokens.items()}


CHANGED = "a list of the caller's is changed"
NOT_AS_MANY = "not as many ids as tokens"
TOKENS_LOST = "tokens of the answer are lost"


@wrong("vocabulary", CHANGED)
@init
def sorted_in_place(self, tokens):
    tokens.sort()
    number(self, list(dict.fromkeys([*SPECIALS, *tokens])))


@wrong("vocabulary", CHANGED)
@decode
def padding_removed_in_place(self, ids):
    for special in (PAD, BOS):
        while special in ids:
            ids.remove(special)
    return SortedSet.decode(self, ids)


@wrong("vocabulary", ONCE)
@encode
def generated(self, tokens):
    return (self.ids.get(token, UNK) for token in tokens)


@wrong("vocabulary", "an unknown token gets an id of its own")
@encode
def learned_on_the_way(self, tokens):
    return [self.ids.setdefault(token, len(self.ids)) for token in tokens]


@wrong("vocabulary", "BOS and EOS among the ids")
@encode
def bordered(self, tokens):
    return [BOS, *SortedSet.encode(self, tokens), EOS]


@wrong("vocabulary", NOT_AS_MANY)
@encode
def returned_in_the_loop(self, tokens):
    for token in tokens:
        return [self.ids.get(token, UNK)]


@wrong("vocabulary", "a special token is unknown")
@init
def words_numbered_alone(self, tokens):
    words = sorted(set(tokens) - set(SPECIALS))
    self.tokens = [*SPECIALS, *words]
    self.ids = {word: i for i, word in enumerate(words, start=len(SPECIALS))}


@wrong("vocabulary", TOKENS_LOST)
@decode
def ends_at_padding(self, ids):
    return SortedSet.decode(self, itertools.takewhile(lambda i: i != PAD, ids))


@wrong("vocabulary", TOKENS_LOST)
@decode
def first_taken_for_bos(self, ids):
    return SortedSet.decode(self, ids[1:])


# --- pad --------------------------------------------------------------------------------------------------------------


@right("pad")
def one_line(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


@right("pad")
def padded_by_loop(rows):
    padded = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded


@right("pad")
def by_torch(rows):
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=PAD)


@right("pad")
def by_zip_longest(rows):
    return torch.tensor(list(itertools.zip_longest(*rows, fillvalue=PAD)), dtype=torch.long).T


@right("pad")
def by_functional(rows):
    longest = max(map(len, rows))
    return torch.stack(
        [F.pad(torch.tensor(row, dtype=torch.int64), (0, longest - len(row)), value=PAD) for row in rows]
    )


@right("pad")
def by_full_and_place(rows):
    padded = torch.full((len(rows), max(len(row) for row in rows)), PAD)
    for b, row in enumerate(rows):
        for t, i in enumerate(row):
            padded[b, t] = i
    return padded


@right("pad")
def by_mask(rows):
    lengths = torch.tensor([len(row) for row in rows])
    padded = lengths.new_zeros(len(rows), int(lengths.max()))
    padded[torch.arange(padded.size(1)) < lengths[:, None]] = torch.tensor(sum(rows, []))
    return padded


@right("pad")
def by_cat(rows):
    longest = len(max(rows, key=len))
    rows = [torch.cat([torch.LongTensor(row), torch.zeros(longest - len(row), dtype=torch.long)]) for row in rows]
    return torch.cat([row[None] for row in rows])


@right("pad")
def by_columns(rows):
    columns = [[row[t] if t < len(row) else PAD for row in rows] for t in range(max(map(len, rows)))]
    return torch.stack([torch.tensor(column) for column in columns], dim=1)


@right("pad")
def by_scatter(rows):
    places = [(b, t) for b, row in enumerate(rows) for t in range(len(row))]
    sizes = (len(rows), max(map(len, rows)))
    ids = torch.tensor([i for row in rows for i in row])
    return torch.zeros(sizes, dtype=torch.long).index_put(tuple(torch.tensor(places).T), ids)


@right("pad")
def by_copies(rows):
    rows = [list(row) for row in rows]
    longest = max(len(row) for row in rows)
    for row in rows:
        while len(row) < longest:
            row.append(PAD)
    return torch.IntTensor(rows).long()


@wrong("pad", "filled up in front")
def in_front(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*[PAD] * (longest - len(row)), *row] for row in rows])


@wrong("pad", "rows cut off")
def cut_to_the_shortest(rows):
    return torch.tensor(list(zip(*rows))).T


@wrong("pad", "rows cut off")
def cut_to_the_first(rows):
    width = min(len(row) for row in rows)
    return torch.stack([torch.tensor(row)[:width] for row in rows])


@wrong("pad", "filled up with another id")
def with_minus_one(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[-1] * (longest - len(row))] for row in rows])


@wrong("pad", "filled up with another id")
def with_eos(rows):
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=EOS).long()


@wrong("pad", "columns are sentences")
def not_batch_first(rows):
    return pad_sequence([torch.tensor(row) for row in rows])


@wrong("pad", "the caller's rows are changed")
def changed_in_place(rows):
    longest = max(len(row) for row in rows)
    for row in rows:
        row += [PAD] * (longest - len(row))
    return torch.tensor(rows)


@wrong("pad", "rows still of different lengths")
def one_each(rows):
    return torch.tensor([[*row, PAD] for row in rows])


@wrong("pad", "one column too many or too few")
def one_more(rows):
    longest = max(len(row) for row in rows) + 1
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@wrong("pad", "lists returned, where a tensor is meant")
def lists(rows):
    longest = max(len(row) for row in rows)
    return [[*row, *[PAD] * (longest - len(row))] for row in rows]


@wrong("pad", "ids are whole numbers")
def floats(rows):
    padded = torch.zeros(len(rows), max(map(len, rows)))
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row)
    return padded


@wrong("pad", NO_NAME)
def misspelt(rows):
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])  # noqa: F821


@wrong("pad", "rows still of different lengths")
def longest_by_order(rows):
    longest = len(max(rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


@wrong("pad", "the rows in another order")
def longest_first(rows):
    rows = sorted(rows, key=len, reverse=True)
    return torch.tensor([row + [PAD] * (len(rows[0]) - len(row)) for row in rows])


@wrong("pad", "ids are whole numbers")
def filled_with_the_token(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + ["<pad>"] * (longest - len(row)) for row in rows])


# --- padding_mask -----------------------------------------------------------------------------------------------------


@right("padding_mask")
def compared(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]


@right("padding_mask")
def unsqueezed(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return torch.lt(positions.view(1, 1, size), lengths.view(-1, 1, 1))


@right("padding_mask")
def not_padding(lengths, size):
    return ~(torch.arange(size, device=lengths.device)[None, None] >= lengths.unsqueeze(1).unsqueeze(2))


@right("padding_mask")
def expanded(lengths, size):
    positions = torch.arange(size, device=lengths.device).expand(len(lengths), size)
    return torch.stack([positions < lengths.unsqueeze(-1)], dim=1)


@right("padding_mask")
def by_counting(lengths, size):
    ones = torch.ones(len(lengths), 1, size, dtype=torch.long, device=lengths.device)
    return ones.cumsum(-1) <= lengths[:, None, None]


@right("padding_mask")
def by_difference(lengths, size):
    return (lengths[:, None, None] - torch.arange(1, size + 1, device=lengths.device)).sign() >= 0


@right("padding_mask")
def by_rows_of_a_triangle(lengths, size):
    triangle = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return triangle[lengths][:, None]


@right("padding_mask")
def sentence_by_sentence(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return torch.stack([(positions < length)[None] for length in lengths])


@right("padding_mask")
def by_outer(lengths, size):
    places = torch.arange(size, device=lengths.device)
    return torch.cat([torch.less(places, lengths.reshape(-1, 1))]).reshape(-1, 1, size).bool()


@right("padding_mask")
def by_where(lengths, size):
    places = torch.arange(size, device=lengths.device)[None]
    yes = torch.ones((), dtype=torch.bool, device=lengths.device)
    return torch.where(places < lengths[:, None], yes, ~yes).unsqueeze(-2)


@right("padding_mask")
def warned(lengths, size):
    print("lengths", tuple(lengths.shape), file=sys.stderr)
    return torch.gt(lengths[:, None], torch.arange(size, device=lengths.device)).unsqueeze(1)


@wrong("padding_mask", "mask the wrong way around")
def true_is_padding(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None]).unsqueeze(1)


@wrong("padding_mask", "one position of padding counted as a token")
def up_to_the_length(lengths, size):
    return ~(torch.arange(size, device=lengths.device) > lengths[:, None])[:, None]


@wrong("padding_mask", "the axis of the queries is missing", "an axis of length one too many or too few")
def two_axes(lengths, size):
    return torch.arange(size, device=lengths.device).expand(len(lengths), -1) < lengths[:, None]


@wrong("padding_mask", "the width is taken from the longest sentence")
def own_width(lengths, size):
    return (torch.arange(lengths.max(), device=lengths.device) < lengths[:, None])[:, None]


@wrong("padding_mask", "numbers, where True and False are meant")
def zeros_and_ones(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None].float()


@wrong("padding_mask", DEVICE)
def on_the_cpu(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong("padding_mask", DEVICE, TAKEN_OUT)
def by_loop(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool)
    for number, length in enumerate(lengths.tolist()):
        mask[number, 0, :length] = True
    return mask


@wrong("padding_mask", FITS)
def no_axis_for_the_batch(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths)[:, None]


@wrong("padding_mask", "axes exchanged", "an axis of length one too many or too few", FITS)
def query_axis_last(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, :, None]


@wrong("padding_mask", "axes exchanged")
def sentences_last(lengths, size):
    return (torch.arange(size, device=lengths.device)[:, None] < lengths)[:, None]


@wrong("padding_mask", "the first token missed out")
def counts_from_one(lengths, size):
    return (torch.arange(1, size + 1, device=lengths.device) < lengths[:, None])[:, None]


@wrong("padding_mask", NOTHING)
def forgot_to_return(lengths, size):
    mask = torch.arange(size, device=lengths.device) < lengths[:, None]
    mask = mask[:, None]


@wrong("padding_mask", "an input is changed in place")
def lengths_counted_down(lengths, size):
    lengths -= 1
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong("padding_mask", "one sentence stands for all")
def of_the_first_sentence(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[0])[None, None]


@wrong("padding_mask", "a row for every query")
def square(lengths, size):
    return compared(lengths, size).expand(-1, size, -1)


# --- collate ----------------------------------------------------------------------------------------------------------


def pad(rows):
    return padded_by_loop(rows)


def both(task, examples):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return sources, targets


@right("collate")
def by_the_book(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    return Batch(
        source=pad(sources).to(device),
        lengths=torch.tensor([len(row) for row in sources]),
        target_in=pad([[BOS, *row] for row in targets]).to(device),
        target_out=pad([[*row, EOS] for row in targets]).to(device),
    )


@right("collate")
def in_one_loop(task, examples, device="cpu"):
    source, lengths, target_in, target_out = [], [], [], []
    for example in examples:
        ids = task.source_vocabulary.encode(example.source)
        source.append(ids)
        lengths.append(len(ids))
        ids = task.target_vocabulary.encode(example.target)
        target_in.append([BOS] + ids)
        target_out.append(ids + [EOS])
    target_in, target_out = (pad(rows).to(device) for rows in (target_in, target_out))
    return Batch(
        pad(source).to(device), torch.stack([torch.tensor(length) for length in lengths]), target_in, target_out
    )


@right("collate")
def from_one_longer_tensor(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    given, said = pad([[BOS, *row] for row in targets]), pad([[BOS, *row, EOS] for row in targets])[:, 1:]
    source = pad(sources)
    return Batch(source.to(device), (source != PAD).sum(1), given.to(device), said.to(device))


@right("collate")
def by_rolling(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    said = pad([[*row, EOS] for row in targets])
    given = said.masked_fill(said == EOS, PAD).roll(1, dims=1)
    given[:, 0] = BOS
    lengths = torch.tensor(list(map(len, sources)))
    return Batch(pad(sources).to(device), lengths, given.to(device), said.to(device))


@right("collate")
def bos_glued_in_front(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    ids = pad(targets)
    given = torch.cat([torch.full((len(ids), 1), BOS), ids], dim=1)
    said = pad([[*row, EOS] for row in targets])
    return Batch(pad(sources).to(device), torch.tensor([len(s) for s in sources]), given.to(device), said.to(device))


@right("collate")
def end_put_in_place(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    said = F.pad(pad(targets), (0, 1), value=PAD)
    said[torch.arange(len(said)), torch.tensor([len(row) for row in targets])] = EOS
    given = F.pad(pad(targets), (1, 0), value=BOS)
    lengths = torch.tensor([len(example.source) for example in examples])
    return Batch(pad(sources).to(device), lengths, given.to(device), said.to(device))


@right("collate")
def end_scattered(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    ends = torch.tensor([[len(row)] for row in targets])
    said = pad([[*row, PAD] for row in targets]).scatter(1, ends, EOS)
    given = pad([[BOS, *row] for row in targets])
    return Batch(pad(sources).to(device), torch.tensor([*map(len, sources)]), given.to(device), said.to(device))


@right("collate")
def padded_by_torch(task, examples, device="cpu"):
    def tensor(rows):
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(device)

    sources, targets = both(task, examples)
    given, said = zip(*(([BOS, *row], [*row, EOS]) for row in targets))
    return Batch(tensor(sources), torch.tensor([len(row) for row in sources]), tensor(given), tensor(said))


@right("collate")
def tokens_bordered_first(task, examples, device="cpu"):
    encode = task.target_vocabulary.encode
    given = [encode(["<bos>", *example.target]) for example in examples]
    said = [encode([*example.target, "<eos>"]) for example in examples]
    source = pad([task.source_vocabulary.encode(example.source) for example in examples])
    lengths = torch.sum(source.ne(PAD), dim=-1)
    return Batch(source.to(device), lengths, pad(given).to(device), pad(said).to(device))


@right("collate")
def stacked_and_unbound(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    rows = [[BOS, *row] for row in targets] + [[*row, EOS] for row in targets]
    given, said = pad(rows).to(device).chunk(2)
    return Batch(pad(sources).to(device), torch.as_tensor([len(row) for row in sources]), given, said)


@right("collate")
def counted_by_a_sum(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    source = pad(sources)
    lengths = torch.stack([torch.count_nonzero(row) for row in source])
    ids = pad([[BOS, *row, EOS] for row in targets])
    given = ids[:, :-1].where(ids[:, :-1] != EOS, PAD)
    return Batch(source.to(device), lengths, given.to(device), ids[:, 1:].to(device))


@wrong("collate", "the target is not shifted")
def not_shifted(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, pad(targets).to(device), pad(targets).to(device))


@wrong("collate", "the target is not shifted", "BOS and EOS on both sides")
def bordered_not_shifted(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    target = pad([[BOS, *row, EOS] for row in targets]).to(device)
    return Batch(pad(sources).to(device), torch.tensor([len(row) for row in sources]), target, target)


@wrong("collate", "BOS and EOS on both sides")
def end_goes_in(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    target = pad([[BOS, *row, EOS] for row in targets]).to(device)
    return Batch(pad(sources).to(device), torch.tensor([len(row) for row in sources]), target[:, :-1], target[:, 1:])


@wrong("collate", "the end behind the padding", "the end is missing")
def padded_first(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    ids = pad(targets)
    said = torch.cat([ids, torch.full((len(ids), 1), EOS)], dim=1)
    given = torch.cat([torch.full((len(ids), 1), BOS), ids], dim=1)
    return Batch(
        pad(sources).to(device), torch.tensor([len(row) for row in sources]), given.to(device), said.to(device)
    )


@wrong("collate", "the end is missing")
def never_ends(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    given = pad([[BOS, *row[:-1]] for row in targets])
    return Batch(pad(sources).to(device), lengths, given.to(device), pad(targets).to(device))


@wrong("collate", "the beginning is missing")
def no_beginning(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    said = pad([[*row[1:], EOS] for row in targets])
    return Batch(pad(sources).to(device), lengths, pad(targets).to(device), said.to(device))


@wrong("collate", "sources between BOS and EOS")
def sources_end(task, examples, device="cpu"):
    sources, _ = both(task, examples)
    sources = [[*row, EOS] for row in sources]
    right = by_the_book(task, examples, device)
    return right._replace(source=pad(sources).to(device), lengths=torch.tensor([len(row) for row in sources]))


@wrong("collate", "padding counted in the lengths")
def as_wide_as_all(task, examples, device="cpu"):
    batch = by_the_book(task, examples, device)
    return batch._replace(lengths=torch.full((len(examples),), batch.source.shape[1]))


@wrong("collate", "the lengths are those of something else")
def lengths_of_targets(task, examples, device="cpu"):
    _, targets = both(task, examples)
    return by_the_book(task, examples, device)._replace(lengths=torch.tensor([len(row) for row in targets]))


@wrong("collate", "a vocabulary of the other language")
def one_vocabulary(task, examples, device="cpu"):
    task.target_vocabulary = task.source_vocabulary
    return by_the_book(task, examples, device)


@wrong("collate", "tokens, where ids are meant")
def not_encoded(task, examples, device="cpu"):
    sources = [list(example.source) for example in examples]
    return by_the_book(task, examples, device)._replace(source=pad(sources).to(device))


@wrong("collate", "no Batch is returned")
def plain_tuple(task, examples, device="cpu"):
    return tuple(by_the_book(task, examples, device))


@wrong("collate", "left where they were made, or sent along too far")
def stays_on_the_cpu(task, examples, device="cpu"):
    return by_the_book(task, examples)


@wrong("collate", "left where they were made, or sent along too far")
def lengths_sent_along(task, examples, device="cpu"):
    return Batch(*(x.to(device) for x in by_the_book(task, examples)))


@wrong("collate", "the outputs in another order", "shifted the wrong way")
def other_order(task, examples, device="cpu"):
    source, lengths, given, said = by_the_book(task, examples, device)
    return Batch(source, lengths, said, given)


@wrong("collate", "lists, where tensors are meant")
def lengths_in_a_list(task, examples, device="cpu"):
    batch = by_the_book(task, examples, device)
    return batch._replace(lengths=batch.lengths.tolist())


@wrong("collate", "not every example is in the batch")
def first_example(task, examples, device="cpu"):
    return by_the_book(task, examples[:1], device)


# --- loss -------------------------------------------------------------------------------------------------------------


@right("loss")
def by_ignore_index(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = batch.target_out.flatten()
    total = F.cross_entropy(logits.flatten(0, 1), right, ignore_index=PAD, reduction="sum")
    return total, int((right != PAD).sum())


@right("loss")
def vocabulary_second(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, (batch.target_out != PAD).sum()


@right("loss")
def by_permute_and_class(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    total = nn.CrossEntropyLoss(ignore_index=PAD, reduction="none")(logits.permute(0, 2, 1), batch.target_out).sum()
    return total, int(batch.target_out.ne(PAD).sum())


@right("loss")
def masked_afterwards(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_out != PAD
    each = F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")
    return (each * mask).sum(), mask.sum().item()


@right("loss")
def picked_by_mask(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_out != PAD
    return F.cross_entropy(logits[mask], batch.target_out[mask], reduction="sum"), int(mask.sum())


@right("loss")
def gathered(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    chosen = logits.log_softmax(dim=-1).gather(-1, batch.target_out[..., None]).squeeze(-1)
    mask = batch.target_out != PAD
    return -(chosen * mask).sum(), int(mask.sum())


@right("loss")
def by_nll(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = F.log_softmax(logits, dim=-1).view(-1, logits.size(-1))
    total = F.nll_loss(log_p, batch.target_out.reshape(-1), ignore_index=PAD, reduction="sum")
    return total, torch.count_nonzero(batch.target_out)


@right("loss")
def by_logsumexp(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = logits.gather(2, batch.target_out.unsqueeze(2)).squeeze(2)
    each = torch.logsumexp(logits, dim=2) - right
    return each.masked_fill(batch.target_out == PAD, 0.0).sum(), int((batch.target_out > PAD).sum())


@right("loss")
def mean_times_count(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    count = int((batch.target_out != PAD).sum())
    return count * F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD), count


@right("loss")
def sentence_by_sentence_loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits.new_zeros(()), 0
    for row, said in zip(logits, batch.target_out):
        size = int((said != PAD).sum())
        total = total + F.cross_entropy(row[:size], said[:size], reduction="sum")
        count += size
    return total, count


@right("loss")
def one_hot(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    hot = F.one_hot(batch.target_out, logits.size(-1)).to(logits.dtype)
    hot[..., PAD] = 0
    return -(hot * logits.log_softmax(-1)).sum(), int(hot.sum())


@wrong("loss", "a mean, where the sum is meant")
def mean_over_tokens(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "a mean, where the sum is meant")
def mean_of_sentences(task, model, batch, label_smoothing=0.0):
    total, count = by_ignore_index(task, model, batch)
    return total / len(batch.target_out), count


@wrong("loss", "padding has a say")
def pads_counted_in_the_sum(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.mT, batch.target_out, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "padding has a say")
def last_position_ignored(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.mT, batch.target_out, reduction="none")
    return total[:, : int((batch.target_out != PAD).sum(1).max())].sum(), int((batch.target_out != PAD).sum())


@wrong("loss", "padding has a say", NO_NAME, FITS)
def masked_logits(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logits = logits * (batch.target_out != PAD)[..., None]
    total = F.cross_entropy(logits.mT, batch.target_out, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "padding is counted")
def all_places_counted(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch)[0], batch.target_out.numel()


@wrong("loss", "other tokens are counted")
def end_not_counted(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch)[0], int((batch.target_out > EOS).sum())


@wrong("loss", "the loss looks at what goes in", "the model is given the answer")
def compared_with_the_input(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_in.flatten(), ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "the model is given the answer")
def answer_given(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch._replace(target_in=batch.target_out))


@wrong("loss", "the target is shifted once more")
def shifted_again(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = batch.target_out[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), right, ignore_index=PAD, reduction="sum")
    return total, int((right != PAD).sum())


@wrong("loss", "softmax done twice")
def softmax_before(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    probabilities = torch.softmax(logits, dim=-1)
    total = F.cross_entropy(probabilities.mT, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "positions and vocabulary mixed up")
def not_flattened(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "a loss per position, where one sum is meant")
def not_summed(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD, reduction="none")
    return each, int((batch.target_out != PAD).sum())


@wrong("loss", "no gradient can pass a number")
def a_number(task, model, batch, label_smoothing=0.0):
    total, count = by_ignore_index(task, model, batch)
    return total.item(), count


@wrong("loss", CUT)
def detached(task, model, batch, label_smoothing=0.0):
    total, count = by_ignore_index(task, model, batch)
    return total.detach(), count


@wrong("loss", TOO_MUCH)
def without_count(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch)[0]


@wrong("loss", "sign turned around")
def negative(task, model, batch, label_smoothing=0.0):
    total, count = gathered(task, model, batch)
    return -total, count


@wrong("loss", NO_NAME)
def logits_not_taken_out(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@right("loss")
def weighted(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    weight = torch.ones_like(logits[0, 0]).index_fill(0, torch.tensor(PAD), 0)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), weight=weight, reduction="sum")
    return total, (batch.target_out != PAD).sum()


@wrong("loss", "logits of other positions and tokens")
def reshaped(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    sentences, positions, words = logits.shape
    logits = logits.view(sentences, words, positions)
    return F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum"), int(
        (batch.target_out != PAD).sum()
    )


@wrong("loss", "the end does not count")
def end_ignored(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=EOS, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


# --- exact_match ------------------------------------------------------------------------------------------------------


@right("exact_match")
def equal_tuples(predictions, references):
    right = [prediction == reference for prediction, reference in zip(predictions, references)]
    return sum(right) / len(right)


@right("exact_match")
def as_tuples(predictions, references):
    return sum(tuple(p) == tuple(r) for p, r in zip(predictions, references)) / len(references)


@right("exact_match")
def counted_in_a_loop(predictions, references):
    count = 0
    for prediction, reference in zip(predictions, references):
        if prediction == reference:
            count += 1
    return count / len(predictions)


@right("exact_match")
def by_index(predictions, references):
    return len([i for i in range(len(references)) if list(predictions[i]) == list(references[i])]) / len(references)


@right("exact_match")
def by_length_and_tokens(predictions, references):
    def same(p, r):
        return len(p) == len(r) and all(a == b for a, b in zip(p, r))

    return sum(map(same, predictions, references)) / len(references)


@right("exact_match")
def by_zip_longest_tokens(predictions, references):
    hits = [all(a == b for a, b in itertools.zip_longest(p, r)) for p, r in zip(predictions, references)]
    return hits.count(True) / len(hits)


@right("exact_match")
def as_text(predictions, references):
    hits = [" ".join(p) == " ".join(r) for p, r in zip(predictions, references)]
    return float(sum(hits)) / float(len(hits))


@right("exact_match")
def as_a_tensor(predictions, references):
    return torch.tensor([p == r for p, r in zip(predictions, references)]).float().mean()


@right("exact_match")
def one_minus_mistakes(predictions, references):
    mistakes = sum(p != r for p, r in zip(predictions, references))
    return 1 - mistakes / len(references)


@right("exact_match")
def running_mean(predictions, references):
    share = 0.0
    for n, (p, r) in enumerate(zip(predictions, references), start=1):
        share += (float(p == r) - share) / n
    return share


@right("exact_match")
def by_counter(predictions, references):
    count = Counter(p == r for p, r in zip(predictions, references))
    return count[True] / count.total()


@wrong("exact_match", "right tokens counted, not right answers")
def token_share(predictions, references):
    right = total = 0
    for prediction, reference in zip(predictions, references):
        right += sum(p == r for p, r in zip(prediction, reference))
        total += len(reference)
    return right / total


@wrong("exact_match", "compared only as far as the shorter one goes")
def zip_stops(predictions, references):
    right = [all(a == b for a, b in zip(p, r)) for p, r in zip(predictions, references)]
    return sum(right) / len(right)


@wrong("exact_match", "compared only as far as the shorter one goes", "divided by something else")
def starts_alike(predictions, references):
    return sum(r[: len(p)] == p for p, r in zip(predictions, references)) / len(references)


@wrong("exact_match", "the order of the tokens does not count")
def same_tokens(predictions, references):
    return sum(Counter(p) == Counter(r) for p, r in zip(predictions, references)) / len(references)


@wrong("exact_match", "tokens run together before they are compared")
def run_together(predictions, references):
    right = ["".join(p) == "".join(r) for p, r in zip(predictions, references)]
    return sum(right) / len(right)


@wrong("exact_match", "right answers counted, not their share")
def not_divided(predictions, references):
    return sum(p == r for p, r in zip(predictions, references))


@wrong("exact_match", "all or nothing over all examples")
def all_at_once(predictions, references):
    return 1.0 if list(predictions) == list(references) else 0.0


@wrong("exact_match", "divided by something else")
def divided_by_tokens(predictions, references):
    return sum(p == r for p, r in zip(predictions, references)) / sum(map(len, references))


@wrong("exact_match", "all or nothing over all examples")
def floor_divided(predictions, references):
    return sum(p == r for p, r in zip(predictions, references)) // len(references)


@wrong("exact_match", "a share in percent")
def percent(predictions, references):
    return 100 * sum(p == r for p, r in zip(predictions, references)) / len(references)


@wrong("exact_match", "no number is returned")
def a_list(predictions, references):
    return [p == r for p, r in zip(predictions, references)]


@wrong("exact_match", "tensors expected, where tuples of strings come")
def tensor_comparison(predictions, references):
    return (torch.tensor(predictions) == torch.tensor(references)).all(1).float().mean()


@wrong("exact_match", "one right token is enough", "right tokens counted, not right answers")
def any_token(predictions, references):
    return sum(any(t in r for t in p) for p, r in zip(predictions, references)) / len(references)


@wrong("exact_match", "an answer compared with another example's")
def found_anywhere(predictions, references):
    return sum(p in references for p in predictions) / len(predictions)


@wrong("exact_match", "right tokens counted, not right answers")
def mean_of_token_shares(predictions, references):
    shares = []
    for prediction, reference in zip(predictions, references):
        right = sum(a == b for a, b in zip(prediction, reference))
        shares.append(right / max(len(prediction), len(reference)))
    return sum(shares) / len(shares)


@wrong("exact_match", "divided by something else")
def divided_by_one_more(predictions, references):
    right, total = 0, 1
    for prediction, reference in zip(predictions, references):
        right += prediction == reference
        total += 1
    return right / total
