"""English sentences into French, from several seeds: how well two orders align them,
where they look as they write a determiner, and what they write without these places.

A seed sets the first weights and the order of the batches; the sentences are those of
the page.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import mean

import torch
from measure import report

from attention_course import models
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.lexicon import DETERMINERS, NOUNS
from attention_course.tasks.phrases import phrases
from attention_course.tasks.sequences import Example, SequenceTask
from attention_course.training import Evaluation, TrainConfig, evaluate, train

SEEDS, STEPS, BATCH_SIZE, LEARNING_RATE, WARMUP = (0, 1, 2), 450, 64, 8e-3, 30
WIDTH = 64
ORDERS = {"Bahdanau": models.bahdanau, "Luong": models.luong}
ENGLISH = {word for noun in NOUNS.values() for word in noun.english}
FORMS = {word: len({*forms} - {None}) for word, forms in DETERMINERS.items()}
FORMS["an"] = FORMS["a"]
KINDS: dict[str, Callable[[int], bool]] = {
    "the noun decides": lambda forms: forms > 1,
    "one form": lambda forms: forms == 1,
}
FORBIDDEN: dict[str, Callable[[int, int], range]] = {
    "nothing": lambda d, noun: range(0),
    "itself": lambda d, noun: range(d, d + 1),
    "its noun": lambda d, noun: range(noun, noun + 1),
    "from itself to its noun": lambda d, noun: range(d, noun + 1),
}


def determiners(example: Example) -> Iterator[tuple[int, int, int]]:
    """Find determiners: (target position, source position, that of the noun)."""
    words = example.source
    for t, positions in enumerate(example.gold):
        d = min(positions)
        if len(positions) == 1 and words[d] in FORMS:
            noun = next(
                i
                for i in range(d + 1, len(words))
                if words[i] in ENGLISH and words[i + 1] not in ENGLISH
            )
            yield t, d, noun


@torch.no_grad()
def kept(
    model: EncoderDecoder, task: SequenceTask, rule: Callable[[int, int], range]
) -> dict[str, float]:
    """Return the share of determiners, by kind, that are right without the places that
    a rule names."""
    batch = task.collate(task.test)
    found = [(b, *places) for b, e in enumerate(task.test) for places in determiners(e)]
    memory = model.encode(batch.source, batch.lengths)
    cache, said = model.start(memory), []
    allowed = memory.mask.repeat(1, batch.target_in.size(1), 1)
    for b, t, d, noun in found:
        allowed[b, t, list(rule(d, noun))] = False
    for t in range(batch.target_in.size(1)):
        here = memory._replace(mask=allowed[:, t : t + 1])
        logits, _, cache = model.step(batch.target_in[:, t : t + 1], here, cache)
        said.append(logits[:, 0].argmax(dim=-1))
    right = torch.stack(said, dim=1) == batch.target_out
    return {
        kind: mean(
            right[b, t].item()
            for b, t, d, _ in found
            if belongs(FORMS[task.test[b].source[d]])
        )
        for kind, belongs in KINDS.items()
    }


def _looks(task: SequenceTask, result: Evaluation) -> dict[str, Counter]:
    looks: dict[str, Counter] = {kind: Counter() for kind in KINDS}
    for example, weights in zip(task.test, result.weights):
        for t, d, noun in determiners(example):
            top = max(range(len(example.source)), key=weights[t].__getitem__)
            place = "between" if d < top < noun else "elsewhere"
            place = {d: "itself", noun: "its noun"}.get(top, place)
            for kind, belongs in KINDS.items():
                looks[kind][place] += belongs(FORMS[example.source[d]])
    return looks


def _measure(
    task: SequenceTask, order: str, seed: int, steps: int
) -> Iterator[tuple[str, float]]:
    torch.manual_seed(seed)
    model = ORDERS[order](
        source_size=task.source_size,
        target_size=task.target_size,
        embedding_dim=32,
        hidden_dim=WIDTH,
        score=AdditiveScore(query_dim=WIDTH, key_dim=2 * WIDTH, hidden_dim=WIDTH),
    )
    config = TrainConfig(
        steps, BATCH_SIZE, LEARNING_RATE, warmup_steps=min(WARMUP, steps), seed=seed
    )
    train(model, task, config)
    result = evaluate(model, task, task.test)
    yield f"{order} / exact match", result.exact_match
    yield f"{order} / hit rate", result.hit_rate or 0.0
    yield f"{order} / alignment error rate", result.alignment_error or 0.0
    missed = [
        word
        for example, weights in zip(task.test, result.weights)
        for word, row, positions in zip(example.target, weights, example.gold)
        if max(range(len(example.source)), key=row.__getitem__) not in positions
    ]
    yield f"{order} / misses at the full stop", missed.count(".") / max(len(missed), 1)
    for kind, counter in _looks(task, result).items():
        for place in ("itself", "between", "its noun", "elsewhere"):
            share = counter[place] / counter.total()
            yield f"{order} / {kind} / largest weight, {place}", share
    for name, rule in FORBIDDEN.items():
        for kind, share in kept(model, task, rule).items():
            yield f"{order} / {kind} / right without {name}", share


def rows(quick: bool = False) -> Iterator[report.Row]:
    """Yield the figures; `what` is "order / figure" or "order / kind of determiner /
    figure"."""
    task = phrases()
    found: dict[str, list[float]] = {}
    for seed in SEEDS[:2] if quick else SEEDS:
        for order in ORDERS:
            for what, value in _measure(task, order, seed, 2 if quick else STEPS):
                found.setdefault(what, []).append(value)
        print(
            f"seed {seed}", {k: round(v[-1], 2) for k, v in found.items()}, flush=True
        )
    for what, values in found.items():
        yield report.row(what, mean(values), "share", note=f"of {len(values)} seeds")
        yield report.row(f"{what}, lowest", min(values), "share")
        yield report.row(f"{what}, highest", max(values), "share")
