"""`make fidelity`: how far the labs' graders can be trusted, question by question.

What a part came to is kept in _build/fidelity, under the commit, so that a run that was
stopped goes on where it was. Where a change is not committed, nothing is kept.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import torch
from answers import core, fidelity, notebooks
from blind import rounds
from joblib import Memory
from measure.report import ROOT, Row, commit, row, write
from tqdm import tqdm

from attention_labs import QUESTIONS
from nbjudge.anywhere import ANYWHERE, KEPT, VARIED
from nbjudge.edits import Edit
from nbjudge.grading.fidelity import grade, named
from nbjudge.question import Question

# Names that say what is seen, and not why.
GENERAL = {mistake.name for mistake in (*ANYWHERE, *KEPT, *VARIED)}
# So many rounds, the last ones, are graded from two seeds, and their mistakes named.
LAST = 4


def main() -> None:
    with ProcessPoolExecutor(initializer=torch.set_num_threads, initargs=(1,)) as pool:
        parts = Parts(pool, commit())
        rows = blind(parts)
        asked = [(lab, x.name) for lab in fidelity.LABS for x in fidelity.asked(lab)]
        for those in parts.done("questions", of_question, *zip(*asked)):
            rows += those
        for those in parts.done("labs", whole, fidelity.LABS):
            rows += those
        rows += pairs(parts)
    write("fidelity", rows, parts.seconds / (os.cpu_count() or 1))


class Parts:
    """Parts of the work, done in processes, or taken from an earlier run.

    Attributes:
        seconds: how long all parts took, one after the other.
    """

    def __init__(self, pool: Executor, commit: str):
        where = ROOT / "_build" / "fidelity" / commit
        kept = commit and not commit.endswith("-dirty")
        self.kept = Memory(where if kept else None, verbose=0)
        self.pool, self.seconds = pool, 0.0

    def done(
        self, what: str, function: Callable[..., Any], *arguments: Iterable[Any]
    ) -> Iterator[Any]:
        """Call a function with the arguments in turn, as `map` does."""
        calls = list(zip(*arguments))
        jobs = [self.pool.submit(self.kept.cache(timed), function, *x) for x in calls]
        for job in tqdm(jobs, what):
            result, seconds = job.result()
            self.seconds += seconds
            yield result


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Call a function, and say how many seconds it took."""
    begin = time.perf_counter()
    return function(*arguments), time.perf_counter() - begin


def of_question(lab: str, name: str) -> list[Row]:
    """Try the answers to a question of a lab, and mutants of its solution."""
    question = QUESTIONS[name]
    return by_hand(lab, question) + automatic(lab, question)


def blind(parts: Parts) -> list[Row]:
    """Grade what strangers wrote who had seen the released notebooks alone."""
    both = list(itertools.product(rounds.numbers(), QUESTIONS))
    verdicts: dict[int, list[rounds.Verdict]] = {}
    every = parts.done("blind rounds", of_round, *zip(*both))
    for (number, _), those in zip(both, every):
        verdicts.setdefault(number, []).extend(those)
    rows = [
        line
        for number, those in verdicts.items()
        for line in escaped(f"blind round {number}: ", those)
    ]
    of_all = [v for those in verdicts.values() for v in those]
    wrong = [v for v in of_all if not v.entry.right and not v.settled]
    last = itertools.chain(*map(verdicts.get, rounds.numbers()[-LAST:]))
    lost = [v for v in last if not (v.entry.right or v.settled or v.full)]
    return [
        *rows,
        row(
            "blind: wrong answers",
            len(wrong),
            "answers",
            at_least=500,
        ),
        row(
            "blind: right answers",
            sum(v.entry.right for v in of_all),
            "answers",
            at_least=150,
        ),
        row(
            f"blind: rejected answers with a name, last {LAST} rounds",
            100 * sum(bool(v.names) for v in lost) / len(lost),
            "%",
            at_least=85,
        ),
        row(
            f"blind: rejected answers with an exact name, last {LAST} rounds",
            100 * sum(v.exact for v in lost) / len(lost),
            "%",
            at_least=55,
        ),
    ]


def of_round(number: int, question: str) -> list[rounds.Verdict]:
    """Grade the answers of a round to a question; the answers themselves stay here."""
    last = number in rounds.numbers()[-LAST:]
    return [
        verdict._replace(entry=verdict.entry._replace(thing=None))
        for verdict in rounds.graded(number, question, seeds=1 + last, named=last)
    ]


def escaped(what: str, verdicts: list[rounds.Verdict]) -> list[Row]:
    """Count the answers of a round, and list those that were graded wrongly."""
    right = [v for v in verdicts if v.entry.right or v.settled]
    settled = [v for v in verdicts if v.settled]
    wrong = [v for v in verdicts if not v.entry.right and not v.settled]
    accepted = [f"{v.question}: {v.entry.what}" for v in wrong if v.full]
    rejected = [f"{v.question}: {v.entry.what}" for v in right if not v.full]
    allowed = [f"{v.question}: {v.entry.what}" for v in settled]
    return [
        row(
            what + "wrong answers that the lab has come to allow",
            len(allowed),
            "answers",
            note="; ".join(allowed),
        ),
        row(what + "wrong answers", len(wrong), "answers"),
        row(
            what + "wrong answers accepted",
            100 * len(accepted) / len(wrong),
            "%",
            at_most=1,
            note="; ".join(accepted),
        ),
        row(what + "right answers", len(right), "answers"),
        row(
            what + "right answers rejected",
            len(rejected),
            "answers",
            at_most=0,
            note="; ".join(rejected),
        ),
    ]


def pairs(parts: Parts) -> list[Row]:
    """Make two mistakes of a question at once, and look at the names."""
    tried, true, false = 0, 0, []
    for found in parts.done("pairs", pairs_of, QUESTIONS):
        tried += found[0]
        true += found[1]
        false += found[2]
    return [
        row("pairs of mistakes", tried, "answers", at_least=200),
        row("pairs with a true name", 100 * true / tried, "%", at_least=50),
        row(
            "pairs with a false name",
            100 * len(false) / tried,
            "%",
            at_most=1,
            note="; ".join(false),
        ),
    ]


def pairs_of(name: str, most: int = 12) -> tuple[int, int, list[str]]:
    """Count a question's pairs and those with a true name, and list false names."""
    question = QUESTIONS[name]
    tried = true = 0
    false = []
    edits = [m for m in question.mistakes if isinstance(m.made_by, Edit)]
    for one, other in itertools.islice(itertools.combinations(edits, 2), most):
        try:
            thing = (one.made_by & other.made_by).apply(question.reference)
        except ValueError:  # one has taken the text of the other away
            continue
        names = named(grade(question, thing))
        tried += 1
        true += bool(names & {one.name, other.name})
        # A name without an answer that makes the mistake says what is seen alone.
        causes = {known.name for known in question.mistakes if known.made_by}
        false += [
            f"{name}: {one.name} and {other.name} called {wrongly}"
            for wrongly in names & causes - {one.name, other.name}
        ]
    return tried, true, false


def by_hand(lab: str, question: Question) -> list[Row]:
    """Count the hand-written answers, and what becomes of them."""
    right, wrong = core.RIGHT[question.name], core.WRONG[question.name]
    right_things = fidelity.things(question, right)
    wrong_things = fidelity.things(question, wrong)
    rejected = [
        answer.name
        for answer, thing in zip(right, right_things)
        if grade(question, thing) < question.points
    ]
    found = [grade(question, thing) for thing in wrong_things]
    accepted = [answer.name for answer, x in zip(wrong, found) if x == question.points]
    rightly = [x for answer, x in zip(wrong, found) if named(x) & answer.names]
    falsely = [
        f"{answer.name}: {', '.join(sorted(named(x)))}"
        for answer, x in zip(wrong, found)
        if answer.names and named(x) - GENERAL and not named(x) & answer.names
    ]
    own = sum(fidelity.is_own(question, thing) for thing in wrong_things)
    traces = {fidelity.operators(question, thing) for thing in right_things}
    what = f"{lab} {question.name}: "
    return [
        row(
            what + "right answers with operator calls of their own",
            len(traces),
            "answers",
            at_least=10,
        ),
        row(
            what + "right answers rejected",
            len(rejected),
            "answers",
            at_most=0,
            note=", ".join(rejected),
        ),
        row(what + "wrong answers", len(wrong), "answers", at_least=8),
        row(
            what + "wrong answers that are a mistake of the question",
            own / len(wrong),
            "share",
            at_most=0.5,
        ),
        row(
            what + "wrong answers accepted",
            len(accepted),
            "answers",
            at_most=0,
            note=", ".join(accepted),
        ),
        row(
            what + "wrong answers named rightly",
            len(rightly) / len(wrong),
            "share",
            at_least=0.8,
        ),
        row(
            what + "wrong answers named falsely",
            len(falsely),
            "answers",
            at_most=0,
            note="; ".join(falsely),
        ),
    ]


def automatic(lab: str, question: Question) -> list[Row]:
    """Count the mutants of the solution, and those that nothing tells from it."""
    verdicts = list(fidelity.judged(lab, question))
    different = [verdict for verdict in verdicts if not verdict.equivalent]
    missed = [
        verdict.mutant.change
        for verdict in different
        if verdict.points == question.points
    ]
    alike = [verdict.mutant.change for verdict in verdicts if verdict.equivalent]
    what = f"{lab} {question.name}: "
    return [
        row(
            what + "mutants",
            len(different),
            "mutants",
            note="equivalent, not counted: " + ("; ".join(alike) or "none"),
        ),
        row(
            what + "mutants accepted",
            len(missed) / len(different),
            "share",
            at_most=0.01,
            note="; ".join(missed),
        ),
    ]


def whole(lab: str) -> list[Row]:
    """Ask about the release, the solution, and the solution with one answer wrong."""
    solution = fidelity.points_of(lab, notebooks.read("solutions", lab).cells)
    full = {name: QUESTIONS[name].points for name in solution}
    release = fidelity.points_of(lab, notebooks.read("labs", lab).cells)
    alone = 0
    for name in full:
        alone += fidelity.points_of(lab, fidelity.with_one_wrong(lab, name)) == {
            **full,
            name: 0,
        }
    possible = sum(full.values())
    return [
        row(
            f"{lab}: release", sum(release.values()), f"of {possible} points", at_most=0
        ),
        row(
            f"{lab}: solution",
            sum(solution.values()),
            f"of {possible} points",
            at_least=possible,
        ),
        row(
            f"{lab}: wrong answers that cost their own points alone",
            alone,
            "questions",
            at_least=len(full),
        ),
    ]


if __name__ == "__main__":
    main()
