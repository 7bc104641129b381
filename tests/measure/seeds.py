"""`make seeds`: does the attention of a reader of reviews explain its answers, and does
it from every seed?

Two readers that differ in one thing: what they look up, states that have read the whole
review or words that know nothing of their neighbours. A seed changes the first weights
and the order of the examples; the reviews are the same for all, so that the weights of
two seeds can be compared word for word.
"""

import argparse
import copy
import random
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import mean
from typing import NamedTuple

import torch
from measure import report
from scipy.stats import kendalltau
from torch import Tensor, nn

from attention_course import models
from attention_course.metrics import alignment_hit_rate
from attention_course.pooling import Classifier, answer_with, gradient_times_input
from attention_course.scores import AdditiveScore, ConstantScore, Score
from attention_course.tasks.elsewhere import LookElsewhere, shared_weight
from attention_course.tasks.labels import LabelTask
from attention_course.tasks.sentiment import opposite, sentiment
from attention_course.training import TrainConfig, train

SEEDS, STEPS, HIDDEN = tuple(range(10)), 400, 32
READERS = {"looks up states": False, "looks up words": True}


class Reader(NamedTuple):
    """What one reader came to, and the reviews' weights (500, 1, S)."""

    accuracy: float
    even_accuracy: float
    hit_rate: float
    gradient_hit_rate: float
    tau: float
    stays_uniform: float
    stays_permuted: float
    twin_agrees: float
    twin_shares: float
    twin_hit_rate: float
    turns_plain: float
    turns_negated: float
    weights: Tensor


def measure(task: LabelTask, look_up_words: bool, seed: int, steps: int) -> Reader:
    """Train a reader, one that cannot choose where to look, and a twin that shall look
    elsewhere; try other weights."""
    config = TrainConfig(steps=steps, learning_rate=1e-2, seed=seed)

    def reader(score: Score) -> Classifier:
        torch.manual_seed(seed)
        model = models.classifier(
            source_size=len(task.read.vocabulary),
            num_classes=len(task.labels),
            embedding_dim=16,
            hidden_dim=HIDDEN,
            score=score,
            look_up_words=look_up_words,
            cell=nn.LSTM,
        )
        train(model, task, config)
        return model

    model = reader(AdditiveScore(HIDDEN, 2 * HIDDEN, HIDDEN))
    even = reader(ConstantScore())
    # A copy to begin with: one that is trained from the start looks away before it has
    # learned to answer.
    twin = copy.deepcopy(model)
    train(twin, LookElsewhere(task, model), config)

    batch = task.collate(task.test)
    seen = batch.source, batch.lengths
    swapped = task.collate(
        [opposite(random.Random(seed), example) for example in task.test]
    ).source
    gold = [example.gold for example in task.test]
    negated = torch.tensor([len(positions) > 1 for (positions,) in gold])
    gradients = gradient_times_input(model, *seen).abs()
    with torch.no_grad():
        logits, weights = model(*seen)
        twin_logits, twin_weights = twin(*seen)
        real = torch.arange(weights.size(-1)) < batch.lengths[:, None]
        uniform = (real / real.sum(dim=-1, keepdim=True))[:, None]
        dealt = permuted(weights, real, torch.Generator().manual_seed(seed))
        turns = answer_with(model, swapped, batch.lengths, weights).argmax(
            dim=-1
        ) != logits.argmax(dim=-1)
        logits_of = {
            "uniform": answer_with(model, *seen, uniform),
            "permuted": answer_with(model, *seen, dealt),
        }

    def agreement(other: Tensor) -> float:
        return float((other.argmax(dim=-1) == logits.argmax(dim=-1)).float().mean())

    return Reader(
        accuracy=task.score(model, task.test),
        even_accuracy=task.score(even, task.test),
        hit_rate=alignment_hit_rate(weights.tolist(), gold),
        gradient_hit_rate=alignment_hit_rate(
            (gradients * real)[:, None].tolist(), gold
        ),
        tau=mean(
            kendalltau(row[:length], gradient[:length]).statistic
            for row, gradient, length in zip(
                weights[:, 0].tolist(), gradients.tolist(), batch.lengths.tolist()
            )
        ),
        stays_uniform=agreement(logits_of["uniform"]),
        stays_permuted=agreement(logits_of["permuted"]),
        twin_agrees=agreement(twin_logits),
        twin_shares=float(shared_weight(weights, twin_weights).mean()),
        twin_hit_rate=alignment_hit_rate(twin_weights.tolist(), gold),
        turns_plain=float(turns[~negated].float().mean()),
        turns_negated=float(turns[negated].float().mean()),
        weights=weights,
    )


def permuted(weights: Tensor, real: Tensor, draws: torch.Generator) -> Tensor:
    """Deal each review's weights out to its words anew."""
    # padding stays behind the words
    keys = torch.rand(real.shape, generator=draws).masked_fill(~real, 2.0)
    return weights.gather(-1, keys.argsort(dim=-1)[:, None])


def rows(found: dict[str, Sequence[Reader]]) -> Iterator[report.Row]:
    """Turn what was found into figures; `what` is "table / reader / figure"."""
    for name, readers in found.items():
        pairs = [
            float(shared_weight(a.weights, b.weights).mean())
            for a, b in combinations(readers, 2)
        ]
        hits = [reader.hit_rate for reader in readers]
        figures = {
            "weights / {} / accuracy": mean(reader.accuracy for reader in readers),
            "weights / {} / lowest accuracy": min(
                reader.accuracy for reader in readers
            ),
            "weights / {} / hit rate": mean(hits),
            "weights / {} / lowest hit rate": min(hits),
            "weights / {} / highest hit rate": max(hits),
            "weights / {} / shared by two seeds": mean(pairs),
            "weights / {} / gradients' hit rate": mean(
                reader.gradient_hit_rate for reader in readers
            ),
            "weights / {} / Kendall's tau": mean(reader.tau for reader in readers),
            "changed / {} / even: same answers": mean(
                reader.stays_uniform for reader in readers
            ),
            "changed / {} / permuted: same answers": mean(
                reader.stays_permuted for reader in readers
            ),
            "changed / {} / trained with even weights: accuracy": mean(
                reader.even_accuracy for reader in readers
            ),
            "twins / {} / same answers": mean(reader.twin_agrees for reader in readers),
            "twins / {} / fewest": min(reader.twin_agrees for reader in readers),
            "twins / {} / shared weight": mean(
                reader.twin_shares for reader in readers
            ),
            "twins / {} / hit rate": mean(reader.twin_hit_rate for reader in readers),
            "values / {} / no negation": mean(reader.turns_plain for reader in readers),
            "values / {} / negated": mean(reader.turns_negated for reader in readers),
        }
        for what, value in figures.items():
            unit = "correlation" if what.endswith("tau") else "share"
            yield report.row(
                what.format(name), value, unit, note=f"of {len(readers)} seeds"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two seeds, two steps on few reviews, to see that it works",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start = time.process_time()
    task = sentiment(train_size=300, held_out_size=40) if options.quick else sentiment()
    seeds, steps = (SEEDS[:2], 2) if options.quick else (SEEDS, STEPS)
    found: dict[str, list[Reader]] = {name: [] for name in READERS}
    for seed in seeds:
        for name, look_up_words in READERS.items():
            reader = measure(task, look_up_words, seed, steps)
            found[name].append(reader)
            print(
                f"seed {seed}, {name}: accuracy {reader.accuracy:.3f}, hit rate"
                f" {reader.hit_rate:.3f}",
                flush=True,
            )
    name = "seeds-quick" if options.quick else "seeds"
    report.write(name, rows(found), time.process_time() - start, report.REPORTS)


if __name__ == "__main__":
    main()
