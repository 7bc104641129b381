"""`make multi30k DATA=folder`: train on the real corpus, German to English, and
translate test_2016_flickr.

Each rung is trained by the command that stands in the report, in 10 to 20 minutes of
one CPU thread; stopped, it goes on where it was. The published figures are of other
tokenisations and other BLEUs, and so no more than a hint: Trevett's pytorch-seq2seq
notebooks 1, 2 and 3, and 6.
"""

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from measure import report
from measure.report import Row, row

from attention_course.cli import app
from attention_course.metrics import text_scores
from attention_course.runs.loading import load, parameters
from attention_course.training import validation_loss
from attention_course.training.folder import read

RUNS = report.ROOT / "_build" / "multi30k"
# of 0.6, 1.0, 1.2 and 1.4 the best for attention on 500 validation sentences
BEAM_SIZE, LENGTH_PENALTY = 5, 1.2


class Rung(NamedTuple):
    """How a model is trained, and what was published for its like: BLEU, and how many
    million parameters that took."""

    arguments: str
    bleu: float
    millions: int


SHARED = "--batch-size 64 --label-smoothing 0.1 --checkpoint-every 100"
RECURRENT = (
    "--dim 128 --hidden-dim 256 --layers 1 --dropout 0.2 --steps 2000 --warmup 200"
    " --learning-rate 2e-3 --validate-every 500"
)
RUNGS = {
    "final-state": Rung(f"--model final-state {RECURRENT}", bleu=13.8, millions=14),
    "context": Rung(f"--model context {RECURRENT}", bleu=20.6, millions=14),
    "attention": Rung(f"--model luong {RECURRENT}", bleu=28.3, millions=20),
    "transformer": Rung(
        "--model transformer --dim 128 --hidden-dim 512 --layers 3 --heads 4 --dropout"
        " 0.1 --steps 3600 --warmup 500 --learning-rate 1.5e-3 --validate-every 900",
        bleu=36.5,
        millions=9,
    ),
}


def command(name: str, data: str, out: str) -> list[str]:
    """Return the arguments of `attention-course` that train a rung, or go on with
    it."""
    shared = ["train", "--task", "multi30k", "--data", data, "--out", out, "--resume"]
    return [*shared, *shlex.split(f"{RUNGS[name].arguments} {SHARED}")]


def train(name: str, data: Path) -> None:
    """Train a rung, and note how much CPU time it took."""
    folder, start = RUNS / name, time.process_time()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        app(command(name, str(data), str(folder)), standalone_mode=False)
    finally:
        with (folder / "cpu_seconds.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.process_time() - start:.0f}\n")


def rows(name: str, data: Path) -> list[Row]:
    """Translate the test sentences with a rung's best weights."""
    rung, folder = RUNGS[name], RUNS / name
    state = read(folder)
    done, steps = len(state["history"]), state["settings"]["steps"]
    _, task, model, _ = load(folder, data, "cpu")
    start = time.process_time()
    predictions = task.predict(
        model, task.test, beam_size=BEAM_SIZE, length_penalty=LENGTH_PENALTY
    )
    seconds = time.process_time() - start
    scores = text_scores(
        [task.text(p) for p in predictions], [task.text(e.target) for e in task.test]
    )
    trained = sum(
        map(float, (folder / "cpu_seconds.txt").read_text(encoding="utf-8").split())
    )
    what = f"Multi30k / {name}"
    texts = [
        row(
            f"{what} / {score.name}{case}",
            score.score,
            "points",
            at_least=rung.bleu if score.name == "BLEU" else None,
            note=score.signature,
        )
        for score, case in zip(scores, ("", ", lower case") * 2)
    ]
    return [
        Row(
            f"{what} / command",
            shlex.join(["attention-course", *command(name, "DATA", f"runs/{name}")]),
            "",
        ),
        row(
            f"{what} / parameters",
            parameters(model),
            "",
            at_most=1_000_000 * rung.millions,
        ),
        *texts,
        row(
            f"{what} / published BLEU",
            rung.bleu,
            "points",
            note=f"with {rung.millions} M parameters",
        ),
        row(
            f"{what} / validation loss", validation_loss(model, task), "nats per token"
        ),
        row(
            f"{what} / steps",
            done,
            "",
            note=(
                f"of {steps}; weights after step"
                f" {state['best'][0] if state['best'] else done}"
            ),
        ),
        row(f"{what} / training", trained, "CPU s"),
        row(
            f"{what} / beam search",
            1000 * seconds / len(task.test),
            "CPU ms per sentence",
            note=f"beam {BEAM_SIZE}, length penalty {LENGTH_PENALTY}",
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the corpus")
    parser.add_argument("--rungs", nargs="+", choices=RUNGS, default=list(RUNGS))
    parser.add_argument(
        "--no-training", action="store_true", help="translate with what there is"
    )
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    for name in options.rungs:
        if not options.no_training:
            train(name, options.data)
    report.write(
        "multi30k",
        [r for name in options.rungs for r in rows(name, options.data)],
        time.perf_counter() - start,
    )


if __name__ == "__main__":
    main()
