from bisect import bisect_left
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


@right("binary search in the sorted part instead of a dictionary")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]

    def __len__(self):
        return len(self.tokens)

    def _id(self, token):
        if token in SPECIALS:
            return SPECIALS.index(token)
        place = bisect_left(self.tokens, token, lo=len(SPECIALS))
        if place < len(self.tokens) and self.tokens[place] == token:
            return place
        return UNK

    def encode(self, tokens):
        return [self._id(token) for token in tokens]

    def decode(self, ids):
        kept = []
        for i in ids:
            if i == EOS:
                break
            if i != PAD and i != BOS:
                kept.append(self.tokens[i])
        return tuple(kept)


@right("is a dictionary itself, with __missing__ for unknown tokens; tokens is a tuple")
class Vocabulary(dict):
    def __init__(self, tokens):
        others = {token for token in tokens if token not in SPECIALS}
        self.tokens = tuple(SPECIALS) + tuple(sorted(others))
        super().__init__((token, i) for i, token in enumerate(self.tokens))

    def __missing__(self, token):
        return UNK

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self[token] for token in tokens]

    def decode(self, ids):
        before = takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in before if i not in (PAD, BOS))


@right("sorts first and removes neighbours that are equal; decodes with a slice")
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in sorted(tokens):
            if token != self.tokens[-1] and token not in SPECIALS:
                self.tokens.append(token)
        self._number = {}
        for token in self.tokens:
            self._number[token] = len(self._number)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        result = []
        for token in tokens:
            result.append(self._number[token] if token in self._number else UNK)
        return result

    def decode(self, ids):
        ids = list(ids)
        end = ids.index(EOS) if EOS in ids else len(ids)
        return tuple(map(self.tokens.__getitem__, filter(lambda i: i > BOS, ids[:end])))


@right("keeps closures instead of methods' state, and searches self.tokens linearly")
class Vocabulary:
    def __init__(self, tokens):
        unique = dict.fromkeys(tokens)
        for special in SPECIALS:
            unique.pop(special, None)
        self.tokens = list(SPECIALS) + sorted(unique)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        def number(token):
            try:
                return self.tokens.index(token)
            except ValueError:
                return UNK

        return list(map(number, tokens))

    def decode(self, ids, silent=(PAD, BOS)):
        def speak():
            for i in ids:
                if i == EOS:
                    return
                if i not in silent:
                    yield self.tokens[i]

        return tuple(speak())


@wrong(
    "a token that occurs twice in the texts stands twice in tokens",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "repeated tokens get several ids",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(t for t in tokens if t not in SPECIALS)
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


@wrong(
    "the tokens follow in the order of their first appearance",
    "All other tokens follow *once* each, in the order in which `sorted` puts them, so"
    " every run gives the same ids.",
    "order of appearance instead of sorted",
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
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong(
    "decode leaves out all four special tokens, so <unk> vanishes from the answer",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`. Keep all"
    " other tokens.",
    "decode drops UNK too",
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
        result = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong(
    "a special token in the texts is listed a second time, and encode returns its second id",
    "If one of the four occurs in the texts, do not give it a second id.",
    "special tokens from the texts get a second id",
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
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong(
    "id 0 counts as 'not found': encode(['<pad>']) gives UNK instead of PAD",
    "A token that is not in the vocabulary becomes `UNK`.",
    "`or` takes id 0 for a missing id",
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
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)


@wrong(
    "decode cuts at ids.index(EOS) and raises ValueError for ids without EOS",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`. Keep all"
    " other tokens.",
    "decode fails if there is no EOS",
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
    "decode stops at the first PAD as well: tokens after a PAD, as in a row with padding in"
    " front, are lost",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`. Keep all"
    " other tokens.",
    "decode stops at PAD instead of skipping it",
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
        result = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                result.append(self.tokens[i])
        return tuple(result)


@wrong(
    "all objects share one dictionary: a token of another vocabulary, made before or after,"
    " gets that vocabulary's id instead of UNK",
    "The result of a call must not depend on earlier calls or on other objects of the same"
    " class.",
    "dictionary on the class, shared by all vocabularies",
)
class Vocabulary:
    ids = {token: i for i, token in enumerate(SPECIALS)}

    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens) - set(SPECIALS))
        self.ids.update((token, i) for i, token in enumerate(self.tokens))

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


@wrong(
    "sorts the special tokens with the others and cuts off the first four: fails for tokens"
    " that sort before '<pad>', such as '-', ',' or '7'",
    "The four tokens in `SPECIALS` come first.",
    "assumes that special tokens sort before all others",
)
class Vocabulary:
    def __init__(self, tokens):
        ordered = sorted({*tokens, *SPECIALS})
        self.tokens = list(SPECIALS) + ordered[len(SPECIALS) :]
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


@wrong(
    "sorts the list of the caller in place, so the texts' tokens are in another order"
    " afterwards",
    "Do not change the inputs.",
    "list.sort changes the caller's list",
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
        result = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                result.append(self.tokens[i])
        return tuple(result)
