from bisect import bisect_left
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


@right("a dictionary grown with setdefault; tokens is a property")
class Vocabulary:
    def __init__(self, tokens):
        self.ids = {}
        for token in (*SPECIALS, *sorted(tokens)):
            self.ids.setdefault(token, len(self.ids))

    @property
    def tokens(self):
        return list(self.ids)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        tokens, words = self.tokens, []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(tokens[i])
        return tuple(words)


@right("no dictionary: binary search in the sorted part; tokens is a tuple")
class Vocabulary:
    def __init__(self, tokens):
        self.words = sorted(set(tokens).difference(SPECIALS))
        self.tokens = (*SPECIALS, *self.words)

    def __len__(self):
        return len(self.tokens)

    def _find(self, token):
        if token in SPECIALS:
            return list(SPECIALS).index(token)
        place = bisect_left(self.words, token)
        found = place < len(self.words) and self.words[place] == token
        return len(SPECIALS) + place if found else UNK

    def encode(self, tokens):
        return list(map(self._find, tokens))

    def decode(self, ids):
        kept = takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in kept if i != PAD and i != BOS)


class _Ids(dict):
    def __missing__(self, token):
        return UNK


@right("a dict subclass whose missing entries are UNK")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in sorted(tokens):
            if token not in SPECIALS and token != self.tokens[-1]:
                self.tokens.append(token)
        self.ids = _Ids((token, i) for i, token in enumerate(self.tokens))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return tuple([self.tokens[i] for i in ids if i not in {PAD, BOS}])


@right("encode by try and except, decode as a generator")
class Vocabulary:
    def __init__(self, tokens):
        rest = sorted(dict.fromkeys(t for t in tokens if t not in set(SPECIALS)))
        self.tokens = [*SPECIALS] + rest
        self.number = dict(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        ids = []
        for token in tokens:
            try:
                ids.append(self.number[token])
            except KeyError:
                ids.append(UNK)
        return ids

    def _until_end(self, ids):
        for i in ids:
            if i == EOS:
                return
            if i == PAD or i == BOS:
                continue
            yield self.tokens[i]

    def decode(self, ids):
        return tuple(self._until_end(ids))


@wrong(
    "encode skips the tokens that it does not know",
    "A token that is not in the vocabulary becomes `UNK`.",
    "unknown tokens are dropped",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens if token in self.ids]

    def decode(self, ids):
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return tuple(words)


@wrong(
    "decode leaves out every EOS but goes on after it",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`.",
    "decode does not stop at EOS",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    "the tokens stay in the order of their first appearance",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "tokens are not sorted",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return tuple(words)


@wrong(
    "a special token among the tokens gets a second place",
    "If one of the four is among `tokens`, do not give it a second id.",
    "special tokens twice",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens))
        self.ids = {}
        for i, token in enumerate(self.tokens):
            self.ids.setdefault(token, i)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return tuple(words)


@wrong(
    "decode leaves out UNK too",
    "Keep all other tokens.",
    "decode drops UNK",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        words = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                words.append(self.tokens[i])
        return tuple(words)


@wrong(
    "cuts at the last EOS instead of the first",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`.",
    "decode stops at the last EOS",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        ids = list(ids)
        if EOS in ids:
            ids = ids[: len(ids) - 1 - ids[::-1].index(EOS)]
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS))


@wrong(
    "decode empties the list of ids that it gets",
    "Do not change the inputs.",
    "decode changes its input",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        words = []
        while ids:
            i = ids.pop(0)
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return tuple(words)


@wrong(
    "`or UNK` also replaces the id 0, so <pad> becomes UNK",
    "`tokens[i]` must be the token with the id `i`.",
    "the id 0 counts as missing",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]

    def decode(self, ids):
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return tuple(words)


@wrong(
    "decode leaves out whatever begins with < except <unk>, also the symbol < itself",
    "Keep all other tokens.",
    "decode recognises special tokens by their looks",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        words = []
        for i in ids:
            token = self.tokens[i]
            if i == EOS:
                break
            if token.startswith("<") and i != UNK:
                continue
            words.append(token)
        return tuple(words)


@wrong(
    "the dictionary belongs to the class, so a second vocabulary changes the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "vocabularies share one dictionary",
)
class Vocabulary:
    ids = {}

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        for i, token in enumerate(self.tokens):
            self.ids[token] = i

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return tuple(words)
