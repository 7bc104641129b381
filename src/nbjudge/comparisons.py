"""Judges that compare a reply with the reference's: numbers, gradients, dtype ...

Each returns None if the reply is right. To recognize the mistake behind a wrong reply,
see `signs`.
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor

from nbjudge.question import Finding, Judge, Reply, Request

# An entry is wrong if its error exceeds this fraction of the largest wanted entry. The
# limit is far above rounding in float32 and far below any mistake on unsaturated
# inputs.
TOLERANCE = 1e-4
# Factors by which the tolerance is larger in dtypes other than float64.
COARSER = {torch.float32: 10, torch.float16: 100, torch.bfloat16: 1000}
# The tolerance in float64 where manners are checked: it reveals numbers that were
# converted to float32 on the way.
IN_FLOAT64 = 2e-7
# Torch's error messages if a tensor without values is asked for one.
VALUES_WANTED = re.compile(
    r"(?i)meta tensors?\b|nonzero|data-dependent|aten::_local_scalar"
)


def same_numbers(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check that every output has the reference's shape and entries."""
    if reply.error:
        return Finding(reply.error, "no error")
    for output, wanted in zip(reply.outputs, reference.outputs):
        if finding := _compare(output, wanted, "entries"):
            return finding
    return None


def same_whole_numbers(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Check that every output has the reference's shape, entries and dtype."""
    numbers = reference._replace(
        outputs=tuple(wanted.double() for wanted in reference.outputs)
    )
    finding = same_numbers(request, reply, numbers)
    if finding and not finding.seen.startswith("entries"):
        return finding
    for given, wanted in zip(reply.outputs, reference.outputs):
        if wrong := int((given != wanted).sum()):
            return Finding(
                f"{wrong} of {wanted.numel()} numbers are others", "the right ones"
            )
        if given.dtype != wanted.dtype:
            return Finding(f"{given.dtype}", f"{wanted.dtype}")
    return None


def same_gradients(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check that the outputs and the gradients of all inputs are the reference's."""
    finding = same_numbers(request, reply, reference)
    # A change in place is reported, and costs points, where manners are checked.
    if finding or reply.changed or not request.gradients:
        return finding
    if len(reply.gradients) != len(reference.gradients):
        return Finding(
            f"{len(reply.gradients)} gradients", f"{len(reference.gradients)} gradients"
        )
    leaves = [
        *(f"input {number}" for number, _ in enumerate(request.inputs, start=1)),
        *request.parameters,
    ]
    for leaf, gradient, wanted in zip(leaves, reply.gradients, reference.gradients):
        if wanted is None:
            continue
        if gradient is None and wanted.any():
            return Finding(f"no gradient for {leaf}", "a gradient")
        given = wanted.new_zeros(wanted.shape) if gradient is None else gradient
        if finding := _compare(given, wanted, f"gradients for {leaf}"):
            return finding
    return None


def of_outputs(first: int, last: int, judge: Judge) -> Judge:
    """Judge only some outputs: from `first` up to, but not including, `last`."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        some = (x._replace(outputs=x.outputs[first:last]) for x in (reply, reference))
        return judge(request, *some)

    return judged


def of_output(index: int, judge: Judge) -> Judge:
    """Judge only one output."""
    return of_outputs(index, index + 1, judge)


def in_words(
    judge: Judge, say: Callable[[Request, Reply, Reply], Finding | None]
) -> Judge:
    """Let `say` explain wrong entries; it may return None to accept them."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        finding = judge(request, reply, reference)
        entries = finding is not None and finding.seen.startswith("entries")
        return say(request, reply, reference) if entries else finding

    return judged


def each_of(*judges: Judge) -> Judge:
    """Ask several judges in turn; the first finding counts."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        findings = (judge(request, reply, reference) for judge in judges)
        return next(filter(None, findings), None)

    return judged


def left_alone(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check that the inputs are unchanged."""
    if reply.changed:
        return Finding("an input was changed in place", "inputs stay as they were")
    return None


def is_nobodys_fault(request: Request, reply: Reply) -> bool:
    """Return whether an error is torch's fault, not the answer's.

    Torch may lack an operator for bfloat16, or a loop may need values on device meta,
    which has none. An answer may also move a tensor that was made on another device to
    the inputs' device, which works on a GPU.
    """
    no_operator = "not implemented for 'BFloat16'" in reply.error
    no_values = VALUES_WANTED.search(reply.error) is not None
    brought = "Cannot copy out of meta tensor" in reply.error
    return (
        (request.dtype == torch.bfloat16 and no_operator)
        or (request.device == "meta" and no_values)
        or (request.elsewhere and (brought or no_values))
    )


def good_manners(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check that inputs are unchanged and outputs have the inputs' dtype and device.

    The outputs must also be finite, and equal the reference's up to the dtype's
    rounding.
    """
    if finding := good_manners_from_float32(request, reply, reference):
        return finding
    if request.dtype == torch.float64 and request.device != "meta":
        for output, wanted in zip(reply.outputs, reference.outputs):
            if finding := _compare(output, wanted, "entries", IN_FLOAT64):
                return finding
            if _only_float32(output, wanted):
                return Finding("numbers of float32", "numbers of float64")
    return None


def _only_float32(given: Tensor, wanted: Tensor) -> bool:
    """Return whether float32 holds all given entries, but not the wanted ones."""
    if not wanted.is_floating_point() or not wanted.numel():
        return False
    lost = (wanted - wanted.float()).abs().amax()
    noise = 1e-10 * wanted.abs().amax()
    return bool((given == given.float()).all() and lost > noise)


def good_manners_from_float32(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Check `good_manners`, but accept float32 precision whatever the inputs' dtype."""
    if reply.error:
        on = "another device" if request.elsewhere else f"device {request.device}"
        return Finding(reply.error, f"no error in {request.dtype} on {on}")
    if finding := left_alone(request, reply, reference):
        return finding
    for output, wanted in zip(reply.outputs, reference.outputs):
        if wanted.is_floating_point() and output.dtype != request.dtype:
            return Finding(f"{output.dtype} out of {request.dtype}", f"{request.dtype}")
        if output.device.type != request.device:
            return Finding(
                f"device {output.device.type} out of {request.device}", request.device
            )
        if output.shape != wanted.shape:
            seen, right = (f"shape {tuple(x.shape)}" for x in (output, wanted))
            return Finding(seen, right)
        if output.is_meta:
            continue
        if not output.isfinite().all():
            return Finding(f"NaN or infinite in {request.dtype}", "finite numbers")
        # if the reference itself is inexact in this dtype, its entries are NaN
        exact = wanted.isfinite().all()
        if exact and (finding := _compare(output, wanted, "entries")):
            return finding
    return None


def same_copies(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check, in float64, that entries which are only copied have kept all their digits.

    Use it after a judge that checks errors and shapes.
    """
    if reply.error or request.dtype != torch.float64 or request.device == "meta":
        return None
    for output, wanted in zip(reply.outputs, reference.outputs):
        if wrong := int((output != wanted).sum()):
            return Finding(f"{wrong} of {wanted.numel()} numbers have lost digits", "0")
    return None


def is_exact(own: Tensor, wanted: Tensor) -> bool:
    """Return whether the reference's own rounding error is far below the tolerance."""
    if own.is_meta or not own.is_floating_point():
        return True
    error = (own.double() - wanted.double()).abs()
    size = wanted.double().abs().amax().clamp(min=1.0) if wanted.numel() else 1.0
    tolerance = TOLERANCE * COARSER.get(own.dtype, 1)
    return bool((error <= 0.3 * tolerance * size).all())


def _compare(
    given: Tensor, wanted: Tensor, what: str, tolerance: float | None = None
) -> Finding | None:
    if given.shape != wanted.shape:
        return Finding(f"shape {tuple(given.shape)}", f"shape {tuple(wanted.shape)}")
    if given.is_meta:
        return Finding(f"{what} on device meta, which has no numbers", "numbers")
    tolerance = tolerance or TOLERANCE * COARSER.get(given.dtype, 1)
    given, wanted = given.to(torch.float64), wanted.to(torch.float64)
    if not given.isfinite().all():
        return Finding(
            f"{int((~given.isfinite()).sum())} of {given.numel()} {what} are NaN or"
            " infinite",
            "finite numbers",
        )
    if not given.numel():
        return None
    error, size = (
        float((given - wanted).abs().max()),
        max(1.0, float(wanted.abs().max())),
    )
    return (
        Finding(
            f"{what} wrong by up to {error:.2g}",
            f"wrong by at most {tolerance * size:.2g}",
        )
        if error > tolerance * size
        else None
    )
