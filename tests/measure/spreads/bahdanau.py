"""Bahdanau's decoder on dates, from several seeds: when it looks at the right place and
when it writes the right digit; what it does without the places that it looks at; what
it reads while it writes a hyphen; and what it is without the backward half of the
encoder.

A seed sets the first weights and the order of the batches; the dates are those of the
page, 200 of them held out. Digits are counted with the right digits before them given
(teacher forcing), and so is the hit rate.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import mean

import torch
from measure import report
from torch import Tensor

from attention_course.metrics import alignment_hit_rate
from attention_course.rnn import BahdanauDecoder, RNNEncoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks.dates import dates
from attention_course.tasks.sequences import Example, SequenceTask
from attention_course.training import Evaluation, TrainConfig, evaluate, train

SEEDS, PORTIONS, PORTION = (0, 1, 2, 3, 4), 4, 40
EMBEDDING, HIDDEN, BATCH_SIZE, LEARNING_RATE = 32, 64, 48, 8e-3
DIGITS, HYPHENS = (0, 1, 2, 3, 5, 6, 8, 9), {4: 5, 7: 8}  # and the field after each


def build(task: SequenceTask, seed: int, bidirectional: bool = True) -> EncoderDecoder:
    torch.manual_seed(seed)
    encoder = RNNEncoder(
        task.source_size, EMBEDDING, HIDDEN, bidirectional=bidirectional
    )
    width = encoder.output_dim
    score = AdditiveScore(HIDDEN, width, HIDDEN)
    decoder = BahdanauDecoder(task.target_size, EMBEDDING, HIDDEN, width, score)
    return EncoderDecoder(encoder, decoder)


def place(examples: Sequence[Example], result: Evaluation) -> float:
    """How far into a field the largest weight lies, from 0 (its first character) to 1
    (its last)."""
    places = []
    for example, rows_ in zip(examples, result.weights):
        for positions, row in zip(example.gold, rows_):
            first, last = min(positions, default=0), max(positions, default=0)
            top = max(range(len(row)), key=row.__getitem__)
            if first < last and top in positions:
                places.append((top - first) / (last - first))
    return mean(places) if places else 0.0


class Trial:
    """A model and the held-out dates, decoded with some positions forbidden."""

    def __init__(self, model: EncoderDecoder, task: SequenceTask, held_out: list):
        self.model, self.held_out = model, held_out
        self.batch = task.collate(held_out)
        self.gold = torch.zeros(
            len(held_out), self.batch.target_in.size(1), self.batch.source.size(1)
        ).bool()
        for b, example in enumerate(held_out):
            for t, positions in enumerate(example.gold):
                self.gold[b, t, list(positions)] = True
        self.draws = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def right(self, rule: Callable[..., Tensor] | None = None) -> Tensor:
        """Which target tokens are right, (B, 10), if a rule of (t, weights, mask) names
        positions that step t must not use."""
        memory = self.model.encode(self.batch.source, self.batch.lengths)
        cache, right = self.model.start(memory), []
        for t in range(10):
            token = self.batch.target_in[:, t : t + 1]
            here = memory
            if rule is not None:
                _, weights, _ = self.model.step(token, memory, cache)
                forbidden = rule(t, weights, memory.mask)
                here = memory._replace(mask=memory.mask & ~forbidden)
            logits, _, cache = self.model.step(token, here, cache)
            right.append(logits[:, 0].argmax(dim=-1) == self.batch.target_out[:, t])
        return torch.stack(right, dim=1)

    def favourite(self, t: int, weights: Tensor, mask: Tensor) -> Tensor:
        top = weights.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(mask).scatter(-1, top, True)

    def another(self, t: int, weights: Tensor, mask: Tensor) -> Tensor:
        others = mask & ~self.favourite(t, weights, mask)
        drawn = torch.multinomial(others[:, 0].float(), 1, generator=self.draws)
        return torch.zeros_like(mask).scatter(-1, drawn[:, None], True)

    def its_gold(self, t: int, weights: Tensor, mask: Tensor) -> Tensor:
        return self.gold[:, t : t + 1]

    def next_field(self, t: int, weights: Tensor, mask: Tensor) -> Tensor:
        """At a hyphen, the field that follows it; elsewhere nothing."""
        after = HYPHENS.get(t)
        none = torch.zeros_like(mask)
        return none if after is None else self.gold[:, after : after + 1]

    def another_at_hyphens(self, t: int, weights: Tensor, mask: Tensor) -> Tensor:
        """At a hyphen, all that is not the field that follows it; elsewhere nothing."""
        after = HYPHENS.get(t)
        none = torch.zeros_like(mask)
        return none if after is None else mask & ~self.gold[:, after : after + 1]


def _share(right: Tensor, places: Sequence[int] = DIGITS) -> float:
    return float(right[:, list(places)].float().mean())


def _measure(task: SequenceTask, seed: int, steps: int) -> Iterator[tuple[str, float]]:
    held_out = task.test[:200]
    gold = [example.gold for example in held_out]
    for name, bidirectional in (("both directions", True), ("forwards only", False)):
        model = build(task, seed, bidirectional)
        for portion in range(PORTIONS + 1):
            result = evaluate(model, task, held_out)
            trial = Trial(model, task, held_out)
            if bidirectional or portion == PORTIONS:
                where = f"{name} / after {portion * PORTION} steps"
                right = trial.right()
                yield f"{where} / hit rate", alignment_hit_rate(result.weights, gold)
                yield f"{where} / digits right", _share(right)
                yield f"{where} / exact match", result.exact_match
            if portion == PORTIONS:
                break
            config = TrainConfig(
                steps,
                BATCH_SIZE,
                LEARNING_RATE,
                warmup_steps=min(10, steps),
                seed=PORTIONS * seed + portion,
            )
            train(model, task, config)
        yield f"{name} / place in the field", place(held_out, result)
        if not bidirectional:
            continue
        for what, rule in {
            "nothing": None,
            "one other at random": trial.another,
            "its favourite": trial.favourite,
            "all gold positions": trial.its_gold,
        }.items():
            yield f"forbidden / {what} / digits right", _share(trial.right(rule))
        tops = [
            (t, max(range(len(rows_[t])), key=rows_[t].__getitem__), example.gold)
            for example, rows_ in zip(held_out, result.weights)
            for t in HYPHENS
        ]
        on_next = mean(top in positions[HYPHENS[t]] for t, top, positions in tops)
        on_last = mean(top in positions[t - 1] for t, top, positions in tops)
        yield "hyphens / largest weight on the next field", on_next
        yield "hyphens / largest weight on the field before", on_last
        for what, rule in {
            "nothing forbidden": None,
            "next field forbidden": trial.next_field,
            "all but the next field forbidden": trial.another_at_hyphens,
        }.items():
            right = trial.right(rule)
            yield f"hyphens / {what} / hyphens right", _share(right, list(HYPHENS))
            yield (
                f"hyphens / {what} / first digit after them right",
                _share(right, list(HYPHENS.values())),
            )
            yield f"hyphens / {what} / month and day right", _share(right, (5, 6, 8, 9))


def rows(quick: bool = False) -> Iterator[report.Row]:
    """Yield the figures; `what` is "model or test / where / figure"."""
    task = dates()
    found: dict[str, list[float]] = {}
    for seed in SEEDS[:2] if quick else SEEDS:
        for what, value in _measure(task, seed, 2 if quick else PORTION):
            found.setdefault(what, []).append(value)
        print(
            f"seed {seed}: {found['forbidden / its favourite / digits right'][-1]:.2f}"
        )
    for what, values in found.items():
        yield report.row(what, mean(values), "share", note=f"of {len(values)} seeds")
        yield report.row(f"{what}, lowest", min(values), "share")
        yield report.row(f"{what}, highest", max(values), "share")
