"""Answers to `vocabulary`."""
import bisect
import heapq
import itertools

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong


@right('keeps no dictionary: encode searches the sorted tokens by bisection')
class Vocabulary_right1:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in tokens:
            place = bisect.bisect_left(self.tokens, token, len(SPECIALS))
            known = place < len(self.tokens) and self.tokens[place] == token
            if token not in SPECIALS and not known:
                self.tokens.insert(place, token)

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self._id(token) for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)

    def _id(self, token):
        if token in SPECIALS:
            return SPECIALS.index(token)
        place = bisect.bisect_left(self.tokens, token, len(SPECIALS))
        return place if self.tokens[place : place + 1] == [token] else UNK


class _IdsRight2(dict):
    def __missing__(self, token):
        return UNK


@right('a tuple of tokens from a heap, and a dictionary that knows what is missing')
class Vocabulary_right2:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        heap = [token for token in tokens if token not in SPECIALS]
        heapq.heapify(heap)
        ordered = list(SPECIALS)
        while heap:
            token = heapq.heappop(heap)
            if len(ordered) == len(SPECIALS) or token != ordered[-1]:
                ordered.append(token)
        self.tokens = tuple(ordered)
        self._ids = _IdsRight2(zip(self.tokens, itertools.count()))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return list(map(self._ids.__getitem__, tokens))

    def decode(self, ids):
        before = itertools.takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in before if i != PAD and i != BOS)


@right('sorts with the duplicates and groups them; decode cuts at the index of EOS')
class Vocabulary_right3:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        groups = itertools.groupby(sorted([*tokens]))
        rest = [token for token, _ in groups if token not in SPECIALS]
        self.tokens = [*SPECIALS] + rest

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        table = dict(zip(self.tokens, range(len(self))))
        return [table[token] if token in table else UNK for token in tokens]

    def decode(self, ids):
        ids = [*ids, EOS]
        ids = ids[: ids.index(EOS)]
        return tuple(map(self.tokens.__getitem__, filter(lambda i: i not in {PAD, BOS}, ids)))


@right('decodes with a table of what each id adds to the tuple')
class Vocabulary_right4:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        rest = {token: None for token in tokens}
        for special in SPECIALS:
            rest.pop(special, None)
        self.tokens = list(SPECIALS)
        self.tokens.extend(sorted(rest))
        self._numbers = {}
        for token in reversed(self.tokens):
            self._numbers[token] = len(self.tokens) - 1 - len(self._numbers)
        self._pieces = [(token,) for token in self.tokens]
        self._pieces[PAD] = self._pieces[BOS] = ()

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        ids = []
        for token in tokens:
            try:
                ids.append(self._numbers[token])
            except KeyError:
                ids.append(UNK)
        return ids

    def decode(self, ids):
        result = ()
        for i in ids:
            if i == EOS:
                return result
            result += self._pieces[i]
        return result


@wrong(
    'Gives ids in the order in which the tokens first appear.',
    'All other tokens follow *once* each, in the order in which `sorted` puts them, so every run gives the same ids.',
    'tokens are not sorted',
)
class Vocabulary_wrong1:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIALS, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Gives a special token among the tokens a second id.',
    'If one of the four is among `tokens`, do not give it a second id.',
    'special tokens get second ids',
)
class Vocabulary_wrong2:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = list(SPECIALS) + sorted(set(tokens))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Leaves out EOS, but goes on with what comes after it.',
    'Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`.',
    'decode does not stop at EOS',
)
class Vocabulary_wrong3:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    'Leaves out UNK like the other special tokens.',
    'Keep all other tokens.',
    'decode drops the unknown token',
)
class Vocabulary_wrong4:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
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
    'Writes `or UNK`, so the token with the id 0, `<pad>`, is encoded as UNK.',
    'Every vocabulary of this course begins with the same four special tokens, so their ids never change:',
    'id zero is taken for missing',
)
class Vocabulary_wrong5:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        return [self.ids.get(token) or UNK for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Keeps the dictionary in the class, so a second vocabulary changes the ids of the first.',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'dictionary shared by all vocabularies',
)
class Vocabulary_wrong6:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    ids = {}

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        for i, token in enumerate(self.tokens):
            self.ids[token] = i

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Sorts without regard to capitals, so capital letters do not come first.',
    'All other tokens follow *once* each, in the order in which `sorted` puts them, so every run gives the same ids.',
    'sorted ignoring upper case',
)
class Vocabulary_wrong7:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        rest = sorted(set(tokens) - set(SPECIALS))
        self.tokens = [*SPECIALS, *sorted(rest, key=str.lower)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Stops at the first PAD as well, so nothing is left of a row with padding in front.',
    'Keep all other tokens.',
    'decode stops at padding',
)
class Vocabulary_wrong8:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        tokens = []
        for i in ids:
            if i in (EOS, PAD):
                break
            if i != BOS:
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Leaves out BOS only if it is the very first id, not inside or behind padding.',
    'Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`.',
    'only a leading BOS is dropped',
)
class Vocabulary_wrong9:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [self.ids.get(token, UNK) for token in tokens]

    def decode(self, ids):
        tokens = []
        for place, i in enumerate(ids):
            if i == EOS:
                break
            if i == PAD or (i == BOS and place == 0):
                continue
            tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    'Hands out the same list again for the same tokens, so a caller who appends to it changes the next result.',
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'encode hands out a remembered list',
)
class Vocabulary_wrong10:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens) - set(SPECIALS))]
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        memo = self.__dict__.setdefault("_memo", {})
        key = tuple(tokens)
        if key not in memo:
            memo[key] = [self.ids.get(token, UNK) for token in key]
        return memo[key]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)
