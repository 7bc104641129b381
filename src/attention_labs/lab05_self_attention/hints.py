"""What several questions of this lab share: sizes, where to read, hints and signs."""

from torch import Tensor

from attention_labs.pages import SCORING
from nbjudge import Mistake, Reply, Request, close, comparable

B, H, T, S, DH = 2, 3, 5, 7, 4
HEADS = "12_many_heads.html#many-heads-"


@comparable
def _forbidden(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for weight where the right weights are exactly zero."""
    return bool(((reference.outputs[1] == 0) & (reply.outputs[1].abs() > 1e-6)).any())


WEIGHT = Mistake(
    "a forbidden position has weight",
    "The mask has to reach `attend`, with True = may attend.",
    SCORING + "mask",
    sign=_forbidden,
)
TWICE = "`attend` takes the softmax itself: it is handed scores."
SCALE = (
    "The scores are divided by the root of the width of the vectors that are"
    " multiplied."
)

BACK = (
    "First bring the pieces of one token together, (B, T, H, Dh), then make one axis of"
    " the last two."
)
MIXED = (
    "The vector of one token is cut into pieces that stand side by side in it; pieces"
    " of different tokens do not mix."
)


def same_numbers_elsewhere(given: Tensor, wanted: Tensor) -> bool:
    """Whether the right numbers are there, at other places."""
    return given.numel() == wanted.numel() and close(
        given.flatten().sort().values, wanted.flatten().sort().values
    )
