import bisect
from collections import Counter
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


@right("no dictionary: encode looks up with bisect in the sorted part, tokens is a tuple")
class Vocabulary:
    def __init__(self, tokens):
        self.rest = sorted({token for token in tokens if token not in SPECIALS})
        self.tokens = (*SPECIALS, *self.rest)

    def __len__(self):
        return len(self.tokens)

    def id_of(self, token):
        for i, special in enumerate(SPECIALS):
            if token == special:
                return i
        place = bisect.bisect_left(self.rest, token)
        if place < len(self.rest) and self.rest[place] == token:
            return place + len(SPECIALS)
        return UNK

    def encode(self, tokens):
        return [self.id_of(token) for token in tokens]

    def decode(self, ids):
        answer = ()
        for i in ids:
            if i == EOS:
                return answer
            if i not in (PAD, BOS):
                answer += (self.tokens[i],)
        return answer


@right("insertion into a sorted list by hand; takewhile and filter in decode")
class Vocabulary:
    def __init__(self, tokens):
        words = []
        for token in tokens:
            place = bisect.bisect_left(words, token)
            if token in SPECIALS or words[place : place + 1] == [token]:
                continue
            words.insert(place, token)
        self.tokens = list(SPECIALS) + words
        self.table = dict(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        def one(token):
            try:
                return self.table[token]
            except KeyError:
                return UNK

        return list(map(one, tokens))

    def decode(self, ids):
        said = takewhile(lambda i: i != EOS, ids)
        return tuple(map(self.tokens.__getitem__, filter(lambda i: i > BOS, said)))


class Table(dict):
    def __missing__(self, token):
        return UNK


@right("a subclass of dict with __missing__; decode cuts the list at the first EOS with index")
class Vocabulary:
    def __init__(self, tokens, specials=SPECIALS):
        others = Counter(tokens)
        for special in specials:
            del others[special]
        self.tokens = [*specials, *sorted(others)]
        self.ids = Table((token, i) for i, token in enumerate(self.tokens))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i not in {PAD, BOS})


@right("tokens is a property, sorted with a key that puts the special ones first")
class Vocabulary:
    def __init__(self, tokens):
        rank = {special: i for i, special in enumerate(SPECIALS)}
        everything = dict.fromkeys([*tokens, *SPECIALS])
        order = sorted(everything, key=lambda token: (rank.get(token, 4), token))
        self._by_id = dict(enumerate(order))
        self._by_token = {token: i for i, token in self._by_id.items()}

    @property
    def tokens(self):
        return list(self._by_id.values())

    def __len__(self):
        return len(self._by_id)

    def encode(self, tokens):
        ids = []
        for token in tokens:
            ids.append(self._by_token[token] if token in self._by_token else UNK)
        return ids

    def decode(self, ids):
        out = []
        for i in ids:
            match i:
                case 2:
                    break
                case 0 | 1:
                    pass
                case _:
                    out.append(self._by_id[i])
        return tuple(out)


@wrong(
    "the tokens keep the order of their first appearance: ['b', 'a'] gives b the id 4",
    "`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`, then all others *once* each, in alphabetical order, so that every run gives the same ids.",
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
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong(
    "decode leaves EOS out but goes on after it: [4, 2, 5] gives two tokens",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "decode does not stop at EOS",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    "decode gives a list, which never equals a tuple",
    "A tuple never equals a list, so the types count, too: `encode` gives a list, `decode` a tuple.",
    "decode returns a list",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
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
        return out


@wrong(
    "a special token in the texts gets a second id: Vocabulary(['a', '<unk>']) has six tokens",
    "One of the four may occur in the texts, and gets no second id.",
    "special tokens of the texts are added again",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens))
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
    "looks for EOS with index: a list without EOS (an answer that was cut off) raises ValueError",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "decode needs an EOS",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS))


@wrong(
    "sorts and shortens the list that came in: the caller's list is changed",
    "The lists that come in are not yours: your code leaves them as they are.",
    "sorts the caller's list in place",
)
class Vocabulary:
    def __init__(self, tokens):
        tokens.sort()
        self.tokens = list(SPECIALS)
        for token in tokens:
            if token not in self.tokens:
                self.tokens.append(token)
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
    "decode leaves out all special tokens, so an unknown token disappears: [4, 3] gives one token",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "decode leaves out UNK as well",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
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
            if i >= len(SPECIALS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong(
    "`get(token) or UNK`: the id 0 counts as not found, so '<pad>' is encoded as UNK",
    "What is not in the vocabulary becomes `UNK`.",
    "id 0 is taken for unknown",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong(
    "the dictionary belongs to the class: a second vocabulary changes the ids that the first one gives",
    "`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`, then all others *once* each, in alphabetical order, so that every run gives the same ids.",
    "all vocabularies share one dictionary",
)
class Vocabulary:
    ids = {}

    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        for i, token in enumerate(self.tokens):
            self.ids[token] = i

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
    "takes BOS off the front and PAD off the end only: PAD or BOS between tokens, as in [4, 0, 5], stays",
    "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.",
    "PAD and BOS are removed only at the ends",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        while ids and ids[0] in (PAD, BOS):
            ids = ids[1:]
        while ids and ids[-1] == PAD:
            ids = ids[:-1]
        return tuple(self.tokens[i] for i in ids)
