"""Compare a reply with the reference's: numbers, gradients, shapes, dtype, manners.

Each returns None if all is well.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from nbjudge.question import Finding, Reply, Request

Judge = Callable[[Request, Reply, Reply], Finding | None]

# Wrong by more than this share of the largest wanted entry is wrong: far above rounding
# in float32, far below any mistake on unsaturated inputs.
TOLERANCE = 1e-4


def same_numbers(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Every output has the reference's shape and entries."""
    if reply.error:
        return Finding(reply.error, "no error")
    if len(reply.outputs) != len(reference.outputs):
        return Finding(
            f"{len(reply.outputs)} tensors returned",
            f"{len(reference.outputs)} tensors",
        )
    for output, wanted in zip(reply.outputs, reference.outputs):
        if finding := _compare(output, wanted, "entries"):
            return finding
    return None


def same_whole_numbers(
    request: Request, reply: Reply, reference: Reply
) -> Finding | None:
    """Every output has the reference's shape, entries and dtype."""
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
    """Outputs are the reference's, and so are the gradients of all inputs."""
    if finding := same_numbers(request, reply, reference):
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
        if gradient is None:
            return Finding(f"no gradient for {leaf}", "a gradient")
        if finding := _compare(gradient, wanted, f"gradients for {leaf}"):
            return finding
    return None


def of_outputs(first: int, last: int, judge: Judge) -> Judge:
    """Look at some of the outputs alone.

    From the first up to, but not including, the last.
    """

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        if not reply.error and len(reply.outputs) == len(reference.outputs):
            reply = reply._replace(outputs=reply.outputs[first:last])
            reference = reference._replace(outputs=reference.outputs[first:last])
        return judge(request, reply, reference)

    return judged


def of_output(index: int, judge: Judge) -> Judge:
    """Look at one output alone."""
    return of_outputs(index, index + 1, judge)


def in_words(
    judge: Judge, say: Callable[[Request, Reply, Reply], Finding | None]
) -> Judge:
    """Let `say` tell what it means that entries are wrong; None if it means nothing."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        finding = judge(request, reply, reference)
        entries = finding is not None and finding.seen.startswith("entries")
        return say(request, reply, reference) if entries else finding

    return judged


def each_of(*judges: Judge) -> Judge:
    """Ask several judges in turn: the first finding counts."""

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        findings = (judge(request, reply, reference) for judge in judges)
        return next(filter(None, findings), None)

    return judged


def good_manners(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Inputs are left as they were; outputs have the inputs' dtype and device."""
    if (
        request.dtype == torch.bfloat16
        and "not implemented for 'BFloat16'" in reply.error
    ):
        # torch lacks an operator, cdist for one: that is not the answer's fault
        return None
    if reply.error:
        return Finding(
            reply.error, f"no error in {request.dtype} on device {request.device}"
        )
    if reply.changed:
        return Finding("an input was changed in place", "inputs stay as they were")
    if len(reply.outputs) != len(reference.outputs):
        return Finding(
            f"{len(reply.outputs)} tensors returned",
            f"{len(reference.outputs)} tensors",
        )
    for output in reply.outputs:
        if output.dtype != request.dtype:
            return Finding(f"{output.dtype} out of {request.dtype}", f"{request.dtype}")
        if output.device.type != request.device:
            return Finding(
                f"device {output.device.type} out of {request.device}", request.device
            )
    return None


def _compare(given: Tensor, wanted: Tensor, what: str) -> Finding | None:
    if given.shape != wanted.shape:
        return Finding(f"shape {tuple(given.shape)}", f"shape {tuple(wanted.shape)}")
    if given.is_meta:
        return Finding(f"{what} on device meta, which has no numbers", "numbers")
    given = given.to(torch.float64)
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
            f"wrong by at most {TOLERANCE * size:.2g}",
        )
        if error > TOLERANCE * size
        else None
    )
