"""What several questions of this lab share: sizes, sentences of several lengths, and
signs in what is encoded."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.masks import padding_mask
from attention_course.seq2seq import Encoded
from attention_labs.pages import MASK, PADDING
from nbjudge import (
    Finding,
    Mistake,
    Reply,
    Request,
    close,
    comparable,
    error_like,
    good_manners,
    parameters,
    same_gradients,
)
from nbjudge.comparisons import Judge

B, T, S, D, E, M, V = 3, 5, 7, 4, 6, 2, 11

ENCODER = "02_encoder_decoder.html#encoder-decoder-encoder"

RAGGED = (S, 3, 5)


def on_the_cpu(lengths: Tensor) -> Tensor:
    """Let lengths be where encoders expect them, also if everything else has gone to a
    device without numbers."""
    return (
        torch.ones(lengths.shape, dtype=torch.long)
        if lengths.is_meta
        else lengths.cpu()
    )


def last_column(x: Tensor, lengths: Tensor) -> Tensor:
    """Take the last vector of every row, padding or not."""
    return x[:, -1]


def learns_and_behaves(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Gradients are the reference's where they are asked for; elsewhere manners are
    good."""
    judge: Judge = same_gradients if request.gradients else good_manners
    return judge(request, reply, reference)


STATES, FINAL, ALLOWED = 0, 1, 2


def use_encoder(encoder: Any, source: Tensor, lengths: Tensor) -> Any:
    """Encode; states on padding are nobody's business."""
    encoded = encoder(source, on_the_cpu(lengths))
    if encoded is None:
        return None
    if not isinstance(encoded, Encoded):
        raise TypeError(f"a {type(encoded).__name__} was returned, wanted an Encoded")
    tokens = padding_mask(lengths, source.size(1))[:, 0, :, None]
    if encoded.states.dim() == 3 and encoded.states.shape[:2] == source.shape:
        encoded = encoded._replace(states=encoded.states.where(tokens, 0))
    return encoded._replace(mask=as_numbers(encoded.mask, encoded.states))


def as_numbers(mask: Tensor, like: Tensor) -> Tensor:
    """Let a mask pass for numbers, if it is one."""
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask holds {mask.dtype}, wanted torch.bool")
    return mask.to(like.dtype)


def to_read(
    g: torch.Generator,
    reference: Any,
    init: tuple[int, ...],
    sizes: Sequence[int] = RAGGED,
    gradients: bool = False,
) -> Request:
    """Draw sentences of these lengths, and parameters of an encoder."""
    lengths = torch.tensor(sizes)
    source = (
        torch.randint(1, V, (len(sizes), max(sizes)), generator=g)
        * padding_mask(lengths, max(sizes))[:, 0]
    )
    return Request(
        (source, lengths), init, parameters(g, lambda: reference(*init)), gradients
    )


def final_alone(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether the states are right and the final one is not."""
    return close(reply.outputs[STATES], reference.outputs[STATES]) and not close(
        reply.outputs[FINAL], reference.outputs[FINAL]
    )


NO_ENCODED = Mistake(
    "no Encoded is returned",
    "The three tensors are the fields of an Encoded, in this order: states, final,"
    " mask.",
    ENCODER,
    sign=error_like("wanted an Encoded|Encoded.__new__"),
)
WRONG_MASK = Mistake(
    "mask the wrong way around",
    "True means a token. `padding_mask` gives the mask as it should be.",
    MASK,
    sign=comparable(
        lambda request, reply, reference: close(
            1 - reply.outputs[ALLOWED].double(), reference.outputs[ALLOWED]
        )
    ),
)
NO_MASK = Mistake(
    "padding allowed",
    "The mask is False on padding: it is made from the lengths.",
    PADDING,
    sign=comparable(
        lambda request, reply, reference: (
            not close(reply.outputs[ALLOWED], reference.outputs[ALLOWED])
            and bool((reply.outputs[ALLOWED] == 1).all())
        )
    ),
)
NOT_BOOL = Mistake(
    "numbers, where True and False are meant",
    "A mask is of dtype torch.bool.",
    MASK,
    sign=error_like("wanted torch.bool"),
)
