"""encoder: a state for every token, and the final one."""

import torch
from torch import Tensor, nn

from attention_course import rnn
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from attention_labs.lab02_bottleneck.shared import (
    ALLOWED,
    ENCODER,
    FINAL,
    OF_ENCODERS,
    STATES,
    D,
    M,
    V,
    learns_and_behaves,
    only,
    to_read,
    use_encoder,
)
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    close,
    edit,
    of_output,
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


INIT = (V, M, D)


def _sources(g: torch.Generator) -> list[Request]:
    return [to_read(g, _Encoder, INIT), to_read(g, _Encoder, INIT, (2, 5))]


FORWARD, END = _Encoder.forward, "rnn.at_end(states, lengths)"
READ = "self.rnn(self.embedding(source))"

ENCODER_QUESTION = Question(
    name="encoder",
    reference=_Encoder,
    use=use_encoder,
    stand_ins={"at_end": rnn.at_end},
    properties=(
        Property(
            "the state at every token", 1, _sources, of_output(STATES, same_numbers)
        ),
        Property(
            "the final state at each sentence's own end",
            2,
            _sources,
            of_output(FINAL, same_numbers),
        ),
        Property(
            "a mask that is True on tokens",
            1,
            _sources,
            of_output(ALLOWED, same_numbers),
        ),
        Property(
            "all gradients, and dtype kept",
            1,
            lambda g: [
                to_read(g, _Encoder, INIT, gradients=True),
                to_read(g, _Encoder, INIT, dtype=torch.float32),
                to_read(g, _Encoder, INIT, dtype=torch.bfloat16),
            ],
            learns_and_behaves,
        ),
    ),
    mistakes=(
        Mistake(
            "the last column is taken for the final state",
            "Behind a short sentence the layer has read padding, and what an nn.GRU"
            " returns second comes from there.",
            PADDING,
            edit(FORWARD, END, "states[:, -1]"),
        ),
        Mistake(
            "the final state is the first",
            "At position 0 nothing but the first token has been read.",
            PADDING,
            edit(FORWARD, END, "states[:, 0]"),
        ),
        Mistake(
            "the final state is one position too early",
            "`at_end` takes the lengths as they are.",
            PADDING,
            edit(FORWARD, END, "rnn.at_end(states, (lengths - 1).clamp(min=1))"),
        ),
        Mistake(
            "embeddings returned as states",
            "The states are what the recurrent layer makes of the embeddings.",
            ENCODER,
            edit(FORWARD, f"states, _ = {READ}", "states = self.embedding(source)"),
        ),
        Mistake(
            "read across the batch",
            "The layer was made with `batch_first=True`: it wants (B, S, width), and"
            " goes along the second axis.",
            ENCODER,
            edit(
                FORWARD,
                READ,
                "(x.transpose(0, 1) for x in self.rnn(self.embedding(source.mT)))",
            ),
        ),
        Mistake(
            "the axis of the layers is left",
            "An nn.GRU returns its last state as (layers, B, D). (And it is the last"
            " column's.)",
            ENCODER,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and reply.outputs[FINAL].dim() == 3
            ),
        ),
        *OF_ENCODERS,
        *ANYWHERE,
        Mistake(
            "another final state",
            "The states are right. The final one is that of each sentence's own last"
            " token.",
            PADDING,
            sign=wrong_in(FINAL, STATES),
        ),
        Mistake(
            "another mask",
            "States and final state are right. The mask is (B, 1, S), True on tokens.",
            MASK,
            sign=only(ALLOWED),
        ),
        Mistake(
            "other states",
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
