"""What a reply would be without one mistake: outputs reordered, rescaled, cast ...

If every reply is right after such a correction, the answer makes this mistake and no
other (`Mistake.undone`). The signs of the mistakes are in `signs`.
"""

import operator
from collections.abc import Callable
from itertools import permutations

import torch
from torch import Tensor

from nbjudge.question import Reply, Request
from nbjudge.signs import close, cut_off, one_axis_off, scaled_by


def by_output(
    mend: Callable[[Tensor, Tensor], Tensor | None],
) -> Callable[[Request, Reply, Reply], Reply]:
    """Correct the outputs that are not the reference's, by mend(given, wanted).

    The reply then gets the reference's gradients.
    """

    def undone(request: Request, reply: Reply, reference: Reply) -> Reply:
        outputs = list(reply.outputs)
        for i, (given, wanted) in enumerate(zip(reply.outputs, reference.outputs)):
            same = given.shape == wanted.shape
            if not (same and (given.is_meta or close(given, wanted))):
                mended = mend(given, wanted)
                if mended is None or not (mended.is_meta or close(mended, wanted)):
                    return reply
                outputs[i] = mended
        if all(map(operator.is_, outputs, reply.outputs)):
            return reply
        return reply._replace(outputs=tuple(outputs), gradients=reference.gradients)

    return undone


def as_wanted(given: Tensor, wanted: Tensor) -> Tensor | None:
    """Remove or insert axes of length one."""
    return given.reshape(wanted.shape) if one_axis_off(given, wanted) else None


def turned_back(given: Tensor, wanted: Tensor) -> Tensor | None:
    """Permute the axes until the numbers are in the right places."""
    if given.dim() != wanted.dim():
        return None
    turned = map(given.permute, permutations(range(given.dim())))
    return next((x for x in turned if x.is_meta or close(x, wanted)), None)


def scaled_back(given: Tensor, wanted: Tensor) -> Tensor | None:
    """Divide by the constant factor."""
    factor = scaled_by(given, wanted)
    return None if factor is None else given / factor


def unchanged(request: Request, reply: Reply, reference: Reply) -> Reply:
    """Return the reply as if the answer had left its inputs unchanged.

    Tensors that were changed in place have no gradients, right or wrong. Torch also
    refuses to write to a tensor in which several entries share the same memory.
    """
    if request.layout == "expanded" and "written-to tensor" in reply.error:
        return reference
    lost = reply.changed and not reply.gradients
    gradients = reference.gradients if lost else reply.gradients
    return reply._replace(changed=False, gradients=gradients)


def in_its_dtype(request: Request, reply: Reply, reference: Reply) -> Reply:
    """Convert the outputs to the dtype of the inputs."""
    return reply._replace(
        outputs=tuple(
            given.to(request.dtype) if wanted.is_floating_point() else given
            for given, wanted in zip(reply.outputs, reference.outputs)
        )
    )


def precise(request: Request, reply: Reply, reference: Reply) -> Reply:
    """Restore all digits of numbers whose first digits are right.

    A zero has only one digit: a number that is nearly zero instead is not just rounded.
    """
    outputs = tuple(zip(reply.outputs, reference.outputs))
    if request.dtype == torch.float64 and len(reply.outputs) == len(reference.outputs):
        if all(
            given.dtype == wanted.dtype
            and close(given, wanted)
            and not given[wanted == 0].any()
            for given, wanted in outputs
        ):
            return reply._replace(outputs=reference.outputs)
    return reply


def in_order(request: Request, reply: Reply, reference: Reply) -> Reply:
    """Put the outputs in the right order."""
    if len(reply.outputs) == len(reference.outputs):
        for order in permutations(reply.outputs):
            if all(map(close, order, reference.outputs)):
                return reply._replace(outputs=order)
    return reply


def with_gradients(request: Request, reply: Reply, reference: Reply) -> Reply:
    """Give right outputs the gradients that they have to have."""
    cut = cut_off(request, reply, reference)
    return reply._replace(gradients=reference.gradients) if cut else reply
