"""Luong's decoder with the whole source and within the two windows, on strings of up
to eight letters written forwards and backwards; and with input feeding.

A seed sets the first weights and the order of the batches; the strings are those of the
page, 200 of them held out.
"""

import time
from collections.abc import Iterator
from statistics import mean

import torch
from measure import report

from attention_course import models
from attention_course.rnn import LocalM, LocalP
from attention_course.scores import GeneralScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.reversal import reversal
from attention_course.tasks.sequences import Example, SequenceTask, make_task
from attention_course.training import TrainConfig, evaluate, train

SEEDS, STEPS, BATCH_SIZE, LEARNING_RATE = (0, 1, 2, 3, 4), (150, 600), 32, 8e-3
HIDDEN, HALF_WIDTH = 48, 2
WINDOWS = {
    "global": lambda: None,
    "local-m": lambda: LocalM(HALF_WIDTH),
    "local-p": lambda: LocalP(HIDDEN, HIDDEN, HALF_WIDTH),
}


def _forwards(example: Example) -> Example:
    places = tuple(frozenset({t}) for t in range(len(example.source)))
    return Example(example.source, example.source, places)


def _build(
    task: SequenceTask, seed: int, kind: str, input_feeding: bool = False
) -> EncoderDecoder:
    torch.manual_seed(seed)
    return models.luong(
        source_size=task.source_size,
        target_size=task.target_size,
        embedding_dim=32,
        hidden_dim=HIDDEN,
        score=GeneralScore(query_dim=HIDDEN, key_dim=2 * HIDDEN),
        window=WINDOWS[kind](),
        input_feeding=input_feeding,
    )


def _train(
    model: EncoderDecoder, task: SequenceTask, seed: int, steps: int
) -> tuple[float, float, float]:
    """Return exact match, hit rate and seconds of training."""
    begin = time.process_time()
    train(model, task, TrainConfig(steps, BATCH_SIZE, LEARNING_RATE, seed=seed))
    spent = time.process_time() - begin
    result = evaluate(model, task, task.test[:200])
    return result.exact_match, result.hit_rate or 0.0, spent


def rows(quick: bool = False) -> Iterator[report.Row]:
    """Yield the figures; `what` is "model / direction / steps / figure"."""
    backwards = reversal(max_length=8, train_size=10_000)
    splits = (backwards.train, backwards.validation, backwards.test)
    tasks = {
        "backwards": backwards,
        "forwards": make_task(
            "copying", [[_forwards(e) for e in split] for split in splits]
        ),
    }
    seeds = SEEDS[:2] if quick else SEEDS
    found: dict[str, list[float]] = {}
    for seed in seeds:
        for kind in WINDOWS:
            for direction, task in tasks.items():
                for steps in STEPS if direction == "backwards" else STEPS[:1]:
                    model = _build(task, seed, kind)
                    exact, hits, _ = _train(model, task, seed, 2 if quick else steps)
                    where = f"{kind} / {direction} / {steps} steps"
                    found.setdefault(f"{where} / exact match", []).append(exact)
                    found.setdefault(f"{where} / hit rate", []).append(hits)
        spent = {}
        for feeding, name in ((False, "without feeding"), (True, "input feeding")):
            model = _build(backwards, seed, "global", feeding)
            exact, hits, spent[name] = _train(
                model, backwards, seed, 2 if quick else STEPS[0]
            )
            where = f"{name} / backwards / {STEPS[0]} steps"
            found.setdefault(f"{where} / exact match", []).append(exact)
            found.setdefault(f"{where} / hit rate", []).append(hits)
        ratio = spent["input feeding"] / spent["without feeding"]
        found.setdefault("input feeding / time over that without", []).append(ratio)
        print(
            f"seed {seed}", {k: round(v[-1], 2) for k, v in found.items()}, flush=True
        )
    for what, values in found.items():
        unit = "ratio" if "time" in what else "share"
        yield report.row(what, mean(values), unit, note=f"of {len(values)} seeds")
        yield report.row(f"{what}, lowest", min(values), unit)
        yield report.row(f"{what}, highest", max(values), unit)
