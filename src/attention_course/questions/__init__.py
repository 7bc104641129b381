"""What the labs ask, and how an answer is checked. In a notebook: `check("dot",
DotScore)`."""

import contextlib
import sys
import warnings

from attention_course.questions.core import Question, evaluate, local
from attention_course.questions.feedback import Grade
from attention_course.questions.lab01_preprocessing import (
    QUESTIONS as LAB01_PREPROCESSING,
)
from attention_course.questions.lab02_bottleneck import QUESTIONS as LAB02_BOTTLENECK
from attention_course.questions.lab03_scoring import QUESTIONS as LAB03_SCORING
from attention_course.questions.lab04_alignment import QUESTIONS as LAB04_ALIGNMENT
from attention_course.questions.lab05_self_attention import (
    QUESTIONS as LAB05_SELF_ATTENTION,
)
from attention_course.questions.lab06_transformer import QUESTIONS as LAB06_TRANSFORMER
from attention_course.questions.lab07_transfer import QUESTIONS as LAB07_TRANSFER

LABS = (
    LAB01_PREPROCESSING,
    LAB02_BOTTLENECK,
    LAB03_SCORING,
    LAB04_ALIGNMENT,
    LAB05_SELF_ATTENTION,
    LAB06_TRANSFORMER,
    LAB07_TRANSFER,
)
QUESTIONS = {question.name: question for lab in LABS for question in lab}

__all__ = ["QUESTIONS", "Grade", "Question", "check"]


def check(name: str, thing: object, text: bool = False) -> Grade:
    """Check an answer and say what holds, what does not, and which mistake that looks
    like.

    Args:
        name: of the question, as the lab gives it.
        thing: the function or class that answers it, not its result.
        text: print the table as text, too, for where HTML is not shown.

    Returns:
        The points: a float that a notebook shows as a table.

    Raises:
        ValueError: no question has this name.
    """
    if name not in QUESTIONS:
        raise ValueError(
            f"there is no question {name!r}; there are {', '.join(QUESTIONS)}"
        )
    question = QUESTIONS[name]
    # nbgrader gives no points to a cell that writes to stderr, and a right answer may
    # warn.
    with warnings.catch_warnings(), contextlib.redirect_stderr(sys.stdout):
        warnings.simplefilter("ignore")
        grade = Grade(question, evaluate(question, local(question, thing)))
    if text:
        print(grade.as_text())
    return grade
