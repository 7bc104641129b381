"""What questions of this lab share: sizes, sentences of several lengths, and signs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course.masks import padding_mask
from attention_course.rnn import FinalStateDecoder
from attention_course.seq2seq import Encoded, Memory
from attention_labs.pages import FORCING, MASK, PADDING
from nbjudge import (
    Finding,
    Mistake,
    Property,
    Reply,
    Request,
    Sign,
    close,
    comparable,
    edit,
    error_like,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    wrong_in,
)

B, T, S, D, E, M, V = 3, 5, 7, 4, 6, 2, 11
RAGGED = (S, 3, 5)
SIZES = (V, M, D, E)  # of a decoder

ENCODER = "02_encoder_decoder.html#encoder-decoder-encoder"
HANDOVER = "02_encoder_decoder.html#encoder-decoder-handover"
DECODERS = "03_bottleneck.html#bottleneck-decoders"

STATES, FINAL, ALLOWED = 0, 1, 2  # what an encoder returns
LOGITS, WEIGHTS, STATE = 0, 1, 2  # what a decoder returns


def on_the_cpu(lengths: Tensor) -> Tensor:
    """Let lengths be where encoders expect them, also if all else is on meta."""
    return torch.ones_like(lengths, device="cpu") if lengths.is_meta else lengths.cpu()


def as_numbers(returned: Any, kind: Any, wanted: str) -> Any:
    """Check what was returned, and let its mask pass for numbers, if it is one."""
    if returned is None:
        return None
    if not isinstance(returned, kind):
        raise TypeError(f"a {type(returned).__name__} was returned, wanted {wanted}")
    if returned.mask.dtype != torch.bool:
        raise TypeError(f"the mask holds {returned.mask.dtype}, wanted torch.bool")
    return returned._replace(mask=returned.mask.to(returned[0].dtype))


def learns_and_behaves(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Compare gradients where they are asked for; elsewhere look at manners."""
    judge = same_gradients if request.gradients else good_manners
    return judge(request, reply, reference)


def only(output: int) -> Sign:
    """Look for replies in which one output is wrong, and no other."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        right = list(map(close, reply.outputs, reference.outputs))
        wrong_one = [i != output for i, _ in enumerate(reference.outputs)]
        return len(reply.outputs) == len(reference.outputs) and right == wrong_one

    return sign


# --- encoders -------------------------------------------------------------------------


def use_encoder(encoder: Any, source: Tensor, lengths: Tensor) -> Any:
    """Encode; states on padding are nobody's business."""
    returned = encoder(source, on_the_cpu(lengths))
    encoded = as_numbers(returned, Encoded, "an Encoded")
    tokens = padding_mask(lengths, source.size(1)).mT
    if encoded and encoded.states.shape[:-1] == source.shape:
        return encoded._replace(states=encoded.states.where(tokens, 0))
    return encoded


def to_read(
    g: torch.Generator,
    reference: Any,
    init: tuple[int, ...],
    sizes: Sequence[int] = RAGGED,
    gradients: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Request:
    """Draw sentences of these lengths, and parameters of an encoder."""
    lengths = torch.tensor(sizes)
    ids = torch.randint(1, V, (len(sizes), max(sizes)), generator=g)
    inputs = (ids * padding_mask(lengths, max(sizes))[:, 0], lengths)
    drawn = parameters(g, lambda: reference(*init))
    return Request(inputs, init, drawn, gradients, dtype)


NOT_BOOL = Mistake(
    "numbers, where True and False are meant",
    "A mask is of dtype torch.bool.",
    MASK,
    sign=error_like("wanted torch.bool"),
)
OF_ENCODERS = (
    Mistake(
        "mask the wrong way around",
        "True means a token. `padding_mask` gives the mask as it should be.",
        MASK,
        sign=comparable(
            lambda request, reply, reference: close(
                1 - reply.outputs[ALLOWED].double(), reference.outputs[ALLOWED]
            )
        ),
    ),
    Mistake(
        "padding allowed",
        "The mask is False on padding: it is made from the lengths.",
        PADDING,
        sign=comparable(
            lambda request, reply, reference: (
                not close(reply.outputs[ALLOWED], reference.outputs[ALLOWED])
                and bool((reply.outputs[ALLOWED] == 1).all())
            )
        ),
    ),
    NOT_BOOL,
    Mistake(
        "no Encoded is returned",
        "The three tensors are the fields of an Encoded, in this order: states, final,"
        " mask.",
        ENCODER,
        sign=error_like("wanted an Encoded|Encoded.__new__"),
    ),
)


# --- decoders -------------------------------------------------------------------------


def use_step(
    decoder: Any, token: Tensor, state: Tensor, slot: Tensor, first: Tensor
) -> Any:
    """Make a step with a memory of one slot."""
    mask = torch.ones(slot.size(0), 1, 1, dtype=torch.bool, device=slot.device)
    return decoder.step(token, Memory(slot, slot, mask, first), state)


def a_step(
    g: torch.Generator,
    reference: Any,
    tokens: int = 1,
    gradients: bool = False,
    batch: int = B,
) -> Request:
    """Draw tokens, a state, a slot, the first state, and parameters of a decoder."""
    inputs = (
        torch.randint(V, (batch, tokens), generator=g),
        normal(g, batch, D).tanh(),
        normal(g, batch, 1, E),
        normal(g, batch, D).tanh(),
    )
    return Request(inputs, SIZES, parameters(g, lambda: reference(*SIZES)), gradients)


def step_properties(reference: Any) -> tuple[Property, ...]:
    """List what every decoder is checked for."""
    return (
        Property(
            "the logits of one token",
            2,
            lambda g: [a_step(g, reference)],
            of_output(LOGITS, same_numbers),
        ),
        Property(
            "many tokens at once, weights of one, and the last state handed on",
            1,
            lambda g: [
                a_step(g, reference, tokens=T),
                a_step(g, reference, tokens=2, batch=1),
            ],
            same_numbers,
        ),
        Property(
            "gradients of everything that was read",
            1,
            lambda g: [a_step(g, reference, tokens=T, gradients=True)],
            same_gradients,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(a_step(g, reference, tokens=T)),
            good_manners,
        ),
    )


def _logits_of_one_token(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        return False
    given, wanted = reply.outputs[LOGITS], reference.outputs[LOGITS]
    return given.dim() == 3 and given.size(1) == 1 < wanted.size(1)


STEP, SAY = FinalStateDecoder.step, "self.head(self.dropout(states))"

# The mistakes that every decoder invites: some are looked for first, some last.
OF_STEPS = (
    Mistake(
        "every step starts from the first state",
        "memory.state is where decoding starts; the state before this step is the"
        " cache.",
        HANDOVER,
        edit(STEP, "cache[None]", "memory.state[None]"),
    ),
    Mistake(
        "every step starts from nothing",
        "Without a state an nn.GRU starts from zeros: the decoder would have no"
        " past and no source.",
        HANDOVER,
        edit(STEP, ", cache[None]", ""),
    ),
    Mistake(
        "the new state is not handed on",
        "What a step returns last is where the next step starts: the state after"
        " its last token.",
        HANDOVER,
        edit(STEP, "state[0]", "cache"),
    ),
    Mistake(
        "the state after the first token is handed on",
        "A step may take many tokens: the next one starts behind the last of them.",
        HANDOVER,
        edit(STEP, "state[0]", "states[:, 0]"),
    ),
    Mistake(
        "probabilities, where logits are meant",
        "The softmax is part of the loss: the head's numbers are returned as they are.",
        FORCING,
        (
            edit(STEP, SAY, f"{SAY}.softmax(-1)"),
            edit(STEP, SAY, f"{SAY}.log_softmax(-1)"),
        ),
    ),
    Mistake(
        "states, where logits are meant",
        "`head` maps each state to V numbers.",
        HANDOVER,
        edit(STEP, SAY, "states"),
    ),
    Mistake(
        "the logits of one token only",
        "Each of the T tokens has a state and logits of its own.",
        HANDOVER,
        sign=_logits_of_one_token,
    ),
    Mistake(
        "the axis of the layers",
        "Whatever batch_first says, an nn.GRU starts from a state (layers, B, D),"
        " and returns one like this.",
        HANDOVER,
        sign=error_like("hx should|Expected hidden size"),
    ),
)
OF_STEPS_LAST = (
    Mistake(
        "other weights",
        "There is one slot, and at each of the T steps its weight is one: (B, T, 1),"
        " all ones.",
        DECODERS,
        sign=only(WEIGHTS),
    ),
    Mistake(
        "another state is handed on",
        "The logits are right. The next step starts from the state after the last"
        " token, (B, D).",
        DECODERS,
        sign=only(STATE),
    ),
    Mistake(
        "the logits are made of something else",
        "The states are right. The logits are `head` of each of them.",
        DECODERS,
        sign=only(LOGITS),
    ),
    Mistake(
        "the update reads something else",
        "The recurrent layer reads what the equation names, in this order, and starts"
        " from the cache.",
        DECODERS,
        sign=wrong_in(STATE, WEIGHTS),
    ),
)
