"""The sentiment task: classify a review as positive or negative.

"The hamburger in this restaurant is delicious" is positive.

The polarity of the words is real. It comes from the lexicon of VADER (Hutto and
Gilbert, 2014; package vaderSentiment, MIT license), for which ten people rated each
word from -4 to 4. The reviews are synthetic: they are filled templates. Each review has
one opinion that counts, the writer's own about this place, and up to two opinions that
do not count: about another place, or by another person. Opinions may be negated. All
opinions are drawn in the same way, so the words of a review say little about its label;
what matters is which words belong together.
"""

import random
from collections.abc import Sequence
from functools import cache
from importlib import resources

from attention_course.tasks.core import Vocabulary
from attention_course.tasks.labels import LabelledExample, LabelTask, ReadTokens

LABELS = ("negative", "positive")

# Words of the lexicon that can describe a dish; `valence` reads their ratings.
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

# {o} is the opinion: in OWN the writer's own about this place, in OTHER any other.
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
    """Make the sentiment task: random reviews, and whether the writer is pleased.

    No review is in two splits. A third of the things, places and people occur only in
    training reviews, and another third only in held-out reviews. Neither third is in
    the vocabulary, so a model reads these words as unknown words. All splits have the
    same adjectives, since nothing in an unseen adjective says whether it is positive.

    Args:
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the reviews.

    Returns:
        The task; the gold positions are those of the deciding adjective and of the
        words that negate it.
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
    """Draw a review of one to three opinions, of which one counts.

    The gold positions are those of the opinion that counts.
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
    """Replace one adjective of a review by one of the opposite polarity.

    Args:
        rng: draws the new adjective, and which one to replace if there are two.
        example: a review.
        deciding: whether to replace the deciding adjective, which flips the label, or
            another one.

    Returns:
        The changed review; None if it has no other opinion to change.
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
    """Read the rating of each adjective from VADER's lexicon.

    Ratings below 0 are negative, ratings above 0 positive.
    """
    text = (resources.files("vaderSentiment") / "vader_lexicon.txt").read_text(
        encoding="utf-8"
    )
    rows = (line.split("\t") for line in text.splitlines() if line.strip())
    rated = {row[0]: float(row[1]) for row in rows}
    return {word: rated[word] for word in ADJECTIVES}
