import re

import pytest
from num2words import num2words

from attention_course.tasks.core import Task
from attention_course.tasks.numerals import numerals, translate


@pytest.fixture(scope="module", params=["de", "fr"])
def task(request):
    return numerals(request.param, train_size=600, held_out_size=80)


def all_examples(task):
    return [*task.train, *task.validation, *task.test]


def arrows(number, language):
    """Write an example as "piece<word+word ..."; hyphens are "~" there, so that they
    can be told from signs."""
    source, target, gold = translate(number, language)
    words = ["+".join(source[s] for s in sorted(positions)) for positions in gold]
    return " ".join(f"{piece}<{word}" for piece, word in zip(target, words)).replace(
        "-", "~"
    )


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "null<zero"),
        (12, "zwölf<twelve"),
        (21, "ein<one und<~ zwanzig<twenty"),
        (34, "vier<four und<~ dreißig<thirty"),
        (71, "ein<one und<~ siebzig<seventy"),
        (80, "achtzig<eighty"),
        (99, "neun<nine und<~ neunzig<ninety"),
        (100, "ein<one hundert<hundred"),
        (117, "ein<one hundert<hundred siebzehn<seventeen"),
    ],
)
def test_german_gold_by_hand(number, expected):
    assert arrows(number, "de") == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "zéro<zero"),
        (17, "dix<seventeen ~<seventeen sept<seventeen"),
        (21, "vingt<twenty et<~ un<one"),
        (34, "trente<thirty ~<~ quatre<four"),
        (70, "soixante<seventy ~<seventy dix<seventy"),
        (71, "soixante<seventy et<~ onze<seventy+one"),
        (76, "soixante<seventy ~<~ seize<seventy+six"),
        (77, "soixante<seventy ~<seventy dix<seventy ~<~ sept<seven"),
        (80, "quatre<eighty ~<eighty vingts<eighty"),
        (81, "quatre<eighty ~<eighty vingt<eighty ~<~ un<one"),
        (91, "quatre<ninety ~<ninety vingt<ninety ~<~ onze<ninety+one"),
        (99, "quatre<ninety ~<ninety vingt<ninety ~<ninety dix<ninety ~<~ neuf<nine"),
        (100, "cent<hundred"),
        (400, "quatre<four cents<hundred"),
    ],
)
def test_french_gold_by_hand(number, expected):
    assert arrows(number, "fr") == expected


# Where a word comes twice, by positions.


def test_german_gold_of_long_numbers_by_hand():
    # 0 one, 1 thousand, 2 and, 3 one
    assert translate(1001, "de") == (
        ("one", "thousand", "and", "one"),
        ("ein", "tausend", "eins"),
        (frozenset({0}), frozenset({1}), frozenset({3})),
    )
    source, target, gold = translate(234_567, "de")
    assert (
        " ".join(source)
        == "two hundred and thirty - four thousand , five hundred and sixty - seven"
    )
    assert (
        " ".join(target)
        == "zwei hundert vier und dreißig tausend fünf hundert sieben und sechzig"
    )
    assert [min(positions) for positions in gold] == [
        0,
        1,
        5,
        4,
        3,
        6,
        8,
        9,
        13,
        12,
        11,
    ]
    assert {len(positions) for positions in gold} == {1}


def test_french_gold_of_long_numbers_by_hand():
    assert translate(1001, "fr")[1:] == (
        ("mille", "un"),
        (frozenset({1}), frozenset({3})),
    )
    _, target, gold = translate(234_567, "fr")
    assert (
        " ".join(target) == "deux cent trente - quatre mille cinq cent soixante - sept"
    )
    assert [min(positions) for positions in gold] == [
        0,
        1,
        3,
        4,
        5,
        6,
        8,
        9,
        11,
        12,
        13,
    ]
    assert {len(positions) for positions in gold} == {1}


SAMPLE = [
    *range(1200),
    *range(1987, 1_000_000, 1987),
    *(10**n for n in range(6)),
    999_999,
]


def test_pieces_are_the_words_of_num2words():
    for number in SAMPLE:
        source, german, _ = translate(number, "de")
        french = translate(number, "fr").target
        assert " ".join(source).replace(" - ", "-").replace(" ,", ",") == num2words(
            number, lang="en"
        )
        assert "".join(german) == num2words(number, lang="de")
        assert " ".join(french).replace(" - ", "-") == num2words(number, lang="fr")


def test_every_piece_comes_from_somewhere_and_every_number_word_is_used():
    for number in SAMPLE:
        for language in ("de", "fr"):
            source, target, gold = translate(number, language)
            assert len(gold) == len(target) and all(gold), number
            unused = [source[s] for s in set(range(len(source))).difference(*gold)]
            # "one hundred" and "one thousand" are "cent" and "mille"
            assert set(unused) <= {"and", ","} | (
                {"one"} if language == "fr" else set()
            ), number


def test_german_swaps_tens_and_units():
    for number in (n for n in range(21, 100) if n % 10):
        gold = translate(number, "de").gold
        assert gold == (frozenset({2}), frozenset({1}), frozenset({0}))


def test_no_number_is_in_two_splits(task):
    sources = [example.source for example in all_examples(task)]

    assert isinstance(task, Task)
    assert len(set(sources)) == len(sources) == 760
    assert list(map(len, (task.train, task.validation, task.test))) == [600, 80, 80]


def test_all_below_100_are_trained_on(task):
    trained = {example.source for example in task.train}

    assert {translate(number, "de").source for number in range(100)} <= trained


def test_short_numbers_are_not_rare(task):
    """A number has no thousands if three digits are 0: 1 in 27, and the first 100
    besides."""
    short = [example for example in task.train if "thousand" not in example.source]

    assert 100 + 8 < len(short) < 100 + 35
    assert any(
        "thousand" not in example.source for example in task.test + task.validation
    )


def test_held_out_numbers_have_no_new_words(task):
    for example in task.validation + task.test:
        assert set(example.source) <= set(task.source_vocabulary.tokens)
        assert set(example.target) <= set(task.target_vocabulary.tokens)


def test_an_example_is_written_on_one_line():
    task = numerals("de", train_size=100, held_out_size=2)

    assert task.view(task.train[34]) == "thirty - four -> vier und dreißig"


def test_fewer_digits():
    task = numerals("fr", digits=3, train_size=300, held_out_size=50)

    assert not any("thousand" in example.source for example in all_examples(task))


def test_numerals_are_the_seeds():
    def examples(seed):
        return all_examples(numerals(train_size=150, held_out_size=30, seed=seed))

    assert examples(0) == examples(0)
    assert (
        len(
            {e.source for e in examples(0)[100:]}
            & {e.source for e in examples(1)[100:]}
        )
        < 20
    )


@pytest.mark.plain
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "es"}, "one of de, fr, got 'es'"),
        ({"digits": 7}, "3 to 6 digits, got 7"),
        ({"digits": 2}, "3 to 6 digits, got 2"),
        ({"train_size": 99}, "train_size is at least 100, got 99"),
        (
            {"digits": 3, "train_size": 400, "held_out_size": 51},
            "502 different numbers.* of 1000",
        ),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        numerals(**arguments)
    assert not re.search("\n", str(error.value))
