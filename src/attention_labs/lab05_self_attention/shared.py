"""Axes, sections of the book, hints and signs of mistakes, shared within lab 5."""

from attention_course.attention import masked_softmax
from attention_labs.lab04_alignment.shared import LEAVES_OUT as LEAVES_OUT
from attention_labs.pages import SCORING
from attention_labs.rules import EVERYWHERE as EVERYWHERE
from nbjudge import Axis, Mistake, close, edit, somewhere, wrong_output

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
EMPTY_ROW = Mistake(
    "weights of a fully masked row are not 0",
    "A softmax of equal scores is uniform, and one of minus infinities is NaN. `attend`"
    " sets the weights of such a row to 0.",
    SCORING + "mask",
    tuple(
        edit(masked_softmax, "torch.finfo(scores.dtype).min", lowest)
        & edit(masked_softmax, " * mask", "")
        for lowest in ("-1e9", "-torch.inf")
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
