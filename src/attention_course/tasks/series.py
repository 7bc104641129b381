"""The series task: time-series forecasting, of next week's sales.

The source has the sales of the weeks before, and what is known about the days to come.

The data are synthetic, after DeepAR (Salinas et al., 2020), but values are tokens: a
value is divided by the mean of its series and put into a bin, and each bin is a token,
so that loss and decoding are those of translation. A forecast is a distribution to
sample from.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.decoding import sample
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import BOS, EOS, Vocabulary, batches
from attention_course.tasks.sequences import Example, SequenceTask

SEASON = 7
KINDS = ("", " holiday", " promotion")
CHANCES = (0.85, 0.05, 0.10)

BINS, BIN_WIDTH = 40, 0.1  # the bins cover values up to four times the mean


@dataclass(frozen=True)
class SeriesTask(SequenceTask):
    """A task that forecasts next week's sales from those of the weeks before."""

    def forecast(
        self,
        model: EncoderDecoder,
        examples: Sequence[Example],
        paths: int = 20,
        batch_size: int = 256,
        seed: int = 0,
    ) -> Float[Tensor, "paths examples T"]:
        """Sample forecasts from a model, which is left in `eval()` mode.

        Args:
            model: the model that forecasts.
            examples: their sources are read, but not their targets.
            paths: number of forecasts for each example.
            batch_size: forecasts per batch.
            seed: random seed for sampling.

        Returns:
            Values in units of the series' mean. A token that is not a value, which a
            trained model never predicts, counts as the mean.
        """
        model.eval()
        device = next(model.parameters()).device
        generator = torch.Generator(device).manual_seed(seed)
        said = self.target_vocabulary.tokens
        values = torch.tensor(
            [float(token) if token[0].isdigit() else 1.0 for token in said],
            device=device,
        )
        drawn = []
        for batch in batches(
            self,
            [example for example in examples for _ in range(paths)],
            batch_size,
            device,
        ):
            tokens = sample(
                model,
                batch.source,
                batch.lengths,
                BOS,
                EOS,
                SEASON,
                generator=generator,
            ).tokens
            missing = tokens.new_full((len(tokens), SEASON - tokens.size(1)), EOS)
            drawn.append(values[torch.cat([tokens, missing], dim=1)])  # (B, T)
        return (
            torch.cat(drawn).unflatten(0, (len(examples), paths)).transpose(0, 1).cpu()
        )

    def score(
        self, model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256
    ) -> float:
        """Return the skill score of the median of 20 forecasts.

        A skill of 0 is no better than last week's values, and 1 is perfect.

        It is 1 - MAE / MAE of `last_week`, where MAE is the mean absolute error.
        """
        truth = actual(examples)
        median = self.forecast(model, examples, batch_size=batch_size).quantile(
            0.5, dim=0
        )
        return 1 - float(
            (median - truth).abs().mean() / (last_week(examples) - truth).abs().mean()
        )


def series(
    weeks: int = 3, train_size: int = 10_000, held_out_size: int = 500, seed: int = 0
) -> SeriesTask:
    """Make the series task: shops with different busy weekdays and promotion effects.

    A day's sales are the product of a factor for the weekday, a factor for a promotion
    (1.2 to 2.2, depending on the shop) or a holiday (0.2), and noise of 5 %. The source
    has one token per past day, with its value and the kind of day ("1.35 promotion"),
    and then one token per day to come, with only its kind ("? holiday"). The target has
    one value per day to come.

    Args:
        weeks: number of past weeks.
        train_size: examples to train on.
        held_out_size: examples in each of validation and test.
        seed: random seed for the shops and their days.

    Returns:
        The task. Its gold alignment links a value to the same weekday of last week and,
        on a holiday or promotion, also to the token that announces it.

    Raises:
        ValueError: `weeks` is below 1.
    """
    if weeks < 1:
        raise ValueError(f"a forecast needs at least 1 week of the past, got {weeks}")
    rng = random.Random(seed)
    train, validation, test = (
        [_shop(rng, weeks) for _ in range(size)]
        for size in (train_size, held_out_size, held_out_size)
    )
    return SeriesTask(
        name="series",
        metric="skill",
        train=train,
        validation=validation,
        test=test,
        source_vocabulary=Vocabulary(
            token for example in train for token in example.source
        ),
        target_vocabulary=Vocabulary(
            token for example in train for token in example.target
        ),
        separator=" | ",
    )


def actual(examples: Sequence[Example]) -> Float[Tensor, "examples T"]:
    """Return the true values of next week, in units of each series' mean."""
    return torch.tensor(
        [[float(token) for token in example.target] for example in examples]
    )


def last_week(examples: Sequence[Example]) -> Float[Tensor, "examples T"]:
    """Return the seasonal naive baseline: each day's value one season (week) before."""
    return torch.tensor(
        [
            [float(day.split()[0]) for day in example.source[-2 * SEASON : -SEASON]]
            for example in examples
        ]
    )


def _shop(rng: random.Random, weeks: int) -> Example:
    """Draw a random shop, its past and its next week."""
    weekdays = [math.exp(rng.gauss(0, 0.4)) for _ in range(SEASON)]
    factors = dict(zip(KINDS, (1.0, 0.2, rng.uniform(1.2, 2.2))))
    past = SEASON * weeks
    kinds = rng.choices(KINDS, CHANCES, k=past + SEASON)
    sales = [
        weekdays[d % SEASON] * factors[kind] * math.exp(rng.gauss(0, 0.05))
        for d, kind in enumerate(kinds)
    ]
    mean = sum(sales[:past]) / past
    values = [_bin(value / mean) for value in sales]
    gold = tuple(
        # position d of the source is day d
        frozenset({d - SEASON, d} if kinds[d] else {d - SEASON})
        for d in range(past, past + SEASON)
    )
    source = [
        value + kind for value, kind in zip([*values[:past], *["?"] * SEASON], kinds)
    ]
    return Example(tuple(source), tuple(values[past:]), gold)


def _bin(value: float) -> str:
    """Return the midpoint of a value's bin; too large values are in the last bin."""
    return f"{(min(int(value / BIN_WIDTH), BINS - 1) + 0.5) * BIN_WIDTH:.2f}"
