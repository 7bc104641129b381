"""Question `causal_mask`: each position sees only itself and earlier positions."""

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
    found = made()
    # The last rows of a mask of millions of entries: a judge outside cannot get all.
    few = size > 2000 and isinstance(found, Tensor) and found.dim() == 2
    return found[-50:] if few else found


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

QUESTION = Question(
    name="causal_mask",
    reference=causal_mask,
    use=_use_mask,
    battery=BATTERY,
    requirements={
        "sees": "Let position t attend to itself and to all earlier positions, but not"
        " to any later position.",
        "True": "Each row of the mask belongs to a query, and each column belongs to a"
        " key. True means that the query may attend to the key.",
        "allows": "Allow position t to attend to the positions up to and including t.",
        "size": "size: T, the number of positions; it may be 0.",
        "device": "device: the device to make the mask on.",
        "returns": "A mask (T, T), of dtype bool, a new one in each call.",
    },
    properties=(
        BATTERY.numbers(
            "each position may attend to itself and to earlier positions",
            1,
            judge=_same_mask,
            checks=("sees", "True", "allows", "returns"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            judge=_same_mask,
            claim="the mask is on the given device; edges: one position, no position,"
            " many positions",
            also=lambda d: [
                Request((size, "meta"), device="meta") for size in (d.T, 0, 1)
            ],
            checks=("size", "device", "returns"),
        ),
    ),
    mistakes=(
        Mistake(
            "upper triangle instead of the lower triangle",
            "Rows are queries, and columns are keys. Row t must be True up to column"
            " t, not from column t on.",
            MASK,
            edit(causal_mask, ".tril()", ".triu()"),
        ),
        Mistake(
            "a position does not attend to itself",
            "Allow the diagonal. Without it, the first position could not attend to"
            " anything.",
            MASK,
            edit(causal_mask, ".tril()", ".tril(-1)"),
        ),
        Mistake(
            "the next position is allowed, too",
            "Position t has to predict the token at t + 1, so it must not attend to"
            " position t + 1.",
            MASK,
            edit(causal_mask, ".tril()", ".tril(1)"),
        ),
        Mistake(
            "True and False swapped in the mask",
            "In this course, True means that a query may attend to a key.",
            MASK,
            edit(causal_mask, ".tril()", ".triu(1)"),
        ),
        Mistake(
            "nothing is masked",
            "A position must not attend to any later position.",
            MASK,
            edit(causal_mask, ".tril()", ""),
        ),
        Mistake(
            "the mask is not of dtype bool",
            "Return a mask of True and False, of the dtype torch.bool.",
            MASK,
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].dtype != torch.bool
            ),
            undone=lambda request, reply, reference: reply._replace(
                outputs=(reply.outputs[0].bool(),)
            ),
        ),
        Mistake(
            "a tensor is on the wrong device",
            "Make the mask on `device`.",
            "",
            edit(causal_mask, ", device=device", ""),
            sign=lambda request, reply, reference: (
                bool(reply.outputs) and reply.outputs[0].device.type != request.device
            ),
        ),
        Mistake(
            "every call returns the same mask",
            "The caller may change the mask. Make a new mask in each call.",
            sign=wrong_output(
                lambda given, wanted: (
                    given.shape == wanted.shape
                    and bool((given[1:] == wanted[1:]).all())
                    and bool((given[:1] != wanted[:1]).all())
                )
            ),
        ),
        Mistake(
            "a wrong triangle",
            "Write the 3 x 3 mask down by hand. It has one True in the first row and"
            " three in the last.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape == wanted.shape),
        ),
        Mistake(
            "a mask for no position has a position",
            "T may be 0. Then the mask has no rows and no columns.",
            MASK,
            edit(causal_mask, "size, size", "max(size, 1), max(size, 1)"),
        ),
        *ANYWHERE,
        Mistake(
            "the mask is not T x T",
            "The mask needs T rows and T columns, even if T is 0 or 1.",
            MASK,
            sign=wrong_output(lambda given, wanted: given.shape != wanted.shape),
        ),
    ),
)
