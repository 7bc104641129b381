"""The tagging task: label each word of a sentence with its part of speech.

"she can book the can ." becomes PRON AUX VERB DET NOUN PUNCT.

The words are real, and many can be more than one part of speech ("can", "saw", "her",
"light"). The tags are those of Universal Dependencies (Nivre et al., 2020). The
sentences are synthetic: they come from a small grammar, with all words of a class
equally likely, and they mean little. Each sentence has only one reading, but finding it
may take words on both sides: "light" is a noun in "the light saw her", and an adjective
in "the light saw rose".
"""

import random

from attention_course.tasks.core import Vocabulary
from attention_course.tasks.labels import LabelledExample, LabelTask, ReadTokens

TAGS = (
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "NOUN",
    "PART",
    "PRON",
    "PUNCT",
    "VERB",
)

# The expansions of each symbol, all equally likely; a symbol that is not listed here is
# a class of words.
GRAMMAR = {
    "sentence": (
        "subject predicate stop",
        "subject predicate and predicate stop",
        "where subject predicate stop",
    ),
    "subject": ("phrase", "phrase", "he"),
    "object": ("phrase", "phrase", "him"),
    "phrase": ("the noun", "the noun", "the adjective noun", "the noun in the noun"),
    "predicate": ("can do", "can do", "did", "can not do", "wanted to do"),
    "do": ("take object", "take object where", "sleep", "sleep adverb"),
    "did": ("took object", "took object where", "slept", "slept adverb"),
    "where": ("in the noun",),
}
# The tag and the words of each class of words.
WORDS = {
    "the": ("DET", "the a this that every her his my our some".split()),
    "noun": (
        "NOUN",
        "book can saw watch fish duck plant hammer train cook park ring ship fly bear"
        " judge nurse light answer play walk rose left felt will might well round still"
        " may drink smoke water cut fall house river cat garden teacher street friend"
        " morning picture table".split(),
    ),
    "adjective": (
        "ADJ",
        "light left round still fit cool calm clean dry flat old green happy tall"
        " narrow".split(),
    ),
    "he": ("PRON", "he she they we i you this that".split()),
    "him": ("PRON", "him her them us me you this that".split()),
    "can": ("AUX", "can will might may must could".split()),
    "take": (
        "VERB",
        "book can watch fish plant hammer train cook park ring ship fly bear judge"
        " nurse light answer play round drink smoke water cut cool calm clean dry find"
        " see take".split(),
    ),
    "took": ("VERB", "saw left felt found took heard held".split()),
    "sleep": (
        "VERB",
        "fish cook play walk fall drink smoke fly duck rest sleep dance".split(),
    ),
    "slept": ("VERB", "rose fell left felt slept danced waited".split()),
    "adverb": ("ADV", "well still round outside soon often together".split()),
    "wanted": ("VERB", "wanted hoped began".split()),
    "in": ("ADP", "in near behind round outside".split()),
    "and": ("CCONJ", "and or but".split()),
    "not": ("PART", ["not"]),
    "to": ("PART", ["to"]),
    "stop": ("PUNCT", [".", "!"]),
}


def tagging(
    train_size: int = 2_000, held_out_size: int = 300, seed: int = 0
) -> LabelTask:
    """Make the tagging task: random sentences and their parts of speech.

    No sentence is in two splits.

    Args:
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the sentences.

    Returns:
        The task. There are no gold positions, since tag s belongs to word s.
    """
    rng = random.Random(seed)
    seen: dict[tuple[str, ...], LabelledExample] = {}
    while len(seen) < train_size + 2 * held_out_size:
        example = sentence(rng)
        seen.setdefault(example.source, example)
    drawn = list(seen.values())
    test, validation, train = (
        drawn[:held_out_size],
        drawn[held_out_size : 2 * held_out_size],
        drawn[2 * held_out_size :],
    )
    vocabulary = Vocabulary(word for example in train for word in example.source)
    return LabelTask(
        "tagging", train, validation, test, TAGS, ReadTokens(vocabulary), " ".join
    )


def sentence(rng: random.Random) -> LabelledExample:
    """Draw one sentence from the grammar, with the tag of each word."""
    words, tags, symbols = [], [], ["sentence"]
    while symbols:
        symbol = symbols.pop(0)
        if symbol in GRAMMAR:
            symbols = rng.choice(GRAMMAR[symbol]).split() + symbols
        else:
            tag, choices = WORDS[symbol]
            words.append(rng.choice(choices))
            tags.append(tag)
    return LabelledExample(tuple(words), tuple(tags))
