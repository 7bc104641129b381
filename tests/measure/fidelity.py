"""`make fidelity`: how far the labs' graders can be trusted, question by question."""

import time

import torch
from answers import core, fidelity, notebooks
from measure.report import Row, row, write

from attention_labs import QUESTIONS
from nbjudge.grading.fidelity import grade, named
from nbjudge.question import Question


def main() -> None:
    torch.set_num_threads(1)
    begin = time.time()
    rows = []
    for lab in fidelity.LABS:
        for question in fidelity.asked(lab):
            rows += by_hand(lab, question) + automatic(lab, question)
        rows += whole(lab)
    write("fidelity", rows, time.time() - begin)


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
