"""Test a course's questions on right and wrong answers.

`python -m nbjudge.grading.fidelity MODULE ANSWERS [QUESTION ...]`.

A question is a program, and is tested like one. Somewhere in the folder ANSWERS, a file
QUESTION.py registers answers to the question of that name: with `right`, those that
deserve all points, however they are written; with `wrong`, those that do not, written
as students write them, each with the mistakes of which the feedback should name one.
"""

import argparse
import contextlib
import importlib
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nbjudge.check import checker
from nbjudge.edits import Edit
from nbjudge.feedback import Grade
from nbjudge.grading.course import CourseError, load
from nbjudge.question import Mistake, Question


class Answer(NamedTuple):
    """An answer to test a question on.

    Attributes:
        name: a short description of the answer.
        answers: returns a list of answers, as `Mistake.answers` does, given the
            question's reference, from which edits start.
        names: the mistakes of which the feedback should name one; if empty, it need not
            name any.
    """

    name: str
    answers: Callable[[Any], list[Any]]
    names: frozenset[str] = frozenset()


# By question.
RIGHT: defaultdict[str, list[Answer]] = defaultdict(list)
WRONG: defaultdict[str, list[Answer]] = defaultdict(list)


def right(question: str, name: str | None = None) -> Callable[[Any], Any]:
    """Register a function or class as a right answer.

    Args:
        question: name of the question.
        name: name of the answer, if it is not that of the function or class.
    """
    return lambda thing: _enter(RIGHT[question], name or thing.__name__, thing)


def wrong(question: str, *names: str) -> Callable[[Any], Any]:
    """Register a function or class as a wrong answer.

    Args:
        question: name of the question.
        names: the mistakes of which the feedback should name one.
    """
    return lambda thing: _enter(WRONG[question], thing.__name__, thing, names)


def right_edits(question: str, right: Any = None, **answers: Edit) -> None:
    """Register edits of a right answer as right answers. See `wrong_edits`."""
    for name, change in answers.items():
        _enter(RIGHT[question], name, change, (), right)


def wrong_edits(question: str, right: Any = None, **answers: tuple[Any, ...]) -> None:
    """Register edits of a right answer as wrong answers.

    Args:
        question: name of the question.
        right: the answer that is edited; by default, the question's reference.
        answers: name of the answer -> the edit, and the mistakes of which the feedback
            should name one.
    """
    for name, (change, *names) in answers.items():
        _enter(WRONG[question], name, change, names, right)


def _enter(
    entered: list[Answer],
    name: str,
    made_by: Any,
    names: Iterable[str] = (),
    base: Any = None,
) -> Any:
    def answers(reference: Any) -> list[Any]:
        # An edit runs its owner's decorators again; what they register does not count.
        before = [(x, len(x)) for x in (*RIGHT.values(), *WRONG.values())]
        made = Mistake(name, "", made_by=made_by).answers(base or reference)
        for others, length in before:
            del others[length:]
        return made

    entered.append(Answer(name, answers, frozenset(names)))
    return made_by


def grade(question: Question, thing: Any) -> Grade:
    """Check a function or class, and suppress what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return checker({question.name: question})(question.name, thing)


def named(found: Grade) -> set[str]:
    """Return the names of the mistakes that an answer looks like."""
    return {result.mistake.name for result in found.results if result.mistake}


# What can go wrong with a right answer, with a wrong one, with a mistake of the
# question, with the name that the feedback gives to either, with an edit.
LOST, FULL, MISSED, NAMED, GONE = (
    "lost points",
    "full points",
    "not caught",
    "not named",
    "text gone",
)
COLUMNS = ("right", LOST, "wrong", FULL, "mistakes", MISSED, NAMED, GONE)


def examine(question: Question) -> Iterator[tuple[str, str]]:
    """Test a question on its reference, the registered answers and its own mistakes.

    Args:
        question: the question.

    Yields:
        What went wrong, and with which answer.
    """
    tries = [(LOST, Answer("the reference", lambda reference: [reference]))]
    tries += [(LOST, answer) for answer in RIGHT[question.name]]
    tries += [(FULL, answer) for answer in WRONG[question.name]]
    for known in question.mistakes:
        tries += [(MISSED, Answer(known.name, known.answers, frozenset({known.name})))]
    for what, (name, answers, names) in tries:
        try:
            graded = [grade(question, x) for x in answers(question.reference)]
        except ValueError as error:
            yield GONE, f"{name}: {error}"
        else:
            for found in graded:
                if (found == question.points) != (what == LOST):
                    yield what, f"{name}\n{found.as_text()}"
                elif names and not names & named(found):
                    seen = ", ".join(sorted(named(found))) or "nothing"
                    yield NAMED, f"{name}: {seen}; wanted {' or '.join(sorted(names))}"


def main(arguments: list[str] | None = None) -> int:
    """Print a table with a row for each question, and below it what went wrong.

    Args:
        arguments: as on the command line.

    Returns:
        The exit code: 1 if something went wrong.
    """
    parser = argparse.ArgumentParser(
        prog="python -m nbjudge.grading.fidelity",
        description="Try a course's questions on right and wrong answers.",
    )
    parser.add_argument("module", help="the module that holds QUESTIONS")
    parser.add_argument("answers", type=Path, help="the folder with QUESTION.py files")
    parser.add_argument("question", nargs="*", help="all of them, if none is named")
    given = parser.parse_args(arguments)
    try:
        questions = load(given.module).questions
        asked = [questions[name] for name in given.question or questions]
    except CourseError as error:
        parser.error(str(error))
    except KeyError as error:
        parser.error(f"{given.module} has no question {error}")
    folder, lines = given.answers.resolve(), []
    sys.path.insert(0, str(folder.parent))
    for path in sorted(folder.rglob("*.py")):
        if path.stem in {question.name for question in asked}:
            parts = path.relative_to(folder.parent).with_suffix("").parts
            importlib.import_module(".".join(parts))
    print(*COLUMNS, "question", sep="  ")
    for question in asked:
        off = list(examine(question))
        count = Counter(what for what, _ in off)
        count.update(
            right=len(RIGHT[question.name]),
            wrong=len(WRONG[question.name]),
            mistakes=len([known for known in question.mistakes if known.made_by]),
        )
        numbers = (str(count[column]).rjust(len(column)) for column in COLUMNS)
        print(*numbers, question.name, sep="  ", flush=True)
        off += [("no answer", kind) for kind in ("right", "wrong") if not count[kind]]
        lines += [f"{question.name}: {what}: {line}" for what, line in off]
    print("\n".join(lines) or "Nothing is off.")
    return bool(lines)


if __name__ == "__main__":
    # Answers are registered in the module of this name, of which this is a copy.
    from nbjudge.grading import fidelity

    sys.exit(fidelity.main())
