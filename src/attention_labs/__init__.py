"""The questions of the labs of the attention course: `check("dot", DotScore)`.

One folder for each lab, one module for each graded cell. It imports the subject,
`attention_course`, whose code the references are, and the vocabulary of `nbjudge`;
never `nbjudge.grading`. When submissions are graded, the judge puts its own `check` in
the place of this one.
"""

import os

from attention_labs.lab01_preprocessing import QUESTIONS as LAB01_PREPROCESSING
from attention_labs.lab02_bottleneck import QUESTIONS as LAB02_BOTTLENECK
from attention_labs.lab03_scoring import QUESTIONS as LAB03_SCORING
from attention_labs.lab04_alignment import QUESTIONS as LAB04_ALIGNMENT
from attention_labs.lab05_self_attention import QUESTIONS as LAB05_SELF_ATTENTION
from attention_labs.lab06_transformer import QUESTIONS as LAB06_TRANSFORMER
from attention_labs.lab07_transfer import QUESTIONS as LAB07_TRANSFER
from attention_labs.lab08_today import QUESTIONS as LAB08_TODAY
from attention_labs.pages import TITLES
from nbjudge import Book, checker

LABS = (
    LAB01_PREPROCESSING,
    LAB02_BOTTLENECK,
    LAB03_SCORING,
    LAB04_ALIGNMENT,
    LAB05_SELF_ATTENTION,
    LAB06_TRANSFORMER,
    LAB07_TRANSFER,
    LAB08_TODAY,
)
QUESTIONS = {question.name: question for lab in LABS for question in lab}
# From labs/LAB/ to where `make book` puts the pages, unless a server shows them.
BOOK = Book(os.environ.get("ATTENTION_BOOK", "../../_build/html/book/"), TITLES)

check = checker(QUESTIONS, BOOK)
