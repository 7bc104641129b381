"""The questions of the labs of the attention course: `check("dot", DotScore)`.

One folder for each lab, one module for each graded cell. It imports the subject,
`attention_course`, whose code the references are, and the vocabulary of `nbjudge`;
never `nbjudge.grading`. When submissions are graded, the judge puts its own `check` in
the place of this one.
"""

import os

from attention_labs import (
    lab01_preprocessing,
    lab02_bottleneck,
    lab03_scoring,
    lab04_alignment,
    lab05_self_attention,
    lab06_transformer,
    lab07_transfer,
    lab08_today,
)
from attention_labs.pages import TITLES
from nbjudge import Book, checker

LABS = tuple(
    lab.QUESTIONS
    for lab in (
        lab01_preprocessing,
        lab02_bottleneck,
        lab03_scoring,
        lab04_alignment,
        lab05_self_attention,
        lab06_transformer,
        lab07_transfer,
        lab08_today,
    )
)
QUESTIONS = {question.name: question for lab in LABS for question in lab}
# From labs/LAB/ to where `make book` puts the pages, unless a server shows them.
BOOK = Book(os.environ.get("ATTENTION_BOOK", "../../_build/html/book/"), TITLES)

check = checker(QUESTIONS, BOOK)
