"""`make ladder`: every rung, from the bottleneck to a Transformer, on the same tasks
with the same budget.

The budget is what a model is given, not what it takes: all rungs of a task and seed see
the same batches in the same order, and each has the width, a multiple of 8, that brings
its number of parameters nearest to that of a Bahdanau model 64 wide. What they take for
it, in seconds of one CPU thread, is measured. A seed changes the examples, their order
and the first weights together.

What a cell (task, rung, seed) came to is kept in _build/ladder, under the code that it
depends on, so that a killed run goes on where it was, and a second one is free.
"""

import argparse
import hashlib
import inspect
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import torch
from measure import report
from torch import nn

from attention_course import models, registry
from attention_course.metrics import exact_match_by_length
from attention_course.rnn import LocalM, LocalP, LuongDecoder, RNNEncoder
from attention_course.scores import AdditiveScore, DotScore, GeneralScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.sequences import SequenceTask
from attention_course.training import TrainConfig, evaluate, train

CELLS = report.ROOT / "_build" / "ladder"
LEARNING_RATE, EMBEDDING, WINDOW, SEEDS = 8e-3, 32, 5, (0, 1, 2)


class Rung(NamedTuple):
    """A kind of model: (source tokens, target tokens, width) -> untrained; and whether
    its memory has one slot."""

    build: Callable[[int, int, int], EncoderDecoder]
    one_slot: bool = False


class Trial(NamedTuple):
    """A task of the registry, and its budget.

    `bounds` are the longest of the source lengths that are reported together; the last
    two are what Bahdanau's model is held to.
    """

    task: str
    steps: int
    batch_size: int
    bounds: tuple[int, ...]
    unit: str
    at_most_seconds: float
    at_least_right: float = 0.99


def additive(width: int, directions: int = 2) -> AdditiveScore:
    return AdditiveScore(query_dim=width, key_dim=directions * width, hidden_dim=width)


def sizes(source: int, target: int, width: int) -> dict[str, int]:
    return {
        "source_size": source,
        "target_size": target,
        "embedding_dim": EMBEDDING,
        "hidden_dim": width,
    }


RUNGS = {
    "final state": Rung(
        lambda s, t, d: models.final_state(**sizes(s, t, d)), one_slot=True
    ),
    "context every step": Rung(
        lambda s, t, d: models.context_every_step(**sizes(s, t, d)), one_slot=True
    ),
    "stacked encoder": Rung(
        lambda s, t, d: models.context_every_step(**sizes(s, t, d), num_layers=2),
        one_slot=True,
    ),
    "Bahdanau": Rung(
        lambda s, t, d: models.bahdanau(**sizes(s, t, d), score=additive(d))
    ),
    # the dot product needs keys as wide as queries: an encoder of half the width
    "Luong, dot": Rung(
        lambda s, t, d: EncoderDecoder(
            RNNEncoder(s, EMBEDDING, d // 2),
            LuongDecoder(t, EMBEDDING, d, d, DotScore()),
        )
    ),
    "Luong, general": Rung(
        lambda s, t, d: models.luong(**sizes(s, t, d), score=GeneralScore(d, 2 * d))
    ),
    # with the score that Luong et al. call "concat", as those below
    "Luong": Rung(lambda s, t, d: models.luong(**sizes(s, t, d), score=additive(d))),
    "Luong, input feeding": Rung(
        lambda s, t, d: models.luong(
            **sizes(s, t, d), score=additive(d), input_feeding=True
        )
    ),
    "local-m": Rung(
        lambda s, t, d: models.luong(
            **sizes(s, t, d), score=additive(d), window=LocalM(WINDOW)
        )
    ),
    "local-p": Rung(
        lambda s, t, d: models.luong(
            **sizes(s, t, d), score=additive(d), window=LocalP(d, d, WINDOW)
        )
    ),
    "GNMT-like": Rung(
        lambda s, t, d: models.gnmt(**sizes(s, t, d), score=additive(d, directions=1))
    ),
    "Transformer": Rung(
        lambda s, t, d: models.transformer(
            source_size=s,
            target_size=t,
            dim=d,
            num_heads=4,
            hidden_dim=2 * d,
            num_layers=2,
        )
    ),
}

TRIALS = {
    "reversal": Trial(
        "reversal", 300, 64, (4, 9, 14, 20), "letters", at_most_seconds=15
    ),
    "dates": Trial(
        "dates", 300, 32, (10, 15, 20, 40), "characters", at_most_seconds=30
    ),
    "numerals": Trial("numerals-de", 300, 32, (7, 10, 14), "words", at_most_seconds=30),
    "phrases": Trial(
        "phrases",
        600,
        64,
        (6, 8, 10, 12),
        "words",
        at_most_seconds=40,
        at_least_right=0.9,
    ),
}


class Cell(NamedTuple):
    """What one rung came to on one task with one seed."""

    parameters: int
    cpu_seconds: float
    exact_match: float
    # exact match for each of the trial's bounds; None: no test example is so long
    by_length: list[float | None]
    hit_rate: float | None  # None: a memory of one slot
    alignment_error: float | None
    tokens_per_second: float


class Effort(NamedTuple):
    """How much is done: everything, or, to see that it works, a little of
    everything."""

    seeds: Sequence[int] = SEEDS
    steps: int | None = None
    sizes: tuple[tuple[str, int], ...] = ()


QUICK = Effort(seeds=(0,), steps=2, sizes=(("train_size", 300), ("held_out_size", 40)))


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def width_of_like_size(rung: Rung, source_size: int, target_size: int) -> int:
    """Return the width that brings a rung's number of parameters nearest to the 64-wide
    Bahdanau model's."""
    size = count(RUNGS["Bahdanau"].build(source_size, target_size, 64))
    return min(
        range(16, 129, 8),
        key=lambda d: abs(count(rung.build(source_size, target_size, d)) - size),
    )


def measure(task_name: str, rung_name: str, seed: int, effort: Effort) -> Cell:
    """Train one rung on one task and see what it can do with the test examples."""
    torch.set_num_threads(1)
    trial, rung = TRIALS[task_name], RUNGS[rung_name]
    task = _task(trial.task, seed, effort.sizes)
    vocabularies = task.source_size, task.target_size
    width = width_of_like_size(rung, *vocabularies)
    torch.manual_seed(seed)
    model = rung.build(*vocabularies, width)

    start = time.process_time()
    train(
        model,
        task,
        TrainConfig(
            effort.steps or trial.steps, trial.batch_size, LEARNING_RATE, seed=seed
        ),
    )
    cpu_seconds = time.process_time() - start
    start = time.process_time()
    predictions = task.predict(model, task.test)
    decoding_seconds = time.process_time() - start

    result = evaluate(model, task, task.test)
    bounds = [
        next(bound for bound in trial.bounds if len(e.source) <= bound)
        for e in task.test
    ]
    by_bound = exact_match_by_length(
        result.predictions, [e.target for e in task.test], bounds
    )
    return Cell(
        parameters=count(model),
        cpu_seconds=cpu_seconds,
        exact_match=result.exact_match,
        by_length=[by_bound.get(bound) for bound in trial.bounds],
        hit_rate=result.hit_rate,
        alignment_error=result.alignment_error,
        tokens_per_second=sum(len(tokens) + 1 for tokens in predictions)
        / decoding_seconds,
    )


@cache
def _task(name: str, seed: int, sizes: tuple[tuple[str, int], ...]) -> SequenceTask:
    return registry.make_task(name, seed=seed, **dict(sizes))


def key(task_name: str, rung_name: str, seed: int, effort: Effort) -> str:
    """Name a cell by what it is and by the code it comes from: not by that of other
    rungs and other tasks."""
    trial, rung = TRIALS[task_name], RUNGS[rung_name]
    numbers = [
        LEARNING_RATE,
        EMBEDDING,
        WINDOW,
        trial.steps,
        trial.batch_size,
        trial.bounds,
    ]
    numbers += [effort.steps, effort.sizes]
    code = hashlib.sha256(repr((torch.__version__, numbers)).encode())
    for function in (
        measure,
        width_of_like_size,
        additive,
        sizes,
        RUNGS["Bahdanau"].build,
        rung.build,
    ):
        code.update(inspect.getsource(function).encode())
    others = {MODULES[name] for name in TRIALS if name != task_name}
    for module in sorted(IMPORTED - others):
        code.update(Path(str(sys.modules[module].__file__)).read_bytes())
    return f"{task_name}-{rung_name.replace(',', '').replace(' ', '-')}-{seed}-{code.hexdigest()[:16]}"


MODULES = {
    name: registry.task_maker(trial.task).__module__ for name, trial in TRIALS.items()
}
# The modules of the course that the cells come from.
IMPORTED = {name for name in sys.modules if name.startswith("attention_course")}

Where = tuple[str, str, int]  # task, rung, seed


def measure_all(effort: Effort, jobs: int, folder: Path) -> dict[Where, Cell]:
    """Measure what has not been measured yet, `jobs` cells at once, and keep each as
    soon as it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [
        (task, rung, seed) for seed in effort.seeds for task in TRIALS for rung in RUNGS
    ]
    files = {where: folder / f"{key(*where, effort)}.json" for where in wanted}
    missing = [where for where in wanted if not files[where].exists()]
    print(f"{len(wanted)} cells, {len(wanted) - len(missing)} of them measured earlier")
    for done, (where, cell) in enumerate(_each(missing, effort, jobs), start=1):
        # Under its own name only when it is whole.
        part = files[where].with_suffix(".part")
        part.write_text(json.dumps(cell._asdict()), encoding="utf-8")
        part.replace(files[where])
        task, rung, seed = where
        print(
            f"{done:3} of {len(missing)}: {task:10}{rung:22}seed {seed}: exact match"
            f" {cell.exact_match:.3f}, {cell.cpu_seconds:.1f} s",
            flush=True,
        )
    return {
        where: Cell(**json.loads(path.read_text(encoding="utf-8")))
        for where, path in files.items()
    }


def _each(
    missing: Sequence[Where], effort: Effort, jobs: int
) -> Iterator[tuple[Where, Cell]]:
    if jobs == 1:
        yield from ((where, measure(*where, effort)) for where in missing)
        return
    # Spawned, not forked: torch's threads do not survive a fork.
    with ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        futures = {pool.submit(measure, *where, effort): where for where in missing}
        yield from (
            (futures[future], future.result()) for future in as_completed(futures)
        )


def rows(cells: dict[Where, Cell], seeds: Sequence[int]) -> Iterator[report.Row]:
    """Turn the cells into figures; `what` is "task / rung / figure"."""
    for task, trial in TRIALS.items():
        for rung in RUNGS:
            yield from _figures(
                task, trial, rung, [cells[task, rung, seed] for seed in seeds]
            )


def _figures(
    task: str, trial: Trial, rung: str, cells: list[Cell]
) -> Iterator[report.Row]:
    def figure(what: str, value: float | None, unit: str, **target: Any) -> report.Row:
        return report.row(f"{task} / {rung} / {what}", value, unit, **target)

    held_to = rung == "Bahdanau"
    exact = [cell.exact_match for cell in cells]
    hits = [cell.hit_rate for cell in cells if cell.hit_rate is not None]
    errors = [
        cell.alignment_error for cell in cells if cell.alignment_error is not None
    ]
    of_seeds = "of 1 seed" if len(cells) == 1 else f"of {len(cells)} seeds"
    yield figure("parameters", cells[0].parameters, "")
    seconds = median(cell.cpu_seconds for cell in cells)
    yield figure(
        "CPU time",
        seconds,
        "s",
        at_most=trial.at_most_seconds if held_to else None,
        note=f"median {of_seeds}",
    )
    yield figure(
        "exact match",
        mean(exact),
        "share",
        at_least=trial.at_least_right if held_to else None,
        note=f"mean {of_seeds}",
    )
    yield figure("exact match, lowest", min(exact), "share")
    yield figure("exact match, highest", max(exact), "share")
    for i, (low, high) in enumerate(zip((0, *trial.bounds), trial.bounds)):
        shares = [cell.by_length[i] for cell in cells if cell.by_length[i] is not None]
        near_zero = (
            0.05 if task == "reversal" and RUNGS[rung].one_slot and low == 14 else None
        )
        what = f"exact match, {low + 1} to {high} {trial.unit}"
        yield figure(what, mean(shares) if shares else None, "share", at_most=near_zero)
    note = f"mean {of_seeds}"
    yield figure("hit rate", mean(hits) if hits else None, "share", note=note)
    value = mean(errors) if errors else None
    yield figure("alignment error rate", value, "share", note=note)
    value = min(errors) if errors else None
    yield figure("alignment error rate, lowest", value, "share")
    speed = median(cell.tokens_per_second for cell in cells)
    yield figure("decoding", speed, "tokens/s", note="greedy, 256 at once, CPU time")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two steps on few examples, to see that it works",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="processes at once; more than one slow each other down",
    )
    options = parser.parse_args(arguments)
    effort, name = (QUICK, "ladder-quick") if options.quick else (Effort(), "ladder")
    cells = measure_all(effort, options.jobs, CELLS)
    report.write(
        name,
        rows(cells, effort.seeds),
        sum(cell.cpu_seconds for cell in cells.values()),
        report.REPORTS,
    )


if __name__ == "__main__":
    main()
