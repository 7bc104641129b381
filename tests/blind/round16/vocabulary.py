import bisect
import itertools

import torch
from torch import nn
from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import right, wrong

INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
TOKENS = "`tokens[i]` must be the token with the id `i`."
SORTED = "All other tokens follow *once* each, in the order in which `sorted` puts them, so every run gives the same ids."
SECOND = "If one of the four is among `tokens`, do not give it a second id."
ENCODE = "`encode` must return a list of ids."
UNKNOWN = "A token that is not in the vocabulary becomes `UNK`."
DECODE = "`decode` must return a tuple of tokens."
STOP = "Stop at the first `EOS`, and leave out this `EOS` and every `PAD` and `BOS`."
KEEP = "Keep all other tokens."


class Ids(dict):
    """A dictionary that answers UNK for what it does not hold."""

    def __missing__(self, token):
        return UNK


@right('dict.fromkeys removes doubles and keeps the first place; tokens is a tuple')
class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = tuple(dict.fromkeys([*SPECIALS, *sorted(tokens)]))
        self.ids = dict(zip(self.tokens, range(len(self.tokens))))

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


@right('looks an id up by bisection in the sorted part, without a dictionary')
class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.rest = sorted({token for token in tokens if token not in SPECIALS})
        self.tokens = list(SPECIALS) + self.rest

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        ids = []
        for token in tokens:
            place = bisect.bisect_left(self.rest, token)
            if token in SPECIALS:
                ids.append(list(SPECIALS).index(token))
            elif place < len(self.rest) and self.rest[place] == token:
                ids.append(place + len(SPECIALS))
            else:
                ids.append(UNK)
        return ids

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@right('a dictionary with __missing__, and takewhile for the part before EOS')
class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = list(SPECIALS)
        for token in sorted(tokens):
            if token != self.tokens[-1] and token not in SPECIALS:
                self.tokens.append(token)
        self.ids = Ids(map(reversed, enumerate(self.tokens)))

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        return [*map(self.ids.__getitem__, tokens)]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        before = itertools.takewhile(lambda i: i != EOS, ids)
        return tuple(self.tokens[i] for i in before if i != PAD and i != BOS)


@right('list.index with an exception for unknown tokens, and iter with EOS as its sentinel')
class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens).difference(SPECIALS))]

    def __len__(self):
        return len(self.tokens)

    def encode(self, tokens):
        """Map tokens to a list of ids."""
        def number(token):
            try:
                return self.tokens.index(token)
            except ValueError:
                return UNK

        return list(map(number, tokens))

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        before = iter(iter(ids).__next__, EOS)
        return tuple(self.tokens[i] for i in before if i not in {PAD, BOS})


@wrong(
    'gives ids in the order in which the tokens appear first',
    breaks=SORTED,
    name='order of first appearance',
)
class Vocabulary:
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
    'a special token among the tokens gets a second place in the list',
    breaks=SECOND,
    name='special token twice',
)
class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        self.tokens = [*SPECIALS, *sorted(set(tokens))]
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
    'drops EOS but goes on after it',
    breaks=STOP,
    name='goes on after EOS',
)
class Vocabulary:
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
        """Map a list of ids to a tuple of tokens."""
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))


@wrong(
    'leaves out UNK too, as it drops all four special ids',
    breaks=KEEP,
    name='UNK left out',
)
class Vocabulary:
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
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i >= len(SPECIALS):
                tokens.append(self.tokens[i])
        return tuple(tokens)


@wrong(
    '`get(token) or UNK` turns the token <pad>, whose id is 0, into UNK',
    breaks=TOKENS,
    name='id 0 taken for missing',
)
class Vocabulary:
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
    'removes BOS only at the front and PAD only at the end, so one between tokens stays',
    breaks=STOP,
    name='padding between tokens stays',
)
class Vocabulary:
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
        """Map a list of ids to a tuple of tokens."""
        ids = list(ids)
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        while ids and ids[0] == BOS:
            ids = ids[1:]
        while ids and ids[-1] == PAD:
            ids = ids[:-1]
        return tuple(self.tokens[i] for i in ids)


@wrong(
    'looks for EOS with index, which fails when the model never stopped',
    breaks=DECODE,
    name='fails without EOS',
)
class Vocabulary:
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
        """Map a list of ids to a tuple of tokens."""
        ids = ids[: ids.index(EOS)]
        return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS))


@wrong(
    'keeps the ids in a dictionary of the class, so a second vocabulary also knows the tokens of the first',
    breaks=CALLS,
    name='dictionary shared by all vocabularies',
)
class Vocabulary:
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
    "sorts the caller's own list in place",
    breaks=INPUTS,
    name="sorts the caller's list",
)
class Vocabulary:
    """Tokens and their ids.

    Args:
        tokens: a list of the tokens that get an id, in any order; some may be repeated.
    """

    def __init__(self, tokens):
        tokens.sort()
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
    'an unknown token gets a new id when encode meets it',
    breaks=UNKNOWN,
    name='encode extends the vocabulary',
)
class Vocabulary:
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
        for token in tokens:
            if token not in self.ids:
                self.ids[token] = len(self.tokens)
                self.tokens.append(token)
        return [self.ids[token] for token in tokens]

    def decode(self, ids):
        """Map a list of ids to a tuple of tokens."""
        tokens = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tuple(tokens)
