"""causal_mask: a position sees itself and what came before."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_course.masks import causal_mask
from attention_labs.lab06_transformer.shared import T
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    each_of,
    edit,
    in_words,
    same_numbers,
    wrong_output,
)


def _use_mask(mask: Callable[..., Tensor], size: int, device: str | None) -> Tensor:
    return mask(size) if device is None else mask(size, torch.device(device))


def _of_bools(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if not reply.outputs or reply.outputs[0].dtype == torch.bool:
        return None
    return Finding(f"{reply.outputs[0].dtype}", f"{torch.bool}")


def _same_places(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    numbers = tuple(x.double() for x in reference.outputs)
    return same_numbers(request, reply, reference._replace(outputs=numbers))


def _how_many(request: Request, reply: Reply, reference: Reply) -> Finding:
    wrong = int((reply.outputs[0] != reference.outputs[0]).sum())
    return Finding(f"{wrong} entries wrong", "none")


def _on_its_device(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error:
        return Finding(reply.error, f"no error on device {request.device}")
    devices = [output.device.type for output in reply.outputs]
    if devices == [request.device]:
        return None
    return Finding(f"device {', '.join(devices)}", request.device)


CAUSAL_MASK = Question(
    name="causal_mask",
    reference=causal_mask,
    use=_use_mask,
    properties=(
        Property(
            "each position sees itself and what came before",
            1,
            lambda g: [Request((T, None)), Request((1, None))],
            each_of(_of_bools, in_words(_same_places, _how_many)),
        ),
        Property(
            "made on the device that is asked for",
            1,
            lambda g: [Request((T, "meta"), device="meta")],
            _on_its_device,
        ),
    ),
    mistakes=(
        Mistake(
            "the upper triangle",
            "Rows ask, columns are asked: row t is True up to column t, not from"
            " there on.",
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
            "What comes after a position may not be seen from it.",
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
            "another triangle",
            "Write the 3 x 3 mask down by hand: one True in the first row, three in the"
            " last.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape),
        ),
        *ANYWHERE,
    ),
)
