"""Answers to vocabulary."""

import itertools
from collections import Counter

from answers.core import right_edits, variations, wide, wrong_edits
from answers.lab01_preprocessing.shared import draw
from answers.lab01_preprocessing.tokenize import ONCE
from answers.signs import ANOTHER, NO_NAME

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from nbjudge import Request, edit


@wide("vocabulary")
def any_vocabulary(g):
    for count in (1, 3, 12):
        words = [
            "".join("pqrs"[i] for i in draw(g, 2, low=0, high=4)) for _ in range(count)
        ]
        known = [*words, "<bos>", *words[::2]]
        yield Request(("tokens", []), (known,))
        yield Request(("encode", [*words[::-1], "zz", "<unk>", "<pad>"]), (known,))
        for size in (0, 1, 4, 9):
            ids = draw(g, size, low=0, high=len(set(words)) + 4).tolist()
            yield Request(("decode", ids), (known,))


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


def init_by_loop(self, tokens):
    self.tokens = list(SPECIALS)
    for token in sorted(tokens):
        if token not in self.tokens:
            self.tokens.append(token)
    self.ids = dict(zip(self.tokens, range(len(self.tokens))))


def init_by_counter(self, tokens):
    self.tokens = SPECIALS + tuple(sorted(Counter(tokens).keys() - {*SPECIALS}))
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
    return tuple(
        token
        for token in tokens[: tokens.index("<eos>")]
        if token not in ("<pad>", "<bos>")
    )


def decode_by_return(self, ids):
    tokens = ()
    for i in ids:
        if i == EOS:
            return tokens
        if i > EOS:
            tokens += (self.tokens[i],)
    return tokens


def decode_once():
    """Keep what has been decoded, for all objects."""


variations(
    "vocabulary",
    SortedSet,
    __init__=(init_by_loop, init_by_counter),
    encode=(encode_by_test, encode_by_error),
    decode=(decode_by_takewhile, decode_by_slice, decode_by_tokens, decode_by_return),
)
INIT, ENCODE, DECODE = SortedSet.__init__, SortedSet.encode, SortedSet.decode
TOKENS = "(*SPECIALS, *sorted(set(tokens) - set(SPECIALS)))"
NUMBERS = "{token: i for i, token in enumerate(self.tokens)}"
GET = "self.ids.get(token, UNK)"
right_edits(
    "vocabulary",
    SortedSet,
    init_by_dict=edit(
        INIT,
        TOKENS,
        "[*SPECIALS] + sorted(dict.fromkeys(t for t in tokens if t not in SPECIALS))",
    )
    & edit(INIT, NUMBERS, "dict(zip(self.tokens, range(len(self.tokens))))"),
    init_by_groups=edit(
        INIT,
        "set(tokens) - set(SPECIALS)",
        "{t for t, _ in itertools.groupby(sorted(tokens))}.difference(SPECIALS)",
    )
    & edit(INIT, NUMBERS, "dict(map(reversed, enumerate(self.tokens)))"),
    init_tokens_as_dict=edit(INIT, TOKENS, f"dict(enumerate({TOKENS}))")
    & edit(INIT, NUMBERS, "{token: i for i, token in self.tokens.items()}"),
    encode_by_search=edit(
        ENCODE, GET, "self.tokens.index(token) if token in self.tokens else UNK"
    ),
)

NO_ORDER, TWO_IDS = "the tokens are in the wrong order", "a token has two ids"
UNKNOWN = "looking up the id of a token fails"
AMONG = "special tokens among the decoded tokens"
CHANGED = "an input list is changed"
SHARED = "two vocabularies share their ids"
LOST, TYPE = "decoded tokens are missing", "a type other than the one asked for"
wrong_edits(
    "vocabulary",
    SortedSet,
    words_only=(
        edit(INIT, TOKENS, "sorted(set(tokens))"),
        "the special tokens are missing",
    ),
    as_they_come=(edit(INIT, TOKENS, "list(dict.fromkeys([*SPECIALS, *tokens]))"),),
    most_frequent_first=(
        edit(
            INIT,
            "sorted(set(tokens) - set(SPECIALS))",
            "(t for t, _ in Counter(sorted(tokens)).most_common() if t not in SPECIALS)",
        ),
    ),
    sorted_with_the_specials=(
        edit(INIT, TOKENS, "sorted({*SPECIALS, *tokens})"),
        NO_ORDER,
    ),
    sorted_without_case=(
        edit(INIT, "set(SPECIALS)", "set(SPECIALS), key=lambda t: (t.lower(), t)"),
        NO_ORDER,
    ),
    lowered=(edit(INIT, "set(tokens)", "{t.lower() for t in tokens}"),),
    no_brackets=(
        edit(
            INIT, "set(tokens)", "{t for t in tokens if (t[:1], t[-1:]) != ('<', '>')}"
        ),
    ),
    brackets_not_decoded=(
        edit(DECODE, "i not in (PAD, BOS)", "i == UNK or self.tokens[i][-1:] != '>'"),
        LOST,
    ),
    looked_up_in_lower_case=(
        edit(ENCODE, GET, "self.ids.get(token, self.ids.get(token.capitalize(), UNK))"),
    ),
    only_lists=(edit(ENCODE, "in tokens", "in tokens.copy()"), NO_NAME),
    remembered_by_all=(
        edit(DECODE, "tokens = []", "rows, tokens = vars(decode_once), []")
        & edit(
            DECODE,
            "return tuple(tokens)",
            "return rows.setdefault(str(ids), tuple(tokens))",
        ),
        SHARED,
    ),
    remembered_list=(
        edit(ENCODE, "return ", "return vars(self).setdefault(str(tokens), ")
        & edit(ENCODE, "in tokens]", "in tokens])"),
        ANOTHER,
    ),
    repeated=(edit(INIT, "set(tokens) - set(SPECIALS)", "tokens"),),
    looked_up=(edit(ENCODE, GET, "self.ids[token]"), UNKNOWN),
    searched=(edit(ENCODE, GET, "self.tokens.index(token)"), UNKNOWN),
    skipped=(
        edit(ENCODE, "in tokens", "in tokens if token in self.ids"),
        "unknown tokens are left out",
    ),
    none_for_unknown=(
        edit(ENCODE, ", UNK", ""),
        "encode returns items that are not integers",
    ),
    with_bos=(edit(DECODE, "tokens = []", "tokens = ['<bos>'] * (BOS in ids)"), AMONG),
    with_its_end=(edit(DECODE, "break", "return (*tokens, '<eos>')"), AMONG),
    no_unknown=(
        edit(DECODE, "(PAD, BOS)", "(PAD, BOS, UNK)"),
        "UNK is left out when decoding",
    ),
    must_end=(
        edit(DECODE, "in ids", "in ids[: ids.index(EOS)]"),
        "a search for a missing id or token fails",
    ),
    one_string=(
        edit(DECODE, "tuple(", "' '.join("),
        "the result is not a tuple of strings",
    ),
    sorted_in_place=(
        edit(INIT, "self.tokens = ", "tokens.sort(); self.tokens = "),
        CHANGED,
    ),
    padding_removed_in_place=(
        edit(
            DECODE,
            "tokens = []",
            "ids[:], tokens = [i for i in ids if i not in (PAD, BOS)], []",
        ),
        CHANGED,
    ),
    ids_in_a_tuple=(
        edit(ENCODE, "return ", "return (*")
        & edit(ENCODE, "in tokens]", "in tokens],)"),
        TYPE,
    ),
    tokens_in_a_list=(edit(DECODE, "tuple(tokens)", "tokens"), TYPE),
    generated=(edit(ENCODE, "return ", "yield from "), ONCE),
    learned_on_the_way=(
        edit(ENCODE, GET, "self.ids.setdefault(token, len(self.ids))"),
        "encode returns an id outside the vocabulary",
    ),
    bordered=(
        edit(ENCODE, "[self", "[BOS, *[self")
        & edit(ENCODE, "in tokens]", "in tokens], EOS]"),
        "BOS or EOS among the ids",
    ),
    returned_in_the_loop=(
        edit(ENCODE, "in tokens", "in tokens[:1]"),
        "wrong number of ids",
    ),
    words_numbered_alone=(
        edit(INIT, "enumerate(self.tokens)", "enumerate(self.tokens) if i > UNK"),
        "the token <eos> does not get its id",
    ),
    ends_at_padding=(
        edit(DECODE, "i == EOS", "i in (EOS, PAD)"),
        "decoding stops at PAD",
    ),
    first_taken_for_bos=(edit(DECODE, "in ids", "in ids[1:]"), LOST),
)
