from bisect import bisect_left
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong

ID = "`tokens[i]` must be the token with the id `i`."
SORTED = (
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids."
)
SECOND = "If one of the four is among `tokens`, do not give it a second id."
UNKNOWN = "A token that is not in the vocabulary becomes `UNK`."
STOP = "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`."
KEEP = "Keep all other tokens."
INPUTS = "Do not change the inputs."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


class WithDefault(dict):
    def __missing__(self, token):
        return UNK


@right("a dict subclass with __missing__; the tokens are a tuple")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = (*SPECIALS, *sorted({*tokens}.difference(SPECIALS)))
        self.table = WithDefault(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.table[token] for token in tokens]

    def decode(self, ids):
        before = takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in before if i not in (PAD, BOS))


@right("looks for a token by bisection, without any dictionary")
class Vocabulary:
    def __init__(self, tokens):
        self.rest = []
        for token in sorted(tokens):
            if token not in SPECIALS and self.rest[-1:] != [token]:
                self.rest.append(token)

    @property
    def tokens(self):
        return list(SPECIALS) + self.rest

    def __len__(self):
        return len(self.tokens)

    def find(self, token):
        if token in SPECIALS:
            return list(SPECIALS).index(token)
        place = bisect_left(self.rest, token)
        if place < len(self.rest) and self.rest[place] == token:
            return place + 4
        return UNK

    def encode(self, tokens):
        return list(map(self.find, tokens))

    def decode(self, ids):
        table, out = self.tokens, ()
        for i in ids:
            if i == EOS:
                return out
            if i != PAD and i != BOS:
                out += (table[i],)
        return out


@right("sorts with the special tokens in front by a key")
class Vocabulary:
    def __init__(self, tokens):
        rank = {token: place for place, token in enumerate(SPECIALS)}
        self.tokens = sorted(
            set(tokens) | set(SPECIALS), key=lambda token: (rank.get(token, 4), token)
        )

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [
            self.tokens.index(token) if token in self.tokens else UNK
            for token in tokens
        ]

    def decode(self, ids):
        ids = [*ids, EOS]
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i >= UNK)


@right("decodes by recursion, and encodes with an exception")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIALS, *sorted(tokens)]))
        self.numbers = {token: number for number, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        ids = []
        for token in tokens:
            try:
                ids.append(self.numbers[token])
            except KeyError:
                ids.append(UNK)
        return ids

    def decode(self, ids):
        out = []
        for i in reversed(list(ids)):
            if i == EOS:
                out.clear()
            elif i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(reversed(out))


class Base:
    """What the wrong answers share where they are right."""

    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
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


@wrong(
    "keeps the tokens in the order of their first appearance",
    breaks=SORTED,
    name="tokens are not sorted",
)
class Vocabulary(Base):
    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "leaves out EOS, but goes on reading after it",
    breaks=STOP,
    name="decode does not stop at EOS",
)
class Vocabulary(Base):
    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    "appends the special tokens a second time if they are among the tokens",
    breaks=SECOND,
    name="a special token gets two ids",
)
class Vocabulary(Base):
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens))
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "skips the tokens that it does not know",
    breaks=UNKNOWN,
    name="unknown tokens are dropped",
)
class Vocabulary(Base):
    def encode(self, tokens):
        return [self.ids[token] for token in tokens if token in self.ids]


@wrong(
    "writes `get(token) or UNK`, so <pad>, whose id is 0, becomes UNK",
    breaks=ID,
    name="the id 0 is taken for a missing one",
)
class Vocabulary(Base):
    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]


@wrong(
    "cuts the caller's list of ids at EOS with del",
    breaks=INPUTS,
    name="decode shortens its input",
)
class Vocabulary(Base):
    def decode(self, ids):
        if EOS in ids:
            del ids[ids.index(EOS) :]
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS))


@wrong(
    "sorts without regard to capitals",
    breaks=SORTED,
    name="another order than that of sorted",
)
class Vocabulary(Base):
    def __init__(self, tokens):
        rest = sorted(set(tokens) - set(SPECIALS))
        self.tokens = list(SPECIALS) + sorted(rest, key=str.lower)
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "encode stores unknown tokens with setdefault, and `tokens` is read from this table",
    breaks=CALLS,
    name="encoding an unknown token changes the vocabulary",
)
class Vocabulary(Base):
    def __init__(self, tokens):
        rest = sorted(set(tokens) - set(SPECIALS))
        self.ids = {token: i for i, token in enumerate([*SPECIALS, *rest])}

    @property
    def tokens(self):
        return sorted(self.ids, key=self.ids.get)

    def encode(self, tokens):
        return [self.ids.setdefault(token, UNK) for token in tokens]


@wrong(
    "keeps the table from tokens to ids in the class, so all vocabularies share it",
    breaks=CALLS,
    name="two vocabularies share one dictionary",
)
class Vocabulary(Base):
    ids = {}

    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        self.ids.update((token, i) for i, token in enumerate(self.tokens))


@wrong(
    "stops at the first PAD too, so ids with padding in front give nothing",
    breaks=KEEP,
    name="decode stops at PAD",
)
class Vocabulary(Base):
    def decode(self, ids):
        tokens = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                tokens.append(self.tokens[i])
        return tuple(tokens)
