"""stacked_encoder: several layers, each of which reads in both directions."""

from dataclasses import replace

from torch import Tensor, nn

from attention_course.rnn import RNNStack, at_end, reverse_padded
from attention_course.seq2seq import Encoded
from attention_labs.lab02_bottleneck.shared import (
    AXES,
    ENCODER,
    FINAL,
    LEFT_OUT,
    OF_AN_ENCODER,
    OF_ENCODERS,
    OTHER_MASK,
    RARE,
    STATES,
    TOLD_BY_IDS,
    WIDTHS,
    lengths_of,
    rare_lengths,
    to_read,
    use_encoder,
)
from attention_labs.pages import PADDING
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    Sign,
    close,
    comparable,
    edit,
    error_like,
    of_output,
    right_in,
    same_gradients,
    same_numbers,
    wrong_in,
)


class _Stacked(RNNStack):
    """The course's layers, with an embedding below them."""

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_layers: int
    ):
        super().__init__(embedding_dim, hidden_dim, num_layers)
        self.embedding = nn.Embedding(vocab_size, embedding_dim)

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        return super().forward(self.embedding(source), lengths)


def _read(d: Draw, layers: int, lengths: Tensor | None = None) -> Request:
    lengths = lengths_of(d) if lengths is None else lengths
    return to_read(d, _Stacked, (d.V, d.M, d.D, layers), lengths)


BATTERY = Battery(
    MODULE,
    lambda d: _read(d, d.L),
    {**AXES, **WIDTHS, "L": Axis("layers", most=4, fixed=True)},
    leaves_out=LEFT_OUT,
)


def _many(request: Request) -> bool:
    return request.init is not None and request.init[-1] > 1


def _half_right(output: int, *directions: bool) -> Sign:
    """Look for an output that is right (True) in one direction, wrong in the other."""
    return comparable(
        lambda request, reply, reference: (
            directions
            == tuple(
                map(
                    close,
                    reply.outputs[output].chunk(2, dim=-1),
                    reference.outputs[output].chunk(2, dim=-1),
                )
            )
            and (output == STATES or right_in(STATES)(request, reply, reference))
        )
    )


FORWARD, ALONG = RNNStack.forward, "x.gather(1, index[..., None].expand_as(x))"

STACKED_ENCODER = Question(
    name="stacked_encoder",
    reference=_Stacked,
    use=use_encoder,
    stand_ins={"at_end": at_end},
    battery=BATTERY,
    requirements={
        **OF_AN_ENCODER,
        "layers": "Each layer reads the states of the one below it (the lowest reads"
        " embeddings), once forwards and once backwards, and sets the two states of a"
        " position end to end:",
        "turned": "Each sentence has to be turned around *within its own length*:",
        "back": "So the backward layer reads a turned batch, and its states have to be"
        " turned back before they are set beside the forward ones.",
        "final": "The forward one at each sentence's last token, and the backward one"
        " where *it* has read everything, end to end. Both of the top layer.",
        "as before": "`states` and `mask` are as before.",
        "returns": "`Encoded`, of the top layer.",
    },
    properties=(
        BATTERY.line(
            "one layer: the states of both directions",
            2,
            lambda d: _read(d, 1),
            of_output(STATES, same_numbers),
            ("layers", "turned", "back", "source", "lengths"),
        ),
        BATTERY.line(
            "one layer: where each direction has read everything",
            1,
            lambda d: _read(d, 1),
            of_output(FINAL, same_numbers),
            ("final",),
        ),
        BATTERY.line(
            "more layers, the mask, and all gradients",
            1,
            lambda d: replace(_read(d, d.L), gradients=True),
            same_gradients,
            ("layers", "turned", "back", "final", "as before", "returns"),
        ),
        BATTERY.edges(
            1,
            claim=RARE.removeprefix("all gradients; "),
            also=lambda d: [_read(d, d.L, x) for x in rare_lengths(d)],
            checks=("wider", "ids", "layers", "turned", "final", "as before"),
        ),
        BATTERY.manners(1, checks=("manners", "as before")),
    ),
    mistakes=(
        Mistake(
            "the whole batch turned around",
            "flip(1) puts a short sentence's padding in front of it: each sentence is"
            " turned within its own length.",
            ENCODER,
            (
                edit(reverse_padded, ALONG, "x.flip(1)"),
                edit(reverse_padded, ALONG, "x.flip(1)")
                & edit(FORWARD, "at_end(turned, lengths)", "turned[:, -1]"),
            ),
        ),
        Mistake(
            "backward states not turned back",
            "Position s of the backward states belongs to another token, until they are"
            " turned back.",
            ENCODER,
            edit(FORWARD, "reverse_padded(turned, lengths)", "turned"),
        ),
        Mistake(
            "both directions read forwards",
            "The backward layer reads each sentence from its end: turn it around before"
            " it is read, and back after.",
            ENCODER,
            (
                edit(reverse_padded, ALONG, "x"),
                edit(FORWARD, "reverse_padded(below, lengths)", "below"),
            ),
        ),
        Mistake(
            "backward before forward",
            "The forward state comes first, the backward one behind it.",
            ENCODER,
            edit(FORWARD, "[states, back]", "[back, states]"),
        ),
        Mistake(
            "the directions are added",
            "The two states of a position are set end to end: 2D numbers.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and 2 * reply.outputs[STATES].shape[-1:].numel()
                == reference.outputs[STATES].size(-1)
            ),
        ),
        Mistake(
            "backward final state at the last token",
            "At the last token the backward layer has only begun. It has read"
            " everything at the first token of the sentence, which is the end of the"
            " turned one.",
            ENCODER,
            edit(FORWARD, "at_end(turned, lengths)", "turned[:, 0]"),
            sign=comparable(
                lambda request, reply, reference: close(
                    reply.outputs[FINAL],
                    at_end(reply.outputs[STATES], request.inputs[1]),
                )
            ),
        ),
        Mistake(
            "the last column is taken for the final state",
            "Behind a short sentence both layers have gone on reading padding.",
            PADDING,
            (
                edit(at_end, "x.gather(1, last)[:, 0]", "x[:, -1]"),
                edit(FORWARD, "at_end(states, lengths)", "states[:, -1]"),
            ),
        ),
        Mistake(
            "the forward layer is wrong",
            "The backward states are right. The forward layer reads the states of the"
            " layer below as they are.",
            ENCODER,
            sign=_half_right(STATES, False, True),
        ),
        Mistake(
            "the backward layer is wrong",
            "The forward states are right. The backward layer reads each sentence"
            " turned around within its own length, and its states are turned back.",
            ENCODER,
            sign=_half_right(STATES, True, False),
        ),
        Mistake(
            "the layers do not stand on each other",
            "Each layer reads the states of the one below it, of both directions, 2D"
            " numbers.",
            ENCODER,
            sign=lambda request, reply, reference: (
                _many(request)
                and error_like("input.size|input_size|mat1 and mat2|must have")(
                    request, reply, reference
                )
            ),
        ),
        replace(
            TOLD_BY_IDS,
            made_by=edit(
                _Stacked.forward,
                "self.embedding(source), lengths",
                "self.embedding(source), (source != 0).sum(1).clamp(min=1).cpu()",
            ),
        ),
        *OF_ENCODERS,
        *ANYWHERE,
        Mistake(
            "another final state",
            "The states are right. The final one is the forward state at each"
            " sentence's last token, and the backward state at its first.",
            ENCODER,
            sign=wrong_in(FINAL, STATES),
        ),
        OTHER_MASK,
        Mistake(
            "one layer is right, more are not",
            "Each layer reads the states of the one below it, of both directions; the"
            " top one's are returned.",
            ENCODER,
            sign=lambda request, reply, reference: (
                _many(request)
                and not reply.error
                and not close(reply.outputs[STATES], reference.outputs[STATES])
            ),
        ),
        Mistake(
            "the directions are joined in another way",
            "In every layer both directions read the same states; what the backward one"
            " says is turned back, and set behind the forward one's: (B, S, 2D).",
            ENCODER,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
