"""`make induction`: what one layer of attention learns of strings that repeat, and two.

`second half`: share of letters named right in the second half of strings of 16 random
letters, written twice. `first half`: the same for the first half. `period`: the same
share from the first repeated letter on, for strings of other periods. `position`: the
loss after each letter. `heads`: of the models with two layers and periods that are
drawn, the scores of each head, and what is left of the second half without it. `cut`:
what is left if the upper layer does not read a lower head where it makes queries, keys
or values. For the last two, the 16 letters are all different.
"""

import argparse
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from measure import report

from attention_course import models
from attention_course.heads import (
    Head,
    induction_score,
    previous_token_score,
    run_heads,
)
from attention_course.tasks.repeats import repeated_strings
from attention_course.transformer import LearnedPositions, TransformerLM

LETTERS, LENGTH, HALF = 26, 32, 16
DRAWN, FIXED = (6, HALF), (HALF, HALF)
PERIODS = range(4, 22, 2)
BELOW = ((0, 0), (0, 1))
READ_AS = ("query", "key", "value")


class Kind(NamedTuple):
    """A kind of model, and the strings that it learns from.

    One layer is twice as wide as two, and has twice as many heads and parameters.
    `longer` is four times as many steps.
    """

    layers: int
    periods: tuple[int, int]
    learned: bool = False
    longer: bool = False

    def __str__(self) -> str:
        layers = "one layer" if self.layers == 1 else "two layers"
        periods = "drawn" if self.periods == DRAWN else "fixed"
        return (
            f"{'learned' if self.learned else 'rotary'}, {layers}, {periods}"
            f"{', longer' if self.longer else ''}"
        )


TWO, LONGER = Kind(2, DRAWN), Kind(1, DRAWN, longer=True)
KINDS = (
    TWO,
    Kind(1, DRAWN),
    Kind(2, FIXED),
    Kind(1, FIXED),
    Kind(2, DRAWN, learned=True),
    Kind(1, DRAWN, learned=True),
    Kind(2, FIXED, learned=True),
    Kind(1, FIXED, learned=True),
    LONGER,
)


class Effort(NamedTuple):
    """How much is done: everything, or, to see that it works, a little of
    everything."""

    seeds: Sequence[int] = (0, 1, 2)
    steps: int = 800
    strings: int = 500


QUICK = Effort((0,), 2, 10)


def teach(kind: Kind, seed: int, steps: int) -> TransformerLM:
    """Train on strings that are drawn anew for each step."""
    torch.manual_seed(seed)
    dim, num_heads = (32, 2) if kind.layers == 2 else (64, 4)
    model = models.attention_only(
        vocab_size=LETTERS,
        dim=dim,
        num_heads=num_heads,
        num_layers=kind.layers,
        positions=LearnedPositions(LENGTH, dim) if kind.learned else None,
    )
    steps *= 4 if kind.longer else 1
    optimizer = torch.optim.Adam(model.parameters(), lr=0.32 / dim)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        strings, _ = repeated_strings(64, LENGTH + 1, kind.periods, LETTERS)
        loss = F.cross_entropy(model(strings[:, :-1]).mT, strings[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


def strings_of(period: int, size: int, all_different: bool = False) -> torch.Tensor:
    """Draw strings of one period for a test."""
    generator = torch.Generator().manual_seed(period)
    return repeated_strings(
        size, LENGTH + 1, (period, period), LETTERS, all_different, generator
    )[0]


@torch.no_grad()
def after_each_letter(
    model: TransformerLM,
    strings: torch.Tensor,
    removed: Collection[Head] = (),
    cut: Mapping[str, Collection[Head]] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the share named right, and the loss in nats, after each letter: (T), (T)."""
    read, wanted = strings[:, :-1], strings[:, 1:]
    if removed or cut:
        logits, _ = run_heads(model, read, removed, cut)
    else:
        logits = model(read)
    right = (logits.argmax(dim=-1) == wanted).float()
    loss = F.cross_entropy(logits.mT, wanted, reduction="none")
    return right.mean(dim=0), loss.mean(dim=0)


def measure_model(
    kind: Kind, model: TransformerLM, size: int
) -> Iterator[tuple[str, float, str]]:
    """Measure one model on strings of random letters: what, how much, in which unit."""
    right, loss = after_each_letter(model, strings_of(HALF, size))
    yield f"first half / {kind} / accuracy", right[: HALF - 1].mean().item(), "share"
    yield f"second half / {kind} / accuracy", right[HALF:].mean().item(), "share"
    yield f"second half / {kind} / loss", loss[HALF:].mean().item(), "nats"
    parameters = sum(parameter.numel() for parameter in model.parameters())
    yield f"second half / {kind} / parameters", parameters, "parameters"
    for period in PERIODS:
        right, _ = after_each_letter(model, strings_of(period, size))
        yield f"period / {kind} / {period}", right[period:].mean().item(), "share"
    if kind in (TWO, LONGER):
        for t, nats in enumerate(loss.tolist(), start=1):
            yield f"position / {kind} / {t}", nats, "nats"


def measure_heads(model: TransformerLM, seed: int, size: int) -> Iterator[report.Row]:
    """Score the heads of a model of two layers, and take away what they write."""
    strings = strings_of(HALF, size, all_different=True)

    def left(what: str, removed=(), cut=None) -> Iterator[report.Row]:
        right, loss = after_each_letter(model, strings, removed, cut)
        yield report.row(f"{what} accuracy", right[HALF:].mean().item(), "share")
        yield report.row(f"{what} loss", loss[HALF:].mean().item(), "nats")

    with torch.no_grad():
        _, maps = run_heads(model, strings[:, :-1])
    for layer, weights in enumerate(maps):
        previous = previous_token_score(weights).tolist()
        induction = induction_score(strings[:, :-1], weights).tolist()
        for h, scores in enumerate(zip(previous, induction)):
            what = f"heads / seed {seed}, layer {layer + 1}, head {h + 1} /"
            for name, score in zip(("previous token", "induction"), scores):
                yield report.row(f"{what} {name}", score, "share")
            yield from left(f"{what} without it:", removed=[(layer, h)])
    strongest = max(BELOW, key=lambda head: previous_token_score(maps[0])[head[1]])
    yield from left(f"cut / seed {seed}, nothing /")
    for heads, name in ((BELOW, "lower layer"), ((strongest,), "previous-token head")):
        for reads in (*((one,) for one in READ_AS), ("query", "value"), READ_AS[:2]):
            what = f"cut / seed {seed}, {name} from {' and '.join(reads)} /"
            yield from left(what, cut=dict.fromkeys(reads, heads))
        yield from left(f"cut / seed {seed}, {name} removed /", removed=heads)


def spread(what: str, values: Sequence[float], unit: str) -> Iterator[report.Row]:
    """Return a row for the mean of the seeds, and one for either end."""
    if unit == "parameters":
        yield report.row(what, values[0], unit)
        return
    yield report.row(what, mean(values), unit, note="mean of the seeds")
    yield report.row(f"{what}, lowest", min(values), unit)
    yield report.row(f"{what}, highest", max(values), unit)


def measure(effort: Effort) -> Iterator[report.Row]:
    """Train every kind from every seed, and measure it."""
    heads: list[report.Row] = []
    for kind in KINDS:
        results: dict[tuple[str, str], list[float]] = {}
        for seed in effort.seeds:
            model = teach(kind, seed, effort.steps)
            for what, value, unit in measure_model(kind, model, effort.strings):
                results.setdefault((what, unit), []).append(value)
            if kind == TWO:
                heads += measure_heads(model, seed, effort.strings)
            print(f"{kind}, seed {seed}", flush=True)
        for (what, unit), values in results.items():
            yield from spread(what, values, unit)
    yield from heads


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two steps on few strings, to see that it works",
    )
    effort, name = (
        (QUICK, "induction-quick")
        if parser.parse_args(arguments).quick
        else (Effort(), "induction")
    )
    torch.set_num_threads(1)
    start = time.process_time()
    rows = [*measure(effort)]
    report.write(name, rows, time.process_time() - start, report.REPORTS)


if __name__ == "__main__":
    main()
