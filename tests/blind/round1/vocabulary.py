from blind import right, wrong
from bisect import bisect_left
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK


@right('dictionary that knows what to do with a missing token, takewhile')
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        class Ids(dict):
            def __missing__(self, token):
                return UNK
        self.tokens = list(dict.fromkeys([*SPECIALS, *sorted(tokens)]))
        self.ids = Ids(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[t] for t in tokens]

    def decode(self, ids):
        return tuple(self.tokens[i] for i in takewhile(lambda i: i != EOS, ids) if i != PAD and i != BOS)


@right('binary search in the alphabetical part')
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        rest = []
        for token in sorted(tokens):
            if token not in SPECIALS and (not rest or rest[-1] != token):
                rest.append(token)
        self.rest, self.tokens = rest, list(SPECIALS) + rest

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        out = []
        for t in tokens:
            if t in SPECIALS:
                out.append(SPECIALS.index(t))
                continue
            k = bisect_left(self.rest, t)
            out.append(k + len(SPECIALS) if k < len(self.rest) and self.rest[k] == t else UNK)
        return out

    def decode(self, ids):
        ids = list(ids)
        end = ids.index(EOS) if EOS in ids else len(ids)
        return tuple(map(self.tokens.__getitem__, filter(lambda i: i not in {PAD, BOS}, ids[:end])))


@right('tokens a list that is searched with index')
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        self.tokens.extend(sorted({t for t in tokens if t not in self.tokens}))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.tokens.index(t) if t in self.tokens else UNK for t in tokens]

    def decode(self, ids):
        def walk():
            for i in ids:
                if i == EOS:
                    return
                if i >= UNK:
                    yield self.tokens[i]
        return tuple(walk())


@right('decode from behind, an extra table of names')
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        rest = set()
        for t in tokens:
            rest.add(t)
        rest.difference_update(SPECIALS)
        self.tokens = [*SPECIALS] + sorted(rest)
        self.names = dict(enumerate(self.tokens))
        self.ids = {t: i for i, t in self.names.items()}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return list(self.ids[t] if t in self.ids else UNK for t in tokens)

    def decode(self, ids):
        out = ()
        for i in reversed(list(ids)):  # from behind: an EOS throws away all behind it
            out = () if i == EOS else out if i in (PAD, BOS) else (self.names[i], *out)
        return out


@wrong('tokens that are repeated get several ids', breaks='`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`, then all others *once* each, in alphabetical order, so that every run gives the same ids. One of the four may occur in the texts, and gets no second id.', name='not once each', subtle=False)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(t for t in tokens if t not in SPECIALS)]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong('unknown tokens raise KeyError', breaks='`encode` gives ids. What is not in the vocabulary becomes `UNK`.', name='no UNK', subtle=False)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[t] for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong('decode leaves EOS out, and goes on behind it', breaks='`decode` gives tokens. It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.', name='does not stop at EOS', subtle=False)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong('specials among the tokens get a second id', breaks='`tokens[i]` is the token with the id `i`: first the four of `SPECIALS`, then all others *once* each, in alphabetical order, so that every run gives the same ids. One of the four may occur in the texts, and gets no second id.', name='second id for a special token', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong('the dictionary belongs to the class: a second vocabulary changes the first', breaks='`encode` gives ids. What is not in the vocabulary becomes `UNK`.', name='state shared between instances', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    ids = {}

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids.update({t: i for i, t in enumerate(self.tokens)})

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong('decode writes an EOS behind the list that it was given', breaks="The lists that come in are somebody else's, and stay as they are.", name='list of ids changed', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        ids.append(EOS)
        return tuple(self.tokens[i] for i in ids[: ids.index(EOS)] if i not in (PAD, BOS))


@wrong('id 0 counts as not found: <pad> is encoded as UNK', breaks='`encode` gives ids. What is not in the vocabulary becomes `UNK`.', name='`or` in place of a default', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t) or UNK for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong('decode stops at the first PAD as well', breaks='`decode` gives tokens. It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.', name='PAD taken for the end', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                out.append(self.tokens[i])
        return tuple(out)


@wrong('encode gives unknown tokens an id of their own, the second time at the latest', breaks='`encode` gives ids. What is not in the vocabulary becomes `UNK`.', name='vocabulary grows in use', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        out = [self.ids.get(t, UNK) for t in tokens]
        for t in tokens:
            if t not in self.ids:
                self.ids[t] = len(self.tokens)
                self.tokens.append(t)
        return out

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.tokens[i])
        return tuple(out)


@wrong('decode leaves out UNK, too', breaks='`decode` gives tokens. It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`.', name='UNK dropped', subtle=True)
class Vocabulary:
    """Tokens and their ids."""

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {t: i for i, t in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(t, UNK) for t in tokens]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                out.append(self.tokens[i])
        return tuple(out)
