"""Chapter 3's decoders, trained for longer and from more seeds than the page has time
for: exact match on reversed strings by the length of the string.

A seed sets the strings, the first weights and the order of the batches. All output
layers read the state alone; the second decoder comes with Bahdanau's as well, which
reads the state, the context and the last letter.
"""

from collections.abc import Iterator
from statistics import mean

import torch
from measure import report
from torch import Tensor, nn

from attention_course import models
from attention_course.metrics import exact_match_by_length
from attention_course.rnn import FinalStateDecoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder, Memory
from attention_course.tasks.reversal import reversal
from attention_course.tasks.sequences import SequenceTask
from attention_course.training import TrainConfig, evaluate, train

LENGTHS = range(2, 17)
BATCH_SIZE, LEARNING_RATE, EMBEDDING = 32, 8e-3, 32
# How many seeds there are for each number of steps, and what is trained for so long.
SEEDS = {220: 3, 880: 3, 3520: 2}
STEPS = {
    "final state only": (220,),
    "context at every step": (220, 880, 3520),
    "attention": (220,),
    "context at every step, wide output layer": (220,),
}


class ReadsState(nn.Linear):
    """An output layer that reads the first of the features it is given: the state."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features[..., : self.in_features])


class WideHead(FinalStateDecoder):
    """Told at every step, and with Bahdanau's output layer, of [h_t; c; y_{t-1}]."""

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int
    ):
        super().__init__(
            vocab_size, embedding_dim, hidden_dim, memory_dim, every_step=True
        )
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(
        self, token: Tensor, memory: Memory, cache: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        embedded = self.embedding(token)
        context = memory.value.expand(-1, token.size(1), -1)
        states, state = self.rnn(torch.cat([embedded, context], dim=-1), cache[None])
        features = torch.cat([states, context, embedded], dim=-1)
        return self.head(features), torch.ones_like(context[..., :1]), state[0]


def build(name: str, task: SequenceTask, seed: int) -> EncoderDecoder:
    """Build one of the models with the first weights of a seed.

    The widths are those of the page: no model without attention has fewer parameters
    than the one with it and with the same output layer.
    """
    torch.manual_seed(seed)
    sizes = {
        "source_size": task.source_size,
        "target_size": task.target_size,
        "embedding_dim": EMBEDDING,
    }
    if name == "final state only":
        return models.final_state(**sizes, hidden_dim=88)
    if name.startswith("context"):
        model = models.context_every_step(**sizes, hidden_dim=72)
        if name.endswith("wide output layer"):
            model.decoder = WideHead(task.target_size, EMBEDDING, 72, 2 * 72)
        return model
    score = AdditiveScore(64, 2 * 64, 64)
    model = models.bahdanau(**sizes, hidden_dim=64, score=score)
    if name == "attention":
        model.decoder.head = ReadsState(64, task.target_size)
    return model


def _by_length(
    name: str, task: SequenceTask, seed: int, steps: int
) -> dict[int, float]:
    model = build(name, task, seed)
    train(model, task, TrainConfig(steps, BATCH_SIZE, LEARNING_RATE, seed=seed))
    return exact_match_by_length(
        evaluate(model, task, task.test).predictions,
        [example.target for example in task.test],
        [len(example.source) for example in task.test],
    )


def rows(quick: bool) -> Iterator[report.Row]:
    """Yield the figures; `what` is "model / steps / figure"."""
    tasks = [
        reversal(max_length=16, train_size=200 if quick else 10_000, seed=seed)
        for seed in range(2 if quick else max(SEEDS.values()))
    ]
    for name in STEPS:
        parameters = sum(p.numel() for p in build(name, tasks[0], 0).parameters())
        yield report.row(f"{name} / parameters", parameters, "")
    for name, trained in STEPS.items():
        for steps in trained:
            curves = [
                _by_length(name, task, seed, 2 if quick else steps)
                for seed, task in enumerate(tasks[: SEEDS[steps]])
            ]
            where, note = f"{name} / {steps} steps", f"mean of {len(curves)} seeds"
            print(where, [round(curve[8], 2) for curve in curves], flush=True)
            for length in LENGTHS:
                shares = [curve[length] for curve in curves]
                what = f"{where} / {length} letters"
                yield report.row(what, mean(shares), "share", note=note)
                yield report.row(f"{what}, lowest", min(shares), "share")
                yield report.row(f"{what}, highest", max(shares), "share")
            for first, last in ((2, 16), (12, 16)):
                shares = [
                    mean(curve[n] for n in range(first, last + 1)) for curve in curves
                ]
                what = f"{where} / {first} to {last} letters"
                yield report.row(what, mean(shares), "share", note=note)
                yield report.row(f"{what}, lowest", min(shares), "share")
                yield report.row(f"{what}, highest", max(shares), "share")
