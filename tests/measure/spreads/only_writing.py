"""The chapter on a model that only writes: its GPT from several seeds.

The text, the windows, the steps and the counts of the bigram model are the page's. A
seed changes the model's first weights, the order of the windows and what is drawn when
the model writes.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from statistics import mean

import torch
from measure import report
from torch import Tensor, nn

from attention_course import models
from attention_course.decoding import greedy, sample
from attention_course.tasks.core import BOS, EOS
from attention_course.tasks.writing import WritingTask, read_extract, writing
from attention_course.training import TrainConfig, train

SEEDS, STEPS, EVERY, VOCABULARY, WINDOW = tuple(range(5)), 800, 50, 512, 64
METHODS = {
    "greedy": None,
    "temperature 0.5": {"temperature": 0.5},
    "temperature 1": {},
    "temperature 1.5": {"temperature": 1.5},
    "top-k, k = 10": {"top_k": 10},
    "top-p, p = 0.8": {"p": 0.8},
}
PLACES = ((0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64))


class Bigram(nn.Module):
    """Log-probabilities of the next token that depend on the last token alone."""

    def __init__(self, pairs: Tensor, mix: float):
        super().__init__()
        frequency = pairs.sum(dim=0) + 0.5
        counts = pairs + mix * frequency / frequency.sum()
        self.table = (counts / counts.sum(dim=1, keepdim=True)).log()

    def forward(self, given: Tensor) -> Tensor:
        return self.table[given]


class Nucleus:
    """The model, but only with the most probable tokens that have probability p."""

    def __init__(self, model: nn.Module, p: float):
        self.encode, self.start, self.of, self.p = model.encode, model.start, model, p

    def step(self, token, memory, cache):
        logits, weights, cache = self.of.step(token, memory, cache)
        likely, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        inside = likely.cumsum(dim=-1) - likely < self.p
        keep = torch.zeros_like(inside).scatter(-1, ids, inside)
        return logits.masked_fill(~keep, -float("inf")), weights, cache


def count_bigrams(task: WritingTask, texts: list[str]) -> Bigram:
    pairs = torch.zeros(VOCABULARY, VOCABULARY)
    for text in texts:
        ids = [BOS, *task.tokenizer.encode(text).ids, EOS]
        for last, token in zip(ids, ids[1:]):
            pairs[last, token] += 1
    mixes = [Bigram(pairs, mix) for mix in (1, 3, 10, 30, 100, 300)]
    return max(mixes, key=lambda model: task.score(model, task.validation))


def runs(ids: list[int], length: int) -> list[tuple[int, ...]]:
    return list(zip(*(ids[i:] for i in range(length))))


@torch.no_grad()
def by_place(task: WritingTask, model: nn.Module) -> list[float]:
    """Bits per token at the places of a full window of the test documents."""
    batch = task.collate([w for w in task.test if len(w.tokens) == WINDOW])
    model.eval()
    said = model(batch.given).log_softmax(dim=-1)
    bits = -said.gather(-1, batch.wanted[..., None])[..., 0] / math.log(2)
    return [bits[:, first:end].mean().item() for first, end in PLACES]


@torch.no_grad()
def continuations(
    task: WritingTask, gpt: nn.Module, texts: list[str], seed: int
) -> Iterator[tuple[str, list[float]]]:
    """For each method bits per token, repeated, unknown words and copied."""
    words_of = re.compile(r"[a-z]+")
    known_words = {w for text in texts for w in words_of.findall(text.lower())}
    known = {run for text in texts for run in runs(task.tokenizer.encode(text).ids, 6)}
    real = [list(w.tokens) for w in task.test if len(w.tokens) == WINDOW][::5][:40]
    starts = torch.tensor([ids[:4] for ids in real])
    four = torch.full((len(real),), 4)
    written = {"test documents": [ids[4:] for ids in real]}
    for name, options in METHODS.items():
        if options is None:
            decoded = greedy(gpt, starts, four, BOS, EOS, WINDOW - 4)
        else:
            how, chance = dict(options), torch.Generator().manual_seed(seed)
            model = Nucleus(gpt, how.pop("p")) if "p" in how else gpt
            decoded = sample(
                model, starts, four, BOS, EOS, WINDOW - 4, generator=chance, **how
            )
        written[name] = decoded.tokens.tolist()
    for name, many in written.items():
        found = []
        for prompt, ids in zip(starts.tolist(), many):
            ids = ids[: ids.index(EOS)] if EOS in ids else ids
            if len(ids) < 10:
                continue
            given = torch.tensor([[BOS, *prompt, *ids[:-1]]])
            said = gpt(given)[0, len(prompt) :].log_softmax(dim=-1)
            bits = -said.gather(1, torch.tensor(ids)[:, None]).mean() / math.log(2)
            three, six = runs(ids, 3), runs(ids, 6)
            words = words_of.findall(task.tokenizer.decode(ids).lower())[1:-1]
            strange = [word not in known_words for word in words]
            found.append(
                [
                    bits.item(),
                    1 - len(set(three)) / len(three),
                    sum(strange) / max(1, len(words)),
                    sum(run in known for run in six) / len(six),
                ]
            )
        yield name, torch.tensor(found).mean(dim=0).tolist() if found else [0.0] * 4


def rows(quick: bool) -> Iterator[report.Row]:
    task = writing(vocab_size=VOCABULARY, window=WINDOW, stride=8)
    texts = [d.text for d in read_extract() if d.split == "train"]
    bigram = count_bigrams(task, texts)
    bigram_places = by_place(task, bigram)
    tests = {n: w for n, w in task.documents.items() if n != "07_luong.md"}
    tests["all three"] = task.test
    held = task.validation
    per_token = sum(w.characters for w in held) / sum(len(w.tokens) for w in held)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    seeds, steps, every = (SEEDS[:2], 2, 1) if quick else (SEEDS, STEPS, EVERY)
    for seed in seeds:
        torch.manual_seed(seed)
        gpt = models.gpt2(
            vocab_size=VOCABULARY,
            dim=96,
            num_heads=4,
            hidden_dim=384,
            num_layers=2,
            max_length=WINDOW,
        )
        history = train(
            gpt,
            task,
            TrainConfig(
                steps,
                16,
                learning_rate=8e-3,
                warmup_steps=min(80, steps),
                seed=seed,
                validate_every=every,
            ),
        )
        held_out = {
            row.step: -row.metric * per_token
            for row in history
            if row.metric is not None
        }
        lowest = min(held_out, key=held_out.__getitem__)
        found["training / step of the lowest validation loss", "steps"].append(lowest)
        for name, bits in {
            "validation, lowest": held_out[lowest],
            "validation, at the end": held_out[steps],
            "training, at the end": mean(row.loss for row in history[-every:])
            / math.log(2),
        }.items():
            found[f"training / {name}", "bits per token"].append(bits)
        for name, windows in tests.items():
            bits, counted = task.bits(gpt, windows), task.bits(bigram, windows)
            tokens = sum(len(w.tokens) for w in windows)
            characters = sum(w.characters for w in windows)
            for unit, number in (("token", tokens), ("character", characters)):
                what = f"test / {name} / bits per {unit}"
                found[what, f"bits per {unit}"].append(bits / number)
            gain = (counted - bits) / characters
            found[f"test / {name} / gain", "bits per character"].append(gain)
        for (first, end), ours, theirs in zip(
            PLACES, by_place(task, gpt), bigram_places
        ):
            what = f"places / {first + 1} to {end}"
            found[what, "bits per token"].append(theirs - ours)
        for name, measured in continuations(task, gpt, texts, seed):
            columns = ("bits per token", "repeated", "unknown words", "copied")
            for column, number in zip(columns, measured):
                unit = "bits per token" if column == "bits per token" else "share"
                found[f"writing / {name} / {column}", unit].append(number)
    for (what, unit), numbers in found.items():
        yield report.row(what, mean(numbers), unit, note=f"of {len(numbers)} seeds")
        yield report.row(f"{what}, lowest", min(numbers), unit)
        yield report.row(f"{what}, highest", max(numbers), unit)
