"""Answers to vocabulary."""

import itertools
from collections import Counter

import torch
from answers.core import right, wide, with_part, wrong
from answers.lab01_preprocessing.texts import draw
from answers.lab01_preprocessing.tokenize import ONCE

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from nbjudge.question import Request


@wide("vocabulary")
def any_vocabulary(g):
    for count in (1, 3, 12):
        words = [
            "".join("pqrs"[i] for i in draw(g, 2, low=0, high=4)) for _ in range(count)
        ]
        known = [*words, "<bos>", *words[::2]]
        yield Request((known, "tokens", []))
        yield Request((known, "encode", [*words[::-1], "zz", "<unk>", "<pad>"]))
        for size in (0, 1, 4, 9):
            ids = draw(g, size, low=0, high=len(set(words)) + 4).tolist()
            yield Request((known, "decode", ids))


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
    others = [
        token for token, _ in itertools.groupby(sorted(tokens)) if token not in SPECIALS
    ]
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
    return [
        self.tokens.index(token) if token in self.tokens else UNK for token in tokens
    ]


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
    return [
        token
        for token in tokens[: tokens.index("<eos>")]
        if token not in ("<pad>", "<bos>")
    ]


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


def number(self, tokens):
    self.tokens = tokens
    self.ids = {token: i for i, token in enumerate(tokens)}


@wrong("vocabulary", "the specials are left out")
@with_part(SortedSet, "__init__")
def words_only(self, tokens):
    number(self, sorted(set(tokens)))


@wrong("vocabulary", "the tokens are not in order")
@with_part(SortedSet, "__init__")
def as_they_come(self, tokens):
    number(self, list(dict.fromkeys([*SPECIALS, *tokens])))


@wrong("vocabulary", "the tokens are not in order")
@with_part(SortedSet, "__init__")
def most_frequent_first(self, tokens):
    number(
        self,
        [
            *SPECIALS,
            *(t for t, _ in Counter(sorted(tokens)).most_common() if t not in SPECIALS),
        ],
    )


@wrong("vocabulary", "the tokens are not in order")
@with_part(SortedSet, "__init__")
def sorted_with_the_specials(self, tokens):
    number(self, sorted({*SPECIALS, *tokens}))


@wrong("vocabulary", "a token has two ids")
@with_part(SortedSet, "__init__")
def repeated(self, tokens):
    number(self, [*SPECIALS, *sorted(tokens)])


@wrong("vocabulary", "a token has two ids")
@with_part(SortedSet, "__init__")
def specials_twice(self, tokens):
    number(self, list(SPECIALS) + sorted(set(tokens)))


@wrong("vocabulary", "an unknown token is an error")
@with_part(SortedSet, "encode")
def looked_up(self, tokens):
    return [self.ids[token] for token in tokens]


@wrong("vocabulary", "an unknown token is an error")
@with_part(SortedSet, "encode")
def searched(self, tokens):
    return [self.tokens.index(token) for token in tokens]


@wrong("vocabulary", "unknown tokens are left out")
@with_part(SortedSet, "encode")
def skipped(self, tokens):
    return [self.ids[token] for token in tokens if token in self.ids]


@wrong("vocabulary", "what is no id is put out")
@with_part(SortedSet, "encode")
def none_for_unknown(self, tokens):
    return [self.ids.get(token) for token in tokens]


@wrong("vocabulary", "the answer goes on after its end")
@with_part(SortedSet, "decode")
def goes_on(self, ids):
    return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong("vocabulary", "specials among the answer's tokens")
@with_part(SortedSet, "decode")
def with_bos(self, ids):
    return (
        SortedSet.decode(self, ids)
        if BOS not in ids
        else ("<bos>", *SortedSet.decode(self, ids))
    )


@wrong("vocabulary", "specials among the answer's tokens")
@with_part(SortedSet, "decode")
def with_its_end(self, ids):
    tokens = []
    for i in ids:
        if i not in (PAD, BOS):
            tokens.append(self.tokens[i])
        if i == EOS:
            break
    return tuple(tokens)


@wrong("vocabulary", "unknown tokens left out of the answer")
@with_part(SortedSet, "decode")
def no_unknown(self, ids):
    kept = itertools.takewhile(lambda i: i != EOS, ids)
    return tuple(self.tokens[i] for i in kept if i >= len(SPECIALS))


@wrong("vocabulary", "an end is taken for granted")
@with_part(SortedSet, "decode")
def must_end(self, ids):
    return tuple(self.tokens[i] for i in ids[: ids.index(EOS)] if i not in (PAD, BOS))


@wrong("vocabulary", "no tuple of strings")
@with_part(SortedSet, "decode")
def one_string(self, ids):
    return " ".join(SortedSet.decode(self, ids))


@right("vocabulary")
@with_part(SortedSet, "__init__")
def init_tokens_as_dict(self, tokens):
    self.tokens = dict(enumerate([*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]))
    self.ids = {token: i for i, token in self.tokens.items()}


CHANGED = "a list of the caller's is changed"
NOT_AS_MANY = "not as many ids as tokens"
TOKENS_LOST = "tokens of the answer are lost"


@wrong("vocabulary", CHANGED)
@with_part(SortedSet, "__init__")
def sorted_in_place(self, tokens):
    tokens.sort()
    number(self, list(dict.fromkeys([*SPECIALS, *tokens])))


@wrong("vocabulary", CHANGED)
@with_part(SortedSet, "decode")
def padding_removed_in_place(self, ids):
    for special in (PAD, BOS):
        while special in ids:
            ids.remove(special)
    return SortedSet.decode(self, ids)


@wrong("vocabulary", ONCE)
@with_part(SortedSet, "encode")
def generated(self, tokens):
    return (self.ids.get(token, UNK) for token in tokens)


@wrong("vocabulary", "an unknown token gets an id of its own")
@with_part(SortedSet, "encode")
def learned_on_the_way(self, tokens):
    return [self.ids.setdefault(token, len(self.ids)) for token in tokens]


@wrong("vocabulary", "BOS and EOS among the ids")
@with_part(SortedSet, "encode")
def bordered(self, tokens):
    return [BOS, *SortedSet.encode(self, tokens), EOS]


@wrong("vocabulary", NOT_AS_MANY)
@with_part(SortedSet, "encode")
def returned_in_the_loop(self, tokens):
    for token in tokens:
        return [self.ids.get(token, UNK)]


@wrong("vocabulary", "a special token is unknown")
@with_part(SortedSet, "__init__")
def words_numbered_alone(self, tokens):
    words = sorted(set(tokens) - set(SPECIALS))
    self.tokens = [*SPECIALS, *words]
    self.ids = {word: i for i, word in enumerate(words, start=len(SPECIALS))}


@wrong("vocabulary", TOKENS_LOST)
@with_part(SortedSet, "decode")
def ends_at_padding(self, ids):
    return SortedSet.decode(self, itertools.takewhile(lambda i: i != PAD, ids))


@wrong("vocabulary", TOKENS_LOST)
@with_part(SortedSet, "decode")
def first_taken_for_bos(self, ids):
    return SortedSet.decode(self, ids[1:])
