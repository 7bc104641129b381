"""Grade the rounds: `PYTHONPATH=tests python -m blind.rounds [NUMBER] [QUESTION ...]`."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import blind
from answers.fidelity import quietly
from attention_labs import QUESTIONS
from nbjudge.evaluation import evaluate
from nbjudge.in_process import in_process

HERE = Path(__file__).parent


class Verdict(NamedTuple):
    """What became of an entry.

    Attributes:
        question: its name.
        entry: the answer.
        full: whether it got all points, of any seed.
        names: of the mistakes that were named, exactly or by a sign.
        exact: whether one was exact.
    """

    question: str
    entry: blind.Entry
    full: bool
    names: tuple[str, ...]
    exact: bool


def numbers() -> list[int]:
    """List the rounds."""
    return sorted(int(path.name.removeprefix("round")) for path in HERE.glob("round[0-9]*"))


def graded(number: int, *names: str, seeds: int = 2) -> Iterator[Verdict]:
    """Grade the answers of a round.

    Args:
        number: of the round.
        names: of questions; all without them.
        seeds: how often each answer is graded. A wrong one has to lose points every
            time, a right one never.
    """
    for path in sorted((HERE / f"round{number}").glob("*.py")):
        if path.stem not in (names or QUESTIONS):
            continue
        question = QUESTIONS[path.stem]
        blind.ENTRIES.clear()
        runpy.run_path(str(path))
        for entry in list(blind.ENTRIES):
            door = in_process(question, entry.thing)
            tries = [
                quietly(lambda door=door, seed=seed: evaluate(question, door, seed))
                for seed in range(1, seeds + 1)
            ]
            full = [all(r.finding is None for r in results) for results in tries]
            found = [r for r in tries[0] if r.mistake]
            yield Verdict(
                question.name,
                entry,
                all(full) if entry.right else any(full),
                tuple(dict.fromkeys(r.mistake.name for r in found)),
                any(r.exact for r in found),
            )


def main() -> None:
    """Print what became of each answer."""
    chosen = [int(x) for x in sys.argv[1:] if x.isdigit()] or numbers()
    names = [x for x in sys.argv[1:] if not x.isdigit()]
    for number in chosen:
        for question, entry, full, found, exact in graded(number, *names):
            off = "!!" if full != entry.right else "  "
            kind = "right" if entry.right else "wrong"
            said = ", ".join(found) + ("" if exact or not found else " (by a sign)")
            print(f"{off} {number} {question} {kind}: {entry.what} [{said}]")


if __name__ == "__main__":
    main()
