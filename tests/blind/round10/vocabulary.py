import bisect
from collections import defaultdict
from itertools import takewhile

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK

from blind import right, wrong


@right("searches a sorted list by bisection, and has no dictionary")
class Vocabulary:
    def __init__(self, tokens):
        self._words = sorted(set(tokens).difference(SPECIALS))
        self.tokens = list(SPECIALS) + self._words

    def __len__(self):
        return len(self.tokens)

    def _find(self, token):
        if token in SPECIALS:
            return SPECIALS.index(token)
        place = bisect.bisect_left(self._words, token)
        if place < len(self._words) and self._words[place] == token:
            return len(SPECIALS) + place
        return UNK

    def encode(self, tokens):
        return [self._find(token) for token in tokens]

    def decode(self, ids):
        found = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                found.append(self.tokens[i])
        return tuple(found)


class Lookup(dict):
    def __missing__(self, token):
        return UNK


@right("a dict with __missing__ for the ids, takewhile and filter for decode")
class Vocabulary:
    def __init__(self, tokens):
        words = sorted({token for token in tokens if token not in SPECIALS})
        self.tokens = [*SPECIALS, *words]
        self.lookup = Lookup((token, i) for i, token in enumerate(self.tokens))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return list(map(self.lookup.__getitem__, tokens))

    def decode(self, ids):
        kept = takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in kept if i not in {PAD, BOS})


@right("sorts first and drops neighbours that are equal; tokens is a tuple")
class Vocabulary:
    def __init__(self, tokens):
        found = list(SPECIALS)
        last = None
        for token in sorted(tokens):
            if token != last and token not in SPECIALS:
                found.append(token)
            last = token
        self.tokens = tuple(found)
        self.ids = dict(zip(self.tokens, range(len(self.tokens))))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        ids = []
        for token in tokens:
            try:
                ids.append(self.ids[token])
            except KeyError:
                ids.append(UNK)
        return ids

    def decode(self, ids):
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return tuple([self.tokens[i] for i in ids if i != PAD and i != BOS])


@right("inserts each new token at its place; looks ids up in the list itself")
class Vocabulary:
    def __init__(self, tokens, specials=SPECIALS):
        words = []
        for token in tokens:
            place = bisect.bisect_left(words, token)
            known = place < len(words) and words[place] == token
            if not known and token not in specials:
                words.insert(place, token)
        self.tokens = [*specials, *words]

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [
            self.tokens.index(token) if token in self.tokens else UNK
            for token in tokens
        ]

    def decode(self, ids):
        words = ()
        for i in ids:
            match i:
                case 2:
                    return words
                case 0 | 1:
                    continue
                case _:
                    words += (self.tokens[i],)
        return words


@wrong(
    "keeps the tokens in the order in which they first occur: ['b', 'a']",
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
    "decode skips EOS and goes on behind it: [5, 2, 6]",
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
    "decode leaves out every special token, so UNK is lost: [5, 3, 6]",
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
    "a special token that occurs in the texts is entered again: ['a', '<unk>']",
    "If one of the four occurs in the texts, do not give it a second id.",
    "specials in the texts get a second id",
)
class Vocabulary:
    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
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
    "decode needs an EOS: ids without one (a row that was cut off) raise ValueError",
    "- `decode` must return a tuple of tokens.",
    "decode fails if there is no EOS",
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
        kept = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in kept if i not in (PAD, BOS))


@wrong(
    "the dictionary belongs to the class, so a token of another vocabulary that is"
    " unknown here gets that vocabulary's id",
    "- The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "dictionary is shared by all vocabularies",
)
class Vocabulary:
    ids = {token: i for i, token in enumerate(SPECIALS)}

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


@wrong(
    "looks only at the beginning for BOS and only at the end for PAD: [5, 1, 0, 6]",
    "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`.",
    "PAD and BOS in the middle are kept",
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
        start, end = 0, len(ids)
        if EOS in ids:
            end = ids.index(EOS)
        while start < end and ids[start] == BOS:
            start += 1
        while end > start and ids[end - 1] == PAD:
            end -= 1
        return tuple(self.tokens[i] for i in ids[start:end])


@wrong(
    "`or UNK` also replaces the id 0: encode(['<pad>']) gives [3]",
    "- `tokens[i]` must be the token with the id `i`.",
    "the id 0 is mistaken for missing",
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
    "a defaultdict: the lookup enters each unknown token, and decode finds the words in"
    " this dictionary by position, so after encode(['new']) the length of the dictionary"
    " has grown; len follows it",
    "- The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "encode adds unknown tokens to the vocabulary",
)
class Vocabulary:
    def __init__(self, tokens):
        self.ids = defaultdict(lambda: UNK)
        for token in [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]:
            self.ids[token] = len(self.ids)

    @property
    def tokens(self):
        return list(self.ids)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        words, tokens = [], self.tokens
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(tokens[i])
        return tuple(words)


@wrong(
    "tests for the special tokens in one long string, so a token that is a piece of it,"
    " such as 'pad', 'bos', 'o' or '<', is left out by decode",
    "Keep all other tokens.",
    "substring test drops words such as 'pad'",
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
            if token == "<eos>":
                break
            if token not in "<pad><bos>":
                words.append(token)
        return tuple(words)
