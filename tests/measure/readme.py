"""`make readme`: train the course's Bahdanau model on dates and draw one alignment, for
the README and for the book's first page."""

from pathlib import Path

import matplotlib
import torch

from attention_course.models import bahdanau
from attention_course.plotting import heat_map
from attention_course.scores import AdditiveScore
from attention_course.tasks.dates import dates
from attention_course.training import TrainConfig, evaluate, train

BOOK = Path(__file__).parents[2] / "book"
PICTURE = BOOK / "assets" / "alignment.png"
matplotlib.use("Agg")


def main() -> None:
    torch.manual_seed(0)
    task = dates()
    score = AdditiveScore(query_dim=64, key_dim=128, hidden_dim=64)
    model = bahdanau(
        source_size=task.source_size,
        target_size=task.target_size,
        embedding_dim=32,
        hidden_dim=64,
        score=score,
    )
    train(model, task, TrainConfig(steps=300, learning_rate=8e-3))
    result = evaluate(model, task, task.test)
    print(
        f"exact match {result.exact_match:.3f}, alignment hit rate"
        f" {result.hit_rate:.3f} on {len(task.test)} dates"
    )
    i = next(
        i
        for i, example in enumerate(task.test)
        if example.source[0] == "m" and 20 < len(example.source) < 27
    )
    example = task.test[i]
    ax = heat_map(result.weights[i], example.source, example.target, example.gold)
    ax.figure.savefig(PICTURE, dpi=150, facecolor="white")
    with matplotlib.rc_context(fname=BOOK / "_ext" / "matplotlibrc"):
        ax = heat_map(result.weights[i], example.source, example.target, example.gold)
        ax.figure.savefig(PICTURE.with_suffix(".svg"), metadata={"Date": None})
    print(f"{''.join(example.source)} -> {''.join(result.predictions[i])}: {PICTURE}")


if __name__ == "__main__":
    main()
