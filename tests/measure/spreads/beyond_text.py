"""Chapter 9: the captioner over a convolution's cells and over a Transformer's patches.

The decoder, its score, the scenes, the batches and the learning rate are those of the
page; only the encoder changes. Both encoders have 36 states of width 64 and about as
many parameters (58,176 and 70,464).
"""

from collections.abc import Iterator
from statistics import mean

import torch
from measure import report
from torch import nn

from attention_course import models
from attention_course.rnn import BahdanauDecoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.scenes import CELL, GRID, captions
from attention_course.training import TrainConfig, evaluate, train
from attention_course.vision import GridEncoder

WIDTH, SEEDS, QUICK_SEEDS = 64, (0, 1, 2), (0, 1)
# the patches once more, five times as long: do they catch up?
LENGTHS = {"convolution": (300, 600), "patches": (300, 600, 1500)}


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
    """Train each encoder for each length, from several seeds."""
    size = {"train_size": 300, "held_out_size": 20} if quick else {"train_size": 10_000}
    task = captions(**size)
    for kind, lengths in LENGTHS.items():
        for steps in lengths:
            exact, hits = [], []
            for seed in QUICK_SEEDS if quick else SEEDS:
                torch.manual_seed(seed)
                score = AdditiveScore(WIDTH, WIDTH, WIDTH // 2)
                decoder = BahdanauDecoder(task.target_size, 16, WIDTH, WIDTH, score)
                model = EncoderDecoder(encoder(kind), decoder)
                train(
                    model,
                    task,
                    TrainConfig(
                        steps=2 if quick else steps,
                        batch_size=64,
                        learning_rate=5e-3,
                        seed=seed,
                    ),
                )
                result = evaluate(model, task, task.test)
                exact.append(result.exact_match)
                hits.append(result.hit_rate or 0.0)
            for what, found in (("exact match", exact), ("hit rate", hits)):
                name = f"{kind} / {steps} steps / {what}"
                yield report.row(name, mean(found), "share", note="mean of the seeds")
                yield report.row(f"{name}, lowest", min(found), "share")
                yield report.row(f"{name}, highest", max(found), "share")
