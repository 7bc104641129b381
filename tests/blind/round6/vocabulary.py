from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from blind import bugs


def make(bug):
    class Vocabulary:
        def __init__(self, tokens):
            if bug == "sorts the list that came in":
                tokens.sort()
            words = sorted(set(tokens) - set(SPECIALS))
            if bug == "sorted by length first":
                words.sort(key=lambda w: (len(w), w))
            if bug == "in order of appearance":
                words = [w for w in dict.fromkeys(tokens) if w not in SPECIALS]
            if bug == "specials once more":
                words = sorted(set(tokens))
            if bug == "only <pad> is kept out":
                words = sorted(set(tokens) - {SPECIALS[0]})
            self.tokens = [*SPECIALS, *words]
            if bug == "empty token left out":
                self.tokens = [*SPECIALS, *(w for w in words if w)]
            self.ids = {t: i for i, t in enumerate(self.tokens)}
            if bug == "specials are unknown":
                self.ids = {t: i for t, i in self.ids.items() if i > 3}
            if bug == "ids shared by all":
                type(self).shared = self.ids

        def __len__(self):
            return len(self.tokens)

        def encode(self, tokens):
            if bug == "unknown left out":
                return [self.ids[t] for t in tokens if t in self.ids]
            if bug == "EOS appended":
                return [self.ids.get(t, UNK) for t in tokens] + [EOS]
            if bug == "lower case on the way":
                return [self.ids.get(t.lower(), UNK) for t in tokens]
            if bug == "id 0 taken for unknown":
                return [self.ids.get(t, 0) or UNK for t in tokens]
            if bug == "a tuple of ids":
                return tuple(self.ids.get(t, UNK) for t in tokens)
            ids = type(self).shared if bug == "ids shared by all" else self.ids
            return [ids.get(t, UNK) for t in tokens]

        def decode(self, ids):
            if bug == "the last EOS ends":
                ids = list(ids)
                if EOS in ids:
                    ids = ids[: len(ids) - 1 - ids[::-1].index(EOS)]
                return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))
            if bug == "EOS removed, not an end":
                return tuple(self.tokens[i] for i in ids if i not in (PAD, BOS, EOS))
            words = []
            for place, i in enumerate(ids):
                if i == EOS or (bug == "PAD ends, too" and i == PAD):
                    break
                if i == PAD or (bug == "UNK left out" and i == UNK):
                    continue
                if i == BOS and not (bug == "BOS only in front" and place):
                    continue
                words.append(self.tokens[i])
            if bug == "EOS removed from the list":
                while EOS in ids:
                    ids.remove(EOS)
            return list(words) if bug == "a list of tokens" else tuple(words)

    return Vocabulary


ONCE = "first the four of `SPECIALS`, then all others *once* each, in alphabetical order"
STOP = "It stops at the first `EOS`, which is not part of the answer, and leaves out `PAD` and `BOS`."
KEEP = "The lists that come in are not yours: your code leaves them as they are."
bugs(
    make,
    {
        "sorts the list that came in": KEEP,
        "EOS removed from the list": KEEP,
        "sorted by length first": ONCE,
        "in order of appearance": ONCE,
        "specials once more": "One of the four may occur in the texts, and gets no second id.",
        "only <pad> is kept out": "One of the four may occur in the texts, and gets no second id.",
        "empty token left out": ONCE,
        "specials are unknown": "What is not in the vocabulary becomes `UNK`.",
        "ids shared by all": "`encode` gives ids.",
        "unknown left out": "What is not in the vocabulary becomes `UNK`.",
        "EOS appended": "`encode` gives ids.",
        "lower case on the way": "What is not in the vocabulary becomes `UNK`.",
        "id 0 taken for unknown": "What is not in the vocabulary becomes `UNK`.",
        "a tuple of ids": "`encode` gives a list, `decode` a tuple.",
        "a list of tokens": "`encode` gives a list, `decode` a tuple.",
        "the last EOS ends": STOP,
        "EOS removed, not an end": STOP,
        "PAD ends, too": STOP,
        "UNK left out": STOP,
        "BOS only in front": STOP,
    },
)
