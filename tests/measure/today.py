"""`make today`: rows longer than those of training, with several kinds of positions, and
heads that share keys.

`length`: a digit names both its neighbours, after training on rows of 16 digits; the
share of digits that name both. `window`: the same models, in which no digit may look 16
places away or further, as none could in training. `heads`: English numerals to German
ones with a small Llama of 8 heads, by the number of heads of keys; exact match of the
test examples.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from measure import report
from torch import nn

from attention_course import models
from attention_course.metrics import exact_match
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.numerals import numerals
from attention_course.training import TrainConfig, train
from attention_course.transformer import (
    EncoderBlock,
    FeedForward,
    GroupedQueryAttention,
    LearnedPositions,
    NoPositions,
    Residual,
    RotaryPositions,
    SinusoidalPositions,
    TokenEmbedding,
)

DIGITS, TRAINED, WIDTH, HEADS = 10, 16, 32, 2
KINDS = ("none", "learned", "sines", "rotary")
LENGTHS = (16, 20, 24, 32, 64, 128)
# Heads of keys, and the width inside the feed-forward networks; the last has as many
# parameters as the first, but for 0.1 %.
SHARED = {
    "8 key heads": (8, 128),
    "4 key heads": (4, 128),
    "2 key heads": (2, 128),
    "1 key head": (1, 128),
    "1 key head, wider": (1, 165),
}
NUMERALS = {"dim": 64, "num_heads": 8, "num_layers": 2}


class Effort(NamedTuple):
    """How much is done: everything, or, to see that it works, a little of
    everything."""

    seeds: Sequence[int] = tuple(range(10))
    row_steps: int = 300
    rows: int = 500
    steps: Sequence[int] = (100, 200)
    sizes: tuple[tuple[str, int], ...] = ()


QUICK = Effort((0,), 2, 10, (1, 2), (("train_size", 300), ("held_out_size", 40)))


class Neighbours(nn.Module):
    """Digits (B, T) -> logits of the left and of the right neighbour, both (B, T, 10).

    Args:
        kind: of positions, one of `KINDS`.
    """

    def __init__(self, kind: str):
        super().__init__()
        positions = {
            "sines": lambda: SinusoidalPositions(WIDTH),
            "learned": lambda: LearnedPositions(TRAINED, WIDTH),
        }.get(kind, NoPositions)
        rotary = RotaryPositions(WIDTH // HEADS) if kind == "rotary" else None
        self.embedding = TokenEmbedding(DIGITS, WIDTH, positions())
        self.block = EncoderBlock(
            GroupedQueryAttention(WIDTH, HEADS, HEADS, rotary),
            FeedForward(WIDTH, 2 * WIDTH),
            Residual(nn.LayerNorm(WIDTH), 0.0, pre_norm=True),
            Residual(nn.LayerNorm(WIDTH), 0.0, pre_norm=True),
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.left, self.right = nn.Linear(WIDTH, DIGITS), nn.Linear(WIDTH, DIGITS)

    def forward(self, digits, mask=None):
        z = self.norm(self.block(self.embedding(digits), mask)[0])
        return self.left(z), self.right(z)


def teach(model: nn.Module, length: int, steps: int) -> None:
    """Train a model to name both neighbours of each digit, on rows of this length."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        digits = torch.randint(DIGITS, (64, length))
        left, right = model(digits)
        loss = F.cross_entropy(left[:, 1:].mT, digits[:, :-1])
        loss = loss + F.cross_entropy(right[:, :-1].mT, digits[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def window(length: int) -> torch.Tensor:
    """Return a mask (T, T): True where the distance is one that occurs in training."""
    t = torch.arange(length)
    return (t[:, None] - t).abs() < TRAINED


@torch.no_grad()
def both_right(
    model: Neighbours, length: int, rows: int, mask: torch.Tensor | None = None
) -> float | None:
    """Return the share of digits that name both neighbours, of those that have both;
    None where the model has no positions for such a row."""
    digits = torch.randint(
        DIGITS, (rows, length), generator=torch.Generator().manual_seed(1)
    )
    try:
        left, right = model(digits, mask)
    except ValueError:
        return None
    knows_left = left[:, 1:-1].argmax(dim=-1) == digits[:, :-2]
    knows_right = right[:, 1:-1].argmax(dim=-1) == digits[:, 2:]
    return (knows_left & knows_right).float().mean().item()


class Prompt(nn.Module):
    """An encoder that only moves the sentence to ids of its own.

    Args:
        first: ids of the prompt's tokens begin here.
    """

    def __init__(self, first: int):
        super().__init__()
        self.first = first

    def forward(self, source, lengths):
        return source + self.first, lengths


class Continuation(nn.Module):
    """A decoder that is a language model: it goes on writing after a prompt.

    Args:
        model: with tokens for both languages.
        size: the model writes the tokens before this one.
    """

    def __init__(self, model: nn.Module, size: int):
        super().__init__()
        self.model = model
        self.size = size
        self.start = model.start

    def remember(self, encoded):
        return self.model.encode(*encoded)

    def step(self, token, memory, cache):
        logits, _, cache = self.model.step(token, memory, cache)
        return logits[..., : self.size], None, cache

    def decode(self, target, memory):
        logits, _, _ = self.step(target, memory, self.start(memory))
        return logits, None


def translated(name: str, steps: int, seed: int, effort: Effort) -> tuple[float, int]:
    """Train one translator; return its exact match and how many parameters it has."""
    task = numerals(seed=seed, **dict(effort.sizes))
    num_key_heads, hidden_dim = SHARED[name]
    torch.manual_seed(seed)
    llama = models.llama(
        vocab_size=task.target_size + task.source_size,
        num_key_heads=num_key_heads,
        hidden_dim=hidden_dim,
        **NUMERALS,
    )
    model = EncoderDecoder(
        Prompt(task.target_size), Continuation(llama, task.target_size)
    )
    config = TrainConfig(steps, 32, 5e-3, warmup_steps=50, seed=seed)
    train(model, task, config)
    model.eval()
    exact = exact_match(
        task.predict(model, task.test), [example.target for example in task.test]
    )
    return exact, sum(parameter.numel() for parameter in llama.parameters())


def spread(
    what: str, values: Sequence[float | None], note: str
) -> Iterator[report.Row]:
    """Return a row for the mean of the seeds, and one for either end."""
    known = [value for value in values if value is not None]
    for suffix, of in (("", mean), (", lowest", min), (", highest", max)):
        value = of(known) if known else None
        yield report.row(what + suffix, value, "share", note=note if of is mean else "")


def measure_lengths(effort: Effort) -> Iterator[report.Row]:
    """Train with each kind of positions, and try rows of every length."""
    results: dict[tuple[str, str, int], list[float | None]] = {}
    for kind, seed in product(KINDS, effort.seeds):
        torch.manual_seed(seed)
        model = Neighbours(kind)
        teach(model, TRAINED, effort.row_steps)
        for length in LENGTHS:
            for table, mask in (("length", None), ("window", window(length))):
                share = both_right(model, length, effort.rows, mask)
                results.setdefault((table, kind, length), []).append(share)
        print(f"{kind}, seed {seed}", flush=True)
    for (table, kind, length), shares in results.items():
        note = "both neighbours named, mean of the seeds"
        yield from spread(f"{table} / {kind} / {length}", shares, note)


def measure_heads(effort: Effort) -> Iterator[report.Row]:
    """Train with each number of heads of keys, and translate."""
    for name, steps in product(SHARED, effort.steps):
        runs = [translated(name, steps, seed, effort) for seed in effort.seeds]
        exact = [share for share, _ in runs]
        note = "exact match, mean of the seeds"
        yield from spread(f"heads / {name} / {steps} steps", exact, note)
        if steps == effort.steps[0]:
            yield report.row(f"heads / {name} / parameters", runs[0][1], "parameters")
        print(f"{name}, {steps} steps: {mean(exact):.3f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two steps on few examples, to see that it works",
    )
    effort, name = (
        (QUICK, "today-quick")
        if parser.parse_args(arguments).quick
        else (Effort(), "today")
    )
    torch.set_num_threads(1)
    start = time.process_time()
    rows = [*measure_lengths(effort), *measure_heads(effort)]
    report.write(name, rows, time.process_time() - start, report.REPORTS)


if __name__ == "__main__":
    main()
