"""`checker` makes the function `check` that notebooks call on an answer."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping

from nbjudge.evaluation import evaluate
from nbjudge.feedback import NO_BOOK, Book, Grade
from nbjudge.in_process import in_process, ordinary_defaults
from nbjudge.question import Question


def checker(
    questions: Mapping[str, Question], book: Book = NO_BOOK
) -> Callable[..., Grade]:
    """Make the function that checks the answers to a course's questions.

    Args:
        questions: the course's questions by name.
        book: the book whose sections the feedback names.
    """

    def check(name: str, thing: object, text: bool = False) -> Grade:
        """Check an answer: show what holds, what does not, and the likely reason.

        Args:
            name: the question's name, as the lab gives it.
            thing: the function or class that answers it, not its result.
            text: also print the table as text, for where HTML is not shown.

        Returns:
            The points, as a float that a notebook shows as a table.

        Raises:
            ValueError: no question has this name.
        """
        if name not in questions:
            known = ", ".join(questions)
            raise ValueError(f"there is no question {name!r}; there are {known}")
        question = questions[name]
        # nbgrader gives no points to a cell that writes to stderr, and a right answer
        # may cause warnings.
        with warnings.catch_warnings(), contextlib.redirect_stderr(sys.stdout):
            warnings.simplefilter("ignore")
            with ordinary_defaults():
                results = evaluate(question, in_process(question, thing))
            grade = Grade(question, results, book)
        if text:
            print(grade.as_text())
        if os.environ.get("NBGRADER_VALIDATING") and grade < question.points:
            # for a cell with partial credit, nbgrader shows only this stream
            print(grade.as_text(), file=sys.stderr)
        return grade

    return check
