"""Signs of a mistake in a wrong reply: `error_like`, `wrong_output`, `scaled_by` ...

A mistake is recognized by comparing replies with those of an answer that makes it. Some
mistakes can be made in too many ways for that, but they leave a sign in the reply.
Signs are looked for only in replies that were found wrong, first for a sign that all of
these show, then for one that at least half of them show. To find out whether a reply is
wrong, see `comparisons`.
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor

from nbjudge.question import Reply, Request, Sign


def error_like(pattern: str, device: str | None = None) -> Sign:
    """Look for an error that matches a pattern; on one device only, if it is given."""
    found = re.compile(pattern)

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        return (
            device in (None, request.device) and found.search(reply.error) is not None
        )

    return sign


def wrong_output(test: Callable[[Tensor, Tensor], bool]) -> Sign:
    """Test the first output that is not the reference's: test(given, wanted)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        for given, wanted in zip(reply.outputs, reference.outputs):
            if not given.is_meta and not close(given, wanted):
                return test(given.to(torch.float64), wanted)
        return False

    return sign


def comparable(sign: Sign) -> Sign:
    """Apply a sign only to replies with numbers in the reference's shapes."""

    def kinds(outputs: tuple[Tensor, ...]) -> list[tuple[torch.Size, bool]]:
        return [(output.shape, output.is_floating_point()) for output in outputs]

    def guarded(request: Request, reply: Reply, reference: Reply) -> bool:
        like = kinds(reply.outputs) == kinds(reference.outputs)
        return like and request.device != "meta" and sign(request, reply, reference)

    return guarded


def right_in(*outputs: int) -> Sign:
    """Look for replies in which some outputs are right: the mistake is in another."""
    return comparable(
        lambda request, reply, reference: all(
            close(reply.outputs[i], reference.outputs[i]) for i in outputs
        )
    )


def wrong_in(output: int, *right: int) -> Sign:
    """Look for replies in which one output is wrong and some others are right."""
    return comparable(
        lambda request, reply, reference: (
            not close(reply.outputs[output], reference.outputs[output])
            and right_in(*right)(request, reply, reference)
        )
    )


def somewhere(output: int, test: Callable[[Tensor, Tensor], Tensor]) -> Sign:
    """Look for entries of one output for which test(given, wanted) holds."""
    return comparable(
        lambda request, reply, reference: bool(
            test(reply.outputs[output], reference.outputs[output]).any()
        )
    )


def close(given: Tensor, wanted: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding and dtype."""
    if given.shape != wanted.shape:
        return False
    return torch.allclose(
        given.to(torch.float64),
        wanted.to(torch.float64),
        rtol=1e-4,
        atol=1e-5,
        equal_nan=True,
    )


def scaled_by(given: Tensor, wanted: Tensor) -> float | None:
    """Return the number c with given = c * wanted, if there is one and it is not 1."""
    if (
        given.shape != wanted.shape
        or wanted.numel() < 2
        or not given.isfinite().all()
        or not (size := float((wanted * wanted).sum()))
    ):
        return None
    factor = float((given * wanted).sum()) / size
    return (
        factor
        if abs(factor) > 1e-6
        and abs(factor - 1) > 1e-3
        and close(given / factor, wanted)
        else None
    )
