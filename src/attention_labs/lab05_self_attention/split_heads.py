"""Question `split_heads`: split every vector into one piece per head.

The inverse is in `merge_heads`.
"""

from dataclasses import replace

from torch import Tensor

from attention_labs.lab05_self_attention.shared import (
    ELSEWHERE,
    EVERYWHERE,
    HEADS,
    LEAVES_OUT,
    MIXED,
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
    good_manners,
    normal,
    same_copies,
)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _turned(d: Draw) -> list[Request]:
    """Draw vectors that lie in memory in another order: token after token, say."""
    first_tokens = normal(d, d.T, d.B, d.H * d.W).transpose(0, 1)
    first_entries = normal(d, d.B, d.H * d.W, d.T).mT
    requests = [Request((x, d.H)) for x in (first_tokens, first_entries)]
    other = replace(requests[0], inputs=(requests[0].inputs[0], d.W))
    after = "after a call with another number of heads"
    return [*requests, replace(requests[0], before=(other,), about=after)]


BATTERY = Battery(
    FUNCTION,
    lambda d: Request((normal(d, d.B, d.T, d.H * d.W), d.H)),
    {"B": B, "T": T, "H": Axis("heads", long=40), "W": Axis("width of a head")},
    leaves_out=LEAVES_OUT,
)

QUESTION = Question(
    name="split_heads",
    reference=split_heads,
    use=lambda split, x, num_heads: split(x, num_heads),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "pieces": "Turn (B, T, D) into (B, H, T, Dh). The first Dh entries of *each"
        " token's* vector go to the first head, the next Dh entries to the second"
        " head, and so on.",
        "before": "Put the axis of the heads before the axis of the tokens, because"
        " `@` treats the last two axes as matrices.",
        "returns": "Split each vector into H pieces: (B, T, D) -> (B, H, T, Dh).",
    },
    properties=(
        BATTERY.numbers(
            "each head gets its piece of every vector",
            1,
            checks=("pieces", "before", "returns"),
        ),
        BATTERY.edges(1, checks=("lengths", "before", "returns"), also=_turned),
        BATTERY.manners(1, each_of(good_manners, same_copies), checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "transpose missing",
            "After the split, the axes are (B, T, H, Dh). Move the axis of the heads"
            " before the axis of the tokens.",
            HEADS + "split",
            edit(split_heads, ".transpose(1, 2)", ""),
        ),
        Mistake(
            "heads split by view, without transpose",
            MIXED + " First split the last axis into two, then swap two axes.",
            HEADS + "split",
            edit(
                split_heads,
                "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
                "x.reshape(x.size(0), num_heads, x.size(1), -1)",
            ),
        ),
        Mistake(
            "entries of the heads interleaved",
            "Of the two new axes, the first counts the heads, and the second counts"
            " the entries of a piece.",
            HEADS + "split",
            edit(
                split_heads,
                "(num_heads, -1)).transpose(1, 2)",
                "(-1, num_heads)).permute(0, 3, 1, 2)",
            ),
        ),
        Mistake(
            "pieces of width H, not H pieces",
            "There are H pieces, and each has D / H entries. torch.split takes the"
            " width of a piece, and torch.chunk the number of pieces.",
            HEADS + "split",
            edit(split_heads, "(num_heads, -1)", "(-1, num_heads)"),
        ),
        Mistake(
            "sentences and heads mixed",
            "Keep the sentences as the first axis, and move only the axis of the"
            " heads.",
            HEADS + "split",
            (
                edit(
                    split_heads,
                    "transpose(1, 2)",
                    "permute(2, 0, 1, 3).reshape(x.size(0), num_heads, x.size(1), -1)",
                ),
                edit(
                    split_heads,
                    "transpose(1, 2)",
                    "flatten(0, 1).transpose(0, 1)"
                    ".reshape(x.size(0), num_heads, x.size(1), -1)",
                ),
            ),
        ),
        *ANYWHERE,
        Mistake(
            "right numbers in the wrong places",
            MIXED,
            HEADS + "split",
            sign=ELSEWHERE,
        ),
    ),
)
