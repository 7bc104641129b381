"""What several questions of this lab share: axes, where to read, hints and signs."""

from attention_labs.lab04_alignment.shared import LEAVES_OUT as LEAVES_OUT
from attention_labs.pages import SCORING
from attention_labs.rules import EVERYWHERE as EVERYWHERE
from nbjudge import Axis, Mistake, close, somewhere, wrong_output

B, T = Axis("sentences"), Axis("tokens", long=300)
HEADS = "12_many_heads.html#many-heads-"


_WEIGHT_OFF_MASK = somewhere(
    1, lambda given, wanted: (wanted == 0) & (given.abs() > 1e-6)
)
WEIGHT = Mistake(
    "a masked position has nonzero weight",
    "Pass the mask to `attend`. True means that a position may be attended to.",
    SCORING + "mask",
    sign=lambda request, reply, reference: (
        not request.before and _WEIGHT_OFF_MASK(request, reply, reference)
    ),
)
TWICE = "`attend` computes the softmax itself. Give it scores."
SCALE = (
    "Divide the scores by the square root of the width of the vectors that are"
    " multiplied."
)

BACK = (
    "First bring the pieces of one token together, (B, T, H, Dh). Then merge the last"
    " two axes into one."
)
MIXED = (
    "Split the vector of each token on its own. A head's piece must not contain"
    " numbers of a different token."
)


# Which sign shows that the right numbers are there, at other places.
ELSEWHERE = wrong_output(
    lambda given, wanted: (
        given.numel() == wanted.numel()
        and close(given.flatten().sort().values, wanted.flatten().sort().values)
    )
)
