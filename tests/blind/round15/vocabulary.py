import bisect
import itertools

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong

STOP = "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`."
ORDER = "All other tokens follow *once* each, in the order in which `sorted` puts them, so every run gives the same ids."
KEEP = "Keep all other tokens."


@right("dict, and takewhile in decode")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens).difference(SPECIALS))]
        self._number = dict(zip(self.tokens, itertools.count()))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self._number.get(token, UNK) for token in tokens]

    def decode(self, ids):
        said = itertools.takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in said if i not in (PAD, BOS))


@right("a tuple of tokens, binary search in encode")
class Vocabulary:
    def __init__(self, tokens):
        others = []
        for token in tokens:
            place = bisect.bisect_left(others, token)
            if token not in SPECIALS and others[place : place + 1] != [token]:
                others.insert(place, token)
        self.tokens = (*SPECIALS, *others)

    def __len__(self):
        return len(self.tokens)

    def _id(self, token):
        if token in SPECIALS:
            return self.tokens.index(token, 0, len(SPECIALS))
        place = bisect.bisect_left(self.tokens, token, lo=len(SPECIALS))
        found = place < len(self.tokens) and self.tokens[place] == token
        return place if found else UNK

    def encode(self, tokens):
        return list(map(self._id, tokens))

    def decode(self, ids):
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i != PAD and i != BOS)


class _Ids(dict):
    def __missing__(self, token):
        return UNK


@right("a dict with __missing__, and groupby to drop repeats")
class Vocabulary:
    def __init__(self, tokens):
        distinct = [token for token, _ in itertools.groupby(sorted(tokens))]
        self.tokens = list(SPECIALS) + [t for t in distinct if t not in SPECIALS]
        self.ids = _Ids((token, i) for i, token in enumerate(self.tokens))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        result = ()
        for i in ids:
            if i == EOS:
                return result
            if i != PAD and i != BOS:
                result += (self.tokens[i],)
        return result


@right("slow: list.index with try/except, a generator in decode")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in sorted(tokens):
            if token not in self.tokens:
                self.tokens.append(token)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        result = []
        for token in tokens:
            try:
                result.append(self.tokens.index(token))
            except ValueError:
                result.append(UNK)
        return result

    def decode(self, ids):
        def words():
            for i in ids:
                if i == EOS:
                    break
                if i == UNK or i > UNK:
                    yield self.tokens[i]

        return tuple(words())


@wrong("tokens in the order of their first appearance", breaks=ORDER, name="order of appearance instead of sorted")
class Vocabulary:
    def __init__(self, tokens):
        others = dict.fromkeys(token for token in tokens if token not in SPECIALS)
        self.tokens = [*SPECIALS, *others]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong("a special token among the tokens gets a second id",
       breaks="If one of the four is among `tokens`, do not give it a second id.",
       name="special token with two ids")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong("decode only leaves EOS out and goes on behind it", breaks=STOP, name="does not stop at EOS")
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


@wrong("decode leaves out all four special tokens, UNK too", breaks=KEEP, name="drops UNK")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        result = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong("get(token) or UNK: the id 0 counts as missing, so <pad> is encoded as UNK",
       breaks="`tokens[i]` must be the token with the id `i`.", name="id 0 is falsy")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]

    def decode(self, ids):
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong("the dictionary belongs to the class, so a second vocabulary changes the first",
       breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
       name="dictionary shared by all objects")
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
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong("without an EOS the slice ends at -1 and the last token is lost", breaks=KEEP,
       name="loses the last token if there is no EOS")
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
        end = ids.index(EOS) if EOS in ids else -1
        return tuple(self.tokens[i] for i in ids[:end] if i not in (PAD, BOS))


@wrong("BOS is removed only in front and PAD only at the two ends", breaks=STOP,
       name="PAD and BOS in the middle stay")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        ids = list(itertools.takewhile(lambda i: i != EOS, ids))
        while ids and ids[0] in (PAD, BOS):
            ids = ids[1:]
        while ids and ids[-1] == PAD:
            ids = ids[:-1]
        return tuple(self.tokens[i] for i in ids)


@wrong("decode stops at the first PAD as well, so rows with padding in front are empty", breaks=KEEP,
       name="stops at PAD")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        result = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                result.append(self.tokens[i])
        return tuple(result)


@wrong("sorts the list that it was given", breaks="Do not change the inputs.", name="sorts the input in place")
class Vocabulary:
    def __init__(self, tokens):
        tokens.sort()
        self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)
