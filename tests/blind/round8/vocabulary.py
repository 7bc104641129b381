from bisect import bisect_left
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


class Length:
    """The method of Vocabulary that the lab gives."""

    def __len__(self):
        return len(self.tokens)


@right("no dictionary: binary search in the sorted part")
class Vocabulary(Length):
    def __init__(self, tokens):
        self.words = sorted({*tokens}.difference(SPECIALS))
        self.tokens = [*SPECIALS, *self.words]

    def encode(self, tokens):
        ids = []
        for token in tokens:
            place = bisect_left(self.words, token)
            if token in SPECIALS:
                ids.append(list(SPECIALS).index(token))
            elif place < len(self.words) and self.words[place] == token:
                ids.append(place + len(SPECIALS))
            else:
                ids.append(UNK)
        return ids

    def decode(self, ids):
        kept = takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in kept if i not in (PAD, BOS))


@right("a dict subclass with __missing__")
class Vocabulary(Length):
    class Ids(dict):
        def __missing__(self, token):
            return UNK

    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in sorted(tokens):
            if token not in SPECIALS and token != self.tokens[-1]:
                self.tokens.append(token)
        self.ids = self.Ids(zip(self.tokens, range(len(self.tokens))))

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        said = []
        for i in map(int, ids):
            if i == EOS:
                return tuple(said)
            if i != PAD and i != BOS:
                said.append(self.tokens[i])
        return tuple(said)


@right("linear search, slow; slices at the first EOS")
class Vocabulary(Length):
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]

    def encode(self, tokens):
        return [self.tokens.index(t) if t in self.tokens else UNK for t in tokens]

    def decode(self, ids):
        ids = list(ids)
        end = ids.index(EOS) if EOS in ids else len(ids)
        return tuple([self.tokens[i] for i in ids[:end] if i not in {PAD, BOS}])


@right("dict.fromkeys for once each, generator for decode")
class Vocabulary(Length):
    def __init__(self, tokens):
        self.tokens = tuple(dict.fromkeys([*SPECIALS, *sorted(tokens)]))
        self._number = {token: i for i, token in enumerate(self.tokens)}

    def _say(self, ids):
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                yield self.tokens[i]

    def encode(self, tokens):
        return list(map(lambda token: self._number.get(token, UNK), tokens))

    def decode(self, ids):
        return tuple(self._say(ids))


class Good(Length):
    """What most answers share; each of the wrong ones replaces a part of it."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        said = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                said.append(self.tokens[i])
        return tuple(said)


@wrong(
    "gives ids in the order of appearance, not of the alphabet",
    "`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`, then all others *once* each, in alphabetical order, so that every run gives the same ids.",
    "order of appearance",
)
class Vocabulary(Good):
    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "leaves EOS out and goes on after it",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "does not stop at EOS",
)
class Vocabulary(Good):
    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    "raises KeyError for an unknown token",
    "What is not in the vocabulary becomes `UNK`.",
    "unknown tokens raise an error",
)
class Vocabulary(Good):
    def encode(self, tokens):
        return [self.ids[token] for token in tokens]


@wrong(
    "special tokens that occur in the texts are listed a second time",
    "If one of the four occurs in the texts, it gets no second id.",
    "special tokens twice",
)
class Vocabulary(Good):
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
        self.ids = {token: i for i, token in reversed([*enumerate(self.tokens)])}


@wrong(
    "sorts the caller's list in place",
    "Your code does not change the lists that it is given.",
    "sorts the given list",
)
class Vocabulary(Good):
    def __init__(self, tokens):
        tokens.sort()
        self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "leaves UNK out as well: decode loses a token",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "UNK is left out as well",
)
class Vocabulary(Good):
    def decode(self, ids):
        return tuple(t for t in super().decode(ids) if t not in SPECIALS)


@wrong(
    "needs an EOS: without one, the last token is cut off (find-like slice with -1)",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "loses the last token if EOS is missing",
)
class Vocabulary(Good):
    def decode(self, ids):
        end = next((n for n, i in enumerate(ids) if i == EOS), -1)
        return tuple(self.tokens[i] for i in ids[:end] if i not in (PAD, BOS))


@wrong(
    "unknown tokens get new ids while encoding: at the second call the same token is known, and the vocabulary has grown",
    "What is not in the vocabulary becomes `UNK`.",
    "encode learns new tokens",
)
class Vocabulary(Good):
    def encode(self, tokens):
        ids = [self.ids.get(token, UNK) for token in tokens]
        for token in tokens:
            if token not in self.ids:
                self.ids[token] = len(self.tokens)
                self.tokens.append(token)
        return ids


@wrong(
    "the dictionary belongs to the class: a second vocabulary knows the tokens of the first one, with their old ids",
    "What is not in the vocabulary becomes `UNK`.",
    "one dictionary shared by all vocabularies",
)
class Vocabulary(Good):
    ids = {}

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids.update((token, i) for i, token in enumerate(self.tokens))


@wrong(
    "`ids.get(token) or UNK`: the id 0 of <pad> is falsy and becomes 3",
    "A vocabulary gives an id to every token and finds the token of every id.",
    "id 0 taken for unknown",
)
class Vocabulary(Good):
    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]
