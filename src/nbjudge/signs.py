"""Signs of a mistake in a wrong reply (error, dtype, shape, order): `error_like` ...

A mistake is recognized by comparing replies with those of an answer that makes it. Some
mistakes can be made in too many ways for that, but they leave a sign in the reply.
Signs are looked for only in replies that were found wrong, first for a sign that all of
these show, then for one that at least half of them show. To find out whether a reply is
wrong, see `comparisons`.
"""

import re
from collections.abc import Callable
from itertools import permutations

import torch
from torch import Tensor

from nbjudge.question import Reply, Request, Sign


def error_like(pattern: str) -> Sign:
    """Look for an error that matches a pattern."""
    found = re.compile(pattern)
    return lambda request, reply, reference: found.search(reply.error) is not None


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


def any_of(*signs: Sign) -> Sign:
    """Look for any of several signs."""
    return lambda request, reply, reference: any(
        sign(request, reply, reference) for sign in signs
    )


def exchanged_axes(given: Tensor, wanted: Tensor) -> bool:
    """Return whether the axes of a wrong output are those wanted, in another order."""
    if given.dim() != wanted.dim() or sorted(given.shape) != sorted(wanted.shape):
        return False
    return given.shape != wanted.shape or any(
        close(given.permute(order), wanted)
        for order in permutations(range(given.dim()))
    )


def one_axis_off(given: Tensor, wanted: Tensor) -> bool:
    """Return whether two shapes differ in axes of length one alone."""

    def long_axes(x: Tensor) -> list[int]:
        return [n for n in x.shape if n != 1]

    return given.shape != wanted.shape and long_axes(given) == long_axes(wanted)


def other_order(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for the right outputs in the wrong order."""
    if all(map(close, reply.outputs, reference.outputs)):
        return False
    fits = [[close(x, y) for x in reply.outputs] for y in reference.outputs]
    return len(reply.outputs) == len(reference.outputs) and any(
        all(row[i] for row, i in zip(fits, order))
        for order in permutations(range(len(fits)))
    )


def cut_off(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for right outputs whose gradients are missing or wrong."""
    same = len(reply.outputs) == len(reference.outputs) and all(
        map(close, reply.outputs, reference.outputs)
    )
    return same and any(
        wanted is not None
        and (
            given is None or (bool(given.isfinite().all()) and not close(given, wanted))
        )
        for given, wanted in zip(reply.gradients, reference.gradients)
    )


def not_a_number(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for NaN in the outputs or in the gradients."""
    numbers = (*reply.outputs, *(x for x in reply.gradients if x is not None))
    return request.device != "meta" and any(bool(x.isnan().any()) for x in numbers)


def other_dtype(request: Request, reply: Reply, reference: Reply) -> bool:
    """Look for outputs that do not have the dtype of the inputs."""
    return any(
        given.dtype != request.dtype
        for given, wanted in zip(reply.outputs, reference.outputs)
        if wanted.is_floating_point()
    )
