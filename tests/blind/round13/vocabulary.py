from bisect import bisect_left
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK

from blind import right, wrong


@right("a dictionary with __missing__ for the unknown tokens")
class Vocabulary:
    class Ids(dict):
        def __missing__(self, token):
            return UNK

    def __init__(self, tokens):
        rest = {token for token in tokens if token not in SPECIALS}
        self.tokens = list(SPECIALS) + sorted(rest)
        self.ids = self.Ids(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        kept = ()
        for i in ids:
            if i == EOS:
                return kept
            if i != PAD and i != BOS:
                kept += (self.tokens[i],)
        return kept


@right("no dictionary: looks up tokens by bisection in the sorted part")
class Vocabulary:
    def __init__(self, tokens):
        self.words = []
        for token in sorted(tokens):
            if token in SPECIALS or (self.words and self.words[-1] == token):
                continue
            self.words.append(token)
        self.tokens = (*SPECIALS, *self.words)

    def __len__(self):
        return len(self.tokens)

    def _find(self, token):
        if token in SPECIALS:
            return SPECIALS.index(token)
        place = bisect_left(self.words, token)
        if place < len(self.words) and self.words[place] == token:
            return len(SPECIALS) + place
        return UNK

    def encode(self, tokens):
        return list(map(self._find, tokens))

    def decode(self, ids):
        before = takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in before if i not in {PAD, BOS})


@right("adds an EOS to a copy of the ids, and cuts at the first one")
class Vocabulary:
    def __init__(self, tokens):
        self.counts = {}
        for token in tokens:
            self.counts[token] = self.counts.get(token, 0) + 1
        self.tokens = [*SPECIALS]
        self.tokens.extend(sorted(self.counts.keys() - set(SPECIALS)))
        self.index = {}
        for token in self.tokens:
            self.index[token] = len(self.index)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.index[token] if token in self.index else UNK for token in tokens]

    def decode(self, ids):
        ids = [*ids, EOS]
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i == UNK or i >= len(SPECIALS))


@right("try and except, and a generator that returns at EOS")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = tuple(SPECIALS)
        self.tokens += tuple(sorted(set(tokens).difference(SPECIALS)))

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

    def _read(self, ids):
        for i in ids:
            if i == EOS:
                return
            if i in (PAD, BOS):
                continue
            yield self.tokens[i]

    def decode(self, ids):
        return tuple(self._read(ids))


@wrong(
    "keeps the tokens in the order of their first appearance",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "tokens not sorted",
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
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    "leaves out every EOS, but goes on behind it",
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
    "encode leaves out the tokens that it does not know",
    "A token that is not in the vocabulary becomes `UNK`.",
    "unknown tokens dropped",
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
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    "a special token among the tokens gets a second id, which encode then uses",
    "If one of the four is among `tokens`, do not give it a second id.",
    "specials not removed from the tokens",
    subtle=True,
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
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
    "decode leaves out all four special tokens, <unk> too",
    "Keep all other tokens.",
    "decode drops UNK",
    subtle=True,
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
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    "`get(token) or UNK`: the id of <pad> is 0, which is false, so <pad> becomes UNK",
    "`tokens[i]` must be the token with the id `i`.",
    "id 0 taken for a missing one",
    subtle=True,
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
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    "without an EOS among the ids, decode cuts off the last token",
    "Keep all other tokens.",
    "ids without EOS lose their end",
    subtle=True,
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
        end = ids.index(EOS) if EOS in ids else -1
        return tuple(self.tokens[i] for i in ids[:end] if i not in (PAD, BOS))


@wrong(
    "the dictionary belongs to the class, so a second vocabulary changes the ids of the"
    " first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "dictionary shared by all vocabularies",
    subtle=True,
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
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    "decode appends an EOS to the caller's own list, so that there is one to find",
    "Do not change the inputs.",
    "decode changes its list of ids",
    subtle=True,
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
        ids.append(EOS)
        before = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in before if i not in (PAD, BOS))


@wrong(
    "decode stops at PAD as it does at EOS, and loses what follows a PAD",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`.",
    "decode stops at PAD",
    subtle=True,
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
        tokens = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                tokens.append(self.tokens[i])
        return tuple(tokens)
