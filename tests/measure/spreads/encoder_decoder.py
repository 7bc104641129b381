"""Chapter 2: the accuracies of one decoder, and a deeper encoder, from several seeds.

A seed changes the first weights and the examples' order; the strings stay.
"""

from collections.abc import Iterator, Sequence
from statistics import mean

import torch
from measure import report
from torch import Tensor, nn

from attention_course import models
from attention_course.tasks.reversal import reversal
from attention_course.tasks.sequences import SequenceTask
from attention_course.training import TrainConfig, evaluate, train

# The page trains for 250 steps.
SEEDS = {250: (0, 1, 2, 3, 4), 1000: (0, 1, 2)}


def rows(quick: bool) -> Iterator[report.Row]:
    """Repeat what the page trains; quick: two seeds and two steps."""
    task = reversal(max_length=6, train_size=10_000)
    if quick:
        task = reversal(max_length=6, train_size=1_000, held_out_size=100)
    for steps, seeds in SEEDS.items():
        seeds = seeds[:2] if quick else seeds
        found = [two_accuracies(task, seed, 2 if quick else steps) for seed in seeds]
        for what in found[0]:
            values = [shares[what] for shares in found]
            yield from spread(f"{steps} steps / {what}", values)
        deeper = [
            evaluate(
                trained(task, seed, 2 if quick else steps, num_layers=2, cell=nn.LSTM),
                task,
                task.test[:500],
            ).exact_match
            for seed in seeds
        ]
        yield from spread(f"{steps} steps / two layers of LSTMs / exact match", deeper)


def spread(what: str, values: Sequence[float]) -> Iterator[report.Row]:
    """Yield the lowest, the mean and the highest of several seeds."""
    note = f"of {len(values)} seeds"
    for name, of in (("lowest", min), ("mean", mean), ("highest", max)):
        yield report.row(f"{what} / {name}", of(values), "share", note=note)


def trained(task: SequenceTask, seed: int, steps: int, **settings) -> nn.Module:
    """Train the page's model."""
    torch.manual_seed(seed)
    model = models.final_state(
        source_size=task.source_size,
        target_size=task.target_size,
        embedding_dim=32,
        hidden_dim=64,
        **settings,
    )
    config = TrainConfig(steps=steps, batch_size=48, learning_rate=8e-3, seed=seed)
    train(model, task, config)
    return model


def two_accuracies(task: SequenceTask, seed: int, steps: int) -> dict[str, float]:
    """Measure one model with the right letters going in, and with its own."""
    model = trained(task, seed, steps)
    six = [example for example in task.test if len(example.target) == 6]
    batch = task.collate(six)
    with torch.no_grad():
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
    forced = (logits.argmax(dim=-1) == batch.target_out)[:, :6]
    said = evaluate(model, task, six).predictions
    free = torch.tensor(
        [
            [t < len(word) and word[t] == letter for t, letter in enumerate(e.target)]
            for e, word in zip(six, said)
        ]
    )
    fine = torch.cat([free.new_ones(len(six), 1), free[:, :-1]], dim=1)
    fine = fine.cumprod(dim=1).bool()  # all letters before are right

    def share(right: Tensor) -> float:
        return float(right.float().mean())

    return {
        "letters / right ones going in": share(forced),
        "letters / own going in": share(free),
        "sixth letter / right ones going in": share(forced[:, 5]),
        "sixth letter / own going in": share(free[:, 5]),
        "strings of six / own going in": share(free.all(dim=1)),
        "letters 2 to 6 / own going in, all before right": share(
            free[:, 1:][fine[:, 1:]]
        ),
        "letters 2 to 6 / own going in, after a mistake": share(
            free[:, 1:][~fine[:, 1:]]
        ),
        "letters 2 to 6 / the same letters, right ones going in": share(
            forced[:, 1:][~fine[:, 1:]]
        ),
        "one layer of GRUs / exact match": evaluate(
            model, task, task.test[:500]
        ).exact_match,
    }
