import bisect
import itertools

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "keeps the tokens in the order in which they first appear",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "not sorted",
)
class Vocabulary:
    def __init__(self, tokens):
        rest = [token for token in dict.fromkeys(tokens) if token not in SPECIALS]
        self.tokens = [*SPECIALS, *rest]
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
    "a token that is repeated gets several ids",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "repeated tokens kept",
)
class Vocabulary:
    def __init__(self, tokens):
        rest = sorted(token for token in tokens if token not in SPECIALS)
        self.tokens = [*SPECIALS, *rest]
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
    "looks unknown tokens up with [...], which raises a KeyError",
    "A token that is not in the vocabulary becomes `UNK`.",
    "unknown tokens raise",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    "leaves EOS out but reads on after it",
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
    "does not take the special tokens out of `tokens`, so they stand there twice",
    "If one of the four is among `tokens`, do not give it a second id.",
    "special token gets a second id",
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
    "decode leaves out all special tokens, UNK too",
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
    "`get(token) or UNK`: the id 0 of <pad> is falsy, so <pad> becomes UNK",
    "`tokens[i]` must be the token with the id `i`.",
    "id 0 taken for a missing token",
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
    "the dictionary belongs to the class: a second vocabulary writes into the first",
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
    "sorts as a dictionary does, capitals and small letters alike",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "sorted with another key",
    subtle=True,
)
class Vocabulary:
    def __init__(self, tokens):
        rest = sorted(set(tokens) - set(SPECIALS), key=lambda t: (t.lower(), t))
        self.tokens = [*SPECIALS, *rest]
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
    "sorts the caller's list in place",
    "Do not change the inputs.",
    "sorts the input in place",
    subtle=True,
)
class Vocabulary:
    def __init__(self, tokens):
        tokens.sort()
        self.tokens = list(SPECIALS)
        for token in tokens:
            if token not in SPECIALS and token != self.tokens[-1]:
                self.tokens.append(token)
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


# ---------------------------------------------------------------- right answers


@right("no dictionary: list.index for every token")
class Vocabulary:
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
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return tuple([self.tokens[i] for i in ids if i != PAD and i != BOS])


@right("bisection in the sorted tokens, which are a tuple")
class Vocabulary:
    def __init__(self, tokens):
        self.rest = sorted({token for token in tokens if token not in SPECIALS})
        self.tokens = tuple(SPECIALS) + tuple(self.rest)

    def __len__(self):
        return len(self.tokens)

    def find(self, token):
        if token in SPECIALS:
            return SPECIALS.index(token)
        i = bisect.bisect_left(self.rest, token)
        found = i < len(self.rest) and self.rest[i] == token
        return i + len(SPECIALS) if found else UNK

    def encode(self, tokens):
        return list(map(self.find, tokens))

    def decode(self, ids):
        before = itertools.takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in before if i not in {PAD, BOS})


class _IdsWithUnknown(dict):
    def __missing__(self, token):
        return UNK


@right("a dictionary with __missing__, and iter() with a sentinel in decode")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS]
        self.tokens += [t for t, _ in itertools.groupby(sorted(tokens)) if t not in SPECIALS]
        self._number = _IdsWithUnknown(zip(self.tokens, itertools.count()))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self._number[token] for token in tokens]

    def decode(self, ids):
        following = iter([*ids, EOS])
        until_end = iter(lambda: next(following), EOS)
        return tuple(self.tokens[i] for i in until_end if i > BOS)


@right("gives ids one by one from two dictionaries, and filters tokens by their text")
class Vocabulary:
    def __init__(self, tokens):
        self.id_of, self.token_of = {}, {}
        for token in SPECIALS + tuple(sorted(set(tokens))):
            if token not in self.id_of:
                number = len(self.id_of)
                self.id_of[token], self.token_of[number] = number, token
        self.tokens = [self.token_of[i] for i in range(len(self.token_of))]

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.id_of[t] if t in self.id_of else UNK for t in tokens]

    def decode(self, ids):
        said = ()
        for i in ids:
            token = self.token_of[i]
            if token == "<eos>":
                return said
            if token != "<pad>" and token != "<bos>":
                said = (*said, token)
        return said
