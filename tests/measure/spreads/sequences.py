"""Chapter 1: readers, taggers, a forecaster and a language model, from three seeds.

A seed changes the first weights and the examples' order; texts and sounds stay.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import mean

import torch
import torch.nn.functional as F
from measure import report
from torch import Tensor, nn

from attention_course import models
from attention_course.pooling import Labeller
from attention_course.rnn import RNNEncoder
from attention_course.tasks.core import Vocabulary
from attention_course.tasks.dates import dates
from attention_course.tasks.frames import frames
from attention_course.tasks.labels import LabelledExample, LabelTask, ReadTokens
from attention_course.tasks.sentiment import sentiment
from attention_course.tasks.series import actual, last_week, series
from attention_course.tasks.tagging import tagging
from attention_course.training import TrainConfig, train

SEEDS = (0, 1, 2)
CHECKPOINTS, LETTERS = (200, 800, 3200), (6, 10, 16)
SYMBOLS, WIDTH = 8, 64
TARGETS = {
    "now": lambda x: x,
    "before": lambda x: x.roll(1, dims=1),
    "mirrored": lambda x: x.flip(1),
}
READERS = {
    "no U": lambda: nn.Sequential(nn.Linear(16, WIDTH), nn.Tanh()),
    "forwards": lambda: nn.RNN(16, WIDTH, batch_first=True),
    "both ways": lambda: nn.RNN(16, WIDTH // 2, batch_first=True, bidirectional=True),
}


def rows(quick: bool) -> Iterator[report.Row]:
    """Repeat what the page trains; quick: two seeds and two steps."""
    seeds = SEEDS[:2] if quick else SEEDS
    yield from order(seeds, quick)
    yield from longer(seeds, quick)
    yield from last_characters(seeds, quick)
    yield from shapes(seeds, quick)


def spread(what: str, values: Sequence[float], unit: str = "share") -> Iterator:
    """Yield the lowest, the mean and the highest of several seeds."""
    for name, of in (("lowest", min), ("mean", mean), ("highest", max)):
        yield report.row(f"{what} / {name}", of(values), unit)


class Tagger(nn.Module):
    """One label per position, each made from that position's state."""

    def __init__(self, reader: nn.Module):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 16)
        self.reader = reader
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        states = self.reader(self.embedding(x))
        return self.head(states[0] if isinstance(states, tuple) else states)


def curve(
    reader: str, target: str, length: int, seed: int, checkpoints: Sequence[int]
) -> list[Tensor]:
    """Train a tagger; return the share right per position at each checkpoint."""
    torch.manual_seed(seed)
    tagger, right = Tagger(READERS[reader]()), []
    optimizer = torch.optim.Adam(tagger.parameters(), lr=5e-3)
    for step in range(1, checkpoints[-1] + 1):
        x = torch.randint(SYMBOLS, (64, length))
        loss = F.cross_entropy(tagger(x).mT, TARGETS[target](x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in checkpoints:
            x = torch.randint(SYMBOLS, (500, length))
            hits = tagger(x).argmax(dim=-1) == TARGETS[target](x)
            right.append(hits.float().mean(dim=0))
    return right


def order(seeds: Sequence[int], quick: bool) -> Iterator[report.Row]:
    """Train three readers on three targets, for 200 steps on strings of ten."""
    for reader in READERS:
        for target in TARGETS:
            shares = [
                curve(reader, target, 10, seed, [2 if quick else 200])[0][1:].mean()
                for seed in seeds
            ]
            yield from spread(f"order / {reader} / {target}", list(map(float, shares)))


def longer(seeds: Sequence[int], quick: bool) -> Iterator[report.Row]:
    """Go on with the mirrored target; score what has been read by then."""
    steps = (1, 2, 3) if quick else CHECKPOINTS
    for reader, letters in [("forwards", n) for n in LETTERS] + [("both ways", 10)]:
        first = letters // 2 if reader == "forwards" else 1
        found = [curve(reader, "mirrored", letters, seed, steps) for seed in seeds]
        for i, named in enumerate(CHECKPOINTS):
            yield from spread(
                f"mirrored / {reader} / {letters} letters / {named} steps",
                [float(run[i][first:].mean()) for run in found],
            )


class LanguageModel(nn.Module):
    """Elman's network over characters."""

    def __init__(self, vocab_size: int, dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim)
        self.rnn = nn.RNN(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab_size)

    def forward(self, token: Tensor) -> Tensor:
        return self.head(self.rnn(self.embedding(token))[0])


def last_characters(seeds: Sequence[int], quick: bool) -> Iterator[report.Row]:
    """Measure the bits that dates cost a language model, after 150 steps and 600."""
    task = dates()
    batch = task.collate([*task.train[:4000]])
    held_out = task.collate(task.test)
    for named in (150, 600):
        found = []
        for seed in seeds:
            torch.manual_seed(seed)
            model = LanguageModel(len(task.target_vocabulary), 32)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            for _ in range(2 if quick else named):
                chosen = torch.randint(len(batch.target_in), (128,))
                loss = F.cross_entropy(
                    model(batch.target_in[chosen]).flatten(0, 1),
                    batch.target_out[chosen].flatten(),
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                nats = F.cross_entropy(
                    model(held_out.target_in).mT, held_out.target_out, reduction="none"
                )
            found.append((nats.mean(dim=0) / math.log(2)).tolist())
        yield from spread(
            f"dates / whole date / {named} steps", [sum(x) for x in found], "bits"
        )
        yield from spread(
            f"dates / last digit of the year / {named} steps",
            [x[3] for x in found],
            "bits",
        )


# What stands in the page as well: a small task of names.
PERSONS = (
    "maria peter ahmed ingrid jordan paris florence victoria austin sydney".split()
)
PLACES = "rome kenya oslo lima jordan paris florence victoria austin sydney".split()
FORMS = (
    "PER met PER in LOC",
    "PER left LOC early",
    "LOC lies near LOC",
    "LOC flooded and PER left",
    "PER laughed in LOC",
    "the mayor of LOC thanked PER",
    "near LOC it rained on PER",
    "with PER it rained in LOC",
    "PER and PER left early",
    "LOC and LOC lie near LOC",
)


def name(kind: str, rng: random.Random) -> list[tuple[str, str]]:
    """Draw a name of one or two words, labelled."""
    if kind == "LOC" and rng.random() < 0.15:
        words = ["new", rng.choice(["york", "delhi"])]
    else:
        words = [rng.choice(PERSONS if kind == "PER" else PLACES)]
        if kind == "PER" and rng.random() < 0.3:
            words.append(rng.choice(["smith", "garcia"]))
    return [(word, ("I-" if i else "B-") + kind) for i, word in enumerate(words)]


def names() -> LabelTask:
    """Draw 1,500 sentences with the labels of their names, 300 of them to test on."""
    rng, drawn = random.Random(0), {}
    while len(drawn) < 1500:
        labelled = []
        for word in rng.choice(FORMS).split():
            labelled += name(word, rng) if word in ("PER", "LOC") else [(word, "O")]
        source, labels = zip(*labelled)
        drawn.setdefault(source, LabelledExample(source, labels))
    mixed = rng.sample([*drawn.values()], len(drawn))
    test, train_set = mixed[:300], mixed[300:]
    vocabulary = Vocabulary(word for example in train_set for word in example.source)
    labels = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    return LabelTask(
        "names", train_set, test[:1], test, labels, ReadTokens(vocabulary), " ".join
    )


def most_frequent(task: LabelTask) -> float:
    """Score the label that each word has most often, whatever stands around it."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in task.train:
        for word, label in zip(example.source, example.labels):
            counts[word][label] += 1
    right = [
        word in counts and counts[word].most_common(1)[0][0] == label
        for example in task.test
        for word, label in zip(example.source, example.labels)
    ]
    return mean(right)


class Final(nn.Module):
    """One label from the final state."""

    def __init__(self, vocab_size: int, num_labels: int):
        super().__init__()
        self.encoder = RNNEncoder(vocab_size, 32, 32, bidirectional=False, cell=nn.LSTM)
        self.head = nn.Linear(32, num_labels)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        return self.head(self.encoder(source, lengths).final), None


class Bag(nn.Module):
    """One label from the mean of the embeddings, which knows no order."""

    def __init__(self, vocab_size: int, num_labels: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 32)
        self.head = nn.Linear(32, num_labels)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        real = (torch.arange(source.size(1)) < lengths[:, None])[..., None]
        total = (self.embedding(source) * real).sum(dim=1)
        return self.head(total / real.sum(dim=1)), None


class Alone(nn.Module):
    """One label per frame, from that frame only."""

    def __init__(self, frame_dim: int, num_labels: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(frame_dim, 64), nn.Tanh(), nn.Linear(64, num_labels)
        )

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        return self.layers(source), None


def shapes(seeds: Sequence[int], quick: bool) -> Iterator[report.Row]:
    """Train one small model per shape of task, and its baseline."""

    def scores(
        task: LabelTask, build: Callable[[], nn.Module], steps: int, batch_size: int
    ) -> list[float]:
        found = []
        for seed in seeds:
            torch.manual_seed(seed)
            model = build()
            config = TrainConfig(
                steps=2 if quick else steps,
                batch_size=batch_size,
                learning_rate=1e-2,
                seed=seed,
            )
            train(model, task, config)
            found.append(task.score(model, task.test))
        return found

    def tagger(task: LabelTask, both: bool) -> nn.Module:
        encoder = RNNEncoder(
            task.source_size, 32, 32 if both else 64, bidirectional=both
        )
        return Labeller(encoder, nn.Linear(64, task.target_size))

    task = one_opinion()
    sizes = task.source_size, task.target_size
    for what, kind in {"final state": Final, "bag of words": Bag}.items():
        found = scores(task, lambda kind=kind: kind(*sizes), 200, 32)
        yield from spread(f"reviews / {what}", found)

    heard = frames(train_size=100, held_out_size=15)
    listeners = {
        "both ways": lambda: models.frame_labeller(
            frame_dim=heard.source_size,
            num_labels=heard.target_size,
            embedding_dim=32,
            hidden_dim=32,
        ),
        "frame alone": lambda: Alone(heard.source_size, heard.target_size),
    }
    for what, build in listeners.items():
        yield from spread(f"frames / {what}", scores(heard, build, 80, 16))

    for task in (tagging(train_size=1500), names()):
        yield report.row(f"{task.name} / word alone", most_frequent(task), "share")
        for both in (False, True):
            found = scores(
                task, lambda task=task, both=both: tagger(task, both), 100, 32
            )
            reader = "both ways" if both else "forwards"
            yield from spread(f"{task.name} / {reader}", found)

    yield from forecasts(seeds, quick)


def one_opinion() -> LabelTask:
    """Keep the reviews of one clause."""
    task = sentiment(train_size=6000, held_out_size=1500)

    def single(examples: Sequence[LabelledExample]) -> list[LabelledExample]:
        joints = {"and", "but", ",", ";"}
        return [example for example in examples if not joints & {*example.source}]

    return replace(task, train=single(task.train), test=single(task.test))


class Forecaster(nn.Module):
    """A normal distribution for the value of each day."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(5, 32, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, seen: Tensor, kind: Tensor, state: Tensor | None = None):
        states, state = self.rnn(torch.cat([seen, kind], dim=-1), state)
        location, log_scale = self.head(states).unbind(dim=-1)
        return torch.distributions.Normal(location, log_scale.exp()), state


def days(examples: Sequence) -> tuple[Tensor, Tensor]:
    """Return the values (B, 28) and the kinds of days (B, 28, 3)."""
    kinds = ("", "holiday", "promotion")
    told = [[day.partition(" ") for day in example.source] for example in examples]
    past = torch.tensor([[float(value) for value, _, _ in row[:-7]] for row in told])
    kind = torch.tensor([[kinds.index(name) for _, _, name in row] for row in told])
    return torch.cat([past, actual(examples)], dim=1), F.one_hot(kind, 3).float()


@torch.no_grad()
def draw_paths(model: Forecaster, value: Tensor, kind: Tensor, paths: int) -> Tensor:
    """Draw next week, day by day, each day from what was drawn for the day before."""
    value, kind = (x.repeat_interleave(paths, dim=0) for x in (value, kind))
    seen = torch.stack([value[:, 6:20], value[:, :14]], dim=-1)
    _, state = model(seen, kind[:, 7:21])
    drawn = [value[:, 20]]
    for day in range(21, 28):
        seen = torch.stack([drawn[-1], value[:, day - 7]], dim=-1)[:, None]
        normal, state = model(seen, kind[:, day : day + 1], state)
        drawn.append(normal.sample()[:, 0])
    return torch.stack(drawn[1:], dim=-1).unflatten(0, (-1, paths))  # (B, paths, 7)


def forecasts(seeds: Sequence[int], quick: bool) -> Iterator[report.Row]:
    """Forecast a week for 300 shops that were not seen in training."""
    task = series(train_size=2000, held_out_size=300)
    value, kind = days(task.train)
    errors, shares = [], []
    for seed in seeds:
        torch.manual_seed(seed)
        model = Forecaster()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(2 if quick else 200):
            chosen = torch.randint(len(value), (64,))
            y, k = value[chosen], kind[chosen]
            normal, _ = model(torch.stack([y[:, 6:-1], y[:, :-7]], dim=-1), k[:, 7:])
            loss = -normal.log_prob(y[:, 7:]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        paths = draw_paths(model, *days(task.test), 50)
        truth = actual(task.test)
        low, middle, high = paths.quantile(torch.tensor([0.1, 0.5, 0.9]), dim=1)
        errors.append(float((middle - truth).abs().mean()))
        shares.append(float(((low <= truth) & (truth <= high)).float().mean()))
    before = (last_week(task.test) - actual(task.test)).abs().mean()
    yield report.row("series / last week's value / error", float(before), "means")
    yield from spread("series / median of the paths / error", errors, "means")
    yield from spread("series / share inside the middle 80 %", shares)
