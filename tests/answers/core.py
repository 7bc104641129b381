"""Answers as students write them: right in many ways, and wrong in more.

Each question has a module here, which enters its answers by the decorators of
`nbjudge.grading.fidelity`. With them come requests, `wide`, that share neither code nor
sizes with the question's own: a mutant that gives the reference's replies to all of
them is taken to be equivalent.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from nbjudge.grading.fidelity import (
    RIGHT,
    WRONG,
    right,
    right_edits,
    wrong,
    wrong_edits,
)
from nbjudge.inputs import normal as draw
from nbjudge.question import Request

__all__ = [
    "RIGHT",
    "WIDE",
    "WRONG",
    "draw",
    "right",
    "right_edits",
    "variations",
    "wide",
    "with_part",
    "wrong",
    "wrong_edits",
]
Wide = Callable[[torch.Generator], Iterator[Request]]

# By question.
WIDE: dict[str, Wide] = {}


def wide(*questions: str) -> Callable[[Wide], Wide]:
    def enter(requests: Wide) -> Wide:
        WIDE.update(dict.fromkeys(questions, requests))
        return requests

    return enter


def with_part(base: type, part: str) -> Callable[[Any], type]:
    """Make a class of a function, which takes the place of a part of another class."""
    return lambda function: type(function.__name__, (base,), {part: function})


def variations(question: str, base: type, **parts: tuple[Any, ...]) -> None:
    """Enter a class, and the same with each of its parts written otherwise."""
    right(question)(base)
    for part, others in parts.items():
        for other in others:
            right(question)(with_part(base, part)(other))
