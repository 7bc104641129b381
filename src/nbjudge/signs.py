"""Signs of a mistake in a wrong reply: axes exchanged, a scale, NaN, an error's text.

A mistake is told by comparing replies with those of an answer that has it. Some
mistakes are made in every question and in too many ways for that: they leave a sign. A
sign is looked for only in a reply that was found wrong, and only in the first such
reply to a property's requests.
"""

import re
from collections.abc import Callable
from itertools import permutations

import torch
from torch import Tensor

from nbjudge.question import Mistake, Reply, Request, Sign


def error_like(pattern: str, device: str | None = None) -> Sign:
    """Look for an error whose one line matches; on one device only, if it is given."""
    found = re.compile(pattern)

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        return (
            device in (None, request.device) and found.search(reply.error) is not None
        )

    return sign


def wrong_output(test: Callable[[Tensor, Tensor], bool]) -> Sign:
    """Look at the first output that is not the reference's: test(given, wanted)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        for given, wanted in zip(reply.outputs, reference.outputs):
            if not given.is_meta and not close(given, wanted):
                return test(given.to(torch.float64), wanted)
        return False

    return sign


def comparable(sign: Sign) -> Sign:
    """Look only at replies whose outputs are numbers in the reference's shapes."""

    def kinds(outputs: tuple[Tensor, ...]) -> list[tuple[torch.Size, bool]]:
        return [(output.shape, output.is_floating_point()) for output in outputs]

    def guarded(request: Request, reply: Reply, reference: Reply) -> bool:
        like = kinds(reply.outputs) == kinds(reference.outputs)
        return like and request.device != "meta" and sign(request, reply, reference)

    return guarded


def right_in(*outputs: int) -> Sign:
    """Look for replies that are right in some outputs: the mistake is in another."""
    return comparable(
        lambda request, reply, reference: all(
            close(reply.outputs[i], reference.outputs[i]) for i in outputs
        )
    )


def wrong_in(output: int, *right: int) -> Sign:
    """Look for replies that are wrong in one output, and right in some others."""
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
    """Whether two tensors are the same but for rounding and dtype."""
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
    """Return the number c with given = c wanted, if there is one and it is not 1."""
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


def _either(*signs: Sign) -> Sign:
    return lambda request, reply, reference: any(
        sign(request, reply, reference) for sign in signs
    )


def _exchanged(given: Tensor, wanted: Tensor) -> bool:
    if given.dim() != wanted.dim() or sorted(given.shape) != sorted(wanted.shape):
        return False
    return given.shape != wanted.shape or any(
        close(given.permute(order), wanted)
        for order in permutations(range(given.dim()))
    )


def _one_axis_off(given: Tensor, wanted: Tensor) -> bool:
    def long_axes(x: Tensor) -> list[int]:
        return [n for n in x.shape if n != 1]

    return given.shape != wanted.shape and long_axes(given) == long_axes(wanted)


def _other_order(request: Request, reply: Reply, reference: Reply) -> bool:
    if all(map(close, reply.outputs, reference.outputs)):
        return False
    return len(reply.outputs) == len(reference.outputs) and any(
        all(close(given, wanted) for given, wanted in zip(order, reference.outputs))
        for order in list(permutations(reply.outputs))[1:]
    )


def _cut_off(request: Request, reply: Reply, reference: Reply) -> bool:
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


def _not_a_number(request: Request, reply: Reply, reference: Reply) -> bool:
    numbers = (*reply.outputs, *(x for x in reply.gradients if x is not None))
    return request.device != "meta" and any(bool(x.isnan().any()) for x in numbers)


def _first_sentence_only(given: Tensor, wanted: Tensor) -> bool:
    return (
        given.shape == wanted.shape
        and given.dim() > 1
        and given.size(0) > 1
        and close(given[0], wanted[0])
    )


def _other_dtype(request: Request, reply: Reply, reference: Reply) -> bool:
    return any(
        given.dtype != request.dtype
        for given, wanted in zip(reply.outputs, reference.outputs)
        if wanted.is_floating_point()
    )


# The order counts: the first that applies is the one that is told.
ANYWHERE = (
    Mistake(
        "nothing returned",
        "A function without `return` returns None.",
        sign=error_like("^nothing was returned"),
    ),
    Mistake(
        "too much or too little is returned",
        "The docstring's Returns says what, and in which order.",
        sign=lambda request, reply, reference: (
            not reply.error and len(reply.outputs) != len(reference.outputs)
        ),
    ),
    Mistake(
        "an argument that may be left out is required",
        "The signature in the docstring gives it a default: the call without it has to"
        " work, too.",
        sign=error_like("missing .* required positional argument"),
    ),
    Mistake(
        "another answer to the same question",
        "The same inputs give the same outputs, however often: keep nothing on self"
        " between calls, draw nothing at random and make no layers in forward.",
        sign=error_like("second call with the same inputs"),
    ),
    Mistake(
        "an input is changed in place",
        "Methods that end in _ and assignments to x[...] change the caller's tensor:"
        " make a new one.",
        sign=_either(
            lambda request, reply, reference: reply.changed,
            error_like("in-place operation|inplace operation|modified inplace"),
        ),
    ),
    Mistake(
        "an argument that may be None is used as if it were not",
        "The call without it has to work, too: ask `if x is not None` first. If it"
        " comes out of a method of yours, that method lacks a `return`.",
        sign=error_like("'?NoneType'?( object)?|not None"),
    ),
    Mistake(
        "numbers taken out of a tensor",
        "item, tolist, numpy, float(...) and an `if` on a tensor's values fetch numbers"
        " from the device and stop the gradient: stay in tensors.",
        sign=error_like(
            r"item\(\)|numpy|_local_scalar_dense|copy out of"
            r" meta|is_nonzero|nonzero|data-dependent|Boolean value"
        ),
    ),
    Mistake(
        "a tensor made on the default device",
        "torch.zeros, torch.ones, torch.tensor and torch.arange make theirs on the CPU:"
        " tell them device=x.device.",
        sign=error_like("", device="meta"),
    ),
    Mistake(
        "dtype lost on the way",
        "The result has the dtype of the inputs: new tensors take it from one of them,"
        " and nothing is cast for good.",
        sign=_either(
            error_like(
                "dtype|expected scalar type|expected .* to have|not implemented for"
            ),
            _other_dtype,
        ),
    ),
    Mistake(
        "a name that does not exist",
        "Python's message says which; is it spelt as in the docstring and in"
        " `__init__`?",
        sign=error_like("^(NameError|UnboundLocalError|AttributeError|KeyError)"),
    ),
    Mistake(
        "shapes that do not fit",
        "All axes differ in length on purpose, so the numbers in torch's message say"
        " which axes met: write the shape behind each line.",
        sign=error_like(
            "must match|to match|mat1 and mat2|cannot be multiplied|Expected size"
            " for|Expected hidden size|not broadcast|expanded size|inconsistent|shape"
            " of the mask|is invalid for input of size|multiply up|size mismatch|same"
            " number of dimensions|were the keys projected|subscript .* has size|Sizes"
            " of tensors|at least . dim|must have|input.size|Expected target size|but a"
            " memory of|not of one batch|but values for|but the memory|do not fit"
            " windows|expected vectors of width"
        ),
    ),
    Mistake(
        "a view of a turned tensor",
        "After transpose or mT the numbers of a row no longer stand side by side in"
        " memory: flatten and reshape copy them where they must, view cannot.",
        sign=error_like("view size is not compatible"),
    ),
    Mistake(
        "written for one number of axes",
        "The axes before the last two may be any: count axes from the end, -1 and -2.",
        sign=error_like(
            r"unpack|Dimension out of range|\dD tensor|number of dim|dimensions?"
            r" |indices"
        ),
    ),
    Mistake(
        "the outputs in another order",
        "The docstring's Returns says which comes first.",
        sign=_other_order,
    ),
    Mistake(
        "the gradient is cut off",
        "The numbers are right, but nothing can be learned through them: detach, .data,"
        " no_grad and torch.tensor(x) take a tensor out of the graph.",
        sign=_cut_off,
    ),
    Mistake(
        "an axis of length one too many or too few",
        "keepdim, squeeze and unsqueeze decide about it: compare the shapes.",
        sign=wrong_output(_one_axis_off),
    ),
    Mistake(
        "axes exchanged",
        "The numbers are at the wrong places: compare the order of the axes with the"
        " docstring's.",
        sign=wrong_output(_exchanged),
    ),
    Mistake(
        "a softmax too many",
        "What is asked for comes before the softmax: scores and logits are handed on as"
        " they are.",
        sign=wrong_output(
            lambda given, wanted: (
                wanted.dim() > 0 and close(given, wanted.softmax(dim=-1))
            )
        ),
    ),
    Mistake(
        "sign turned around",
        "Every number is the negative of what it should be.",
        sign=wrong_output(lambda given, wanted: close(-given, wanted)),
    ),
    Mistake(
        "off by one constant factor",
        "Every number is the same multiple of what it should be: a scale is missing,"
        " wrong or one too many.",
        sign=wrong_output(lambda given, wanted: scaled_by(given, wanted) is not None),
    ),
    Mistake(
        "not a number",
        "0/0, inf - inf and the logarithm of 0 are not numbers, and one of them spoils"
        " every number after it.",
        sign=_not_a_number,
    ),
    Mistake(
        "the first sentence stands for all",
        "Its numbers are right, those of the other sentences are not: an axis is picked"
        " with [0], or two are mixed up.",
        sign=wrong_output(_first_sentence_only),
    ),
)
