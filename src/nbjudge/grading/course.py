"""Load the course to grade: import its questions by name, and find its packages."""

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nbjudge.feedback import NO_BOOK, Book
from nbjudge.question import Question


class CourseError(Exception):
    """The course's questions cannot be used; the message says why in one line."""


class Course(NamedTuple):
    """What the judge knows about a course.

    Attributes:
        module: the importable name of the module with its questions; notebooks import
            `check` from it.
        questions: the questions, by name.
        book: the book that the feedback refers to.
        packages: the top-level packages that hold the questions and the code that they
            ask for.
    """

    module: str
    questions: Mapping[str, Question]
    book: Book
    packages: tuple[str, ...]

    def places(self) -> dict[str, Path]:
        """Return the folder or file of each package, including editable installs."""
        found = {}
        for name in self.packages:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations:
                found[name] = Path(next(iter(spec.submodule_search_locations)))
            elif spec is not None and spec.origin:
                found[name] = Path(spec.origin)
        return found


@functools.cache
def load(module: str) -> Course:
    """Import a course's questions.

    Args:
        module: name of the module that holds `QUESTIONS`, name -> question, and may
            hold `BOOK`.

    Raises:
        CourseError: there is no such module, or it has no questions.
    """
    if not module:
        raise CourseError("name the course's questions: c.NbJudge.questions = MODULE")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise CourseError(f"c.NbJudge.questions = {module!r}: {error}") from error
    questions = getattr(found, "QUESTIONS", None)
    if not isinstance(questions, Mapping) or not questions:
        raise CourseError(f"{module} has no QUESTIONS, a dict from names to questions")
    code = [
        part
        for question in questions.values()
        for part in (question.reference, question.use, question.make)
    ]
    names = [module, *(inspect.unwrap(part).__module__ for part in code)]
    packages = dict.fromkeys(name.partition(".")[0] for name in names)
    packages.pop("nbjudge", None)
    return Course(module, questions, getattr(found, "BOOK", NO_BOOK), tuple(packages))
