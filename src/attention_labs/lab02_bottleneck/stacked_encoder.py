"""Question `stacked_encoder`: a stack of bidirectional LSTM layers.

The encoder with a single layer is in `encoder`.
"""

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
        super().__init__(embedding_dim, hidden_dim, num_layers, cell=nn.LSTM)
        self.embedding = nn.Embedding(vocab_size, embedding_dim)

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        return super().forward(self.embedding(source), lengths)


def _read(d: Draw, layers: int, lengths: Tensor | None = None) -> Request:
    lengths = lengths_of(d) if lengths is None else lengths
    return to_read(d, _Stacked, (d.V, d.M, d.D, layers), lengths)


def _as_wide_as_states(d: Draw) -> Request:
    """Draw two layers, and embeddings as wide as what the second layer reads."""
    request = to_read(d, _Stacked, (d.V, 2 * d.D, d.D, 2), lengths_of(d))
    about = f"layers: 2; width of an embedding: {2 * d.D}, of a state: {d.D}"
    return replace(request, about=about)


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
AHEAD = "states, _ = forwards(below)"
BACKWARDS = "self.backwards[layer](reverse_padded(below, lengths))"
READ = "super().forward(self.embedding(source), lengths)"
JOINED = "torch.cat([final, at_end(turned, lengths)], dim=-1)"
BACK = f"turned, _ = {BACKWARDS}"


def _packed_cell(lstm: str, x: str = "below") -> str:
    """Take the cell at each sentence's own end from an LSTM that skips padding."""
    pack = "nn.utils.rnn.pack_padded_sequence"
    return f"{lstm}({pack}({x}, lengths, True, False))[1][1][0]"


QUESTION = Question(
    name="stacked_encoder",
    reference=_Stacked,
    use=use_encoder,
    stand_ins={"at_end": at_end},
    battery=BATTERY,
    requirements={
        **OF_AN_ENCODER,
        "layers": "The lowest layer reads the embeddings, and every higher layer reads"
        " the states of the layer below it. A layer has two LSTMs: one reads every"
        " sentence forwards, and the other reads it backwards. Concatenate their two"
        " states at each position, the forward state first:",
        "cells": "Pass on only the states, both to the next layer and into `states` and"
        " `final`. Let every LSTM start from zeros, as `nn.LSTM` does if you give it"
        " no state.",
        "turned": "Reverse each sentence *within its own length* instead, with"
        " `reverse_padded(x, lengths)`.",
        "back": "So let the backward LSTM read a reversed batch, and reverse its"
        " states again before you concatenate them with the forward states.",
        "final": "The final state of a sentence combines two states of the top layer:"
        " the forward state at the last token, and the backward state that has read"
        " the whole sentence.",
        "as before": "`states` and `mask` are as in section 2.",
        "returns": "`Encoded`, of the top layer.",
    },
    properties=(
        BATTERY.line(
            "one layer: the states of both directions",
            2,
            lambda d: _read(d, 1),
            of_output(STATES, same_numbers),
            ("layers", "cells", "turned", "back", "source", "lengths"),
        ),
        BATTERY.line(
            "one layer: the states that have read the whole sentence",
            1,
            lambda d: _read(d, 1),
            of_output(FINAL, same_numbers),
            ("final", "cells"),
        ),
        BATTERY.line(
            "more layers, the mask, and all gradients",
            1,
            lambda d: replace(_read(d, d.L), gradients=True),
            same_gradients,
            ("layers", "cells", "turned", "back", "final", "as before", "returns"),
        ),
        BATTERY.edges(
            1,
            claim=RARE.removeprefix("all gradients; "),
            also=lambda d: [
                *(_read(d, d.L, x) for x in rare_lengths(d)),
                _as_wide_as_states(d),
            ],
            checks=("wider", "ids", "layers", "turned", "final", "as before"),
        ),
        BATTERY.manners(1, checks=("manners", "as before")),
    ),
    mistakes=(
        Mistake(
            "the padding is reversed together with the tokens",
            "flip(1) puts a short sentence's padding in front of it. Each sentence is"
            " reversed within its own length.",
            ENCODER,
            (
                edit(reverse_padded, ALONG, "x.flip(1)"),
                edit(reverse_padded, ALONG, "x.flip(1)")
                & edit(FORWARD, "at_end(turned, lengths)", "turned[:, -1]"),
            ),
        ),
        Mistake(
            "backward states are not reversed back",
            "The backward states are in the order of the reversed sentence. Reverse"
            " them again before you concatenate them.",
            ENCODER,
            edit(FORWARD, "reverse_padded(turned, lengths)", "turned"),
        ),
        Mistake(
            "both LSTMs read forward",
            "The backward LSTM starts at the end of each sentence: reverse what it"
            " reads, and reverse its states again.",
            ENCODER,
            (
                edit(reverse_padded, ALONG, "x"),
                edit(FORWARD, "reverse_padded(below, lengths)", "below"),
            ),
        ),
        Mistake(
            "backward states come before forward states",
            "The forward state comes first, and the backward state second.",
            ENCODER,
            edit(FORWARD, "[states, back]", "[back, states]"),
        ),
        Mistake(
            "the states have half the expected width",
            "The two states of a position are concatenated: 2D numbers.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and 2 * reply.outputs[STATES].shape[-1:].numel()
                == reference.outputs[STATES].size(-1)
            ),
        ),
        Mistake(
            "backward final state taken at the last token",
            "At the last token the backward LSTM has only begun. It has read everything"
            " at the first token of the sentence, which is the end of the reversed"
            " one.",
            ENCODER,
            edit(FORWARD, "at_end(turned, lengths)", "turned[:, 0]"),
            sign=comparable(
                lambda request, reply, reference: (
                    close(reply.outputs[STATES], reference.outputs[STATES])
                    and close(
                        reply.outputs[FINAL],
                        at_end(reply.outputs[STATES], request.inputs[1]),
                    )
                )
            ),
        ),
        Mistake(
            "final state taken from the last column",
            "After a short sentence, both LSTMs have gone on to read padding.",
            PADDING,
            (
                edit(at_end, "x.gather(1, last)[:, 0]", "x[:, -1]"),
                edit(FORWARD, "at_end(states, lengths)", "states[:, -1]"),
            ),
        ),
        Mistake(
            "cells instead of states",
            "An nn.LSTM returns its states first, and then a pair (h, c) of the last"
            " state and the last cell. The final state is made of states.",
            ENCODER,
            (
                edit(FORWARD, AHEAD, "states, (_, c) = forwards(below)")
                & edit(FORWARD, BACK, f"turned, (_, g) = {BACKWARDS}")
                & edit(FORWARD, "at_end(states, lengths)", "c[0]")
                & edit(FORWARD, "at_end(turned, lengths)", "g[0]"),
                edit(FORWARD, AHEAD, "states, _ = forwards(below)")
                & edit(FORWARD, "at_end(states, lengths)", _packed_cell("forwards"))
                & edit(
                    FORWARD,
                    "at_end(turned, lengths)",
                    _packed_cell(
                        "self.backwards[layer]", "reverse_padded(below, lengths)"
                    ),
                ),
            ),
        ),
        Mistake(
            "backward LSTM starts from the forward LSTM's state",
            "Each LSTM starts from zeros: hand it the vectors that it reads, and"
            " nothing else.",
            ENCODER,
            edit(FORWARD, AHEAD, "states, last = forwards(below)")
            & edit(
                FORWARD,
                BACKWARDS,
                f"{BACKWARDS.removesuffix(')')}, last)",
            ),
        ),
        Mistake(
            "final state of the lowest layer",
            "The final state is made of states of the top layer.",
            ENCODER,
            edit(
                FORWARD,
                f"final = {JOINED}",
                f"final = lowest = {JOINED} if layer == 0 else lowest",
            ),
        ),
        Mistake(
            "layers above the second are left out",
            "There are as many layers as `num_layers` says: let the states of each go"
            " through the next.",
            ENCODER,
            edit(FORWARD, "(self.forwards)", "(self.forwards[:2])"),
        ),
        Mistake(
            "residual connections between the layers",
            "What a layer has read is not added to its states: a layer reads the states"
            " of the layer below it, and nothing else.",
            ENCODER,
            edit(
                FORWARD,
                "torch.cat([states, back], dim=-1)",
                "torch.cat([states, back], dim=-1) + (below if layer else 0)",
            ),
        ),
        Mistake(
            "a tuple is used like a tensor",
            "An nn.LSTM returns two things: the states at all positions, and a pair of"
            " the last state and the last cell. Use the first.",
            ENCODER,
            sign=error_like("got tuple|tuple.*has no attribute"),
        ),
        Mistake(
            "an extra axis in the final state",
            "An nn.LSTM returns its last state as (layers, B, D), and this state"
            " belongs to the last column.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and reply.outputs[FINAL].dim() == 3
            ),
        ),
        Mistake(
            "backward states right, forward states wrong",
            "The backward states are right. The forward LSTM reads the states of the"
            " layer below as they are.",
            ENCODER,
            sign=_half_right(STATES, False, True),
        ),
        Mistake(
            "forward states right, backward states wrong",
            "The forward states are right. The backward LSTM reads each sentence"
            " reversed within its own length, and its states are reversed again.",
            ENCODER,
            sign=_half_right(STATES, True, False),
        ),
        Mistake(
            "a layer gets inputs of the wrong size",
            "Each layer reads the states of the layer below it, of both directions: 2D"
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
            made_by=(
                edit(
                    _Stacked.forward,
                    "self.embedding(source), lengths",
                    "self.embedding(source), (source != 0).sum(1).clamp(min=1).cpu()",
                ),
                edit(
                    _Stacked.forward,
                    READ,
                    f"{READ}._replace(mask=(source != 0)[:, None])",
                ),
            ),
        ),
        *OF_ENCODERS,
        *ANYWHERE,
        Mistake(
            "the wrong final state",
            "The states are right. The final state is the forward state at each"
            " sentence's last token and the backward state at its first.",
            ENCODER,
            sign=wrong_in(FINAL, STATES),
        ),
        OTHER_MASK,
        Mistake(
            "wrong with more than one layer",
            "Each layer reads the states of the layer below it, of both directions. The"
            " states of the top layer are returned.",
            ENCODER,
            sign=lambda request, reply, reference: (
                _many(request)
                and not reply.error
                and not close(reply.outputs[STATES], reference.outputs[STATES])
            ),
        ),
        Mistake(
            "the directions are combined in the wrong way",
            "In every layer both LSTMs read the same states. The backward states are"
            " reversed again and come second: (B, S, 2D).",
            ENCODER,
            sign=comparable(lambda request, reply, reference: True),
        ),
    ),
)
