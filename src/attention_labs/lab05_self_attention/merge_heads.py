"""Question `merge_heads`: concatenate the pieces of each vector from all heads.

The inverse is in `split_heads`.
"""

from dataclasses import replace

from torch import Tensor

from attention_labs.lab05_self_attention.shared import (
    BACK,
    ELSEWHERE,
    EVERYWHERE,
    HEADS,
    LEAVES_OUT,
    B,
    T,
)
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    each_of,
    edit,
    normal,
    same_copies,
)


def merge_heads(x: Tensor) -> Tensor:
    """Concatenate the pieces of every vector again: (B, H, T, Dh) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def _pieces(d: Draw) -> list[Request]:
    """Draw pieces that lie in memory head after head, and token after token."""
    by_head = normal(d, d.B, d.H, d.T, d.W)
    by_token = normal(d, d.B, d.T, d.H, d.W).transpose(1, 2)
    return [Request((x,)) for x in (by_head, by_token)]


def _in_other_heads(d: Draw) -> Request:
    """Draw pieces after a call with other heads, which are as wide together."""
    other = Request((normal(d, d.B, d.W, d.T, d.H),))
    after = "after a call with another number of heads"
    return replace(_pieces(d)[0], before=(other,), about=after)


BATTERY = Battery(
    FUNCTION,
    _pieces,
    {"B": B, "T": T, "H": Axis("heads", long=40), "W": Axis("width of a head")},
    leaves_out=LEAVES_OUT,
)

REST = BATTERY.rest(1, checks=("lengths", "manners", "returns"))

QUESTION = Question(
    name="merge_heads",
    reference=merge_heads,
    use=lambda merge, x: merge(x),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "row": "Merging is the inverse of splitting. Turn (B, H, T, Dh) into (B, T,"
        " D): concatenate the pieces of each token, from the first head to the last.",
        "returns": "Concatenate the pieces of each vector: (B, H, T, Dh) -> (B, T, D).",
    },
    properties=(
        BATTERY.numbers(
            "the pieces of each token are concatenated",
            1,
            checks=("row", "returns"),
        ),
        replace(
            REST,
            requests=lambda g: (*REST.requests(g), _in_other_heads(BATTERY.sized(g))),
            judge=each_of(REST.judge, same_copies),
        ),
    ),
    mistakes=(
        Mistake(
            "heads merged by view, without transpose",
            BACK,
            HEADS + "split",
            edit(
                merge_heads,
                "x.transpose(1, 2).flatten(2)",
                "x.reshape(x.size(0), x.size(2), -1)",
            ),
        ),
        Mistake(
            "entries of the heads interleaved",
            "Put the whole piece of the first head first, then the whole piece of the"
            " second head.",
            HEADS + "split",
            edit(merge_heads, "transpose(1, 2)", "permute(0, 2, 3, 1)"),
        ),
        Mistake(
            "heads summed instead of concatenated",
            "Concatenate the pieces. Do not add them.",
            HEADS + "split",
            edit(merge_heads, "transpose(1, 2).flatten(2)", "sum(1)"),
        ),
        Mistake(
            "heads averaged instead of concatenated",
            "Concatenate the pieces. The merged vector is H times as wide as a piece.",
            HEADS + "split",
            edit(merge_heads, "transpose(1, 2).flatten(2)", "mean(1)"),
        ),
        Mistake(
            "heads concatenated along the tokens",
            "The pieces of one token belong side by side, so there are still T tokens.",
            HEADS + "split",
            edit(merge_heads, "transpose(1, 2).flatten(2)", "flatten(1, 2)"),
        ),
        Mistake(
            "sentences and tokens mixed",
            "Only the axis of the heads moves. The sentences stay the first axis.",
            HEADS + "split",
            edit(
                merge_heads,
                "x.transpose(1, 2).flatten(2)",
                "x.permute(2, 0, 1, 3).reshape(x.size(0), x.size(2), -1)",
            ),
        ),
        Mistake(
            "a view of a transposed tensor",
            "After transpose, the numbers of a row are no longer side by side in"
            " memory, as view needs them. flatten and reshape copy them if necessary.",
            "",
            edit(merge_heads, ".flatten(2)", ".view(x.size(0), x.size(2), -1)"),
        ),
        *ANYWHERE,
        Mistake(
            "right numbers in the wrong places",
            "Put all pieces of a token into its own vector, head after head.",
            HEADS + "split",
            sign=ELSEWHERE,
        ),
    ),
)
