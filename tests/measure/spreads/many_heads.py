"""Chapter 12: how often the heads of a layer divide two questions among them, and what
is left of a translator whose heads are taken away.

Both for several seeds of the first parameters and of the training examples; the test
examples are the same for all.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from measure import report
from measure.today import teach
from torch import Tensor, nn

from attention_course import models
from attention_course.attention import MultiHeadAttention
from attention_course.metrics import alignment_hit_rate, exact_match
from attention_course.tasks.core import Task
from attention_course.tasks.numerals import numerals
from attention_course.training import TrainConfig, train
from attention_course.transformer import FeedForward, SinusoidalPositions

SEEDS, STEPS, LENGTH, WIDTH, DIGITS = range(10), 300, 8, 32, 10
TRANSLATORS, TRANSLATOR_STEPS = range(5), 200
TAKEN = (8, 12, 16)


class Neighbours(nn.Module):
    """Digits (B, T) -> logits for the left and the right neighbour, both (B, T, 10)."""

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.embedding = nn.Embedding(DIGITS, WIDTH)
        self.positions = SinusoidalPositions(WIDTH)
        self.attention = attention
        self.left, self.right = nn.Linear(WIDTH, DIGITS), nn.Linear(WIDTH, DIGITS)

    def forward(self, digits: Tensor) -> tuple[Tensor, Tensor]:
        x = self.positions(self.embedding(digits))
        z = self.attention(x, x, x)[0]
        return self.left(z), self.right(z)


class Viewed(MultiHeadAttention):
    """Multi-head attention that splits its heads wrongly."""

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), self.num_heads, x.size(1), -1)


class WithNetwork(nn.Module):
    """A single head and a feed-forward network behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(WIDTH, num_heads=1)
        self.network = FeedForward(WIDTH, 128)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, None]:
        return self.network(self.attention(query, key, value)[0]), None


def both_right(build: Callable[[], nn.Module], seed: int, steps: int) -> float:
    """Train a layer as the page does; return for which share both answers are right."""
    torch.manual_seed(seed)
    model = Neighbours(build())
    teach(model, LENGTH, steps)
    tests = torch.randint(
        DIGITS, (500, LENGTH), generator=torch.Generator().manual_seed(1)
    )
    with torch.no_grad():
        left, right = model(tests)
    knows_left = left[:, 1:-1].argmax(dim=-1) == tests[:, :-2]
    knows_right = right[:, 1:-1].argmax(dim=-1) == tests[:, 2:]
    return float((knows_left & knows_right).float().mean())


def translator(
    task: Task, seed: int, steps: int, tested: int
) -> Iterator[tuple[str, float]]:
    """Train the page's translator, and take its heads away."""
    torch.manual_seed(seed)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=32,
        num_heads=4,
        hidden_dim=64,
        num_layers=2,
    )
    train(
        model,
        task,
        TrainConfig(steps=steps, batch_size=32, learning_rate=8e-3, seed=seed),
    )
    few = task.test[:tested]
    targets = [example.target for example in few]
    heads = [
        (name, module, h)
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
        for h in range(4)
    ]

    def left_without(gone: Sequence[tuple[str, MultiHeadAttention, int]]) -> float:
        kept = [(module, module.output_proj.weight.clone()) for _, module, _ in gone]
        with torch.no_grad():
            for _, module, h in gone:
                module.output_proj.weight.unflatten(1, (4, -1))[:, h] = 0
            left = exact_match(task.predict(model, few), targets)
            for module, weight in reversed(kept):
                module.output_proj.weight.copy_(weight)
        return left

    left = [left_without([head]) for head in heads]
    yield "exact match", left_without([])
    yield "heads without which at least 98 % are right", sum(s >= 0.98 for s in left)
    lowest = left.index(min(left))
    yield "right without the head missed most", left[lowest]
    yield (
        "the head missed most is in the decoder's first layer",
        float(heads[lowest][0].startswith("decoder.blocks.0")),
    )
    batch = task.collate(few)
    with torch.no_grad():
        weights = model(
            batch.source, batch.lengths, batch.target_in, need_weights=True
        )[1]
    gold = [example.gold for example in few]
    hits = [alignment_hit_rate(weights[:, 0, h].tolist(), gold) for h in range(4)]
    cross = [
        share
        for share, (name, _, _) in zip(left, heads)
        if name == "decoder.blocks.0.cross_attention"
    ]
    clearest, missed = hits.index(max(hits)), cross.index(min(cross))
    yield "cross-attention 1, highest hit rate", hits[clearest]
    yield "cross-attention 1, right without the head of the highest", cross[clearest]
    yield "cross-attention 1, hit rate of the head missed most", hits[missed]
    yield "cross-attention 1, right without the head missed most", cross[missed]
    ranking = sorted(range(len(heads)), key=lambda i: -left[i])
    for taken in TAKEN:
        gone = [heads[i] for i in ranking[:taken]]
        yield f"right without the {taken} least missed", left_without(gone)


def rows(quick: bool) -> Iterator[report.Row]:
    kinds: dict[str, tuple[Callable[[], nn.Module], int]] = {
        **{
            f"{heads} head{'s' * (heads > 1)}": (
                lambda heads=heads: MultiHeadAttention(WIDTH, heads),
                STEPS,
            )
            for heads in (1, 2, 4, 8)
        },
        "1 head, four times as long": (
            lambda: MultiHeadAttention(WIDTH, 1),
            4 * STEPS,
        ),
        "2 heads, four times as long": (
            lambda: MultiHeadAttention(WIDTH, 2),
            4 * STEPS,
        ),
        "1 head and a network": (WithNetwork, STEPS),
        "2 heads split by view": (lambda: Viewed(WIDTH, 2), STEPS),
    }
    for name, (build, steps) in kinds.items():
        for seed in SEEDS:
            share = both_right(build, seed, 2 if quick else steps)
            yield report.row(f"neighbours / {name} / seed {seed}", share, "share")
    task = numerals()
    for seed in TRANSLATORS:
        for name, value in translator(
            task, seed, 2 if quick else TRANSLATOR_STEPS, 2 if quick else 200
        ):
            unit = "heads" if name.startswith("heads") else "share"
            yield report.row(f"translator / {name} / seed {seed}", value, unit)
