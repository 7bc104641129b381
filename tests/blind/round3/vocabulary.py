import bisect
import itertools
from collections import Counter

from blind import right, wrong

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK


# Right
@right("encode by binary search in the sorted part, decode by takewhile")
class R1:
    def __init__(self, tokens):
        self.words = sorted({*tokens}.difference(SPECIALS))
        self.tokens = [*SPECIALS, *self.words]

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        out = []
        for token in tokens:
            if token in SPECIALS:
                out.append(SPECIALS.index(token))
                continue
            place = bisect.bisect_left(self.words, token)
            known = place < len(self.words) and self.words[place] == token
            out.append(place + len(SPECIALS) if known else UNK)
        return out

    def decode(self, ids):
        before = itertools.takewhile(EOS.__ne__, ids)
        return tuple(self.tokens[i] for i in before if i not in (PAD, BOS))


@right("no dictionary: list.index and an exception; slow but right")
class R2:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in sorted(tokens):
            if token not in self.tokens:
                self.tokens.append(token)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        ids = []
        for token in tokens:
            try:
                ids.append(self.tokens.index(token))
            except ValueError:
                ids.append(UNK)
        return ids

    def decode(self, ids):
        answer = ()
        for i in ids:
            if i == EOS:
                return answer
            if i != PAD and i != BOS:
                answer += (self.tokens[i],)
        return answer


class _Missing(dict):
    def __missing__(self, token):
        return UNK


@right("tokens is a tuple, a dict with __missing__, decode with iter and a sentinel")
class R3:
    def __init__(self, tokens):
        special = dict.fromkeys(SPECIALS)
        rest = Counter(token for token in tokens if token not in special)
        self.tokens = SPECIALS + tuple(sorted(rest))
        self.ids = _Missing(zip(self.tokens, itertools.count()))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [*map(self.ids.__getitem__, tokens)]

    def decode(self, ids):
        stream = iter([*ids, EOS])
        kept = filter(lambda i: i not in {PAD, BOS}, iter(lambda: next(stream), EOS))
        return tuple(self.tokens[i] for i in kept)


@right("the first EOS by index on a copy with an EOS at its end")
class R4:
    def __init__(self, tokens):
        words = sorted(set(tokens) - set(SPECIALS))
        self.tokens = [*SPECIALS] + words
        self.ids = {}
        for i in reversed(range(len(self.tokens))):
            self.ids[self.tokens[i]] = i

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return list(self.ids[t] if t in self.ids else UNK for t in tokens)

    def decode(self, ids):
        ids = list(ids) + [EOS]
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i >= EOS)


# Wrong
class _Base:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong(
    "a special token in the texts is entered again",
    breaks="One of the four may occur in the texts, and gets no second id.",
    name="a special token gets a second id",
    subtle=True,
)
class W1(_Base):
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "sorts the list of the caller",
    breaks="The lists that come in are somebody else's, and stay as they are.",
    name="list.sort in place",
    subtle=True,
)
class W2(_Base):
    def __init__(self, tokens):
        tokens.sort()
        rest = [t for t in dict.fromkeys(tokens) if t not in SPECIALS]
        self.tokens = [*SPECIALS, *rest]
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "`ids.get(token) or UNK`: the id 0 counts as missing",
    breaks="`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`",
    name="the id 0 is taken for none",
    subtle=True,
)
class W3(_Base):
    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]


@wrong(
    "the dictionary belongs to the class: all vocabularies share it",
    breaks="What is not in the vocabulary becomes `UNK`.",
    name="a dictionary shared by all vocabularies",
    subtle=True,
)
class W4(_Base):
    ids = {}  # noqa: RUF012

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        for i, token in enumerate(self.tokens):
            self.ids[token] = i


@wrong(
    "unknown tokens become UNK at first, but are UNK's token from then on: the second"
    " time they have a new id",
    breaks="What is not in the vocabulary becomes `UNK`.",
    name="unknown tokens become known by being met",
    subtle=True,
)
class W5(_Base):
    def encode(self, tokens):
        out = [self.ids.get(token, UNK) for token in tokens]
        for token in tokens:
            self.ids.setdefault(token, len(self.ids))
        return out


@wrong(
    "decode stops at the first PAD as well",
    breaks="It stops at the first `EOS`, which is not part of the answer, and leaves"
    " out `PAD` and `BOS`.",
    name="PAD ends the answer",
    subtle=True,
)
class W6(_Base):
    def decode(self, ids):
        out = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                out.append(self.tokens[i])
        return tuple(out)


@wrong(
    "decode leaves out UNK as well",
    breaks="leaves out `PAD` and `BOS`",
    name="UNK is left out",
    subtle=True,
)
class W7(_Base):
    def decode(self, ids):
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i >= len(SPECIALS))


@wrong(
    "decode leaves EOS out, but goes on behind it",
    breaks="It stops at the first `EOS`",
    name="decode goes on behind EOS",
    subtle=True,
)
class W8(_Base):
    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    "decode cuts at ids.index(EOS), which raises if there is none",
    breaks="`decode` gives tokens.",
    name="decode needs an EOS",
    subtle=True,
)
class W9(_Base):
    def decode(self, ids):
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS))


@wrong(
    "decode empties the list that it was given",
    breaks="The lists that come in are somebody else's, and stay as they are.",
    name="decode pops from the list",
    subtle=True,
)
class W10(_Base):
    def decode(self, ids):
        out = []
        while ids and (i := ids.pop(0)) != EOS:
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)
