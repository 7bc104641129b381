"""A lexicon of English and French words, with the rules of French inflection.

The sentences that are built from these words are in `phrases`.
"""

import unicodedata
from functools import cache
from typing import NamedTuple

# English, French, gender; irregular English plurals follow a slash.
PEOPLE = """boy garçon m, girl fille f, man/men homme m, woman/women femme f,
    child/children enfant m, friend ami m, neighbour voisin m, doctor médecin m,
    nurse infirmière f, singer chanteuse f, actress actrice f, queen reine f,
    king roi m, student étudiant m, sister sœur f, brother frère m"""
ANIMALS = """cat chat m, dog chien m, horse cheval m, bird oiseau m, cow vache f,
    mouse/mice souris f, hen poule f, goose/geese oie f, fox renard m,
    wolf/wolves loup m"""
THINGS = """car voiture f, book livre m, letter lettre f, apple pomme f, chair chaise f,
    hat chapeau m, dress robe f, shirt chemise f, coat manteau m, picture tableau m,
    bag sac m, key clé f, box boîte f, egg œuf m, watch montre f, clock horloge f,
    newspaper journal m, orange orange f, shoe chaussure f, umbrella parapluie m"""
ROOMS = """house maison f, garden jardin m, church église f, school école f,
    castle château m, station gare f"""
SIGHTS = "bridge pont m, island île f, tree arbre m, river rivière f"
# "a stone bridge": in French, the second noun comes first, then "de" and the first.
COMPOUNDS = """winter coat, winter shoe, winter dress, silk shirt, silk dress, silk hat,
    history book, stone bridge, stone house, country house, country church,
    winter garden"""
MATTER = """winter hiver m, silk soie f, history histoire f, stone pierre f,
    country campagne f"""
# "the European Economic Area": French reverses the order of these three words.
INSTITUTIONS = """Area zone f, Union union f, Market marché m, Bank banque f,
    Council conseil m, Parliament parlement m, Court cour f"""
FIELDS = """Economic économique, Central central, Agricultural agricole, Social social,
    Monetary monétaire"""
CONTINENTS = """European européen, American américain, African africain,
    Asian asiatique"""

# English, French (masculine singular).
BEFORE = """small petit, big grand, old vieux, new nouveau, beautiful beau,
    bad mauvais"""
COLOURS = "black noir, white blanc, red rouge, green vert, grey gris, blue bleu"
OF_ANIMATES = """happy heureux, curious curieux, tired fatigué, proud fier, calm calme,
    dangerous dangereux, famous célèbre, patient patient"""
OF_THINGS = """round rond, heavy lourd, light léger, empty vide, expensive cher,
    dry sec, modern moderne, open ouvert, strange étrange, clean propre"""

# English, French (verbs in the infinitive).
ACTS = """sleep dormir, sing chanter, dance danser, work travailler, run courir,
    wait attendre"""
TAKES_ANY = """see voir, like aimer, find trouver, know connaître, hide cacher,
    draw dessiner, hear entendre, follow suivre, look-for chercher"""
TAKES_THINGS = """buy acheter, sell vendre, lose perdre, choose choisir, take prendre,
    carry porter, want vouloir"""
ADVERBS = "often souvent, always toujours"
ENDINGS = "today aujourd'hui, here ici"
PREPOSITIONS = "in dans, behind derrière, under sous, near près+de"

# Masculine singular, feminine singular, plural; None: there is no such form.
DETERMINERS = {
    "the": ("le", "la", "les"),
    "a": ("un", "une", None),
    "some": (None, None, "des"),
    "this": ("ce", "cette", None),
    "these": (None, None, "ces"),
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "two": (None, None, "deux"),
    "three": (None, None, "trois"),
}
# The French pronoun, and its verb form: 0 to 3 for those of je, il, nous and ils.
PRONOUNS = {
    "I": ("je", 0),
    "he": ("il", 1),
    "she": ("elle", 1),
    "we": ("nous", 2),
    "they": ("ils", 3),
}
TO_BE = "suis est sommes sont"
IRREGULAR = {
    "dormir": "dors dort dormons dorment",
    "courir": "cours court courons courent",
    "voir": "vois voit voyons voient",
    "connaître": "connais connaît connaissons connaissent",
    "suivre": "suis suit suivons suivent",
    "acheter": "achète achète achetons achètent",
    "prendre": "prends prend prenons prennent",
    "vouloir": "veux veut voulons veulent",
}
FEMININE = {
    "blanc": "blanche",
    "vieux": "vieille",
    "beau": "belle",
    "nouveau": "nouvelle",
    "sec": "sèche",
}
# Forms before a vowel: the first table always applies, the second one only before a
# masculine noun.
BEFORE_VOWEL = {
    "le": "l'",
    "la": "l'",
    "ne": "n'",
    "de": "d'",
    "je": "j'",
    "ce": "cet",
    "ma": "mon",
    "sa": "son",
}
LINKING_ADJECTIVES = {"vieux": "vieil", "beau": "bel", "nouveau": "nouvel"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des"}


class Noun(NamedTuple):
    """A noun in both languages.

    Attributes:
        english: the singular and the plural.
        french: the singular.
        gender: "m" or "f".
    """

    english: tuple[str, str]
    french: str
    gender: str


@cache
def pairs(*tables: str) -> dict[str, str]:
    """Parse tables of English and French words; "look-for" stands for two words."""
    rows = (row.split() for table in tables for row in table.split(","))
    return {english.replace("-", " "): french for english, french in rows}


@cache
def nouns(*tables: str) -> dict[str, Noun]:
    """Parse tables of nouns into a dictionary with their English singulars as keys."""
    rows = (row.split() for table in tables for row in table.split(","))
    read = {}
    for english, french, gender in rows:
        singular, _, plural = english.partition("/")
        read[singular] = Noun((singular, plural or with_s(singular)), french, gender)
    return read


def with_s(word: str) -> str:
    """Add -s to an English noun or verb: "boxes", "cities", "keys"."""
    if word.endswith(("s", "x", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def plural_of(word: str) -> str:
    """Return the plural of a French noun or adjective: "chevaux", "bleus", "gris"."""
    if word.endswith(("s", "x")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def feminine_of(adjective: str) -> str:
    """Return the feminine of a French adjective: "heureuse", "fière", "rouge"."""
    for end, becomes in (("e", "e"), ("eux", "euse"), ("er", "ère"), ("en", "enne")):
        if adjective.endswith(end) and adjective not in FEMININE:
            return adjective.removesuffix(end) + becomes
    return FEMININE.get(adjective, adjective + "e")


def agree(adjective: str, gender: str, plural: bool) -> str:
    """Give a French adjective the gender and number of its noun."""
    form = feminine_of(adjective) if gender == "f" else adjective
    return plural_of(form) if plural else form


def conjugate(verb: str) -> list[str]:
    """Return a French verb's present-tense forms for je, il, nous and ils."""
    if verb in IRREGULAR:
        return IRREGULAR[verb].split()
    stem = verb[:-2]
    ends = {
        "er": ("e", "e", "ons", "ent"),
        "ir": ("is", "it", "issons", "issent"),
        "re": ("s", "", "ons", "ent"),
    }[verb[-2:]]
    return [stem + end for end in ends]


def with_vowel(word: str) -> bool:
    """Return whether a French word begins with a vowel or h (always mute here)."""
    return unicodedata.normalize("NFD", word)[0] in "aeiouhœ"


NOUNS = nouns(PEOPLE, ANIMALS, THINGS, ROOMS, SIGHTS, MATTER, INSTITUTIONS)
IN_FRONT = pairs(BEFORE)
ADJECTIVES = IN_FRONT | pairs(COLOURS, OF_ANIMATES, OF_THINGS, FIELDS, CONTINENTS)
VERBS = pairs(ACTS, TAKES_ANY, TAKES_THINGS)
SMALL_WORDS = pairs(ADVERBS, ENDINGS, PREPOSITIONS)
