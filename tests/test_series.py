import math
import statistics

import pytest
import torch
from torch.testing import assert_close

from attention_course import models
from attention_course.tasks.core import BOS, EOS, Task
from attention_course.tasks.sequences import Example
from attention_course.tasks.series import SEASON, actual, last_week, series
from attention_course.training import TrainConfig, train


@pytest.fixture(scope="module")
def task():
    return series(weeks=4, train_size=800, held_out_size=100)


def all_examples(task):
    return [*task.train, *task.validation, *task.test]


def value(day):
    return float(day.split()[0])


def kind(day):
    return day.partition(" ")[2]


def test_sources_and_targets_are_what_they_say(task):
    assert isinstance(task, Task)
    assert list(map(len, (task.train, task.validation, task.test))) == [800, 100, 100]
    for source, target, _ in all_examples(task):
        assert len(source) == 5 * SEASON and len(target) == SEASON
        assert {kind(day) for day in source} <= {"", "holiday", "promotion"}
        assert all(day.startswith("?") for day in source[-SEASON:])
        assert all(0 < value(day) < 4 for day in (*source[:-SEASON], *target))


def test_the_past_has_mean_one(task):
    pasts = [[value(day) for day in source[:-SEASON]] for source, _, _ in task.train]
    # what is more than 4 is told as 3.95
    means = [statistics.mean(past) for past in pasts if max(past) < 3.9]

    assert len(means) > 780
    assert statistics.mean(means) == pytest.approx(1, abs=0.002)
    assert all(abs(mean - 1) < 0.05 for mean in means)  # half a bin


def test_values_are_the_middles_of_bins(task):
    for source, target, _ in task.test:
        for day in (*source[:-SEASON], *target):
            tenths = value(day) * 10
            assert tenths - math.floor(tenths) == pytest.approx(0.5)


def test_gold_is_the_season_before_and_the_day_itself_where_it_is_special(task):
    seen = set()
    for source, target, gold in task.train:
        assert len(gold) == len(target)
        for t, positions in enumerate(gold):
            day = 28 + t
            expected = {day - 7} | ({day} if kind(source[day]) else set())
            assert positions == expected
            seen.add(kind(source[day]))
    assert seen == {"", "holiday", "promotion"}


def test_weekdays_repeat_and_special_days_stand_out(task):
    """Divided by the day a week before, an ordinary day is near 1, a holiday near 0.2,
    a promotion between."""
    ratios = {"": [], "holiday": [], "promotion": []}
    for source, target, _ in task.train:
        for t in range(SEASON):
            if not kind(source[21 + t]):
                ratios[kind(source[28 + t])].append(
                    float(target[t]) / value(source[21 + t])
                )

    assert statistics.median(ratios[""]) == pytest.approx(1, abs=0.03)
    assert statistics.median(ratios["holiday"]) == pytest.approx(0.2, abs=0.05)
    assert statistics.median(ratios["promotion"]) == pytest.approx(1.7, abs=0.15)


def test_splits_share_no_series(task):
    assert len({example.source for example in all_examples(task)}) == 1000


def test_last_week_and_actual_by_hand():
    day = [f"{d / 10 + 0.05:.2f}" for d in range(14)]
    source = (*day[:9], day[9] + " holiday", *day[10:], *["?"] * 6, "? promotion")
    example = Example(
        source,
        ("0.15", "0.25", "0.35", "0.45", "0.55", "0.65", "3.95"),
        (frozenset(),) * 7,
    )

    assert_close(
        last_week([example]), torch.tensor([[0.75, 0.85, 0.95, 1.05, 1.15, 1.25, 1.35]])
    )
    assert_close(
        actual([example, example])[1],
        torch.tensor([0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 3.95]),
    )


class Says(torch.nn.Module):
    """Draws one of some answers for each source it knows, and says it token by
    token."""

    def __init__(self, task, answers):
        super().__init__()
        self.anything = torch.nn.Parameter(torch.zeros(1))
        self.size = len(task.target_vocabulary)
        self.answers = {
            tuple(task.source_vocabulary.encode(example.source)): [
                task.target_vocabulary.encode(a) for a in said
            ]
            for example, said in answers
        }

    def encode(self, source, lengths):
        return [self.answers[tuple(row)] for row in source.tolist()]

    def start(self, memory):
        return [[] for _ in memory]

    def step(self, token, memory, cache):
        cache = [said + [t] for said, t in zip(cache, token[:, 0].tolist())]
        logits = torch.full((len(memory), 1, self.size), -50.0)
        for row, (answers, said) in enumerate(zip(memory, cache)):
            assert said[0] == BOS
            going_on = [
                answer[len(said) - 1 :][:1] or [EOS]
                for answer in answers
                if answer[: len(said) - 1] == said[1:]
            ]
            for (token_id,) in going_on:
                logits[row, 0, token_id] = math.log(len(going_on))
        return logits, None, cache


@pytest.mark.plain
def test_skill_by_hand(task):
    examples = task.test[:3]
    copied = [tuple(f"{v:.2f}" for v in row) for row in last_week(examples).tolist()]

    right = Says(task, [(e, [e.target]) for e in examples])
    naive = Says(task, [(e, [week]) for e, week in zip(examples, copied)])
    assert task.score(right, examples) == pytest.approx(1)
    assert task.score(naive, examples) == pytest.approx(0, abs=1e-6)
    # Last week's values for the first example only: its share of the naive error is
    # left.
    errors = (last_week(examples) - actual(examples)).abs().sum(dim=1)
    mixed = Says(
        task, [(examples[0], [copied[0]]), *((e, [e.target]) for e in examples[1:])]
    )
    assert task.score(mixed, examples) == pytest.approx(
        1 - float(errors[0] / errors.sum())
    )


@pytest.mark.plain
def test_forecasts_are_drawn_and_repeatable(task):
    example, other = task.test[:2]
    high, low = ("1.55",) * SEASON, ("0.55",) * SEASON
    model = Says(task, [(example, [high, low]), (other, [other.target])])
    drawn = task.forecast(model, [example, other], paths=40, batch_size=32)

    assert drawn.shape == (40, 2, SEASON)
    assert set(map(tuple, drawn[:, 0].round(decimals=2).tolist())) == {
        tuple(torch.full((SEASON,), v).tolist()) for v in (1.55, 0.55)
    }
    assert 8 < (drawn[:, 0, 0] > 1).sum() < 32
    assert_close(drawn[:, 1], actual([other]).expand(40, -1))
    assert torch.equal(
        drawn, task.forecast(model, [example, other], paths=40, batch_size=32)
    )
    assert not torch.equal(
        drawn, task.forecast(model, [example, other], paths=40, batch_size=32, seed=1)
    )


@pytest.mark.plain
def test_what_ends_early_counts_as_the_mean(task):
    example = task.test[0]
    model = Says(task, [(example, [example.target[:2]])])

    assert_close(
        task.forecast(model, [example], paths=1)[0, 0, 2:], torch.ones(SEASON - 2)
    )


def test_an_example_is_written_on_one_line(task):
    line = task.view(task.test[0])

    assert (
        line.count(" | ") == 4 * 7 + 6 + 6
        and line.count(" -> ") == 1
        and "\n" not in line
    )
    assert line.endswith(task.test[0].target[-1])


def test_series_are_the_seeds():
    def examples(seed):
        return all_examples(series(train_size=20, held_out_size=5, seed=seed))

    assert examples(0) == examples(0)
    assert not {e.source for e in examples(0)} & {e.source for e in examples(1)}


@pytest.mark.plain
def test_no_past_is_refused():
    with pytest.raises(ValueError, match="at least 1 week of the past, got 0"):
        series(weeks=0)


def test_a_small_transformer_learns_to_forecast():
    task = series(weeks=1, train_size=8_000, held_out_size=200)
    torch.manual_seed(0)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=64,
        num_heads=4,
        hidden_dim=128,
        num_layers=1,
    )
    untrained = task.score(model, task.test)

    train(model, task, TrainConfig(steps=350, batch_size=64, learning_rate=4e-3))

    assert untrained < 0 < 0.4 < task.score(model, task.test)
