"""remember: the memory of one slot that a decoder starts from."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded, Memory
from attention_labs.lab02_bottleneck.sentences import (
    NOT_BOOL,
    RAGGED,
    E,
    S,
    as_numbers,
    learns_and_behaves,
)
from attention_labs.lab02_bottleneck.steps import DECODERS, HANDOVER, SIZES
from attention_labs.pages import MASK, PADDING
from attention_labs.pieces import with_pieces
from nbjudge import (
    ANYWHERE,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    error_like,
    manners,
    normal,
    of_output,
    of_outputs,
    parameters,
    same_numbers,
    wrong_in,
)


class OneSlot(nn.Module):
    """What the lab's decoders share, in pieces that a mistake can replace."""

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, memory_dim: int
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded: Encoded) -> Memory:
        """Make a memory of what an encoder returns."""
        key, value, mask = self.slot(encoded)
        return Memory(key, value, mask, self.first(self.bridge, encoded))

    def slot(self, encoded: Encoded) -> tuple[Tensor, Tensor, Tensor]:
        """Return key and value (B, 1, E) of the one slot, and its mask (B, 1, 1)."""
        return encoded.final[:, None], encoded.final[:, None], encoded.mask[..., :1]

    def first(self, bridge: nn.Module, encoded: Encoded) -> Tensor:
        """Return the state (B, D) that decoding starts from."""
        return torch.tanh(bridge(encoded.final))


def _use_remember(decoder: Any, states: Tensor, final: Tensor, lengths: Tensor) -> Any:
    memory = decoder.remember(
        Encoded(states, final, padding_mask(lengths, states.size(1)))
    )
    if memory is None:
        return None
    if not isinstance(memory, Memory):
        raise TypeError(f"a {type(memory).__name__} was returned, wanted a Memory")
    return memory._replace(mask=as_numbers(memory.mask, final))


def _encoded(
    g: torch.Generator, lengths: Sequence[int] = RAGGED, gradients: bool = False
) -> Request:
    inputs = (
        normal(g, len(lengths), max(lengths), E),
        normal(g, len(lengths), E),
        torch.tensor(lengths),
    )
    return Request(inputs, SIZES, parameters(g, lambda: OneSlot(*SIZES)), gradients)


def _some_encoded(g: torch.Generator) -> Iterator[Request]:
    yield _encoded(g)
    yield _encoded(g, (4,))


def _encoded_learns(g: torch.Generator) -> Iterator[Request]:
    yield _encoded(g, gradients=True)
    yield from manners(_encoded(g))


def _every_slot_kept(request: Request, reply: Reply, reference: Reply) -> bool:
    return (
        not reply.error
        and len(reply.outputs) == 4
        and reply.outputs[1].shape[1:2] == torch.Size([S])
    )


REMEMBER = Question(
    name="remember",
    reference=OneSlot,
    use=_use_remember,
    properties=(
        Property(
            "one slot, which holds the final state and may be looked at",
            1,
            _some_encoded,
            of_outputs(0, 3, same_numbers),
        ),
        Property(
            "the decoder's first state", 1, _some_encoded, of_output(3, same_numbers)
        ),
        Property(
            "gradients, dtype kept, works on any device",
            1,
            _encoded_learns,
            learns_and_behaves,
        ),
    ),
    mistakes=(
        Mistake(
            "a slot for every token",
            "This memory has room for one vector, the final state: (B, 1, E).",
            DECODERS,
            with_pieces(
                OneSlot,
                slot=lambda encoded: (encoded.states, encoded.states, encoded.mask),
            ),
            _every_slot_kept,
        ),
        Mistake(
            "the last column is taken for the final state",
            "`encoded.final` is the state at each sentence's own end; in the last"
            " column of the states stands padding.",
            PADDING,
            with_pieces(
                OneSlot,
                slot=lambda encoded: (
                    encoded.states[:, -1:],
                    encoded.states[:, -1:],
                    encoded.mask[..., :1],
                ),
                first=lambda bridge, encoded: torch.tanh(bridge(encoded.states[:, -1])),
            ),
        ),
        Mistake(
            "the slot is forbidden",
            "The mask's last column belongs to padding, for all but the longest source;"
            " its first is always a token.",
            MASK,
            with_pieces(
                OneSlot,
                slot=lambda encoded: (
                    encoded.final[:, None],
                    encoded.final[:, None],
                    encoded.mask[..., -1:],
                ),
            ),
            wrong_in(2),
        ),
        Mistake(
            "a mask for every token",
            "The mask says which slots may be looked at, and there is one: (B, 1, 1).",
            MASK,
            with_pieces(
                OneSlot,
                slot=lambda encoded: (
                    encoded.final[:, None],
                    encoded.final[:, None],
                    encoded.mask,
                ),
            ),
        ),
        Mistake(
            "the axis of the slots is missing",
            "One slot is an axis of length one: (B, 1, E).",
            DECODERS,
            with_pieces(
                OneSlot,
                slot=lambda encoded: (
                    encoded.final,
                    encoded.final,
                    encoded.mask[..., :1],
                ),
            ),
        ),
        Mistake(
            "tanh missing",
            "The first state is the tanh of a linear map of the final state.",
            HANDOVER,
            with_pieces(OneSlot, first=lambda bridge, encoded: bridge(encoded.final)),
        ),
        Mistake(
            "the final state goes in as it is",
            "Encoder and decoder need not be equally wide: `bridge` maps E numbers"
            " to D.",
            HANDOVER,
            with_pieces(OneSlot, first=lambda bridge, encoded: encoded.final),
        ),
        Mistake(
            "no Memory is returned",
            "The four tensors are the fields of a Memory: key, value, mask, state.",
            DECODERS,
            sign=error_like("wanted a Memory|Memory.__new__"),
        ),
        NOT_BOOL,
        *ANYWHERE,
        Mistake(
            "another first state",
            "The slot is right. The first state is the tanh of `bridge` of the final"
            " state.",
            HANDOVER,
            sign=comparable(
                lambda request, reply, reference: all(
                    map(close, reply.outputs[:3], reference.outputs[:3])
                )
            ),
        ),
        Mistake(
            "something else in the slot",
            "Key and value are the same tensor: `encoded.final` as it is, with an axis"
            " for the one slot, (B, 1, E).",
            DECODERS,
            sign=lambda request, reply, reference: (
                not reply.error
                and not all(map(close, reply.outputs[:2], reference.outputs[:2]))
            ),
        ),
    ),
)
