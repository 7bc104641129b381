"""Sentiment: is the reviewer pleased?

"The hamburger in this restaurant is delicious" is positive.

What is real: which words praise and which condemn comes from the lexicon of VADER
(Hutto and Gilbert, 2014; package vaderSentiment, MIT licence), where ten people rated
each word from -4 to 4. What is synthetic: the reviews are filled templates. Each holds
one opinion that counts, the writer's own about this place, and up to two that do not:
about another place, or another person's. Opinions may be negated. All are drawn alike,
so that which words are there says little and which of them belong together says
everything.
"""

import random
from collections.abc import Sequence
from functools import cache
from importlib import resources

from attention_course.tasks.core import Vocabulary
from attention_course.tasks.labels import LabelledExample, LabelTask, ReadTokens

LABELS = ("negative", "positive")

# Words of the lexicon that can be said of a dish; what they are worth is for the
# lexicon to say.
ADJECTIVES = tuple(
    "adorable amazing annoying appalling attractive awesome awful bad beautiful boring"
    " brilliant charming crappy defective delectable delicious delightful depressing"
    " dirty disappointing disgusting divine dreadful elegant embarrassing enjoyable"
    " excellent fabulous fantastic frustrating glorious good gorgeous great grim"
    " heavenly horrible horrid horrific impressive interesting lame likeable lousy"
    " lovable lovely magnificent marvelous miserable nasty nice offensive outstanding"
    " painful pathetic perfect pleasant poor pretty remarkable ridiculous rotten"
    " sickening splendid stunning stupid superb superior sweet terrible terrific tragic"
    " ugly unattractive unimpressive unpleasant useless wonderful worthless".split()
)
NEGATIONS = (("not",), ("never",), ("hardly",), ("anything", "but"), ("far", "from"))
ADVERBS = ("really", "very", "rather", "simply")
THINGS = (
    "hamburger soup pasta steak salad pizza risotto curry coffee tea wine beer cake"
    " dessert bread fish chicken rice omelette breakfast lunch dinner menu music view"
    " garden terrace table service room staff waiter cook owner decoration lighting"
    " furniture cheese chocolate sandwich noodles lasagna paella goulash chowder"
    " pancake"
).split()
PLACES = (
    "restaurant hotel cafe bar diner inn pub tavern bistro canteen pizzeria bakery"
    " brasserie steakhouse".split()
)
PEOPLE = (
    "sister brother friend colleague neighbour mother father uncle aunt boss cousin"
    " grandmother guide critic".split()
)

# {o}: the opinion. The first kind is the writer's own about this place, the others are
# not.
OWN = (
    "the {thing} in this {place} is {o}",
    "this {place} has a {thing} that is {o}",
    "the {thing} here is {o}",
    "i find the {thing} {o}",
    "here the {thing} was {o}",
)
OTHER = (
    "the {thing} in that {place} is {o}",
    "that {place} has a {thing} that is {o}",
    "the {thing} there is {o}",
    "my {person} finds the {thing} {o}",
    "the {person} wrote that the {thing} was {o}",
    "elsewhere the {thing} was {o}",
)
JOINTS = ("and", "but", ",", ";")


def sentiment(
    train_size: int = 4_000, held_out_size: int = 500, seed: int = 0
) -> LabelTask:
    """Make reviews, and say whether the writer is pleased.

    No review is in two splits. A third of the things, places and people are only in
    training reviews, another third only in held-out ones, and neither are in the
    vocabulary: a model reads them as unknown words. Adjectives are in all splits, for
    nothing in a word that was never seen says whether it praises.

    Args:
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: of the reviews.

    Returns:
        The task; gold are the positions of the deciding adjective and of the words that
        negate it.
    """
    rng = random.Random(seed)
    known, trained, held_out = (
        [words[i::3] for words in (THINGS, PLACES, PEOPLE)] for i in range(3)
    )
    seen: set[tuple[str, ...]] = set()
    splits = []
    for size, others in (
        (train_size, trained),
        (held_out_size, held_out),
        (held_out_size, held_out),
    ):
        nouns = [a + b for a, b in zip(known, others)]
        split: list[LabelledExample] = []
        while len(split) < size:
            example = review(rng, *nouns)
            if example.source not in seen:
                seen.add(example.source)
                split.append(example)
        splits.append(split)
    train, validation, test = splits
    unknown = {noun for nouns in trained for noun in nouns}
    vocabulary = Vocabulary(
        word for example in train for word in example.source if word not in unknown
    )
    return LabelTask(
        "sentiment", train, validation, test, LABELS, ReadTokens(vocabulary), " ".join
    )


def review(
    rng: random.Random,
    things: Sequence[str],
    places: Sequence[str],
    people: Sequence[str],
) -> LabelledExample:
    """Draw one review with one opinion that counts, among up to three.

    Gold says where it stands.
    """
    forms = [
        rng.choice(OWN),
        *rng.choices(OTHER, k=rng.choices((0, 1, 2), (1, 2, 2))[0]),
    ]
    rng.shuffle(forms)
    source: list[str] = []
    for i, form in enumerate(forms):
        source += [rng.choice(JOINTS)] if i else []
        negation = rng.choice(NEGATIONS) if rng.random() < 1 / 3 else ()
        adverb = (rng.choice(ADVERBS),) if not negation and rng.random() < 1 / 4 else ()
        adjective = rng.choice(ADJECTIVES)
        nouns = {
            "thing": rng.choice(things),
            "place": rng.choice(places),
            "person": rng.choice(people),
        }
        clause = form.format(
            **nouns, o=" ".join((*negation, *adverb, adjective))
        ).split()
        if form in OWN:
            end = len(source) + len(clause) - 1
            gold = {end, *range(end - len(negation), end)}
            label = LABELS[(valence()[adjective] > 0) != bool(negation)]
        source += clause
    return LabelledExample((*source, "."), (label,), (frozenset(gold),))


def opposite(
    rng: random.Random, example: LabelledExample, deciding: bool = True
) -> LabelledExample | None:
    """Put an adjective of the opposite worth in the place of one that is there.

    Args:
        rng: of the adjective, and of which one goes if there are two.
        example: a review.
        deciding: whether the one that decides goes, which turns the label, or one that
            does not.

    Returns:
        The changed review; None: there is no other opinion in it.
    """
    words, decides = list(example.source), max(example.gold[0])
    places = [
        s
        for s, word in enumerate(words)
        if word in ADJECTIVES and (s == decides) == deciding
    ]
    if not places:
        return None
    place = rng.choice(places)
    praises = valence()[words[place]] > 0
    words[place] = rng.choice(
        [word for word in ADJECTIVES if (valence()[word] > 0) != praises]
    )
    label = LABELS[(example.labels == LABELS[1:]) != deciding]
    return LabelledExample(tuple(words), (label,), example.gold)


@cache
def valence() -> dict[str, float]:
    """Read from VADER's lexicon what each adjective is worth.

    Below 0 it condemns, above it praises.
    """
    text = (resources.files("vaderSentiment") / "vader_lexicon.txt").read_text(
        encoding="utf-8"
    )
    rows = (line.split("\t") for line in text.splitlines() if line.strip())
    rated = {row[0]: float(row[1]) for row in rows}
    return {word: rated[word] for word in ADJECTIVES}
