"""causal_mask: a position sees itself and what came before."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attention_course import masks
from attention_labs.lab06_transformer.blocks import T
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    same_numbers,
    wrong_output,
)


def _use_mask(mask: Callable[..., Tensor], positions: Tensor) -> Tensor:
    size, device = positions.size(0), positions.device
    return mask(size) if device.type == "cpu" else mask(size, device)


def _sizes(g: torch.Generator) -> Iterator[Request]:
    yield Request((as_length(T),))
    yield Request((as_length(1),))


def _elsewhere(g: torch.Generator) -> Iterator[Request]:
    yield Request((as_length(T),), device="meta")


def _same_mask(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.outputs and reply.outputs[0].dtype != torch.bool:
        return Finding(f"{reply.outputs[0].dtype}", f"{torch.bool}")
    wanted = reference._replace(
        outputs=tuple(x.to(torch.float64) for x in reference.outputs)
    )
    if finding := same_numbers(request, reply, wanted):
        counts = "entries" in finding.seen and not reply.error
        wrong = int((reply.outputs[0] != reference.outputs[0]).sum()) if counts else 0
        return Finding(f"{wrong} entries wrong", "none") if counts else finding
    return None


def _on_its_device(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, f"no error on device {request.device}")
    devices = [output.device.type for output in reply.outputs]
    return (
        None
        if devices == [request.device]
        else Finding(f"device {', '.join(devices)}", request.device)
    )


CAUSAL_MASK = Question(
    name="causal_mask",
    reference=masks.causal_mask,
    use=_use_mask,
    properties=(
        Property(
            "each position sees itself and what came before", 1, _sizes, _same_mask
        ),
        Property("made on the device that is asked for", 1, _elsewhere, _on_its_device),
    ),
    mistakes=(
        Mistake(
            "the upper triangle",
            "Rows ask, columns are asked: row t is True up to column t, not from"
            " there on.",
            MASK,
            lambda size, device=None: torch.ones(
                size, size, dtype=torch.bool, device=device
            ).triu(),
        ),
        Mistake(
            "a position does not see itself",
            "The diagonal is allowed: without it the first position could attend to"
            " nothing.",
            MASK,
            lambda size, device=None: torch.ones(
                size, size, dtype=torch.bool, device=device
            ).tril(-1),
        ),
        Mistake(
            "one position too far",
            "Position t + 1 is what position t has to predict: it is not allowed.",
            MASK,
            lambda size, device=None: torch.ones(
                size, size, dtype=torch.bool, device=device
            ).tril(1),
        ),
        Mistake(
            "the mask inside out",
            "In this course True means: may attend.",
            MASK,
            lambda size, device=None: torch.ones(
                size, size, dtype=torch.bool, device=device
            ).triu(1),
        ),
        Mistake(
            "nothing is forbidden",
            "What comes after a position may not be seen from it.",
            MASK,
            lambda size, device=None: torch.ones(
                size, size, dtype=torch.bool, device=device
            ),
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
            "another triangle",
            "Write the 3 x 3 mask down by hand: one True in the first row, three in the"
            " last.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape),
        ),
        *ANYWHERE,
    ),
)
