from bisect import bisect_left, insort
from itertools import groupby, takewhile

from blind import right, wrong
from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK

ORDER = "then all others *once* each, in alphabetical order, so that every run gives the same ids."
FIRST = "`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`"
SECOND = "One of the four may occur in the texts, and gets no second id."
UNKNOWN = "`encode` gives ids. What is not in the vocabulary becomes `UNK`."
STOP = "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`."
SAME = "The lists that come in are somebody else's, and stay as they are."


@right("dict.fromkeys, tokens found back by enumerate")
class Vocabulary:
    def __init__(self, tokens):
        others = sorted(dict.fromkeys(t for t in tokens if t not in SPECIALS))
        self.tokens = list(SPECIALS) + others
        self._ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self._ids[t] if t in self._ids else UNK for t in tokens]

    def decode(self, ids):
        return tuple(self.tokens[i] for i in takewhile(lambda i: i != EOS, ids) if i not in (PAD, BOS))


@right("bisection in place of a dictionary")
class Vocabulary:
    def __init__(self, tokens):
        self.rest = sorted(set(tokens).difference(SPECIALS))
        self.tokens = [*SPECIALS, *self.rest]

    def __len__(self):
        return len(self.tokens)

    def _id(self, token):
        if token in SPECIALS:
            return list(SPECIALS).index(token)
        i = bisect_left(self.rest, token)
        return i + len(SPECIALS) if i < len(self.rest) and self.rest[i] == token else UNK

    def encode(self, tokens):
        return list(map(self._id, tokens))

    def decode(self, ids):
        said = []
        for i in ids:
            if i == EOS:
                break
            if i != PAD and i != BOS:
                said.append(self.tokens[i])
        return tuple(said)


class Ids(dict):
    def __missing__(self, token):
        return UNK


@right("a dict with __missing__, a decode that recurs by slices")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS]
        for token, _ in groupby(sorted(tokens)):
            if token not in SPECIALS:
                self.tokens.append(token)
        self.ids = Ids(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[t] for t in tokens]

    def decode(self, ids):
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return tuple([self.tokens[i] for i in ids if i > BOS])


@right("insertion one by one, closures for both ways")
class Vocabulary:
    def __init__(self, tokens):
        rest, seen = [], set(SPECIALS)
        for t in tokens:
            if t not in seen:
                seen.add(t)
                insort(rest, t)
        self.tokens = [*SPECIALS] + rest
        table = dict(zip(self.tokens, range(len(self.tokens))))
        self.look_up = lambda t: table.get(t, UNK)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [*map(self.look_up, tokens)]

    def decode(self, ids):
        def words():
            for i in ids:
                if i == EOS:
                    return
                if i not in {PAD, BOS}:
                    yield self.tokens[i]

        return tuple(words())


def made(init=None, encode=None, decode=None):
    """The parts that are in order, so that a wrong answer shows only its mistake."""

    class Vocabulary:
        def __init__(self, tokens):
            self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
            self.ids = {t: i for i, t in enumerate(self.tokens)}

        def __len__(self):
            return len(self.tokens)

        def encode(self, tokens):
            return [self.ids.get(t, UNK) for t in tokens]

        def decode(self, ids):
            said = []
            for i in ids:
                if i == EOS:
                    break
                if i not in (PAD, BOS):
                    said.append(self.tokens[i])
            return tuple(said)

    for name, part in (("__init__", init), ("encode", encode), ("decode", decode)):
        if part:
            setattr(Vocabulary, name, part)
    return Vocabulary


def init(self, tokens):
    self.tokens = sorted(set(tokens) | set(SPECIALS))
    self.ids = {t: i for i, t in enumerate(self.tokens)}


wrong("special tokens sorted among the others", breaks=FIRST, name="specials not first")(made(init=init))


def init(self, tokens):
    self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
    self.ids = {t: i for i, t in enumerate(self.tokens)}


wrong("order of first occurrence", breaks=ORDER, name="not in alphabetical order")(made(init=init))


def encode(self, tokens):
    return [self.ids[t] for t in tokens]


wrong("an unknown token raises KeyError", breaks=UNKNOWN, name="unknown tokens crash")(made(encode=encode))


def init(self, tokens):
    self.tokens = [*SPECIALS, *sorted(set(tokens))]
    self.ids = {}
    for i, t in enumerate(self.tokens):
        self.ids.setdefault(t, i)


wrong("a special token in the texts stands twice in tokens", breaks=SECOND, name="a second id for special tokens", subtle=True)(made(init=init))


def decode(self, ids):
    return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


wrong("EOS is left out, and reading goes on", breaks=STOP, name="does not stop at EOS", subtle=True)(made(decode=decode))


def decode(self, ids):
    return tuple(self.tokens[i] for i in takewhile(lambda i: i != EOS, ids) if i > UNK)


wrong("all special tokens are left out, UNK too", breaks=STOP, name="UNK lost in decoding", subtle=True)(made(decode=decode))


def decode(self, ids):
    return tuple(self.tokens[i] for i in takewhile(lambda i: i not in (EOS, PAD), ids) if i != BOS)


wrong("stops at PAD as well", breaks=STOP, name="stops at padding", subtle=True)(made(decode=decode))


SHARED = {}


def init(self, tokens):
    self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
    self.ids = SHARED
    self.ids.update((t, i) for i, t in enumerate(self.tokens))


wrong("one dictionary for all vocabularies", breaks=UNKNOWN, name="state shared between instances", subtle=True)(made(init=init))


def init(self, tokens):
    tokens.sort()
    self.tokens = [*SPECIALS, *(t for t, _ in groupby(tokens) if t not in SPECIALS)]
    self.ids = {t: i for i, t in enumerate(self.tokens)}


wrong("sorts the list that came in", breaks=SAME, name="input changed", subtle=True)(made(init=init))


def encode(self, tokens):
    return [self.ids.get(t) or UNK for t in tokens]


wrong("`or UNK` takes the id 0 for missing", breaks=FIRST, name="id 0 is falsy", subtle=True)(made(encode=encode))
