"""Answers as students write them: right in many ways, and wrong in more.

Each question has a module here, which enters its answers by the decorators `right` and
`wrong`. With them come requests, `wide`, that share neither code nor sizes with the
question's own: a mutant that gives the reference's replies to all of them is taken to
be equivalent.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from attention_labs import QUESTIONS
from nbjudge.edits import Edit
from nbjudge.question import Request


class Answer(NamedTuple):
    """An answer to try a question on.

    Attributes:
        question: its name.
        thing: a function or class.
        name: says in a word what the answer is like.
        names: the mistakes that the feedback may call a wrong one, if it should at all.
    """

    question: str
    thing: Any
    name: str
    names: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.question}: {self.name}"


Wide = Callable[[torch.Generator], Iterator[Request]]

# By question.
RIGHT: defaultdict[str, list[Answer]] = defaultdict(list)
WRONG: defaultdict[str, list[Answer]] = defaultdict(list)
WIDE: dict[str, Wide] = {}


def right(question: str, name: str | None = None) -> Callable[[Any], Any]:
    def enter(thing: Any) -> Any:
        RIGHT[question].append(Answer(question, thing, name or thing.__name__))
        return thing

    return enter


def wrong(question: str, *names: str) -> Callable[[Any], Any]:
    def enter(thing: Any) -> Any:
        WRONG[question].append(
            Answer(question, thing, thing.__name__, frozenset(names))
        )
        return thing

    return enter


def _edited(question: str, right: Any, change: Edit) -> Any:
    """Edit a right answer; that its decorator then enters it again does not count."""
    entered = RIGHT[question][:]
    thing = change.apply(right or QUESTIONS[question].reference)
    RIGHT[question][:] = entered
    return thing


def right_edits(question: str, right: Any = None, **changes: Edit) -> None:
    """Enter right answers that differ from another one in a few places.

    Args:
        question: its name.
        right: what is edited; without it, the question's reference.
        changes: name of the answer -> the edit.
    """
    for name, change in changes.items():
        thing = _edited(question, right, change)
        RIGHT[question].append(Answer(question, thing, name))


def wrong_edits(question: str, right: Any = None, **answers: tuple[Any, ...]) -> None:
    """Enter wrong answers that are edits of a right one.

    Args:
        question: its name.
        right: what is edited; without it, the question's reference.
        answers: name of the answer -> the edit, and the mistakes that it may be called.
    """
    for name, (change, *names) in answers.items():
        thing = _edited(question, right, change)
        WRONG[question].append(Answer(question, thing, name, frozenset(names)))


def wide(*questions: str) -> Callable[[Wide], Wide]:
    def enter(requests: Wide) -> Wide:
        WIDE.update(dict.fromkeys(questions, requests))
        return requests

    return enter


def draw(g: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def with_part(base: type, part: str) -> Callable[[Any], type]:
    """Make a class of a function, which takes the place of one part of another
    class."""
    return lambda function: type(function.__name__, (base,), {part: function})


def variations(question: str, base: type, **parts: tuple[Any, ...]) -> None:
    """Enter a class, and the same with each of its parts written otherwise."""
    right(question)(base)
    for part, others in parts.items():
        for other in others:
            right(question)(with_part(base, part)(other))
