"""Answers as students write them: right in many ways, and wrong in more."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from attention_course.questions.core import Request


class Answer(NamedTuple):
    """A hand-written answer; `names` are the mistakes that the feedback may call a wrong one, if it should at all."""

    question: str
    thing: Any
    names: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.question}: {self.thing.__name__}"


Wide = Callable[[torch.Generator], Iterator[Request]]


class Answers:
    """The right and the wrong answers to a lab's questions, entered by decorators.

    With them come requests, `wide`, that share neither code nor sizes with the question's own: a mutant that gives the
    reference's replies to all of them is taken to be equivalent.
    """

    def __init__(self) -> None:
        self.right_ones: list[Answer] = []
        self.wrong_ones: list[Answer] = []
        self.requests: dict[str, Wide] = {}

    def right(self, question: str, name: str | None = None) -> Callable[[Any], Any]:
        def enter(thing: Any) -> Any:
            thing.__name__ = name or thing.__name__
            self.right_ones.append(Answer(question, thing))
            return thing

        return enter

    def wrong(self, question: str, *names: str) -> Callable[[Any], Any]:
        def enter(thing: Any) -> Any:
            self.wrong_ones.append(Answer(question, thing, frozenset(names)))
            return thing

        return enter

    def wide(self, *questions: str) -> Callable[[Wide], Wide]:
        def enter(requests: Wide) -> Wide:
            self.requests.update(dict.fromkeys(questions, requests))
            return requests

        return enter
