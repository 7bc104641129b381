"""Question `encoder`: a recurrent encoder, with a state per token and a final state.

The encoder with several layers is in `stacked_encoder`.
"""

from dataclasses import replace

from torch import Tensor, nn

from attention_course import rnn
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from attention_labs.lab02_bottleneck.shared import (
    ALLOWED,
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
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    close,
    edit,
    of_output,
    same_gradients,
    same_numbers,
    wrong_in,
)


class _Encoder(nn.Module):
    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        states, _ = self.rnn(self.embedding(source))
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, rnn.at_end(states, lengths), mask)


def _read(d: Draw, lengths: Tensor | None = None) -> Request:
    lengths = lengths_of(d) if lengths is None else lengths
    return to_read(d, _Encoder, (d.V, d.M, d.D), lengths)


BATTERY = Battery(MODULE, _read, {**AXES, **WIDTHS}, leaves_out=LEFT_OUT)
FORWARD, END = _Encoder.forward, "rnn.at_end(states, lengths)"
READ = "self.rnn(self.embedding(source))"
PACKED = (
    "nn.utils.rnn.pack_padded_sequence(self.embedding(source), lengths, True, False)"
)

QUESTION = Question(
    name="encoder",
    reference=_Encoder,
    use=use_encoder,
    stand_ins={"at_end": rnn.at_end},
    battery=BATTERY,
    requirements={
        **OF_AN_ENCODER,
        "states": "`states` (B, S, E) holds the state at every position. What it holds"
        " on padding does not matter.",
        "final": "`final` (B, E) holds the state at the last token of each sentence.",
        "mask": "`mask` (B, 1, S) is True on tokens and False on padding.",
        "devices": "`padding_mask(lengths, size)` makes it on the device of the"
        " lengths, so first move the lengths to the device of `source`.",
        "reads": "Read a source with one recurrent layer, from left to right.",
        "returns": "`Encoded`.",
    },
    properties=(
        BATTERY.numbers(
            "the state at every token",
            1,
            of_output(STATES, same_numbers),
            ("states", "reads", "source", "returns"),
            gradients=False,
        ),
        BATTERY.line(
            "the final state at each sentence's own end",
            1,
            judge=of_output(FINAL, same_numbers),
            checks=("final", "lengths"),
        ),
        BATTERY.line(
            "a mask that is True on tokens",
            1,
            judge=of_output(ALLOWED, same_numbers),
            checks=("mask",),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            claim=RARE,
            also=lambda d: [
                replace(_read(d, x), gradients=True) for x in rare_lengths(d)
            ],
            checks=("wider", "ids", "states", "final", "mask"),
        ),
        BATTERY.manners(1, checks=("manners", "devices", "mask")),
    ),
    mistakes=(
        Mistake(
            "final state taken from the last column",
            "After a short sentence, the layer reads padding. The second result of an"
            " nn.GRU is the state after this padding.",
            PADDING,
            edit(FORWARD, END, "states[:, -1]"),
        ),
        Mistake(
            "final state taken from the first position",
            "At position 0, only the first token has been read.",
            PADDING,
            edit(FORWARD, END, "states[:, 0]"),
        ),
        Mistake(
            "final state taken one position too early",
            "`at_end` takes the lengths as they are.",
            PADDING,
            (
                edit(FORWARD, END, "rnn.at_end(states, (lengths - 1).clamp(min=1))"),
                edit(FORWARD, END, "rnn.at_end(states, lengths - 1)"),
            ),
        ),
        Mistake(
            "embeddings returned as states",
            "The states are the output of the recurrent layer, which reads the"
            " embeddings.",
            ENCODER,
            edit(FORWARD, f"states, _ = {READ}", "states = self.embedding(source)"),
        ),
        Mistake(
            "the states end with the longest sentence",
            "A batch may be padded further than its longest sentence, and the states"
            " have as many positions as the batch. pad_packed_sequence takes"
            " `total_length`.",
            PADDING,
            edit(
                FORWARD,
                READ,
                f"nn.utils.rnn.pad_packed_sequence(self.rnn({PACKED})[0], True)",
            ),
        ),
        Mistake(
            "id 0 has no embedding",
            "Any id of the vocabulary may be a token, also 0. Where padding is, the"
            " lengths say.",
            PADDING,
            edit(
                FORWARD,
                READ,
                "self.rnn(self.embedding(source) * (source != 0)[..., None])",
            ),
        ),
        Mistake(
            "a batch starts from the state of the batch before",
            "The sentences of two batches have nothing to do with one another: each"
            " starts from zeros. Keep nothing on self.",
            ENCODER,
            edit(
                FORWARD,
                f"states, _ = {READ}",
                "last = self.__dict__.get('last', source)\n"
                "    fits = last.dim() == 3 and last.size(1) == len(source)\n"
                "    states, last = self.rnn(\n"
                "        self.embedding(source), last if fits else None\n"
                "    )\n"
                "    self.last = last.detach()",
            ),
        ),
        Mistake(
            "the mask is on the device of the lengths",
            "The lengths are on the CPU, and a mask is made where its lengths are. Move"
            " them to the device of `source` first.",
            ENCODER,
            edit(FORWARD, "lengths.to(source.device)", "lengths"),
        ),
        Mistake(
            "the RNN reads along the batch axis",
            "The layer was made with `batch_first=True`: it expects (B, S, width) and"
            " reads along the second axis.",
            ENCODER,
            edit(
                FORWARD,
                READ,
                "(x.transpose(0, 1) for x in self.rnn(self.embedding(source.mT)))",
            ),
        ),
        Mistake(
            "an extra axis in the final state",
            "An nn.GRU returns its last state as (layers, B, D), and this state"
            " belongs to the last column.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and reply.outputs[FINAL].dim() == 3
            ),
        ),
        replace(
            TOLD_BY_IDS,
            made_by=edit(
                FORWARD,
                "padding_mask(lengths.to(source.device), source.size(1))",
                "(source != 0)[:, None]",
            ),
        ),
        *OF_ENCODERS,
        *ANYWHERE,
        Mistake(
            "the wrong final state",
            "The states are right. The final state is the state at each sentence's own"
            " last token.",
            PADDING,
            sign=wrong_in(FINAL, STATES),
        ),
        OTHER_MASK,
        Mistake(
            "the wrong states",
            "The states are what the GRU returns first, when it reads the embedded"
            " tokens: (B, S, E), as they are.",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and request.device != "meta"
                and not close(reply.outputs[STATES], reference.outputs[STATES])
            ),
        ),
    ),
)
