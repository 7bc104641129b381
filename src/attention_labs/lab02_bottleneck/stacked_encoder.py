"""stacked_encoder: several layers, each of which reads in both directions."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from attention_course import rnn
from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from attention_labs.lab02_bottleneck.sentences import (
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
    to_read,
    use_encoder,
)
from attention_labs.pages import PADDING
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
    good_manners,
    of_output,
    same_gradients,
    same_numbers,
)


class _Stacked(nn.Module):
    """The lab's second encoder in pieces that a mistake can replace."""

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_layers: int
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        widths = [embedding_dim] + [2 * hidden_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(
            nn.GRU(width, hidden_dim, batch_first=True) for width in widths
        )
        self.backwards = nn.ModuleList(
            nn.GRU(width, hidden_dim, batch_first=True) for width in widths
        )

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        states = self.embedding(source)
        ahead = turned = states
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, _ = forwards(states)
            turned, _ = backwards(self.turn(states, lengths))
            states = self.join(ahead, self.turn_back(turned, lengths))
        final = self.end(ahead, turned, lengths)
        return Encoded(
            states, final, padding_mask(lengths.to(source.device), source.size(1))
        )

    def turn(self, x: Tensor, lengths: Tensor) -> Tensor:
        return rnn.reverse_padded(x, lengths)

    def turn_back(self, x: Tensor, lengths: Tensor) -> Tensor:
        return rnn.reverse_padded(x, lengths)

    def join(self, ahead: Tensor, back: Tensor) -> Tensor:
        return torch.cat([ahead, back], dim=-1)

    def end(self, ahead: Tensor, turned: Tensor, lengths: Tensor) -> Tensor:
        return torch.cat(
            [rnn.at_end(ahead, lengths), rnn.at_end(turned, lengths)], dim=-1
        )


def _not_turned(x: Tensor, lengths: Tensor) -> Tensor:
    return x


def _flipped(x: Tensor, lengths: Tensor) -> Tensor:
    return x.flip(1)


def _one_layer(g: torch.Generator) -> Iterator[Request]:
    yield to_read(g, _Stacked, (V, M, D, 1))


def _two_layers(g: torch.Generator) -> Iterator[Request]:
    yield to_read(g, _Stacked, (V, M, D, 2), gradients=True)
    yield to_read(g, _Stacked, (V, M, D, 3), (4, 2, 6, 5))


def _layers_manners(g: torch.Generator) -> Iterator[Request]:
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(to_read(g, _Stacked, (V, M, D, 2)), dtype=dtype)


def _half(first: bool, output: int) -> Callable[[Request, Reply, Reply], bool]:
    """Look for replies that are right in one direction and wrong in the other."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if output == FINAL and not close(
            reply.outputs[STATES], reference.outputs[STATES]
        ):
            return False
        given, wanted = (x.outputs[output].chunk(2, dim=-1) for x in (reply, reference))
        right = [close(*pair) for pair in zip(given, wanted)]
        return right == [first, not first]

    return comparable(sign)


STACKED_ENCODER = Question(
    name="stacked_encoder",
    reference=_Stacked,
    use=use_encoder,
    stand_ins={"at_end": rnn.at_end},
    properties=(
        Property(
            "one layer: the states of both directions",
            2,
            _one_layer,
            of_output(STATES, same_numbers),
        ),
        Property(
            "one layer: where each direction has read everything",
            2,
            _one_layer,
            of_output(FINAL, same_numbers),
        ),
        Property(
            "more layers, the mask, and all gradients", 1, _two_layers, same_gradients
        ),
        Property("dtype kept", 1, _layers_manners, good_manners),
    ),
    mistakes=(
        Mistake(
            "the whole batch turned around",
            "flip(1) puts a short sentence's padding in front of it: each sentence is"
            " turned within its own length.",
            ENCODER,
            with_pieces(_Stacked, turn=_flipped, turn_back=_flipped),
        ),
        Mistake(
            "backward states not turned back",
            "Position s of the backward states belongs to another token, until they are"
            " turned back.",
            ENCODER,
            with_pieces(_Stacked, turn_back=_not_turned),
        ),
        Mistake(
            "both directions read forwards",
            "The backward layer reads each sentence from its end: turn it around"
            " first.",
            ENCODER,
            with_pieces(_Stacked, turn=_not_turned, turn_back=_not_turned),
        ),
        Mistake(
            "both directions read forwards",
            "The backward layer reads each sentence from its end: turn it around before"
            " it is read, and back after.",
            ENCODER,
            with_pieces(_Stacked, turn=_not_turned),
        ),
        Mistake(
            "backward before forward",
            "The forward state comes first, the backward one behind it.",
            ENCODER,
            with_pieces(
                _Stacked, join=lambda ahead, back: torch.cat([back, ahead], dim=-1)
            ),
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
            with_pieces(
                _Stacked,
                end=lambda ahead, turned, lengths: torch.cat(
                    [rnn.at_end(ahead, lengths), turned[:, 0]], dim=-1
                ),
            ),
            _half(True, FINAL),
        ),
        Mistake(
            "the last column is taken for the final state",
            "Behind a short sentence both layers have gone on reading padding.",
            PADDING,
            with_pieces(
                _Stacked,
                end=lambda ahead, turned, lengths: torch.cat(
                    [ahead[:, -1], turned[:, -1]], dim=-1
                ),
            ),
            _half(False, FINAL),
        ),
        Mistake(
            "the forward layer is wrong",
            "The backward states are right. The forward layer reads the states of the"
            " layer below as they are.",
            ENCODER,
            sign=_half(False, STATES),
        ),
        Mistake(
            "the backward layer is wrong",
            "The forward states are right. The backward layer reads each sentence"
            " turned around within its own length, and its states are turned back.",
            ENCODER,
            sign=_half(True, STATES),
        ),
        Mistake(
            "the layers do not stand on each other",
            "Each layer reads the states of the one below it, of both directions, 2D"
            " numbers.",
            ENCODER,
            sign=lambda request, reply, reference: (
                request.init is not None
                and request.init[-1] > 1
                and error_like("input.size|input_size|mat1 and mat2|must have")(
                    request, reply, reference
                )
            ),
        ),
        WRONG_MASK,
        NO_MASK,
        NOT_BOOL,
        NO_ENCODED,
        *ANYWHERE,
        Mistake(
            "another final state",
            "The states are right. The final one is the forward state at each"
            " sentence's last token, and the backward state at its first.",
            ENCODER,
            sign=comparable(final_alone),
        ),
        Mistake(
            "one layer is right, more are not",
            "Each layer reads the states of the one below it, of both directions; the"
            " top one's are returned.",
            ENCODER,
            sign=lambda request, reply, reference: (
                request.init is not None and request.init[-1] > 1
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
