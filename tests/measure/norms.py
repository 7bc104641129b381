"""`make norms`: where the norm stands in a Transformer's blocks, and what a warm-up
changes, at several learning rates.

English numerals to German ones, on the same batches in the same order with the same
first weights for all runs of a seed; 150 steps, so that it also counts how quickly a
model learns. Exact match is that of the test examples.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from statistics import mean
from typing import NamedTuple

import torch
from measure import report

from attention_course import models
from attention_course.tasks.numerals import numerals
from attention_course.tasks.sequences import SequenceTask
from attention_course.training import TrainConfig, evaluate, train

WIDTH, HEADS, BATCH_SIZE, WARMUP_STEPS = 32, 4, 32, 50
NORMS = {"pre-norm": True, "post-norm": False}
WARMUPS = {"with warm-up": WARMUP_STEPS, "without": 0}


class Effort(NamedTuple):
    """How much is done: everything, or, to see that it works, a little of
    everything."""

    depths: Sequence[int] = (2, 6)
    rates: Sequence[float] = (5e-3, 1e-2, 2e-2)
    seeds: Sequence[int] = (0, 1, 2)
    steps: int = 150
    sizes: tuple[tuple[str, int], ...] = ()


QUICK = Effort(
    (1, 2), (1e-2,), (0,), 2, sizes=(("train_size", 300), ("held_out_size", 40))
)

Where = tuple[int, str, str, float, int]  # layers, norm, warm-up, learning rate, seed


@cache
def _task(seed: int, sizes: tuple[tuple[str, int], ...]) -> SequenceTask:
    return numerals(seed=seed, **dict(sizes))


def measure(
    depth: int, norm: str, warmup: str, rate: float, seed: int, effort: Effort
) -> float:
    """Train one model and return its exact match."""
    task = _task(seed, effort.sizes)
    torch.manual_seed(seed)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=WIDTH,
        num_heads=HEADS,
        hidden_dim=2 * WIDTH,
        num_layers=depth,
        pre_norm=NORMS[norm],
    )
    config = TrainConfig(
        effort.steps, BATCH_SIZE, rate, warmup_steps=WARMUPS[warmup], seed=seed
    )
    # A model whose loss ceases to be a number is judged by what it had learned until
    # then.
    with suppress(FloatingPointError):
        train(model, task, config)
    return evaluate(model, task, task.test).exact_match


def measure_all(effort: Effort) -> dict[Where, float]:
    """Measure every combination, one after the other."""
    torch.set_num_threads(1)
    results = {}
    for where in product(effort.depths, NORMS, WARMUPS, effort.rates, effort.seeds):
        results[where] = measure(*where, effort)
        depth, norm, warmup, rate, seed = where
        print(
            f"{depth} layers, {norm} {warmup}, rate {rate:g}, seed {seed}:"
            f" {results[where]:.3f}",
            flush=True,
        )
    return results


def rows(results: dict[Where, float], effort: Effort) -> Iterator[report.Row]:
    """Turn the results into figures; `what` is "layers / norm and warm-up / learning
    rate"."""
    for depth, norm, warmup, rate in product(
        effort.depths, NORMS, WARMUPS, effort.rates
    ):
        exact = [results[depth, norm, warmup, rate, seed] for seed in effort.seeds]
        what = f"{depth} layers / {norm}, {warmup} / {rate:g}"
        yield report.row(
            what, mean(exact), "share", note="exact match, mean of the seeds"
        )
        yield report.row(f"{what}, lowest", min(exact), "share")
        yield report.row(f"{what}, highest", max(exact), "share")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two steps on few examples, to see that it works",
    )
    effort, name = (
        (QUICK, "norms-quick")
        if parser.parse_args(arguments).quick
        else (Effort(), "norms")
    )
    start = time.process_time()
    results = measure_all(effort)
    report.write(
        name, rows(results, effort), time.process_time() - start, report.REPORTS
    )


if __name__ == "__main__":
    main()
