"""Axes, sentences of several lengths and signs of mistakes, shared within lab 2."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, inf, nan
from torch.overrides import TorchFunctionMode

from attention_course.masks import padding_mask
from attention_course.rnn import FinalStateDecoder
from attention_course.seq2seq import Encoded, Memory
from attention_course.tasks.core import SPECIALS
from attention_labs.pages import FORCING, MASK, PADDING
from attention_labs.rules import EVERYWHERE
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Changed,
    Draw,
    Mistake,
    Question,
    Reply,
    Request,
    Sign,
    close,
    comparable,
    edit,
    error_like,
    normal,
    of_output,
    parameters,
    same_gradients,
    same_numbers,
    wrong_in,
    wrong_output,
)

AXES = {
    "B": Axis("sentences"),
    "S": Axis("source positions", long=300),
}
WIDTHS = {
    "V": Axis("tokens in the vocabulary", fixed=True),
    "M": Axis("width of an embedding", fixed=True),
    "D": Axis("width of a state", fixed=True),
}
MEMORY = {"E": Axis("width of the final state", fixed=True)}
# What the batteries of this lab leave out, and why.
NOT_EMPTY = {"zero": "a batch holds a sentence, and a sentence a token"}
ONE_BATCH = {"in front": "a batch has one axis"}
LENGTHS_ON_THE_CPU = {
    "elsewhere": "lengths are on the CPU, where tensors are made without device="
}
MANNERS = EVERYWHERE["manners"]
WIDER = "A batch may be padded to more positions than its longest sentence has tokens."

ENCODER = "02_encoder_decoder.html#encoder-decoder-encoder"
HANDOVER = "02_encoder_decoder.html#encoder-decoder-handover"
DECODERS = "03_bottleneck.html#bottleneck-decoders"

STATES, FINAL, ALLOWED = 0, 1, 2  # what an encoder returns
LOGITS, WEIGHTS, STATE = 0, 1, 2  # what a decoder returns


def lengths_of(d: Draw) -> Tensor:
    """Draw how many tokens each sentence has: one fills the batch, the others not.

    A sentence that is alone in its batch is padded as well.
    """
    others = torch.randint(1, max(2, d.S), (d.B,), generator=d)
    if d.B == 1:
        return others
    return others.where(torch.randperm(d.B, generator=d) > 0, d.S)


def rare_lengths(d: Draw) -> list[Tensor]:
    """Draw a batch that is padded wider, and batches of equal lengths, also of one."""
    equal = torch.ones_like(lengths_of(d))
    wider = [lengths_of(d), equal * d.S, equal * d.number(1, d.S)]
    return [*((x - 1).clamp(min=1) for x in wider), equal, equal * d.S]


def with_any_padding(x: Tensor, lengths: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Let vectors stand on padding as they are; NaN, infinity, zeros in their place.

    Some entries alone are NaN, infinity is of both signs. A token's vector may be zero.
    """
    tokens = padding_mask(lengths, x.size(1)).mT
    some = x.where(x < 0, nan)
    paddings = [x, torch.full_like(x, nan), some, x.sign() * inf, torch.zeros_like(x)]
    batches = [x.where(tokens, padding) for padding in paddings]
    zeros = x.where(x[..., :1] > 0, 0.0).where(tokens, x)
    return [(batch, lengths) for batch in (*batches, zeros)]


def on_the_cpu(lengths: Tensor, size: int) -> Tensor:
    """Let lengths be where encoders expect them, also if all else is on meta."""
    return torch.full(lengths.shape, size) if lengths.is_meta else lengths.cpu()


class _Fetching(TorchFunctionMode):
    """Let vectors be fetched to the CPU from device meta, as from a GPU: zeros come."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except NotImplementedError:
            if func not in (Tensor.cpu, Tensor.to) or not args[0].is_meta:
                raise
            zeros = torch.zeros_like(args[0], device="cpu")
            return func(zeros, *args[1:], **(kwargs or {}))


def as_from_a_gpu(x: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Let an answer fetch to the CPU what it is handed: that is where it then is."""
    return _Fetching() if x.is_meta else contextlib.nullcontext()


def as_numbers(returned: Any, kind: Any, wanted: str) -> Any:
    """Check what was returned, and let its mask pass for numbers, if it is one."""
    if returned is None:
        return None
    if not isinstance(returned, kind):
        raise TypeError(f"a {type(returned).__name__} was returned, wanted {wanted}")
    if returned.mask.dtype != torch.bool:
        raise TypeError(f"the mask holds {returned.mask.dtype}, wanted torch.bool")
    return returned._replace(mask=returned.mask.to(returned[0].dtype))


def _sentences_exchanged(given: Tensor, wanted: Tensor) -> bool:
    """Whether the rows are the right ones, in another order."""
    sums, right = (x.flatten(1).sum(1) for x in (given, wanted))
    return not close(sums, right) and close(sums.sort()[0], right.sort()[0])


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
    with as_from_a_gpu(source):
        returned = encoder(source, on_the_cpu(lengths, source.size(1)))
    encoded = as_numbers(returned, Encoded, "an Encoded")
    tokens = padding_mask(lengths, source.size(1)).mT
    if encoded and encoded.states.shape[:-1] == source.shape:
        return encoded._replace(states=encoded.states.where(tokens, 0))
    return encoded


def to_read(d: Draw, reference: Any, init: tuple[int, ...], lengths: Tensor) -> Request:
    """Draw ids, also where padding is, and parameters of an encoder."""
    source = torch.randint(d.V, (d.B, d.S), generator=d)
    return Request((source, lengths), init, parameters(d, lambda: reference(*init)))


# What every encoder is asked.
LEFT_OUT = {
    **NOT_EMPTY,
    **ONE_BATCH,
    **LENGTHS_ON_THE_CPU,
}
OF_AN_ENCODER = {
    "manners": MANNERS,
    "wider": WIDER,
    "ids": "Only the lengths tell you where the padding is. Any id of the vocabulary"
    " may be a token, and any id may be padding.",
    "source": "source: (B, S), ids.",
    "lengths": "lengths: (B,), of `torch.long`, tokens in each source; on the CPU.",
}
RARE = (
    "all gradients; one sentence, one token, long sentences, equal lengths, a batch"
    " padded wider, large parameters, eval mode, two batches one after the other, two"
    " encoders"
)
SORTED = Mistake(
    "the sentences in the wrong order",
    "Keep the sentences in their order. If you sort them to pack them, restore the"
    " order afterwards, or pack them with `enforce_sorted=False`.",
    sign=wrong_output(_sentences_exchanged),
)
NOT_BOOL = Mistake(
    "numbers instead of True and False",
    "A mask is of dtype torch.bool.",
    MASK,
    sign=error_like("wanted torch.bool"),
)
TOLD_BY_IDS = Mistake(
    "padding is inferred from the ids",
    "An id of 0 may stand in a sentence, and any id may stand after its end. Only the"
    " lengths say how many tokens there are.",
    MASK,
)
OTHER_MASK = Mistake(
    "the wrong mask",
    "States and final state are right. The mask is (B, 1, S), True on tokens.",
    MASK,
    sign=only(ALLOWED),
)
OF_ENCODERS = (
    SORTED,
    Mistake(
        "the mask is inverted",
        "True means a token. `padding_mask` gives the mask as it should be.",
        MASK,
        sign=comparable(
            lambda request, reply, reference: close(
                1 - reply.outputs[ALLOWED].double(), reference.outputs[ALLOWED]
            )
        ),
    ),
    Mistake(
        "the mask is True everywhere",
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
    """Make a step with a memory of one slot, after another source and other steps."""
    shape = (slot.size(0), 1, 1)
    mask = torch.ones(shape, dtype=torch.bool, device=slot.device)
    memory = Memory(slot, slot, mask, first)
    other = Memory(-slot, -slot, mask.clone(), -first)
    # A mistake in `remember` or `start` costs nothing here.
    with contextlib.suppress(Exception):
        decoder.remember(Encoded(-slot, -slot[:, 0], mask.clone()))
        decoder.start(other)
    decoder.step(token[:, :1], other, -state)
    decoder.step(token, memory, -state)
    outputs = decoder.step(token, memory, state)
    intact = mask.shape == shape and (mask.is_meta or bool(mask.all()))
    return outputs if intact else Changed(outputs)


def step_question(
    name: str,
    reference: Any,
    mistakes: tuple[Mistake, ...],
    requirements: Mapping[str, str],
) -> Question:
    """Declare a decoder's step: all have the same properties.

    Args:
        name: of the question.
        reference: the right class.
        mistakes: those of this decoder alone.
        requirements: the sentences of the lab that are about this decoder alone.
    """

    def a_step(d: Draw) -> Request:
        init = (d.V, d.M, d.D, d.E)
        inputs = (
            torch.randint(d.V, (d.B, d.T), generator=d),
            normal(d, d.B, d.D).tanh(),
            normal(d, d.B, 1, d.E),
            normal(d, d.B, d.D).tanh(),
        )
        return Request(inputs, init, parameters(d, lambda: reference(*init)))

    def huge_slot(d: Draw) -> Request:
        request = a_step(d)
        token, state, slot, first = request.inputs
        inputs = (token, state, 1e30 * slot, first)
        about = "a slot around 1e30, in float32"
        return replace(request, inputs=inputs, dtype=torch.float32, about=about)

    def rare(d: Draw) -> Iterator[Request]:
        yield huge_slot(d)
        request = a_step(d)
        token, *others = request.inputs
        one = (token[:, :1], *others)
        yield replace(request, inputs=one, gradients=True, about="one token each")
        # Targets begin, end and are padded alike, and then T may be 1.
        for number, name in enumerate(SPECIALS[: d.V]):
            same, about = torch.full_like(token, number), f"every id is that of {name}"
            yield replace(request, inputs=(same, *others), about=about)
            about = f"{about}; one token each, in eval mode"
            one = (same[:, :1], *others)
            yield replace(request, inputs=one, training=False, about=about)

    battery = Battery(
        MODULE,
        a_step,
        {
            "B": AXES["B"],
            "T": Axis("target positions", long=300),
            **WIDTHS,
            **MEMORY,
        },
        leaves_out={**NOT_EMPTY, **ONE_BATCH},
        large=(0.0, 1e5),
    )
    return Question(
        name=name,
        reference=reference,
        use=use_step,
        battery=battery,
        requirements={**OF_A_STEP, **requirements},
        properties=(
            battery.numbers(
                "the logits after each of T tokens",
                2,
                of_output(LOGITS, same_numbers),
                ("token", "logits", *requirements),
                gradients=False,
            ),
            battery.line(
                "weights of one, the state after the last token, and all gradients",
                1,
                lambda d: replace(a_step(d), gradients=True),
                same_gradients,
                ("one", "handed", "cache", "returns"),
            ),
            battery.edges(
                1,
                same_gradients,
                claim="one token, many tokens, equal tokens, a state or a source of"
                " zeros, large numbers, eval mode, two sources one after the other, two"
                " decoders",
                checks=("one token", "handed", "memory", *requirements),
                also=rare,
            ),
            battery.manners(1, checks=("manners", "one")),
        ),
        mistakes=(*mistakes, *OF_STEPS, *ANYWHERE, *OF_STEPS_LAST),
    )


# The sentences of the lab that are about every decoder.
OF_A_STEP = {
    "manners": MANNERS,
    "handed": "The state before the first token comes in as `cache`. Return the"
    " logits, the weights, and the state after the last token.",
    "one token": "Write its `step`, which takes T tokens at once. When the model"
    " generates a target by itself, T is 1.",
    "one": "This memory has only one slot, so every weight is one. Give the weights"
    " the dtype and the device of the states.",
    "memory": "Take the source and the state from the arguments of `step`, not from"
    " anything that an earlier call has stored: the decoder may have remembered other"
    " sources in the meantime.",
    "token": "token: (B, T), ids.",
    "cache": "cache: (B, D), the state before the first of the tokens.",
    "returns": "Logits (B, T, V), weights (B, T, 1), and the state after the last token"
    " (B, D).",
    "logits": r"\mathrm{logits}_t = \mathrm{head}(h_t)",
}


def _logits_of_one_token(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        return False
    given, wanted = reply.outputs[LOGITS], reference.outputs[LOGITS]
    return given.dim() == 3 and given.size(1) == 1 < wanted.size(1)


STEP, SAY = FinalStateDecoder.step, "self.head(self.dropout(states))"

# The mistakes that every decoder invites: some are looked for first, some last.
OF_STEPS = (
    Mistake(
        "every step starts from the initial state",
        "memory.state is the state before the first step. The state before this step"
        " is the cache.",
        HANDOVER,
        edit(STEP, "cache[None]", "memory.state[None]"),
    ),
    Mistake(
        "every step starts from a zero state",
        "Without a state an nn.GRU starts from zeros: the decoder would have no"
        " past and no source.",
        HANDOVER,
        edit(STEP, ", cache[None]", ""),
    ),
    Mistake(
        "the new state is not passed on",
        "The last thing that a step returns is the state after its last token. The"
        " next step starts from it.",
        HANDOVER,
        edit(STEP, "state[0]", "cache"),
    ),
    Mistake(
        "the state after the first token is passed on",
        "A step may take many tokens, and the next step starts after the last of them.",
        HANDOVER,
        edit(STEP, "state[0]", "states[:, 0]"),
    ),
    Mistake(
        "the new state overwrites the cache",
        "The caller may go on from the same cache with other tokens: leave it as it is,"
        " and return a new tensor.",
        HANDOVER,
        edit(STEP, "state[0]", "cache.copy_(state[0])"),
    ),
    Mistake(
        "weights of one step only",
        "There is one slot, and at each of the T steps its weight is one: (B, T, 1).",
        DECODERS,
        edit(STEP, ", weights, ", ", weights[:, :1], "),
    ),
    Mistake(
        "probabilities instead of logits",
        "The softmax is part of the loss. Return the numbers from the head unchanged.",
        FORCING,
        (
            edit(STEP, SAY, f"{SAY}.softmax(-1)"),
            edit(STEP, SAY, f"{SAY}.log_softmax(-1)"),
        ),
    ),
    Mistake(
        "states instead of logits",
        "`head` maps each state to V numbers.",
        HANDOVER,
        edit(STEP, SAY, "states"),
    ),
    Mistake(
        "logits for one token only",
        "Each of the T tokens has a state and logits of its own.",
        HANDOVER,
        edit(STEP, SAY, "self.head(states[:, -1:])"),
        _logits_of_one_token,
    ),
    Mistake(
        "the GRU state has the wrong shape",
        "Whatever batch_first says, an nn.GRU takes and returns a state of shape"
        " (layers, B, D).",
        HANDOVER,
        sign=error_like("hx should|Expected hidden size"),
    ),
)
OF_STEPS_LAST = (
    Mistake(
        "the wrong weights",
        "There is one slot, and at each of the T steps its weight is one: (B, T, 1),"
        " all ones.",
        DECODERS,
        sign=only(WEIGHTS),
    ),
    Mistake(
        "the wrong state is passed on",
        "The logits are right. The next step starts from the state after the last"
        " token, (B, D).",
        DECODERS,
        sign=only(STATE),
    ),
    Mistake(
        "only the logits are wrong",
        "The states are right. The logits are `head` of each of them.",
        DECODERS,
        sign=only(LOGITS),
    ),
    Mistake(
        "the weights are right, the new state is wrong",
        "The recurrent layer reads what the equation names, in this order, and starts"
        " from the cache.",
        DECODERS,
        sign=wrong_in(STATE, WEIGHTS),
    ),
)
