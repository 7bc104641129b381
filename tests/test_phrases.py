from itertools import groupby

import pytest

from attention_course.metrics import sure_links
from attention_course.tasks import lexicon
from attention_course.tasks.core import SPECIALS, Task
from attention_course.tasks.lexicon import (
    NOUNS,
    agree,
    conjugate,
    feminine_of,
    plural_of,
    with_s,
)
from attention_course.tasks.phrases import (
    Clause,
    NounPhrase,
    phrases,
    subject_of,
    translate,
)


@pytest.fixture(scope="module")
def task():
    return phrases(train_size=3000, held_out_size=200)


def all_examples(task):
    return [*task.train, *task.validation, *task.test]


def french(*clause, **rest):
    return " ".join(translate(Clause(*clause, **rest)).target)


def noun_phrase(words, plural=False):
    """ "my old friend": determiner, adjectives, noun."""
    determiner, *adjectives, noun = words.split()
    return NounPhrase(determiner, noun.replace("_", " "), plural, tuple(adjectives))


# Words


@pytest.mark.parametrize(
    ("masculine", "feminine", "plurals"),
    [
        ("noir", "noire", "noirs noires"),
        ("rouge", "rouge", "rouges rouges"),
        ("gris", "grise", "gris grises"),
        ("heureux", "heureuse", "heureux heureuses"),
        ("fier", "fière", "fiers fières"),
        ("léger", "légère", "légers légères"),
        ("blanc", "blanche", "blancs blanches"),
        ("sec", "sèche", "secs sèches"),
        ("européen", "européenne", "européens européennes"),
        ("américain", "américaine", "américains américaines"),
        ("social", "sociale", "sociaux sociales"),
        ("vieux", "vieille", "vieux vieilles"),
        ("beau", "belle", "beaux belles"),
        ("nouveau", "nouvelle", "nouveaux nouvelles"),
        ("bleu", "bleue", "bleus bleues"),
    ],
)
def test_adjectives_by_hand(masculine, feminine, plurals):
    assert feminine_of(masculine) == agree(masculine, "f", False) == feminine
    assert agree(masculine, "m", False) == masculine
    assert [agree(masculine, gender, True) for gender in "mf"] == plurals.split()


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("chat", "chats"),
        ("cheval", "chevaux"),
        ("journal", "journaux"),
        ("oiseau", "oiseaux"),
        ("souris", "souris"),
        ("clé", "clés"),
    ],
)
def test_french_plurals_by_hand(singular, plural):
    assert plural_of(singular) == plural


def test_english_endings_by_hand():
    words = "box church dress carry boy key wolf"
    expected = "boxes churches dresses carries boys keys wolves"
    assert [
        NOUNS[w].english[1] if w in NOUNS else with_s(w) for w in words.split()
    ] == (expected.split())


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("aimer", "aime aime aimons aiment"),
        ("choisir", "choisis choisit choisissons choisissent"),
        ("vendre", "vends vend vendons vendent"),
        ("dormir", "dors dort dormons dorment"),
        ("acheter", "achète achète achetons achètent"),
        ("vouloir", "veux veut voulons veulent"),
    ],
)
def test_verbs_by_hand(verb, forms):
    assert conjugate(verb) == forms.split()


# Noun phrases: what they agree with, and what comes before a vowel


@pytest.mark.parametrize(
    ("words", "singular", "plural"),
    [
        ("the cat", "le chat", "les chats"),
        ("the cow", "la vache", "les vaches"),
        ("the man", "l' homme", "les hommes"),
        ("the church", "l' église", "les églises"),
        ("the small friend", "le petit ami", "les petits amis"),
        ("the old friend", "le vieil ami", "les vieux amis"),
        ("the old actress", "la vieille actrice", "les vieilles actrices"),
        ("the beautiful tree", "le bel arbre", "les beaux arbres"),
        ("the new egg", "le nouvel œuf", "les nouveaux œufs"),
        ("the old black cat", "le vieux chat noir", "les vieux chats noirs"),
        ("the white dress", "la robe blanche", "les robes blanches"),
        ("my sister", "ma sœur", "mes sœurs"),
        ("my actress", "mon actrice", "mes actrices"),
        ("my old actress", "ma vieille actrice", "mes vieilles actrices"),
        ("his clock", "son horloge", "ses horloges"),
        ("her clock", "son horloge", "ses horloges"),
        ("our clock", "notre horloge", "nos horloges"),
        ("the stone_bridge", "le pont de pierre", "les ponts de pierre"),
        ("the winter_coat", "le manteau d' hiver", "les manteaux d' hiver"),
        ("the history_book", "le livre d' histoire", "les livres d' histoire"),
        (
            "the red silk_shirt",
            "la chemise de soie rouge",
            "les chemises de soie rouges",
        ),
        ("the European Economic Area", "la zone économique européenne", None),
        ("the American Central Bank", "la banque centrale américaine", None),
        ("the Asian Social Council", "le conseil social asiatique", None),
        ("the African Union", "l' union africaine", None),
        ("this friend", "cet ami", None),
        ("this old friend", "ce vieil ami", None),
        ("this actress", "cette actrice", None),
        ("this cat", "ce chat", None),
        ("these cat", None, "ces chats"),
        ("a cat", "un chat", None),
        ("a cow", "une vache", None),
        ("some curious horse", None, "des chevaux curieux"),
        ("some small horse", None, "de petits chevaux"),
        ("two beautiful bird", None, "deux beaux oiseaux"),
    ],
)
def test_noun_phrases_by_hand(words, singular, plural):
    for many, expected in ((False, singular), (True, plural)):
        if expected:
            verb = "dorment" if many else "dort"
            assert french(noun_phrase(words, many), "sleep") == f"{expected} {verb} ."


@pytest.mark.parametrize(
    ("clause", "english", "expected"),
    [
        (("I", "like", "the cat"), "I like the cat .", "j' aime le chat ."),
        (("we", "wait"), "we wait .", "nous attendons ."),
        (("they", "want", "the key"), "they want the key .", "ils veulent la clé ."),
        (
            ("she", "carry", "a orange"),
            "she carries an orange .",
            "elle porte une orange .",
        ),
        (("he", "buy", "a apple"), "he buys an apple .", "il achète une pomme ."),
        (("she", "be", "very proud"), "she is very proud .", "elle est très fière ."),
        (("they", "be", "tired"), "they are tired .", "ils sont fatigués ."),
    ],
)
def test_who_does_it_by_hand(clause, english, expected):
    subject, verb, *objects = clause
    objects = [noun_phrase(words) if verb != "be" else words for words in objects]
    example = translate(Clause(subject, verb, *objects))

    assert " ".join(example.source) == english
    assert " ".join(example.target) == expected


def test_negation_by_hand():
    cat, cats = noun_phrase("a cat"), noun_phrase("some cat", plural=True)
    the_cat, old = noun_phrase("the cat"), noun_phrase("a old tree")

    assert french("he", "see", the_cat, negated=True) == "il ne voit pas le chat ."
    assert french("I", "like", the_cat, negated=True) == "je n' aime pas le chat ."
    # What is not there at all has no article.
    assert french("he", "see", cat, negated=True) == "il ne voit pas de chat ."
    assert french("he", "see", cats, negated=True) == "il ne voit pas de chats ."
    tree = noun_phrase("a tree")
    assert french("he", "see", tree, negated=True) == "il ne voit pas d' arbre ."
    assert french("he", "see", old, negated=True) == "il ne voit pas de vieil arbre ."
    assert french(cat, "see", the_cat, negated=True) == "un chat ne voit pas le chat ."
    denied = translate(Clause(the_cat, "be", "old", negated=True, adverb="always"))
    assert " ".join(denied.source) == "the cat is not always old ."
    assert " ".join(denied.target) == "le chat n' est pas toujours vieux ."


def test_two_subjects_agree_together():
    def heavy(*subjects):
        return french(tuple(noun_phrase(f"the {s}") for s in subjects), "be", "heavy")

    assert heavy("box", "key") == "la boîte et la clé sont lourdes ."
    assert heavy("box", "bag") == "la boîte et le sac sont lourds ."
    assert heavy("bag", "box") == "le sac et la boîte sont lourds ."
    assert french((noun_phrase("the boy"), noun_phrase("the girl")), "sleep") == (
        "le garçon et la fille dorment ."
    )


@pytest.mark.parametrize(
    ("place", "plural", "expected"),
    [
        ("the garden", False, "près du jardin"),
        ("the old garden", False, "près du vieux jardin"),
        ("the house", False, "près de la maison"),
        ("the tree", False, "près de l' arbre"),
        ("the garden", True, "près des jardins"),
        ("a house", False, "près d' une maison"),
        ("my school", False, "près de mon école"),
    ],
)
def test_contractions_by_hand(place, plural, expected):
    where = "near", noun_phrase(place, plural)

    assert french("he", "sleep", place=where) == f"il dort {expected} ."


# Alignments: every French word with its English ones; * marks what is only possible


def arrows(*clause, **rest):
    source, target, gold = translate(Clause(*clause, **rest))
    return " ".join(
        f"{word}<{'+'.join(source[s] for s in sorted(positions))}{'' if sure else '*'}"
        for word, positions, sure in zip(target, gold, sure_links(gold))
    )


THE_CAT, MY_FRIEND = noun_phrase("the black cat"), noun_phrase("my old friend")
AREA, BRIDGE = noun_phrase("the European Economic Area"), noun_phrase("a stone_bridge")


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(THE_CAT, "sleep"), "le<the chat<cat noir<black dort<sleeps .<."),
        (Clause(MY_FRIEND, "sing"), "mon<my vieil<old ami<friend chante<sings .<."),
        (
            Clause("she", "like", AREA),
            "elle<she aime<likes la<the zone<Area économique<Economic"
            " européenne<European .<.",
        ),
        (
            Clause("we", "see", BRIDGE),
            "nous<we voyons<see un<a pont<bridge de<stone+bridge* pierre<stone .<.",
        ),
        (
            Clause("he", "sleep", negated=True),
            "il<he ne<does+not* dort<sleep pas<not .<.",
        ),
        (
            Clause("they", "be", "happy", negated=True),
            "ils<they ne<are+not* sont<are pas<not heureux<happy .<.",
        ),
        (
            Clause("I", "see", BRIDGE, negated=True),
            "je<I ne<do+not* vois<see pas<not de<not+a* pont<bridge"
            " de<stone+bridge* pierre<stone .<.",
        ),
        (
            Clause("she", "look for", THE_CAT, adverb="often"),
            "elle<she cherche<looks+for* souvent<often le<the chat<cat noir<black .<.",
        ),
        (
            Clause("I", "run", place=("near", noun_phrase("the garden"))),
            "je<I cours<run près<near du<near+the* jardin<garden .<.",
        ),
        (
            Clause("I", "run", place=("near", noun_phrase("a island")), ending="today"),
            "je<I cours<run près<near d'<near une<an île<island aujourd'hui<today .<.",
        ),
        (
            Clause((THE_CAT, MY_FRIEND), "be", "very calm"),
            "le<the chat<cat noir<black et<and mon<my vieil<old ami<friend"
            " sont<are très<very calmes<calm .<.",
        ),
        (
            Clause("they", "buy", noun_phrase("some big hat", True), adverb="always"),
            "ils<they achètent<buy toujours<always de<some grands<big"
            " chapeaux<hats .<.",
        ),
    ],
)
def test_gold_by_hand(clause, expected):
    assert arrows(*clause) == expected


def test_gold_tells_two_of_the_same_word_apart():
    clause = Clause(noun_phrase("the cat"), "see", noun_phrase("the black cat"))

    assert translate(clause).gold == tuple(
        map(frozenset, ([0], [1], [2], [3], [5], [4], [6]))
    )


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (Clause(THE_CAT, "be", "old"), ("m", False)),
        (Clause(noun_phrase("two old cow", True), "be", "very calm"), ("f", True)),
        (Clause(BRIDGE, "be", "old", negated=True), ("m", False)),
        (Clause((THE_CAT, MY_FRIEND), "be", "calm"), None),
        (Clause("she", "be", "calm"), None),
        (Clause(THE_CAT, "see", MY_FRIEND), None),
    ],
)
def test_subjects_by_hand(clause, expected):
    assert subject_of(translate(clause)) == expected


def test_the_last_adjective_agrees_with_the_subject(task):
    for example in all_examples(task):
        if subject := subject_of(example):
            word = lexicon.ADJECTIVES[example.source[-2]]
            assert example.target[-2] == agree(word, *subject)


# The task


def test_every_french_word_comes_from_somewhere(task):
    for source, target, gold in all_examples(task):
        assert len(gold) == len(target) and all(gold)
        assert set().union(*gold) <= set(range(len(source)))
        for sure, possible in zip(sure_links(gold), gold):
            assert sure <= possible
        unused = {source[s] for s in set(range(len(source))).difference(*gold)}
        assert not unused


def test_no_sentence_is_in_two_splits(task):
    sources = [example.source for example in all_examples(task)]

    assert isinstance(task, Task)
    assert len(set(sources)) == len(sources) == 3400
    assert list(map(len, (task.train, task.validation, task.test))) == [3000, 200, 200]


def test_the_same_seed_gives_the_same_sentences():
    first, again, other = (phrases(10, 100, 20, seed) for seed in (3, 3, 4))

    assert all_examples(first) == all_examples(again) != all_examples(other)


def test_one_english_sentence_has_one_french_one():
    seen = {}
    for seed in range(3):
        for example in phrases(8, 3000, 0, seed).train:
            assert seen.setdefault(example.source, example) == example


def test_sentences_have_4_words_to_the_longest_asked_for(task):
    assert {len(e.source) for e in all_examples(task)} == set(range(4, 13))
    shorter = phrases(8, 500, 0)
    assert max(len(e.source) for e in shorter.train) == 8


@pytest.mark.plain
def test_too_short_sentences_are_refused():
    with pytest.raises(ValueError, match="at most 7 words .* max_words of at least 8"):
        phrases(max_words=7)


def test_the_vocabularies_are_small_and_known_to_the_training_examples():
    task = phrases()
    english, french = task.source_vocabulary.tokens, task.target_vocabulary.tokens

    assert 200 < len(english) < 260 and 320 < len(french) < 400
    held_out = [*task.validation, *task.test]
    assert {word for e in held_out for word in e.source} <= set(english)
    assert not set(SPECIALS) & {word for e in held_out for word in e.target}


def test_all_there_is_to_learn_occurs(task):
    """Negation, elision, contraction, compounds, and words that change places."""
    words = {word for example in all_examples(task) for word in example.target}
    assert {"ne", "n'", "pas", "l'", "d'", "j'", "du", "vieil", "bel", "mon"} <= words
    compounds = [e for e in all_examples(task) if "Area" in e.source]
    assert compounds and all("zone" in e.target for e in compounds)
    crossed = [
        e
        for e in all_examples(task)
        if any(min(b) < min(a) for a, b in zip(e.gold, e.gold[1:]))
    ]
    assert 0.3 < len(crossed) / len(all_examples(task)) < 0.8


def test_no_french_word_stands_twice_in_a_row(task):
    for example in all_examples(task):
        assert all(len(list(run)) == 1 for _, run in groupby(example.target))
