"""Grade notebooks in any nbgrader course that uses PyTorch.

A course declares its questions with the classes of this package: a `Question` has a
reference, the `Property`s that every right answer has, and the `Mistake`s that the
feedback can name. In a notebook, `check` (made by `checker`) tells a student which
properties hold. `nbjudge.grading` is the instructor's half: nbgrader's usual commands,
with the students' code in a sandbox and a judge outside it. The package itself imports
no course; the configuration names the course's module, which is imported by that name.
"""

__version__ = "0.1.0"

from nbjudge.anywhere import ANYWHERE, unchanged
from nbjudge.battery import FUNCTION, MODULE, PLAIN, STATE, Battery
from nbjudge.check import checker
from nbjudge.comparisons import (
    each_of,
    good_manners,
    good_manners_from_float32,
    in_words,
    left_alone,
    of_output,
    of_outputs,
    same_copies,
    same_gradients,
    same_numbers,
    same_whole_numbers,
)
from nbjudge.edits import edit
from nbjudge.feedback import Book, Grade
from nbjudge.inputs import Axis, Draw, normal, parameters, some_allowed
from nbjudge.question import (
    ATTENTION,
    Changed,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    Sign,
    construct,
    state_of,
)
from nbjudge.signs import (
    close,
    comparable,
    error_like,
    right_in,
    scaled_by,
    somewhere,
    wrong_in,
    wrong_output,
)
from nbjudge.tokens import (
    ONCE,
    PLAIN_SIGNS,
    another_kind,
    as_letters,
    as_list,
    same_kind,
    same_tokens,
    sees,
    with_kind,
)
