"""What chapter 14 says of decoding, from several seeds, and for a model that has been
trained for longer."""

import math
import random
from collections.abc import Iterator
from datetime import date, timedelta
from statistics import mean

import torch
from measure import report

from attention_course import models
from attention_course.decoding import Decoded, beam_search, greedy, sample
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.dates import FIRST, LAST, patterns, write
from attention_course.tasks.sequences import Example, SequenceTask, make_task
from attention_course.training import TrainConfig, train

SEEDS, LONG_SEEDS, STEPS, LONG = 5, 3, 300, 1200
BEAMS, EXPONENTS = (2, 4, 8), (0.3, 0.6, 1.0, 1.5)
TEMPERATURES, DRAWS, DAYS = (0.2, 0.5, 0.7, 1.0, 1.3), 8, 50
FORMS = [
    (locale, pattern)
    for locale in ("en", "de", "fr", "es")
    for pattern in patterns(locale)
    if "E" not in pattern
]


def rows(quick: bool) -> Iterator[report.Row]:
    """Train and decode; `what` is "steps / decoding / figure / which"."""
    task, held_out = dates()
    runs = {
        f"{STEPS} steps": (2 if quick else SEEDS, 2 if quick else STEPS),
        f"{LONG} steps": (2 if quick else LONG_SEEDS, 2 if quick else LONG),
    }
    for name, (seeds, steps) in runs.items():
        found = [
            figures(trained(task, seed, steps), task, held_out) for seed in range(seeds)
        ]
        for what in found[0]:
            values = [of[what] for of in found]
            unit = UNITS[what.rpartition(" / ")[2]]
            for which, value in (
                ("mean", mean(values)),
                ("lowest", min(values)),
                ("highest", max(values)),
            ):
                yield report.row(
                    f"{name} / {what} / {which}", value, unit, note=f"{seeds} seeds"
                )


UNITS = {
    "right": "of the dates",
    "log P": "nats",
    "length": "characters",
    "words": "of the dates",
    "more right than greedy": "of the dates",
    "different": f"of {DRAWS} draws",
    "off the probability": "of the draws",
    "probability of the right forms": "of 1",
    "wrong by search": "of 150 dates",
    "wrong by model": "of 150 dates",
}


def dates() -> tuple[SequenceTask, list[date]]:
    """Make the page's task; the days are those of its test set."""
    rng = random.Random(0)
    offsets = rng.sample(range((LAST - FIRST).days + 1), 6000)
    days = [FIRST + timedelta(days=offset) for offset in offsets]
    written = [example(day, text_of(day, rng.choice(FORMS))) for day in days]
    splits = [written[300:], written[150:300], written[:150]]
    return make_task("writing dates", splits), days[:150]


def example(day: date, text: str) -> Example:
    return Example(tuple(day.isoformat()), tuple(text), ())


def text_of(day: date, form: tuple[str, str]) -> str:
    return "".join(write(day, *form).source)


def trained(task: SequenceTask, seed: int, steps: int) -> EncoderDecoder:
    torch.manual_seed(seed)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=48,
        num_heads=4,
        hidden_dim=96,
        num_layers=2,
        tied=True,
    )
    warmup = min(50, steps)
    config = TrainConfig(
        steps, batch_size=48, learning_rate=5e-3, warmup_steps=warmup, seed=seed
    )
    train(model, task, config)
    return model


def figures(
    model: EncoderDecoder, task: SequenceTask, held_out: list[date]
) -> dict[str, float]:
    """Decode the held-out dates in all of the page's ways."""
    batch = task.collate([example(day, "") for day in held_out])
    asked = (model, batch.source, batch.lengths, BOS, EOS, 30)

    @torch.no_grad()
    def log_probs(pairs: list[tuple[date, str]]) -> list[float]:
        told = task.collate([example(day, text) for day, text in pairs])
        logits, _ = model(told.source, told.lengths, told.target_in)
        said = logits.log_softmax(dim=-1).gather(-1, told.target_out[..., None])
        return (said[..., 0] * (told.target_out != PAD)).sum(dim=1).tolist()

    def texts(decoded: Decoded) -> list[str]:
        of = task.target_vocabulary.decode
        return ["".join(of(row)) for row in decoded.tokens.tolist()]

    right_forms = {
        day: list(dict.fromkeys(text_of(day, form) for form in FORMS))
        for day in held_out
    }
    pairs = [(day, text) for day, forms in right_forms.items() for text in forms]
    by_day: dict[date, dict[str, float]] = {day: {} for day in held_out}
    for (day, text), score in zip(pairs, log_probs(pairs)):
        by_day[day][text] = score
    on_right = [sum(map(math.exp, forms.values())) for forms in by_day.values()]
    found = {"probability of the right forms": mean(on_right)}

    ways = {"greedy": greedy(*asked)}
    ways |= {f"beam {n}": beam_search(*asked, beam_size=n) for n in BEAMS}
    ways |= {
        f"beam 4, {x}": beam_search(*asked, beam_size=4, length_penalty=x)
        for x in EXPONENTS
    }
    for name, decoded in ways.items():
        said = texts(decoded)
        scores = log_probs(list(zip(held_out, said)))
        right = [text in by_day[day] for day, text in zip(held_out, said)]
        found[f"{name} / right"] = mean(right)
        found[f"{name} / log P"] = mean(scores)
        found[f"{name} / length"] = mean(map(len, said))
        found[f"{name} / words"] = mean(any(map(str.isalpha, text)) for text in said)
        best = [max(by_day[day].values()) for day in held_out]
        faults = [
            better > score for better, score, ok in zip(best, scores, right) if not ok
        ]
        found[f"{name} / wrong by search"] = sum(faults)
        found[f"{name} / wrong by model"] = len(faults) - sum(faults)
        if name != "greedy":
            more = found[f"{name} / right"] - found["greedy / right"]
            found[f"{name} / more right than greedy"] = more

    rows = torch.arange(DAYS).repeat_interleave(DRAWS)
    repeated = (model, batch.source[rows], batch.lengths[rows], BOS, EOS, 30)
    for tau in TEMPERATURES:
        chance = torch.Generator().manual_seed(0)
        said = texts(sample(*repeated, temperature=tau, generator=chance))
        hits = [
            (i, text)
            for i, text in zip(rows.tolist(), said)
            if text in by_day[held_out[i]]
        ]
        found[f"temperature {tau} / right"] = len(hits) / len(said)
        found[f"temperature {tau} / different"] = len(set(hits)) / DAYS
        if tau == 1:
            off = abs(len(hits) / len(said) - mean(on_right[:DAYS]))
            found["temperature 1.0 / off the probability"] = off
    return found
