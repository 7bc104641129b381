"""What the feedback makes of an answer, and what becomes of a lab's reference when one
thing in it is changed."""

import contextlib
import dis
import importlib
import io
import math
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from answers import core, notebooks
from answers.mutants import Mutant, mutants

from attention_labs import QUESTIONS
from nbjudge import Draw
from nbjudge.evaluation import alike
from nbjudge.grading.commands import lab_names
from nbjudge.grading.fidelity import Answer, grade
from nbjudge.in_process import in_process
from nbjudge.question import Door, Question, Request

LABS = lab_names(notebooks.ROOT / "solutions")


def asked(lab: str) -> list[Question]:
    """List a lab's questions, in its order."""
    return [QUESTIONS[name] for name in notebooks.read("solutions", lab).asked]


for lab in LABS:
    for question in asked(lab):
        importlib.import_module(f"answers.{lab}.{question.name}")  # which enters them


def quietly(function: Callable[[], Any]) -> Any:
    """Call, and let nothing that an answer prints or warns of through."""
    silence = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
    ):
        warnings.simplefilter("ignore")
        return function()


def things(question: Question, answers: Iterable[Answer]) -> list[Any]:
    """List the functions and classes that answers are."""
    return [x for answer in answers for x in answer.answers(question.reference)]


def requests(question: Question, first: bool = False) -> list[Request]:
    """List what a question asks, or its first property alone."""
    properties = question.properties[:1] if first else question.properties
    return [x for checked in properties for x in checked.requests(Draw(0))]


# What these are about is strings, lists, names and modes: no operator of torch need be
# called.
PLAIN = (
    "tokenize",
    "vocabulary",
    "exact_match",
    "alignment_hit_rate",
    "load_body",
    "freeze",
    "accuracy",
    "parameter_groups",
)


def operators(question: Question, thing: Any) -> tuple[str, ...]:
    """Trace what an answer calls, for the requests of the question's first property, or
    list Python's operators."""
    if question.name in PLAIN:
        functions = (
            [getattr(thing, name) for name in dir(thing)]
            if isinstance(thing, type)
            else [thing]
        )
        return tuple(
            i.opname
            for f in functions
            if isinstance(f, types.FunctionType)
            for i in _instructions(f)
        )
    door = in_process(question, thing)
    traced = [replace(x, traced=True) for x in requests(question, first=True)]
    return tuple(
        name for x in traced for name in quietly(lambda x=x: door(x)).operators
    )


def _instructions(
    function: types.FunctionType | types.CodeType,
) -> Iterator[dis.Instruction]:
    for instruction in dis.get_instructions(function):
        yield instruction
        # a comprehension, or a function within
        if isinstance(instruction.argval, types.CodeType):
            yield from _instructions(instruction.argval)


def is_own(question: Question, thing: Any) -> bool:
    """Whether an answer's replies are those of one of the question's own
    mistakes."""
    known = [
        answer
        for mistake in question.mistakes
        for answer in mistake.answers(question.reference)
    ]
    asked = requests(question)
    door = in_process(question, thing)
    return any(_same(door, in_process(question, x), asked) for x in known)


class Verdict(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    equivalent: bool
    points: int


def judged(
    lab: str, question: Question, at_most: int | None = None
) -> Iterator[Verdict]:
    """Ask a question about the mutants of the lab's own solution.

    All of them, or at most so many, at even distances.
    """
    notebook = notebooks.read("solutions", lab)
    position, name = (
        notebooks.defining(notebook, question.name),
        notebook.asked[question.name],
    )
    names = notebooks.run(notebook.cells)
    wide = list(core.WIDE[question.name](torch.Generator().manual_seed(1)))
    right = in_process(question, names[name])
    tried = list(mutants(notebook.cells[position]))
    if at_most is not None:
        tried = tried[:: math.ceil(len(tried) / at_most)]
    for mutant in tried:
        changed = dict(names)
        try:
            quietly(lambda mutant=mutant, changed=changed: exec(mutant.source, changed))
        except Exception:
            yield Verdict(mutant, False, 0)
            continue
        points = int(grade(question, changed[name]))
        same = points == question.points and _same(
            in_process(question, changed[name]), right, wide
        )
        yield Verdict(mutant, same, points)


def _same(one: Door, other: Door, asked: list[Request]) -> bool:
    return all(
        alike(quietly(lambda x=x: one(x)), quietly(lambda x=x: other(x))) for x in asked
    )


def points_of(lab: str, cells: list[str]) -> dict[str, int]:
    """Run a lab's cells and say what each question gives."""
    names = notebooks.run(cells)
    asked = notebooks.read("solutions", lab).asked
    return {
        question: int(grade(QUESTIONS[question], names[name]))
        for question, name in asked.items()
    }


def with_one_wrong(lab: str, question: str) -> list[str]:
    """Return the solution's cells with one answer replaced by a mutant that gets
    nothing."""
    notebook = notebooks.read("solutions", lab)
    position = notebooks.defining(notebook, question)
    wrong = next(
        verdict for verdict in judged(lab, QUESTIONS[question]) if verdict.points == 0
    )
    return [
        wrong.mutant.source if number == position else cell
        for number, cell in enumerate(notebook.cells)
    ]
