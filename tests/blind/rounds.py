"""Grade the rounds: `PYTHONPATH=tests python -m blind.rounds [NUMBER] [QUESTION ...]`."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import blind
from answers.fidelity import quietly
from attention_labs import QUESTIONS
from nbjudge.evaluation import evaluate, is_right
from nbjudge.in_process import in_process

HERE = Path(__file__).parent

# Sentences that the labs have got since, and the wrong answers which they allow: the
# round, the question, the name that the stranger gave.
SETTLED = {
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points, even where large numbers cancel.": (
        (7, "gaussian", "expanded square cancels for large numbers"),
        (8, "dot", "product from squared lengths, useless for unequal lengths"),
        (8, "gaussian", "expanded square loses near keys far from zero"),
        (9, "dot", "difference of two huge squares"),
        (9, "gaussian", "expanded square cancels far from the origin"),
        (10, "dot", "dot product from distances, loses all digits"),
        (10, "gaussian", "cdist is inexact for long inputs"),
        (10, "gaussian", "expanded square cancels for large numbers"),
        (10, "induction_score", "running sum in bfloat16 stops growing"),
        (10, "loss", "running sum in bfloat16 stops growing"),
        (17, "grow_embedding", "a large padding row swallows the digits of the words"),
    ),
    "There is nothing to learn, and as in section 2, the inherited `project_keys` is all"
    " that you need.": ((18, "gaussian", "project_keys changes the keys"),),
    "With one slot there is nothing to choose, so use the same vector as for `value`.": (
        (17, "context_step", "key instead of value"),
        (17, "remember", "key and value are two tensors"),
    ),
    "that no square, product or sum in a formula overflows": (
        (7, "dot", "squares overflow although the product does not"),
        (9, "cosine", "squares overflow in float16"),
        (9, "loss", "infinite loss times zero is NaN"),
    ),
    "Each sentence in a row has its own number, a whole number from 1 to a billion.": (
        (7, "packed_rows", "product of large numbers overflows"),
        (8, "packed_rows", "product of large numbers overflows"),
        (9, "packed_rows", "product of sentence numbers overflows"),
        (10, "packed_rows", "products of large numbers overflow"),
    ),
    "In every other row, one weight is larger than all others, by at least a thousandth"
    " of this weight.": (
        (10, "alignment_hit_rate", "float32 hides which weight is the largest"),
    ),
    "You may assume that all inputs are finite": (
        (9, "at_end", "cleans the tokens along with the padding"),
    ),
    "If `dropout` is not None, it is a module that returns a new tensor.": (
        (8, "attend", "in-place dropout changes the returned weights"),
        (10, "attend", "an in-place dropout changes the returned weights"),
    ),
    "The gradients of a vector of zeros do not matter.": (
        (12, "cosine", "nan gradients at a vector of zeros"),
    ),
    "In bfloat16, they need not be exact here.": (
        (12, "local_p", "positions in bfloat16"),
    ),
    "When you take the next block, its numbers overwrite those of the last block. So"
    " no input requires gradients here.": (
        (12, "running_softmax", "the maximum is detached in one of two places"),
        (13, "running_softmax", "state cut off from the gradients"),
    ),
    "Always keep at least one token, the most probable one. You need no gradients"
    " here: a model that writes learns nothing.": ((13, "top_p", "no gradient"),),
    "If no position counts, return a score of 0 for each head. You need no gradients"
    " here: the score only measures.": (
        (13, "induction_score", "NaN behind torch.where"),
    ),
    "It makes one letter of every capital here.": (
        (13, "tokenize", "lower case after the split"),
    ),
    "Tensors of up to 1,000 numbers do not count.": (
        (13, "running_softmax", "state tensor too large for vectors of width one"),
    ),
    "An operation that PyTorch lacks in bfloat16 costs no points.": (
        (9, "gaussian", "cdist does not know bfloat16"),
        (13, "gaussian", "cdist knows no bfloat16"),
    ),
    "Numbers that do not depend on the vectors or scores, such as a root, a bandwidth or a"
    " slope times a distance, may be rounded to float32.": (
        (14, "gaussian", "bandwidth rounded to float32"),
        (14, "scaled_dot", "square root only in float32"),
        (15, "gaussian", "float32 bandwidth for float64 vectors"),
        (15, "scaled_dot", "float32 root for float64 vectors"),
        (15, "distance_bias", "a float32 bias for float64 scores"),
    ),
    "No body has batch normalization.": (
        (8, "load_body", "trusts load_state_dict's missing list"),
        (16, "load_body", "missing list of load_state_dict with a BatchNorm"),
    ),
    "lengths: (B,), of `torch.long`": (
        (8, "padding_mask", "positions overflow in a small dtype"),
    ),
}


class Verdict(NamedTuple):
    """What became of an entry.

    Attributes:
        question: its name.
        entry: the answer.
        full: whether it got all points, of any seed.
        names: of the mistakes that were named, exactly or by a sign, if asked for.
        exact: whether one was exact.
        settled: whether the lab has come to allow it, and full points are right.
    """

    question: str
    entry: blind.Entry
    full: bool
    names: tuple[str, ...]
    exact: bool
    settled: bool


def numbers() -> list[int]:
    """List the rounds."""
    return sorted(
        int(path.name.removeprefix("round")) for path in HERE.glob("round[0-9]*")
    )


def graded(
    number: int, *questions: str, seeds: int = 2, named: bool = True
) -> Iterator[Verdict]:
    """Grade the answers of a round.

    Args:
        number: of the round.
        questions: their names; all without them.
        seeds: how often each answer is graded. A wrong one has to lose points every
            time, a right one never.
        named: whether mistakes are named; without, the first error is the last request.
    """
    settled = {key for keys in SETTLED.values() for key in keys}
    for path in sorted((HERE / f"round{number}").glob("*.py")):
        if path.stem not in (questions or QUESTIONS):
            continue
        question = QUESTIONS[path.stem]
        blind.ENTRIES.clear()
        runpy.run_path(str(path))
        for entry in list(blind.ENTRIES):
            door = in_process(question, entry.thing)
            results = (
                quietly(lambda door=door: evaluate(question, door, 1)) if named else []
            )
            full = [all(r.finding is None for r in results)] if named else []
            full += [
                quietly(lambda door=door, seed=seed: is_right(question, door, seed))
                for seed in range(1 + named, seeds + 1)
            ]
            found = [r for r in results if r.mistake]
            yield Verdict(
                question.name,
                entry,
                all(full) if entry.right else any(full),
                tuple(dict.fromkeys(r.mistake.name for r in found)),
                any(r.exact for r in found),
                (number, question.name, entry.name) in settled,
            )


def main() -> None:
    """Print what became of each answer."""
    chosen = [int(x) for x in sys.argv[1:] if x.isdigit()] or numbers()
    names = [x for x in sys.argv[1:] if not x.isdigit()]
    for number in chosen:
        for question, entry, full, found, exact, settled in graded(number, *names):
            off = "!!" if full != (entry.right or settled) else "  "
            kind = "right" if entry.right else "wrong"
            said = ", ".join(found) + ("" if exact or not found else " (by a sign)")
            print(f"{off} {number} {question} {kind}: {entry.what} [{said}]")


if __name__ == "__main__":
    main()
