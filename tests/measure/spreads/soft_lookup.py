"""Chapter 4's mistakes with padding, from several seeds: a model trained with masks,
one whose encoder takes padding for text, and one whose loss counts padding.

A seed sets the strings, the first weights and the order of the batches.
"""

from collections.abc import Iterator
from statistics import mean

import torch
import torch.nn.functional as F
from measure import report
from torch import Tensor, nn

from attention_course import models
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Encoded, EncoderDecoder
from attention_course.tasks.reversal import reversal
from attention_course.tasks.sequences import Batch, SequenceTask
from attention_course.training import TrainConfig, evaluate, train

SEEDS, STEPS, HELD_OUT, WIDTH = (0, 1, 2), 180, 200, 48
BATCHES = {"batches of 256": 256, "batches of 8": 8, "one at a time": 1}
MODELS = ("with masks", "padding is text", "padding counted in the loss")


class Careless(nn.Module):
    """An encoder that takes padding for text."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        return self.encoder(source, torch.full_like(lengths, source.size(1)))


class CountsPadding(SequenceTask):
    """A task whose loss counts padding as well."""

    def loss(
        self, model: EncoderDecoder, batch: Batch, label_smoothing: float = 0.0
    ) -> tuple[Tensor, int]:
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        target = batch.target_out.flatten()
        total = F.cross_entropy(logits.flatten(0, 1), target, reduction="sum")
        return total, target.numel()


def _trained(name: str, task: SequenceTask, seed: int, steps: int) -> EncoderDecoder:
    torch.manual_seed(seed)
    model = models.bahdanau(
        source_size=task.source_size,
        target_size=task.target_size,
        embedding_dim=32,
        hidden_dim=WIDTH,
        score=AdditiveScore(WIDTH, 2 * WIDTH, WIDTH),
    )
    if name == "padding is text":
        model.encoder = Careless(model.encoder)
    seen = CountsPadding(**vars(task)) if name.endswith("loss") else task
    train(model, seen, TrainConfig(steps, 32, 8e-3, seed=seed))
    return model


def rows(quick: bool) -> Iterator[report.Row]:
    """Yield the figures; `what` is "model / figure"."""
    seeds, steps = (SEEDS[:2], 2) if quick else (SEEDS, STEPS)
    tasks = [
        reversal(max_length=10, train_size=200 if quick else 10_000, seed=seed)
        for seed in seeds
    ]
    right: dict[tuple[str, str], list[float]] = {}
    on_padding, losses = [], []
    for seed, task in zip(seeds, tasks):
        held_out = task.test[: 20 if quick else HELD_OUT]
        for name in MODELS:
            model = _trained(name, task, seed, steps)
            for batches, size in BATCHES.items():
                result = evaluate(model, task, held_out, size)
                right.setdefault((name, batches), []).append(result.exact_match)
                if name == "padding is text" and size == 256:
                    numbers = [len(example.source) for example in held_out]
                    lines = zip(result.weights or (), numbers)
                    read = [sum(row[n:]) for map_, n in lines for row in map_[:n]]
                    on_padding.append(mean(read))
            if name == MODELS[2]:
                batch = task.collate(held_out)
                with torch.no_grad():
                    judges = CountsPadding(**vars(task)), task
                    totals = [judge.loss(model, batch) for judge in judges]
                losses.append([float(total / count) for total, count in totals])
    note = f"of {len(seeds)} seeds"
    for (name, batches), shares in right.items():
        what = f"{name} / {batches}"
        yield report.row(what, mean(shares), "share", note=f"exact match, mean {note}")
        yield report.row(f"{what}, lowest", min(shares), "share")
        yield report.row(f"{what}, highest", max(shares), "share")
    what = "padding is text / weight on padding"
    yield report.row(what, mean(on_padding), "share", note=f"mean {note}")
    yield report.row(f"{what}, highest", max(on_padding), "share")
    for what, values in zip(("reported loss", "loss of the tokens"), zip(*losses)):
        yield report.row(f"{MODELS[2]} / {what}", mean(values), "nats", note=note)
