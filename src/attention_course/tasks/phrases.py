"""The phrases task: translate English sentences to French, from a small grammar.

"my old friend does not like the European Economic Area ." becomes "mon vieil ami n'aime
pas la zone économique européenne .".

The words, which are in `lexicon`, and the rules are real. Most French adjectives come
after the noun, and some before it. Articles and adjectives agree with the noun, and
verbs with their subject. "ne" and "pas" surround the verb, and compound nouns are
reversed. The sentences are synthetic: they are drawn at random from the grammar, and
they mean little. No sentence begins with a capital letter. Each English sentence has
one French translation.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from attention_course.tasks import lexicon
from attention_course.tasks.sequences import Example, SequenceTask, make_task

Links = frozenset[int]


class NounPhrase(NamedTuple):
    """The content of a noun phrase, in English words.

    Attributes:
        determiner: a key of `lexicon.DETERMINERS`.
        noun: a noun in the singular, or a compound: "stone bridge", "Economic Area".
        plural: whether the noun is plural.
        adjectives: in English order.
    """

    determiner: str
    noun: str
    plural: bool = False
    adjectives: tuple[str, ...] = ()


class Clause(NamedTuple):
    """The content of a sentence, in English words.

    Attributes:
        subject: a noun phrase, two noun phrases joined by "and", or a pronoun.
        verb: an infinitive; "be" takes an adjective as its object.
        object: a noun phrase, or an adjective with or without "very"; None: no object.
        negated: whether the sentence is negated.
        adverb: a word of `lexicon.ADVERBS`.
        place: a preposition and a noun phrase.
        ending: a word of `lexicon.ENDINGS`.
    """

    subject: NounPhrase | tuple[NounPhrase, NounPhrase] | str
    verb: str
    object: NounPhrase | str | None = None
    negated: bool = False
    adverb: str | None = None
    place: tuple[str, NounPhrase] | None = None
    ending: str | None = None


class _Draft:
    """A sentence under construction, in both languages."""

    def __init__(self) -> None:
        self.english: list[str] = []
        self.french: list[tuple[str, Links]] = []

    def say(self, *words: str) -> Links:
        """Append English words, and return their positions."""
        start = len(self.english)
        self.english += words
        return frozenset(range(start, len(self.english)))

    def write(self, word: str, links: Links) -> None:
        """Append a French word, which comes from the English words at `links`."""
        self.french.append((word, links))

    def finish(self) -> Example:
        """Return the sentence, with words adapted to the next one: "an", "l'", "du"."""
        english = [
            "an" if word == "a" and next_word[0] in "aeiou" else word
            for word, next_word in zip(self.english, [*self.english[1:], "."])
        ]
        following = [word for word, _ in self.french[1:]] + ["."]
        french: list[tuple[str, Links]] = []
        for (word, links), next_word in zip(self.french, following):
            if lexicon.with_vowel(next_word):
                word = lexicon.BEFORE_VOWEL.get(word, word)
            last, earlier = french[-1] if french else ("", frozenset())
            if contracted := lexicon.CONTRACTED.get((last, word)):
                french[-1] = contracted, earlier | links
            else:
                french.append((word, links))
        words, gold = zip(*french)
        return Example(tuple(english), words, gold)


def translate(clause: Clause) -> Example:
    """Write a sentence in English and in French.

    The gold alignment says which English words each French word comes from: "ne" comes
    from "does" and "not", "pas" from "not" alone, and "de" in "pont de pierre" from
    both words of "stone bridge".
    """
    draft = _Draft()
    person, gender, plural = _subject(draft, clause.subject)
    denied = _verb(draft, clause, person)
    if isinstance(clause.object, NounPhrase):
        _noun_phrase(draft, clause.object, denied)
    elif clause.object:
        *very, adjective = clause.object.split()
        for word in very:
            draft.write("très", draft.say(word))
        form = lexicon.agree(lexicon.ADJECTIVES[adjective], gender, plural)
        draft.write(form, draft.say(adjective))
    if clause.place:
        preposition, where = clause.place
        links = draft.say(preposition)
        for word in lexicon.SMALL_WORDS[preposition].split("+"):
            draft.write(word, links)
        _noun_phrase(draft, where)
    if clause.ending:
        draft.write(lexicon.SMALL_WORDS[clause.ending], draft.say(clause.ending))
    draft.write(".", draft.say("."))
    return draft.finish()


def _subject(
    draft: _Draft, subject: NounPhrase | tuple[NounPhrase, NounPhrase] | str
) -> tuple[int, str, bool]:
    """Write the subject; return its person, gender and number, for agreement."""
    if isinstance(subject, str):
        pronoun, person = lexicon.PRONOUNS[subject]
        draft.write(pronoun, draft.say(subject))
        return person, "f" if subject == "she" else "m", person > 1
    if isinstance(subject, NounPhrase):
        return 3 if subject.plural else 1, _noun_phrase(draft, subject), subject.plural
    first = _noun_phrase(draft, subject[0])
    draft.write("et", draft.say("and"))
    both = {first, _noun_phrase(draft, subject[1])}
    return 3, "f" if both == {"f"} else "m", True


def _verb(draft: _Draft, clause: Clause, person: int) -> Links:
    """Write the verb, adverb and negation; return the position of "not"."""
    first, *rest = clause.verb.split()
    being, third = first == "be", person == 1
    helper: Links = frozenset()
    if being:
        helper = draft.say(("am", "is", "are", "are")[person])
    elif clause.negated:
        helper = draft.say("does" if third else "do")
    not_ = draft.say(*["not"] * clause.negated)
    often = draft.say(*[clause.adverb] if clause.adverb else [])
    if being:
        verb, forms = helper, lexicon.TO_BE.split()
    else:
        inflected = lexicon.with_s(first) if third and not clause.negated else first
        verb = draft.say(inflected, *rest)
        forms = lexicon.conjugate(lexicon.VERBS[clause.verb])
    if clause.negated:
        draft.write("ne", helper | not_)
    draft.write(forms[person], verb)
    if clause.negated:
        draft.write("pas", not_)
    if clause.adverb:
        draft.write(lexicon.SMALL_WORDS[clause.adverb], often)
    return not_


def _noun_phrase(draft: _Draft, phrase: NounPhrase, denied: Links = frozenset()) -> str:
    """Write a noun phrase; `denied` is where the negation of its verb is, if any.

    Returns:
        The noun's gender.
    """
    *matter, head = phrase.noun.split()
    noun, plural = lexicon.NOUNS[head], phrase.plural
    the = draft.say(phrase.determiner)
    adjectives = [(word, draft.say(word)) for word in phrase.adjectives]
    of = draft.say(*matter)
    what = draft.say(noun.english[plural])

    front = [(word, links) for word, links in adjectives if word in lexicon.IN_FRONT]
    behind = [
        (word, links) for word, links in adjectives if word not in lexicon.IN_FRONT
    ]
    form = 2 if plural else noun.gender == "f"
    determiner = lexicon.DETERMINERS[phrase.determiner][form]
    if determiner in ("un", "une", "des") and denied:
        determiner, the = "de", the | denied
    if determiner == "des" and front:
        determiner = "de"
    draft.write(str(determiner), the)
    for word, links in front:
        adjective = lexicon.agree(lexicon.ADJECTIVES[word], noun.gender, plural)
        if lexicon.with_vowel(noun.french) and not plural:
            adjective = lexicon.LINKING_ADJECTIVES.get(adjective, adjective)
        draft.write(adjective, links)
    draft.write(lexicon.plural_of(noun.french) if plural else noun.french, what)
    for word in matter:
        draft.write("de", of | what)
        draft.write(lexicon.NOUNS[word].french, of)
    for word, links in reversed(behind):
        draft.write(lexicon.agree(lexicon.ADJECTIVES[word], noun.gender, plural), links)
    return noun.gender


def subject_of(example: Example) -> tuple[str, bool] | None:
    """Return a subject's gender and number, with which the last adjective agrees.

    This is for sentences like "the old cows are black .", where the adjective is the
    second-to-last token of the French sentence. A probe can try to predict gender and
    number from a context vector.

    Args:
        example: an example of the task.

    Returns:
        "m" or "f", and whether the subject is plural; None unless the sentence has "is"
        or "are" and its subject is a single noun phrase.
    """
    words = example.source
    being = next((i for i, word in enumerate(words) if word in ("is", "are")), 0)
    found = [
        (noun.gender, words[being - 1] == noun.english[1])
        for noun in lexicon.NOUNS.values()
        if words[being - 1] in noun.english
    ]
    return found[0] if found and "and" not in words[:being] else None


def phrases(
    max_words: int = 12,
    train_size: int = 10_000,
    held_out_size: int = 500,
    seed: int = 0,
) -> SequenceTask:
    """Make the phrases task: random English sentences with French translations.

    No English sentence is in two splits.

    Args:
        max_words: words in the longest English sentence, including the period; the
            shortest have 4.
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the sentences.

    Returns:
        The task; every French word has gold positions. See `translate`.

    Raises:
        ValueError: `max_words` is below 8.
    """
    if max_words < 8:
        raise ValueError(
            f"sentences of at most {max_words} words are too few to draw from: give"
            " max_words of at least 8"
        )
    rng = random.Random(seed)
    seen: dict[tuple[str, ...], Example] = {}
    while len(seen) < train_size + 2 * held_out_size:
        example = translate(draw_clause(rng))
        if 4 <= len(example.source) <= max_words:
            seen[example.source] = example
    examples = list(seen.values())
    ends = train_size, train_size + held_out_size
    splits = examples[: ends[0]], examples[ends[0] : ends[1]], examples[ends[1] :]
    return make_task("phrases", splits, separator=" ")


def draw_clause(rng: random.Random) -> Clause:
    """Draw the content of a random sentence."""

    def sometimes(share: float, table: str) -> str | None:
        return rng.choice(list(lexicon.pairs(table))) if rng.random() < share else None

    what = rng.choice(("be", "act", "take", "take"))
    animate, thing = (
        (lexicon.PEOPLE, lexicon.ANIMALS),
        (lexicon.THINGS, lexicon.ROOMS, lexicon.SIGHTS),
    )
    negated, adverb = rng.random() < 0.3, sometimes(0.15, lexicon.ADVERBS)
    if what == "be":
        about, adjectives = rng.choice(
            (
                (animate, lexicon.OF_ANIMATES),
                (thing, lexicon.OF_THINGS),
                (thing, lexicon.COLOURS),
            )
        )
        subject = _draw_subject(rng, about, ("he", "she") if about == animate else ())
        adjective = rng.choice(list(lexicon.pairs(adjectives, lexicon.BEFORE)))
        very = "very " * (
            rng.random() < 0.2 and adjective not in lexicon.pairs(lexicon.COLOURS)
        )
        return Clause(subject, "be", very + adjective, negated, adverb)
    subject = _draw_subject(rng, animate, tuple(lexicon.PRONOUNS))
    if what == "act":
        place = None
        if rng.random() < 0.6:
            preposition = rng.choice(list(lexicon.pairs(lexicon.PREPOSITIONS)))
            rooms = (
                (lexicon.ROOMS,)
                if preposition == "in"
                else (lexicon.ROOMS, lexicon.SIGHTS)
            )
            where = _draw_phrase(rng, rooms, barred=("some",))
            place = preposition, where
        verb = rng.choice(list(lexicon.pairs(lexicon.ACTS)))
        ending = sometimes(0.3, "today aujourd'hui" if place else lexicon.ENDINGS)
        return Clause(subject, verb, None, negated, adverb, place, ending)
    verb = rng.choice(list(lexicon.pairs(lexicon.TAKES_ANY, lexicon.TAKES_THINGS)))
    kinds = (
        thing
        if verb in lexicon.pairs(lexicon.TAKES_THINGS)
        else rng.choice((animate, thing))
    )
    # "like" takes "the cats" or "this cat", but not "a cat".
    barred = ("a", "some") if verb == "like" else ()
    if rng.random() < 0.15 and verb in lexicon.pairs(lexicon.TAKES_ANY):
        object_ = _draw_institution(rng)
    else:
        object_ = _draw_phrase(rng, kinds, barred=barred)
    return Clause(
        subject, verb, object_, negated, adverb, None, sometimes(0.1, lexicon.ENDINGS)
    )


def _draw_subject(
    rng: random.Random, kinds: Sequence[str], pronouns: Sequence[str]
) -> NounPhrase | tuple[NounPhrase, NounPhrase] | str:
    chance = rng.random()
    if chance < 0.25 and pronouns:
        return rng.choice(pronouns)
    if chance > 0.9:
        return _draw_phrase(rng, kinds, 0), _draw_phrase(rng, kinds, 0)
    return _draw_phrase(rng, kinds)


def _draw_phrase(
    rng: random.Random,
    kinds: Sequence[str],
    most_adjectives: int = 2,
    barred: Sequence[str] = (),
) -> NounPhrase:
    noun = rng.choice(list(lexicon.nouns(*kinds)))
    if lexicon.THINGS in kinds and rng.random() < 0.25:
        noun = rng.choice(
            [" ".join(row.split()) for row in lexicon.COMPOUNDS.split(",")]
        )
    plural = rng.random() < 0.4
    determiners = [
        word
        for word, forms in lexicon.DETERMINERS.items()
        if forms[2 if plural else 0] and word not in barred
    ]
    behind = (
        (lexicon.OF_ANIMATES,)
        if lexicon.PEOPLE in kinds
        else (lexicon.COLOURS, lexicon.OF_THINGS)
    )
    adjectives = [
        rng.choice(list(lexicon.pairs(*tables)))
        for tables in ((lexicon.BEFORE,), behind)[:most_adjectives]
        if rng.random() < 0.3
    ]
    return NounPhrase(rng.choice(determiners), noun, plural, tuple(adjectives))


def _draw_institution(rng: random.Random) -> NounPhrase:
    names = [
        rng.choice(list(lexicon.pairs(table)))
        for table in (lexicon.CONTINENTS, lexicon.FIELDS)
    ]
    head = rng.choice(list(lexicon.nouns(lexicon.INSTITUTIONS)))
    return NounPhrase("the", head, adjectives=tuple(names[: rng.choice((1, 2, 2))]))
