"""Both orders on dates from several seeds: with the same kind of score, and Luong's
order with another one; and how little the weekday matters to them.

A seed sets the first weights and the order of the batches; the dates are those of the
page.
"""

import time
from collections.abc import Iterator
from datetime import date
from statistics import mean

import torch
from measure import report

from attention_course import models
from attention_course.scores import AdditiveScore, GeneralScore, Score
from attention_course.tasks.dates import dates, write
from attention_course.training import TrainConfig, evaluate, train

SEEDS, STEPS, BATCH_SIZE, LEARNING_RATE = (0, 1, 2, 3, 4), 200, 48, 8e-3
HIDDEN = 64
WEEKDAYS = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)


def _additive() -> Score:
    return AdditiveScore(query_dim=HIDDEN, key_dim=2 * HIDDEN, hidden_dim=HIDDEN)


def _general() -> Score:
    return GeneralScore(query_dim=HIDDEN, key_dim=2 * HIDDEN)


MODELS = {
    "Bahdanau, additive": (models.bahdanau, _additive),
    "Luong, additive": (models.luong, _additive),
    "Luong, general": (models.luong, _general),
}


def rows(quick: bool = False) -> Iterator[report.Row]:
    """Yield the figures; `what` is "model / figure"."""
    task = dates()
    sizes = {"source_size": task.source_size, "target_size": task.target_size}
    asked = [write(date(2018, 5, 9), "en_GB", f"'{day}' dd MMMM y") for day in WEEKDAYS]
    found: dict[str, list[float]] = {}
    for seed in SEEDS[:2] if quick else SEEDS:
        for name, (make, score) in MODELS.items():
            torch.manual_seed(seed)
            model = make(**sizes, embedding_dim=32, hidden_dim=HIDDEN, score=score())
            config = TrainConfig(
                2 if quick else STEPS, BATCH_SIZE, LEARNING_RATE, seed=seed
            )
            begin = time.process_time()
            train(model, task, config)
            spent = time.process_time() - begin
            result = evaluate(model, task, task.test)
            answers = evaluate(model, task, asked)
            right = [p == e.target for p, e in zip(answers.predictions, asked)]
            on_day = [
                max(sum(row[: len(day)]) for row in weights[:10])
                for day, weights in zip(WEEKDAYS, answers.weights)
            ]
            figures = {
                "exact match": result.exact_match,
                "hit rate": result.hit_rate or 0.0,
                "training": spent,
                "weekdays whose date is right": mean(right),
                "largest weight on Saturday": on_day[WEEKDAYS.index("Saturday")],
                "largest weight on a weekday": max(on_day),
            }
            print(seed, name, {k: round(v, 3) for k, v in figures.items()}, flush=True)
            for figure, value in figures.items():
                found.setdefault(f"{name} / {figure}", []).append(value)
    for what, values in found.items():
        unit = "CPU s" if what.endswith("training") else "share"
        yield report.row(what, mean(values), unit, note=f"of {len(values)} seeds")
        yield report.row(f"{what}, lowest", min(values), unit)
        yield report.row(f"{what}, highest", max(values), unit)
