"""Chapter 9: captions over a convolution's cells and over a Transformer's patches, and
one digit recognised with attention and with the mean.

Captions: the decoder, its score, the scenes, the batches and the learning rate are those
of the page; only the encoder changes. Both encoders have 36 states of width 64 and about as
many parameters (58,176 and 70,464).

One digit: the page's two classifiers, 200 steps.
"""

from collections.abc import Iterator
from statistics import mean

import torch
from measure import report
from torch import nn

from attention_course import models
from attention_course.rnn import BahdanauDecoder
from attention_course.scores import AdditiveScore, ConstantScore, Score
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.scenes import (
    CELL,
    GRID,
    WORDS,
    CaptionTask,
    captions,
    focus,
)
from attention_course.training import TrainConfig, evaluate, train
from attention_course.vision import GridEncoder

WIDTH, SEEDS, QUICK_SEEDS = 64, (0, 1, 2), (0, 1)
STEPS, LONG = (300, 600), 1200  # long: the patches only, one seed; do they catch up?


def encoder(kind: str) -> nn.Module:
    """Build one of the two encoders."""
    if kind == "convolution":
        return GridEncoder(1, WIDTH // 2, WIDTH, GRID)
    return models.patch_encoder(
        channels=1,
        patch_size=CELL,
        grid_size=GRID,
        dim=WIDTH,
        num_heads=4,
        hidden_dim=2 * WIDTH,
        num_layers=2,
    )


def rows(quick: bool) -> Iterator[report.Row]:
    """Train each model from several seeds."""
    yield from _digits(quick)
    yield from _captions(quick)


def _spread(name: str, found: list[float]) -> Iterator[report.Row]:
    yield report.row(name, mean(found), "share", note="mean of the seeds")
    yield report.row(f"{name}, lowest", min(found), "share")
    yield report.row(f"{name}, highest", max(found), "share")


def _digits(quick: bool) -> Iterator[report.Row]:
    size = {"train_size": 300, "held_out_size": 20} if quick else {"train_size": 4_000}
    task = focus(**size)
    for name in ("attention", "mean"):
        accuracies, hits = [], []
        for seed in QUICK_SEEDS if quick else SEEDS:
            torch.manual_seed(seed)
            score: Score = (
                AdditiveScore(32, 32, 32) if name == "attention" else ConstantScore()
            )
            model = models.image_classifier(
                grid_size=GRID, num_classes=len(WORDS), output_dim=32, score=score
            )
            steps = 2 if quick else 200
            train(model, task, TrainConfig(steps, learning_rate=1e-2, seed=seed))
            accuracies.append(task.score(model, task.test))
            hits.append(task.hit_rate(model, task.test))
        yield from _spread(f"one digit / {name} / accuracy", accuracies)
        if name == "attention":
            yield from _spread(f"one digit / {name} / hit rate", hits)


def _captions(quick: bool) -> Iterator[report.Row]:
    size = {"train_size": 300, "held_out_size": 20} if quick else {"train_size": 10_000}
    task = captions(**size)
    seeds = QUICK_SEEDS if quick else SEEDS
    for kind in ("convolution", "patches"):
        for steps in STEPS:
            results = [
                _captioner(task, kind, 2 if quick else steps, seed) for seed in seeds
            ]
            for i, what in enumerate(("exact match", "hit rate")):
                found = [result[i] for result in results]
                yield from _spread(f"{kind} / {steps} steps / {what}", found)
    exact, hits = _captioner(task, "patches", 2 if quick else LONG, seed=0)
    name = f"patches / {LONG} steps"
    yield report.row(f"{name} / exact match, seed 0", exact, "share")
    yield report.row(f"{name} / hit rate, seed 0", hits, "share")


def _captioner(
    task: CaptionTask, kind: str, steps: int, seed: int
) -> tuple[float, float]:
    torch.manual_seed(seed)
    score = AdditiveScore(WIDTH, WIDTH, WIDTH // 2)
    decoder = BahdanauDecoder(task.target_size, 16, WIDTH, WIDTH, score)
    model = EncoderDecoder(encoder(kind), decoder)
    config = TrainConfig(steps, batch_size=64, learning_rate=5e-3, seed=seed)
    train(model, task, config)
    result = evaluate(model, task, task.test)
    return result.exact_match, result.hit_rate or 0.0
