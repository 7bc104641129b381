"""encoder: a state for every token, and the final one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import rnn
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from attention_labs.lab02_bottleneck.sentences import (
    ALLOWED,
    ENCODER,
    FINAL,
    NO_ENCODED,
    NO_MASK,
    NOT_BOOL,
    STATES,
    WRONG_MASK,
    D,
    M,
    V,
    final_alone,
    last_column,
    learns_and_behaves,
    to_read,
    use_encoder,
)
from attention_labs.pages import MASK, PADDING
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Request,
    close,
    comparable,
    of_output,
    same_numbers,
)


class _Encoder(nn.Module):
    """The lab's first encoder in pieces that a mistake can replace."""

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def forward(self, source: Tensor, lengths: Tensor) -> Any:
        embedded = self.embedding(source)
        states = self.run(self.rnn, embedded)
        mask = padding_mask(lengths.to(source.device), source.size(1))
        return Encoded(states, self.end(states, lengths), mask)

    def run(self, layer: nn.Module, embedded: Tensor) -> Tensor:
        return layer(embedded)[0]

    def end(self, states: Tensor, lengths: Tensor) -> Tensor:
        return rnn.at_end(states, lengths)


def _sources(g: torch.Generator) -> Iterator[Request]:
    yield to_read(g, _Encoder, (V, M, D))
    yield to_read(g, _Encoder, (V, M, D), (2, 5))


def _sources_learn(g: torch.Generator) -> Iterator[Request]:
    yield to_read(g, _Encoder, (V, M, D), gradients=True)
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(to_read(g, _Encoder, (V, M, D)), dtype=dtype)


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
            "all gradients, and dtype kept", 1, _sources_learn, learns_and_behaves
        ),
    ),
    mistakes=(
        Mistake(
            "the last column is taken for the final state",
            "Behind a short sentence the layer has read padding, and what an nn.GRU"
            " returns second comes from there.",
            PADDING,
            with_pieces(_Encoder, end=last_column),
        ),
        Mistake(
            "the final state is the first",
            "At position 0 nothing but the first token has been read.",
            PADDING,
            with_pieces(_Encoder, end=lambda states, lengths: states[:, 0]),
        ),
        Mistake(
            "the final state is one position too early",
            "`at_end` takes the lengths as they are.",
            PADDING,
            with_pieces(
                _Encoder,
                end=lambda states, lengths: rnn.at_end(
                    states, (lengths - 1).clamp(min=1)
                ),
            ),
        ),
        Mistake(
            "embeddings returned as states",
            "The states are what the recurrent layer makes of the embeddings.",
            ENCODER,
            with_pieces(_Encoder, run=lambda layer, embedded: embedded),
        ),
        Mistake(
            "read across the batch",
            "The layer was made with `batch_first=True`: it wants (B, S, width), and"
            " goes along the second axis.",
            ENCODER,
            with_pieces(
                _Encoder,
                run=lambda layer, embedded: layer(embedded.transpose(0, 1))[
                    0
                ].transpose(0, 1),
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
        WRONG_MASK,
        NO_MASK,
        NOT_BOOL,
        NO_ENCODED,
        *ANYWHERE,
        Mistake(
            "another final state",
            "The states are right. The final one is that of each sentence's own last"
            " token.",
            PADDING,
            sign=comparable(final_alone),
        ),
        Mistake(
            "another mask",
            "States and final state are right. The mask is (B, 1, S), True on tokens.",
            MASK,
            sign=lambda request, reply, reference: (
                not reply.error
                and len(reply.outputs) == 3
                and all(map(close, reply.outputs[:2], reference.outputs[:2]))
            ),
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
