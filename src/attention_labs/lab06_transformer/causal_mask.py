"""causal_mask: a position sees itself and what came before."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_course.masks import causal_mask
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    Axis,
    Battery,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    edit,
    wrong_output,
)


def _use_mask(mask: Callable[..., Tensor], size: int, device: str | None) -> Tensor:
    def made() -> Tensor:
        return mask(size) if device is None else mask(size, torch.device(device))

    if isinstance(earlier := made(), Tensor) and earlier.dim():
        earlier[:1].logical_not_()  # whoever gets a mask may change it
    return made()


def _same_mask(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, "no error")
    given, wanted = reply.outputs[0], reference.outputs[0]
    for seen, right in (
        (f"shape {tuple(given.shape)}", f"shape {tuple(wanted.shape)}"),
        (f"{given.dtype}", f"{wanted.dtype}"),
        (f"device {given.device.type}", f"device {wanted.device.type}"),
    ):
        if seen != right:
            return Finding(seen, right)
    wrong = 0 if given.is_meta else int((given != wanted).sum())
    return Finding(f"{wrong} entries wrong", "none") if wrong else None


BATTERY = Battery(
    ("one", "zero", "long", "second call"),
    lambda d: Request((d.T, None)),
    {"T": Axis("positions", least=0, long=2100)},
)

CAUSAL_MASK = Question(
    name="causal_mask",
    reference=causal_mask,
    use=_use_mask,
    battery=BATTERY,
    requirements={
        "sees": "So position t may look at itself and at what came before it, and at"
        " nothing after it.",
        "True": "Each row of the mask belongs to a query's position, and each column"
        " to a key's position. True means that the query may attend to the key.",
        "allows": "Allow position t to attend to the positions up to and including t.",
        "size": "size: T, in tokens; it may be 0.",
        "device": "device: where the mask is made.",
        "returns": "A new mask (T, T), of dtype bool.",
    },
    properties=(
        BATTERY.numbers(
            "each position sees itself and what came before",
            1,
            judge=_same_mask,
            checks=("sees", "True", "allows", "returns"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            judge=_same_mask,
            claim="made on the given device; one position, none, many",
            also=lambda d: Request((d.T, "meta"), device="meta"),
            checks=("size", "device", "returns"),
        ),
    ),
    mistakes=(
        Mistake(
            "the upper triangle",
            "Rows are queries and columns are keys: row t is True up to column t, not"
            " from there on.",
            MASK,
            edit(causal_mask, ".tril()", ".triu()"),
        ),
        Mistake(
            "a position does not see itself",
            "The diagonal is allowed: without it the first position could attend to"
            " nothing.",
            MASK,
            edit(causal_mask, ".tril()", ".tril(-1)"),
        ),
        Mistake(
            "one position too far",
            "Position t + 1 is what position t has to predict: it is not allowed.",
            MASK,
            edit(causal_mask, ".tril()", ".tril(1)"),
        ),
        Mistake(
            "the mask inside out",
            "In this course True means: may attend.",
            MASK,
            edit(causal_mask, ".tril()", ".triu(1)"),
        ),
        Mistake(
            "nothing is forbidden",
            "A position must not attend to any later position.",
            MASK,
            edit(causal_mask, ".tril()", ""),
        ),
        Mistake(
            "a mask of numbers",
            "A mask is made of True and False: its dtype is torch.bool.",
            MASK,
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].dtype != torch.bool
            ),
        ),
        Mistake(
            "a tensor made on the default device",
            "The mask is made where `device` says.",
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].device.type != request.device
            ),
        ),
        Mistake(
            "the same mask for everybody",
            "The caller may change the mask. Make a new one at each call, and keep"
            " none.",
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape
                    and bool((given[1:] == wanted[1:]).all())
                    and bool((given[:1] != wanted[:1]).all())
                )
            ),
        ),
        Mistake(
            "another triangle",
            "Write the 3 x 3 mask down by hand: one True in the first row, three in the"
            " last.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape),
        ),
        *ANYWHERE,
        Mistake(
            "not as many rows and columns as positions",
            "There are T of both, whatever T is: zero, one or thousands.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape != wanted.shape),
        ),
    ),
)
