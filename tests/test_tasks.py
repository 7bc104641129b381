import json
import math
import os
import random
import re
import subprocess
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from babel import Locale
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attention_course import models
from attention_course.decoding import Decoded
from attention_course.metrics import alignment_error_rate, alignment_hit_rate
from attention_course.registry import TASKS
from attention_course.tasks.core import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    Vocabulary,
    batches,
    check_source,
    padded_share,
    shuffled_forever,
    source_batch,
)
from attention_course.tasks.dates import FIRST, LAST, LOCALES, dates, patterns, write
from attention_course.tasks.frames import frames
from attention_course.tasks.multi30k import Subwords
from attention_course.tasks.numerals import numerals
from attention_course.tasks.phrases import phrases
from attention_course.tasks.pretraining import pretraining
from attention_course.tasks.reversal import reversal
from attention_course.tasks.scenes import captions, focus
from attention_course.tasks.sentiment import sentiment
from attention_course.tasks.sequences import Batch, Example, make_task
from attention_course.tasks.series import series
from attention_course.tasks.tagging import tagging

# Vocabularies


def test_ids_by_hand():
    vocabulary = Vocabulary(["b", "a", "b", "c"])

    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert vocabulary.tokens == (*SPECIALS, "a", "b", "c")
    assert len(vocabulary) == 7
    assert vocabulary.encode("cab") == [6, 4, 5]


def test_an_unknown_token_becomes_unk():
    vocabulary = Vocabulary("abc")

    assert vocabulary.encode("axc") == [4, UNK, 6]
    assert vocabulary.decode([4, UNK, 6]) == ("a", "<unk>", "c")


def test_decoding_stops_at_the_end_and_drops_what_is_no_text():
    assert Vocabulary("abc").decode([BOS, 6, PAD, 4, EOS, 5, EOS]) == ("c", "a")
    assert Vocabulary("abc").decode([EOS, 5]) == ()


def test_a_special_token_in_a_text_gets_no_second_id():
    vocabulary = Vocabulary(["b", "<pad>", "a", *SPECIALS])

    assert vocabulary.tokens == (*SPECIALS, "a", "b")
    assert vocabulary.encode(SPECIALS) == [PAD, BOS, EOS, UNK]
    assert vocabulary.decode(vocabulary.encode(["a", "<pad>", "b"])) == ("a", "b")


@given(st.lists(st.text(min_size=1).filter(lambda token: token not in SPECIALS)))
def test_what_is_encoded_can_be_decoded(tokens):
    vocabulary = Vocabulary(tokens)

    assert vocabulary.decode([BOS, *vocabulary.encode(tokens), EOS, PAD]) == tuple(
        tokens
    )


# Batches and the loss


def example(source, target):
    return Example(tuple(source), tuple(target), tuple(frozenset() for _ in target))


EXAMPLES = [example("abc", "xy"), example("b", "yxx"), example("ca", "z")]


@pytest.fixture
def task():
    """Sources of a, b, c (ids 4, 5, 6); targets of x, y, z (ids 4, 5, 6)."""
    return make_task("letters", [EXAMPLES, EXAMPLES[:1], EXAMPLES[1:]])


def test_vocabularies_come_from_the_training_examples_alone():
    task = make_task(
        "letters", [[example("ab", "x")], [example("c", "y")], [example("d", "z")]]
    )

    assert task.source_vocabulary.tokens == (*SPECIALS, "a", "b")
    assert task.target_vocabulary.tokens == (*SPECIALS, "x")
    assert task.collate(task.test).source.tolist() == [[UNK]]


@pytest.mark.plain
def test_a_text_is_no_list_of_sources(task):
    with pytest.raises(TypeError, match="a list of sources is read"):
        task.read("abc")


def test_splits_keep_their_places(task):
    assert (task.train, task.validation, task.test) == (
        EXAMPLES,
        EXAMPLES[:1],
        EXAMPLES[1:],
    )


def test_collate_by_hand(task):
    batch = task.collate(EXAMPLES[:2])

    assert batch.source.tolist() == [[4, 5, 6], [5, PAD, PAD]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.target_in.tolist() == [[BOS, 4, 5, PAD], [BOS, 5, 4, 4]]
    assert batch.target_out.tolist() == [[4, 5, EOS, PAD], [5, 4, 4, EOS]]
    assert all(part.dtype == torch.long for part in batch)


def test_all_of_a_batch_is_where_it_was_asked_for(task):
    batch = task.collate(EXAMPLES, "meta")

    assert {part.device.type for part in batch} == {"meta"}


def test_the_target_is_shifted_by_one(task):
    batch = task.collate(EXAMPLES)
    shifted = batch.target_in[:, 1:]
    tokens = shifted != PAD

    assert (batch.target_in[:, 0] == BOS).all()
    assert torch.equal(shifted[tokens], batch.target_out[:, :-1][tokens])
    assert ((batch.target_out == EOS).sum(dim=1) == 1).all()


def test_batches_go_through_once_and_in_order(task):
    made = list(batches(task, EXAMPLES, batch_size=2))

    assert [batch.source.tolist() for batch in made] == [
        [[4, 5, 6], [5, PAD, PAD]],
        [[6, 4]],
    ]


def test_texts_are_cut_where_the_task_joins_tokens():
    letters, words = (
        make_task("texts", [EXAMPLES] * 3, separator) for separator in ("", " ")
    )

    assert letters.example("a b", "x") == Example(
        ("a", " ", "b"), ("x",), (frozenset(),)
    )
    assert words.example("a  b ", "x") == Example(("a", "b"), ("x",), (frozenset(),))
    assert words.example("ab") == Example(("ab",), (), ())
    assert (letters.text("xyz"), words.text("xyz")) == ("xyz", "x y z")


def test_a_beam_is_searched_if_it_has_room(task, monkeypatch):
    asked = []

    def search(model, source, lengths, bos, eos, longest, *settings):
        asked.append((longest, *settings))
        return Decoded(
            torch.tensor([[4, EOS]] * len(source)), None, torch.zeros(len(source))
        )

    monkeypatch.setattr("attention_course.tasks.sequences.beam_search", search)
    model = models.final_state(
        source_size=7, target_size=7, embedding_dim=3, hidden_dim=5
    )
    predictions = task.predict(
        model, [task.example("ab")] * 3, batch_size=2, beam_size=5, length_penalty=0.6
    )

    # As long as the longest target to train on, "yxx" and its end.
    assert asked == [(4, 5, 0.6)] * 2
    assert predictions == [("x",)] * 3


def test_an_example_is_written_on_one_line(task):
    assert (
        task.view(EXAMPLES[0])
        == f"{''.join(EXAMPLES[0].source)} -> {''.join(EXAMPLES[0].target)}"
    )
    assert (
        make_task("words", [EXAMPLES, [], []], separator=" ").view(example("ab", "xy"))
        == "a b -> x y"
    )


def test_an_empty_batch_is_refused(task):
    with pytest.raises(ValueError, match="at least one example, got 0"):
        task.collate([])


def test_an_empty_source_is_refused_and_named(task):
    with pytest.raises(
        ValueError, match="source of example 1 has 0 tokens.*at least 1"
    ):
        task.collate([EXAMPLES[0], example("", "x")])


def test_a_source_batch_by_hand():
    source, lengths = source_batch([[4, 5, 6], [7]], vocab_size=8)

    assert source.tolist() == [[4, 5, 6], [7, PAD, PAD]]
    assert lengths.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("source", "lengths", "message"),
    [
        (
            [[4, 5], [6, 0]],
            [2, 3],
            "example 1 has 3 tokens, but its row in the batch 2",
        ),
        ([[4, 5], [6, 0]], [2, 0], "example 1 has 0 tokens.*at least 1"),
        ([[4, 5], [6, 0]], [2], "1 lengths for 2 sources"),
        ([[4, 8], [6, 0]], [2, 1], "id 8 is not in a vocabulary of 8 tokens, 0 to 7"),
        ([[4, 5], [-1, 0]], [2, 1], "id -1 is not in a vocabulary of 8"),
    ],
)
def test_what_no_model_can_read_is_refused(source, lengths, message):
    with pytest.raises(ValueError, match=message):
        check_source(torch.tensor(source), torch.tensor(lengths), vocab_size=8)


def test_a_batch_is_checked_where_it_is_made():
    source_batch([[7]], vocab_size=8)
    with pytest.raises(ValueError, match="id 8 is not in a vocabulary of 8"):
        source_batch([[4], [8]], vocab_size=8)
    with pytest.raises(ValueError, match="example 0 has 0 tokens"):
        source_batch([[]], vocab_size=8)


def test_an_empty_target_is_just_an_end(task):
    batch = task.collate([example("a", "")])

    assert (batch.target_in.tolist(), batch.target_out.tolist()) == ([[BOS]], [[EOS]])


class HalfRight(nn.Module):
    """Gives the right token 6 chances in 12, and each of the six others one; on padding
    it is sure of z."""

    def __init__(self, target_out):
        super().__init__()
        right = F.one_hot(target_out, 7).bool()
        self.logits = torch.where(right, math.log(6), 0.0)
        self.logits[target_out == PAD] = torch.tensor([0.0] * 6 + [50.0])

    def forward(self, source, lengths, target_in):
        return self.logits, None


def test_loss_by_hand(task):
    batch = task.collate(EXAMPLES)
    total, count = task.loss(HalfRight(batch.target_out), batch)

    # ln 2 nats for each of the 2 + 3 + 1 tokens and 3 ends
    assert count == 9
    assert total.item() == pytest.approx(9 * math.log(2))


def test_more_padding_does_not_change_the_loss(task, model):
    batch = task.collate(EXAMPLES)
    padded = Batch(
        F.pad(batch.source, (0, 2)),
        batch.lengths,
        *(F.pad(part, (0, 3)) for part in batch[2:]),
    )
    total, count = task.loss(model, batch)
    padded_total, padded_count = task.loss(model, padded)

    assert padded_count == count == 9
    assert_close(padded_total, total)


def test_the_loss_of_a_batch_is_the_sum_of_its_examples(task, model):
    total, count = task.loss(model, task.collate(EXAMPLES))
    alone = [task.loss(model, task.collate([one])) for one in EXAMPLES]

    assert_close(total, sum(loss for loss, _ in alone))
    assert count == sum(tokens for _, tokens in alone)


# The order of training


def passes(seed, number=3):
    task = reversal(max_length=5, train_size=11, held_out_size=2)
    batches = shuffled_forever(task.train, 4, seed)
    return task, [[next(batches) for _ in range(3)] for _ in range(number)]


def test_every_pass_has_every_example_once_and_its_own_order():
    task, three = passes(seed=0)
    orders = []
    for one_pass in three:
        assert [len(batch) for batch in one_pass] == [4, 4, 3]
        orders.append([example.source for batch in one_pass for example in batch])
        assert sorted(orders[-1]) == sorted(e.source for e in task.train)
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_the_order_is_the_seeds():
    assert passes(seed=0)[1] == passes(seed=0)[1]
    assert passes(seed=0)[1] != passes(seed=1)[1]


def test_examples_of_like_length_share_a_batch():
    """1000 numbers as their own lengths; a pool holds 50 batches of 4, that is 200 of
    them."""
    stream = shuffled_forever(range(1000), 4, seed=0, length=lambda number: number)
    passes = [[next(stream) for _ in range(250)] for _ in range(2)]
    for one_pass in passes:
        assert sorted(number for batch in one_pass for number in batch) == list(
            range(1000)
        )
        # Two neighbours of 200 random numbers below 1000 are 5 apart, the ends of four
        # 15; in random order 600.
        assert sum(
            max(batch) - min(batch) for batch in one_pass
        ) / 250 == pytest.approx(15, abs=3)
        assert [batch[0] for batch in one_pass] != sorted(
            batch[0] for batch in one_pass
        )
    assert {tuple(batch) for batch in passes[0]} != {
        tuple(batch) for batch in passes[1]
    }
    again = shuffled_forever(range(1000), 4, seed=0, length=lambda number: number)
    assert [next(again) for _ in range(250)] == passes[0]


def test_shuffling_leaves_the_task_alone():
    task = reversal(max_length=5, train_size=11, held_out_size=2)
    before = list(task.train)
    next(shuffled_forever(task.train, 4, seed=0))

    assert list(task.train) == before


def test_like_lengths_share_a_batch():
    examples = [example("a" * s, "x" * t) for s in range(1, 8) for t in range(1, 8)]
    of_target = lambda example: (len(example.target), len(example.source))  # noqa: E731
    grouped, mixed = (
        shuffled_forever(examples, 7, seed=0, length=key) for key in (of_target, None)
    )
    passes = [[next(grouped) for _ in range(7)] for _ in range(2)]

    for one_pass in passes:
        assert all(len({len(e.target) for e in batch}) == 1 for batch in one_pass)
        assert sorted(e for batch in one_pass for e in batch) == sorted(examples)
        lengths = [len(batch[0].target) for batch in one_pass]
        assert lengths != sorted(lengths)
    assert passes[0] != passes[1]
    assert padded_share(passes[0], of_target) < padded_share(
        [next(mixed) for _ in range(7)], of_target
    )


def test_the_padded_share_by_hand():
    # Sources 3 + 1 of 2 x 3 places, targets 2 + 3 of 2 x 3 places; the last batch has
    # no padding.
    drawn = [[example("abc", "xy"), example("b", "yxx")], [example("ca", "z")]]

    assert padded_share(
        drawn, lambda e: (len(e.target), len(e.source))
    ) == pytest.approx(3 / 15)


def test_no_training_examples_are_refused():
    with pytest.raises(ValueError, match="got 0"):
        next(shuffled_forever([], 4, seed=0))


# Reversal


@pytest.fixture(scope="module")
def reversals():
    return reversal(max_length=7, train_size=500, held_out_size=50)


def test_reversals_are_reversed_and_gold_says_from_where(reversals):
    for split in (reversals.train, reversals.validation, reversals.test):
        for source, target, gold in split:
            assert target == source[::-1]
            assert [{source[s] for s in positions} for positions in gold] == [
                {token} for token in target
            ]
            assert gold == tuple(
                frozenset({len(source) - 1 - t}) for t in range(len(source))
            )


def test_reversals_have_the_sizes_and_lengths_asked_for(reversals):
    assert list(map(len, (reversals.train, reversals.validation, reversals.test))) == [
        500,
        50,
        50,
    ]
    lengths = [len(e.source) for e in reversals.train]
    assert set(lengths) == set(range(1, 8))
    # Of 500, each length should have 71; of the short ones there are not so many.
    assert all(40 < lengths.count(n) < 110 for n in range(3, 8))


def test_no_reversal_is_in_two_splits(reversals):
    everything = [
        e.source
        for split in (reversals.train, reversals.validation, reversals.test)
        for e in split
    ]

    assert len(set(everything)) == len(everything) == 600


def test_reversal_is_the_seeds():
    def sources(seed):
        task = reversal(max_length=7, train_size=20, held_out_size=5, seed=seed)
        return [
            e.source
            for split in (task.train, task.validation, task.test)
            for e in split
        ]

    assert sources(0) == sources(0)
    assert not set(sources(0)) & {source for source in sources(1) if len(source) > 4}


def test_more_reversals_than_there_are_are_refused():
    with pytest.raises(ValueError, match=r"40 different strings.*about 26\b"):
        reversal(max_length=1, train_size=20, held_out_size=10)


# Dates


@pytest.fixture(scope="module")
def some_dates():
    return dates(train_size=2000, held_out_size=200)


def all_examples(task):
    return [*task.train, *task.validation, *task.test]


def text_of(example):
    return "".join(example.source)


def day_of(example):
    return date.fromisoformat("".join(example.target))


@pytest.mark.parametrize(
    ("locale", "pattern", "text"),
    [
        ("en", "EEEE, MMMM d, y", "Wednesday, May 9, 2018"),
        ("en_GB", "d MMM y", "9 May 2018"),
        ("de", "E, d. MMM y", "Mi., 9. Mai 2018"),
        ("de", "dd.MM.yy", "09.05.18"),
        ("fr", "EEEE d MMMM y", "mercredi 9 mai 2018"),
        ("es", "d 'de' MMMM 'de' y", "9 de mayo de 2018"),
        ("nl", "d-M-y", "9-5-2018"),
        ("sv", "y-MM-dd", "2018-05-09"),
    ],
)
def test_a_known_date_in_words_and_digits(locale, pattern, text):
    written = write(date(2018, 5, 9), locale, pattern)

    assert pattern in patterns(locale)
    assert text_of(written) == text
    assert "".join(written.target) == "2018-05-09"


def test_gold_by_hand():
    # Wednesday, May 9, 2018
    _, _, gold = write(date(2018, 5, 9), "en", "EEEE, MMMM d, y")
    year, month, day = set(range(18, 22)), set(range(11, 14)), {15}

    assert list(gold) == [year] * 4 + [set()] + [month] * 2 + [set()] + [day] * 2


def every_form():
    return [(locale, pattern) for locale in LOCALES for pattern in patterns(locale)]


@pytest.mark.parametrize(
    "day", [date(2018, 5, 9), date(1969, 12, 31), date(2004, 10, 10), date(2068, 1, 1)]
)
def test_gold_spans_spell_the_fields(day):
    for form in every_form():
        source, target, gold = write(day, *form)
        spans = [sorted(positions) for positions in gold]
        year, month, day_of_month = (
            "".join(source[s] for s in spans[t]) for t in (0, 5, 8)
        )

        assert (
            [t for t, span in enumerate(spans) if not span]
            == [t for t, c in enumerate(target) if c == "-"]
            == [4, 7]
        )
        assert spans[0] == spans[1] == spans[2] == spans[3]
        assert spans[5] == spans[6]
        assert spans[8] == spans[9]
        assert all(
            span == list(range(span[0], span[-1] + 1))
            for span in (spans[0], spans[5], spans[8])
        )
        assert year in (str(day.year), f"{day.year % 100:02}")
        assert int(day_of_month) == day.day
        assert (
            int(month) == day.month if month.isdigit() else month.strip(".").isalpha()
        )


def test_no_date_is_in_two_splits(some_dates):
    everything = [e.target for e in all_examples(some_dates)]

    assert len(set(everything)) == len(everything) == 2400
    assert list(
        map(len, (some_dates.train, some_dates.validation, some_dates.test))
    ) == [2000, 200, 200]


def test_examples_are_written_in_the_forms_listed(some_dates):
    seen = set()
    for e in some_dates.train[:500]:
        fitting = {form for form in every_form() if write(day_of(e), *form) == e}
        assert fitting
        seen |= fitting
    assert seen == set(every_form())


def test_the_dates_span_the_hundred_years(some_dates):
    days = sorted(map(day_of, all_examples(some_dates)))

    assert FIRST <= days[0] < date(1970, 1, 1)
    assert date(2068, 1, 1) <= days[-1] <= LAST


def test_locales_can_be_chosen():
    for e in dates(locales=("sv",), train_size=50, held_out_size=5).train:
        assert any(write(day_of(e), "sv", pattern) == e for pattern in patterns("sv"))


def test_dates_are_the_seeds():
    def examples(seed):
        return all_examples(dates(train_size=50, held_out_size=5, seed=seed))

    assert examples(0) == examples(0)
    assert len(set(examples(0)) & set(examples(1))) < 5


def test_no_locale_gives_two_dates_the_same_text(some_dates):
    """All days of seven years, whose last two digits are also days, months, or neither,
    in all forms."""
    read = {}
    for year in (1969, 1999, 2001, 2005, 2012, 2031, 2068):
        for day in (date(year, 1, 1) + timedelta(n) for n in range(366)):
            if day.year == year:
                for form in every_form():
                    text = text_of(write(day, *form))
                    assert read.setdefault(text, day) == day, (
                        f"{text!r} is {day} and {read[text]}"
                    )


# A reader of digits that knows CLDR's patterns, but none of the code under test.

FIELDS = {
    "d": r"(?P<d>\d{1,2})",
    "M": r"(?P<M>\d{1,2})",
    "y": r"(?P<y>\d{4})",
    "yy": r"(?P<y>\d\d)",
}
FIELDS |= {"dd": FIELDS["d"], "MM": FIELDS["M"], "L": FIELDS["M"], "LL": FIELDS["M"]}
FIELDS |= {"E" * n: r"\D+?" for n in (1, 2, 3, 4)}


def reader(pattern):
    """Turn a CLDR pattern into a regular expression, or None if it is not a date in
    digits."""
    expression = ""
    for quoted, field, _, sign in re.findall(
        r"'([^']*)'|(([A-Za-z])\3*)|([^'A-Za-z])", pattern
    ):
        if field and field not in FIELDS:
            return None
        expression += FIELDS.get(field, "") + re.escape(quoted + sign)
    once = all(expression.count(f"(?P<{letter}>") == 1 for letter in "yMd")
    return re.compile(expression) if once else None


def numeric_readers(locales):
    found = set()
    for cldr in map(Locale.parse, locales):
        formats = [*cldr.date_formats.values(), *cldr.datetime_skeletons.values()]
        found |= {reader(getattr(form, "pattern", form)) for form in formats}
    return found - {None}


def readings(text, readers):
    dates_read = set()
    for expression in readers:
        if match := expression.fullmatch(text):
            year, month, day = (int(match[letter]) for letter in "yMd")
            if len(match["y"]) == 2:
                year += 1900 if year >= 69 else 2000
            try:
                dates_read.add(date(year, month, day))
            except ValueError:
                pass  # there is no such day
    return dates_read


def test_the_reader_sees_what_is_ambiguous():
    readers = numeric_readers(LOCALES)

    assert readings("9/5/2018", readers) == {date(2018, 5, 9), date(2018, 9, 5)}
    assert readings("09/05/18", readers) == {date(2018, 5, 9), date(2018, 9, 5)}
    assert readings("9/13/2018", readers) == {date(2018, 9, 13)}
    assert readings("Mi., 9.5.2018", readers) == {date(2018, 5, 9)}
    assert readings("9 May 2018", readers) == set()


# Not of LOCALES, but patterns() promises the same for them; "ky" has year-day-month,
# "eo" has yy-MM-dd.
@pytest.mark.parametrize(
    "locales", [LOCALES, ("da",), ("en_ZA",), ("ky",), ("eo",), ("ko",)], ids="-".join
)
def test_no_locale_reads_digits_as_another_date(locales):
    readers = numeric_readers({*LOCALES, *locales})
    days = [
        date(year, 1, 1) + timedelta(n)
        for year in (1969, 2005, 2012, 2031)
        for n in range(0, 365)
    ]
    in_digits = 0
    for locale in locales:
        for pattern in patterns(locale):
            read_by = {
                expression
                for expression in readers
                if expression.fullmatch(text_of(write(days[0], locale, pattern)))
            }
            if reader(pattern) is None:
                assert not read_by
                continue
            in_digits += 1
            for day in days:
                text = text_of(write(day, locale, pattern))
                assert readings(text, readers) == {day}, text
    assert in_digits


@pytest.mark.parametrize(
    ("locale", "pattern"),
    [("en", "M/d/y"), ("en_GB", "dd/MM/y"), ("es", "d/M/yy"), ("en", "M/d/yy")],
)
def test_what_london_and_new_york_read_differently_is_left_out(locale, pattern):
    known = [str(form) for form in Locale.parse(locale).datetime_skeletons.values()]
    known += [form.pattern for form in Locale.parse(locale).date_formats.values()]

    assert pattern in known
    assert pattern not in patterns(locale)


def test_two_digit_years_are_those_of_posix():
    short = [form for form in every_form() if re.search(r"(?<!y)yy(?!y)", form[1])]
    assert ("de", "dd.MM.yy") in short
    for year in range(FIRST.year, LAST.year + 1):
        text = text_of(write(date(year, 5, 9), "de", "dd.MM.yy"))
        assert text == f"09.05.{year % 100:02}"
        assert datetime.strptime(text, "%d.%m.%y").year == year
    assert (FIRST, LAST) == (date(1969, 1, 1), date(2068, 12, 31))


@pytest.mark.parametrize("locale", ["xx", "not a locale", "en-GB"])
def test_a_locale_that_is_not_known_is_refused(locale):
    with pytest.raises(ValueError, match=f"{locale!r} is not known.*en_GB"):
        patterns(locale)
    with pytest.raises(ValueError, match=f"{locale!r} is not known"):
        dates(locales=("en", locale), train_size=5, held_out_size=5)


def test_more_examples_than_dates_are_refused():
    days = (LAST - FIRST).days + 1
    with pytest.raises(ValueError, match=f"{days + 1} examples.*{days} dates"):
        dates(train_size=days - 9, held_out_size=5)


def test_dates_need_a_locale():
    with pytest.raises(ValueError, match="at least one locale"):
        dates(locales=())


def test_locales_from_outside_are_compared_with_one_another():
    """Esperanto and Western Frisian write the same digits in another order; alone,
    either is unambiguous."""
    alone, together = patterns("eo"), patterns("eo", (*LOCALES, "fy"))
    assert set(together) < set(alone)


def test_the_shortest_strings_are_there_to_learn_from():
    task = reversal(max_length=3, train_size=2_000, held_out_size=100)
    assert {len(example.source) for example in task.train} == {1, 2, 3}
    assert min(len(example.source) for example in task.test) > 1


# All tasks


def subwords(seed):
    rng = random.Random(seed)
    texts = [
        " ".join("".join(rng.choices("abcdäöü", k=5)) for _ in range(9))
        for _ in range(99)
    ]
    return [Subwords(texts, 90).split(text) for text in texts]


def all_of(task):
    """What a task's examples are, and which ids their tokens have."""
    return all_examples(task), task.collate(all_examples(task))


MADE = {
    "captions": lambda seed: all_of(captions(9, 5, seed)),
    "dates": lambda seed: all_of(dates(train_size=50, held_out_size=5, seed=seed)),
    "focus": lambda seed: all_of(focus(9, 5, seed)),
    "frames": lambda seed: all_of(frames(9, 5, seed)),
    "multi30k": subwords,
    "numerals": lambda seed: all_of(
        numerals("fr", train_size=120, held_out_size=9, seed=seed)
    ),
    "phrases": lambda seed: all_of(phrases(8, 50, 5, seed)),
    "pretraining": lambda seed: all_of(pretraining(50, 5, seed)),
    "reversal": lambda seed: all_of(
        reversal(train_size=50, held_out_size=5, seed=seed)
    ),
    "sentiment": lambda seed: all_of(sentiment(50, 5, seed)),
    "series": lambda seed: all_of(series(train_size=20, held_out_size=5, seed=seed)),
    "tagging": lambda seed: all_of(tagging(50, 5, seed)),
}


def written(name, seed=0):
    """The same letters for the same numbers and tokens; where order means nothing, in
    the order of the alphabet."""
    return json.dumps(
        MADE[name](seed),
        default=lambda x: x.tolist() if isinstance(x, torch.Tensor) else sorted(x),
    )


@pytest.fixture(scope="module")
def elsewhere():
    """What two other processes make of the same seed: in each, a set has an order of
    its own."""
    code = (
        "import json, test_tasks; print(json.dumps({name: test_tasks.written(name) for"
        " name in test_tasks.MADE}))"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    printed = []
    for hash_seed in "12":
        environment = os.environ | {
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(paths),
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            check=True,
        )
        printed.append(json.loads(done.stdout))
    return printed


@pytest.mark.parametrize("name", MADE)
def test_a_seed_means_the_same_in_every_process(name, elsewhere):
    one, other = elsewhere
    assert one[name] == other[name] == written(name) != written(name, seed=1)


def test_all_tasks_are_among_these():
    drawn = {name.partition("-")[0] for name in TASKS} - {"writing"}  # a given text
    assert set(MADE) == drawn


ALIGNED = (
    "captions",
    "dates",
    "focus",
    "numerals",
    "phrases",
    "reversal",
    "sentiment",
    "series",
)


@pytest.mark.parametrize("largest", [min, max])
@pytest.mark.parametrize("name", ALIGNED)
def test_the_gold_alignment_makes_no_alignment_error(name, largest):
    """Whichever of its gold positions a target token's largest weight is on."""
    gold = [example.gold for example in MADE[name](0)[0]]
    weights = [
        [
            [float(s == largest(row)) for s in range(99)] if row else [1.0]
            for row in rows
        ]
        for rows in gold
    ]

    assert alignment_error_rate(weights, gold) == pytest.approx(0, abs=1e-9)
    assert alignment_hit_rate(weights, gold) == pytest.approx(1)


def test_all_aligned_tasks_are_among_these():
    examples = {name: MADE[name](0)[0] for name in set(MADE) - {"multi30k"}}

    assert {
        name for name, some in examples.items() if any(any(e.gold) for e in some)
    } == set(ALIGNED)
