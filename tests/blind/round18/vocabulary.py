import bisect
import itertools

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong

ORDER = (
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids."
)
PLACE = "`tokens[i]` must be the token with the id `i`."
SECOND = "If one of the four is among `tokens`, do not give it a second id."
UNKNOWN = "A token that is not in the vocabulary becomes `UNK`."
STOP = "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`."
KEEP = "Keep all other tokens."
INPUTS = "Do not change the inputs."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


class Ids(dict):
    """Ids of tokens: UNK for a missing one, without storing it."""

    def __missing__(self, token):
        return UNK


@right("a dictionary with __missing__, and decode over an iterator with a sentinel")
class Vocabulary:
    def __init__(self, tokens):
        new = dict.fromkeys(sorted(tokens))
        for special in SPECIALS:
            new.pop(special, None)
        self.tokens = (*SPECIALS, *new)
        self.ids = Ids(zip(self.tokens, itertools.count()))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        until_eos = iter(iter(ids).__next__, EOS)
        return tuple(self.tokens[i] for i in until_eos if i not in (PAD, BOS))


@right("no dictionary: binary search in the sorted tokens")
class Vocabulary:
    def __init__(self, tokens):
        words = []
        for token in tokens:
            place = bisect.bisect_left(words, token)
            known = token in SPECIALS or words[place : place + 1] == [token]
            if not known:
                words.insert(place, token)
        self.tokens = [*SPECIALS, *words]

    def __len__(self):
        return len(self.tokens)

    def id_of(self, token):
        if token in SPECIALS:
            return SPECIALS.index(token)
        place = bisect.bisect_left(self.tokens, token, lo=len(SPECIALS))
        if place < len(self.tokens) and self.tokens[place] == token:
            return place
        return UNK

    def encode(self, tokens):
        return list(map(self.id_of, tokens))

    def decode(self, ids):
        kept = itertools.takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in kept if i != PAD and i != BOS)


@right("groups the sorted tokens, searches a list, and cuts before it filters")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token, _ in itertools.groupby(sorted(tokens)):
            if token not in self.tokens[:4]:
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
        ids = [*ids, EOS]
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i not in {PAD, BOS})


@right("one sort with a key that puts the specials first, and a recursive decode loop")
class Vocabulary:
    def __init__(self, tokens):
        def key(token):
            if token in SPECIALS:
                return (0, SPECIALS.index(token), "")
            return (1, 0, token)

        self.tokens = sorted({*tokens, *SPECIALS}, key=key)
        self.index = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [
            self.index[token] if token in self.index else UNK for token in tokens
        ]

    def decode(self, ids):
        said = ()
        for i in ids:
            if i == EOS:
                break
            said += {PAD: (), BOS: ()}.get(i, (self.tokens[i],))
        return said


@wrong(
    "sorts the tokens, but keeps repeated ones",
    breaks=ORDER,
    name="repeated tokens kept",
)
class Vocabulary:
    def __init__(self, tokens):
        words = sorted(token for token in tokens if token not in SPECIALS)
        self.tokens = [*SPECIALS, *words]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

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


class Good:
    """Right methods, of which each wrong answer below replaces one."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

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
    "encode skips tokens that are not in the vocabulary",
    breaks=UNKNOWN,
    name="unknown tokens dropped",
)
class Vocabulary(Good):
    def encode(self, tokens):
        return [self.ids[token] for token in tokens if token in self.ids]


@wrong(
    "decode leaves out all four special tokens, UNK too",
    breaks=KEEP,
    name="UNK left out in decode",
)
class Vocabulary(Good):
    def decode(self, ids):
        said = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                said.append(self.tokens[i])
        return tuple(said)


@wrong(
    "decode stops at PAD as it stops at EOS",
    breaks=STOP,
    name="decode stops at padding",
)
class Vocabulary(Good):
    def decode(self, ids):
        said = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                said.append(self.tokens[i])
        return tuple(said)


@wrong(
    "sorts without regard to capitals",
    breaks=ORDER,
    name="sorted with a key",
)
class Vocabulary(Good):
    def __init__(self, tokens):
        words = sorted(set(tokens) - set(SPECIALS))
        self.tokens = [*SPECIALS, *sorted(words, key=str.lower)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "all objects share one dictionary, because it belongs to the class",
    breaks=STATE,
    name="dictionary shared by all objects",
)
class Vocabulary(Good):
    ids = {}

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        for i, token in enumerate(self.tokens):
            self.ids[token] = i


@wrong(
    "sorts the given list in place",
    breaks=INPUTS,
    name="argument sorted in place",
)
class Vocabulary(Good):
    def __init__(self, tokens):
        tokens.sort()
        self.tokens = list(SPECIALS)
        for token in tokens:
            if token != self.tokens[-1] and token not in SPECIALS:
                self.tokens.append(token)
        self.ids = {token: i for i, token in enumerate(self.tokens)}


@wrong(
    "writes get(token) or UNK, so the id 0 of the token <pad> becomes UNK",
    breaks=PLACE,
    name="id 0 taken for missing",
)
class Vocabulary(Good):
    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]


@wrong(
    "decode cuts off the last id if there is no EOS",
    breaks=KEEP,
    name="last token lost without EOS",
)
class Vocabulary(Good):
    def decode(self, ids):
        end = ids.index(EOS) if EOS in ids else -1
        return tuple(self.tokens[i] for i in ids[:end] if i not in (PAD, BOS))


@wrong(
    "removes PAD, BOS and EOS from the tokens, but gives <unk> a second id",
    breaks=SECOND,
    name="second id for UNK",
)
class Vocabulary(Good):
    def __init__(self, tokens):
        words = set(tokens).difference(SPECIALS[i] for i in (PAD, BOS, EOS))
        self.tokens = [*SPECIALS, *sorted(words)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
