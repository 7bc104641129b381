"""Mistakes that answers to any question can make: axes, scale, NaN, dtype, device ...

They are recognized by exchanged axes, a constant factor, NaN, or the text of an error;
or by the one variation of the battery in which the answer fails. Functions that make
signs are in `signs`, those that correct one mistake in a reply are in `corrections`.
"""

from nbjudge.corrections import (
    as_wanted,
    by_output,
    in_its_dtype,
    in_order,
    precise,
    scaled_back,
    turned_back,
    unchanged,
    with_gradients,
)
from nbjudge.question import Mistake, Sign
from nbjudge.signs import (
    any_of,
    close,
    cut_off,
    error_like,
    exchanged_axes,
    not_a_number,
    one_axis_off,
    other_dtype,
    other_order,
    scaled_by,
    wrong_output,
)

# The order matters: the first mistake that applies is reported.
ANYWHERE = (
    Mistake(
        "nothing is returned",
        "A function without `return` returns None.",
        sign=error_like("^nothing was returned"),
    ),
    Mistake(
        "wrong number of return values",
        "Look at Returns in the docstring: it says what to return, and in which order.",
        sign=lambda request, reply, reference: (
            not reply.error and len(reply.outputs) != len(reference.outputs)
        ),
    ),
    Mistake(
        "a required argument is missing in a call",
        "The signature gives this argument a default, so a call without it must work"
        " as well.",
        sign=error_like("missing .* required positional argument"),
    ),
    Mistake(
        "an earlier result is overwritten",
        "The caller may still use the result of an earlier call. Do not keep a tensor"
        " between calls and write into it: make a new one each time.",
        sign=error_like("an earlier call had returned was overwritten"),
    ),
    Mistake(
        "an input is changed in place",
        "Methods that end in _ and assignments to x[...] change the caller's tensor."
        " Make a new tensor instead.",
        sign=any_of(
            lambda request, reply, reference: reply.changed,
            error_like(
                "in-place operation|inplace operation|modified inplace|written-to"
            ),
        ),
        undone=unchanged,
    ),
    Mistake(
        "None where a value is needed",
        "A call without this argument must work as well: test `if x is not None`"
        " first. If the None comes from one of your own methods, the method lacks a"
        " `return`.",
        sign=error_like("'?NoneType'?( object)?|not None"),
    ),
    Mistake(
        "values are read out of a tensor",
        "item, tolist, numpy, float(...) and an `if` on a tensor's values fetch"
        " numbers from the device, and no gradient can pass through them. Compute"
        " with tensors only.",
        sign=error_like(
            r"item\(\)|numpy|_local_scalar_dense|copy out of"
            r" meta|is_nonzero|nonzero|data-dependent|Boolean value"
        ),
    ),
    Mistake(
        "a tensor is on the wrong device",
        "torch.zeros, torch.ones, torch.tensor and torch.arange make their tensors on"
        " the CPU unless you pass device=x.device.",
        sign=lambda request, reply, reference: (
            bool(reply.error) and (request.elsewhere or request.device == "meta")
        ),
    ),
    Mistake(
        "a wrong or mismatched dtype",
        "The result has the dtype of the inputs. Create new tensors with"
        " dtype=x.dtype, and if you compute in a different dtype, cast the result"
        " back.",
        sign=any_of(
            error_like(
                "dtype|expected scalar type|expected .* to have|not implemented for"
            ),
            other_dtype,
        ),
        undone=in_its_dtype,
    ),
    Mistake(
        "digits are lost on the way",
        "In float64, only the first digits are right. Do not convert to float32 on the"
        " way: torch.tensor(0.5), torch.zeros(n) and .float() are float32. Do not add a"
        " small number to a divisor either.",
        undone=precise,
    ),
    Mistake(
        "a name, attribute or key does not exist",
        "Python's message says which name is missing. Compare its spelling with the"
        " docstring and with `__init__`.",
        sign=error_like("^(NameError|UnboundLocalError|AttributeError|KeyError)"),
    ),
    Mistake(
        "shapes do not match",
        "In the check all axes have different lengths, so the numbers in torch's"
        " message show which axes do not fit together. Write the shape of the result"
        " next to each line of your code.",
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
        "a view of a transposed tensor",
        "After transpose or mT, the numbers of a row are no longer side by side in"
        " memory, as view needs them. flatten and reshape copy them if necessary.",
        sign=error_like("view size is not compatible"),
    ),
    Mistake(
        "the number of axes does not fit",
        "There may be any number of axes before the last two, so count axes from the"
        " end: -1 and -2.",
        sign=error_like(
            r"unpack|Dimension out of range|\dD tensor|number of dim|dimensions?"
            r" |indices"
        ),
    ),
    Mistake(
        "the outputs in the wrong order",
        "Look at Returns in the docstring: it says which output comes first.",
        sign=other_order,
        undone=in_order,
    ),
    Mistake(
        "outputs right, gradients missing or wrong",
        "The numbers are right, but nothing can be learned through them: detach, .data,"
        " no_grad and torch.tensor(x) take a tensor out of the graph.",
        sign=cut_off,
        undone=with_gradients,
    ),
    Mistake(
        "an extra or missing axis of length one",
        "keepdim, squeeze and unsqueeze keep, remove and insert such axes. Compare"
        " the shapes.",
        sign=wrong_output(one_axis_off),
        undone=by_output(as_wanted),
    ),
    Mistake(
        "the axes are in the wrong order",
        "The numbers are in the wrong places. Compare the order of your axes with the"
        " docstring.",
        sign=wrong_output(exchanged_axes),
        undone=by_output(turned_back),
    ),
    Mistake(
        "an extra softmax on the output",
        "Return the scores or logits as they are. The softmax comes later.",
        sign=wrong_output(
            lambda given, wanted: (
                wanted.dim() > 0 and close(given, wanted.softmax(dim=-1))
            )
        ),
    ),
    Mistake(
        "wrong sign",
        "Every number is the negative of what it should be.",
        sign=wrong_output(lambda given, wanted: close(-given, wanted)),
        undone=by_output(lambda given, wanted: -given),
    ),
    Mistake(
        "off by a constant factor",
        "Every number is the same multiple of what it should be: a scale is missing"
        " or wrong, or it is applied twice.",
        sign=wrong_output(lambda given, wanted: scaled_by(given, wanted) is not None),
        undone=by_output(scaled_back),
    ),
    Mistake(
        "NaN in the outputs or gradients",
        "0/0 and inf - inf give nan, and so does every number that is computed from"
        " nan.",
        sign=not_a_number,
    ),
)


def _in(variation: str) -> Sign:
    return lambda request, reply, reference: request.variation == variation


# Reported before any other sign: everything is right except in these variations.
KEPT = (
    Mistake(
        "a different answer to the same question",
        "The same inputs must always give the same outputs. Do not keep anything on"
        " self between calls, do not use random numbers, and do not create layers in"
        " forward.",
        sign=_in("second call"),
    ),
    Mistake(
        "two instances affect each other",
        "Whatever belongs to one object must be created in `__init__` and stored on"
        " self, not on the class or in a global variable.",
        sign=_in("another instance"),
    ),
    Mistake(
        "a different answer in eval mode",
        "Only dropout may depend on the mode. Do not use self.training for anything"
        " else.",
        sign=_in("eval mode"),
    ),
    Mistake(
        "wrong for long inputs",
        "The lab sets no limit to the length: make tables and loops as long as the"
        " inputs.",
        sign=_in("long"),
    ),
)

# Reported if no other sign applies.
VARIED = (
    Mistake(
        "wrong for an axis of length one",
        "One sentence, one position or one head is an ordinary case. squeeze without"
        " an argument removes such an axis, and broadcasting expands it.",
        sign=_in("one"),
    ),
    Mistake(
        "wrong for empty inputs",
        "An axis may have length zero, and a list may be empty. Then the result is"
        " empty as well.",
        sign=_in("zero"),
    ),
    Mistake(
        "wrong when two axes have equal length",
        "Find an axis by its place, not by its length.",
        sign=_in("alike"),
    ),
    Mistake(
        "the number of axes does not fit",
        "There may be any number of axes before the last two, so count axes from the"
        " end: -1 and -2.",
        sign=_in("in front"),
    ),
    Mistake(
        "wrong for zeros or large numbers",
        "The inputs may be large numbers. Do not clamp them, and do not compute an"
        " exponential that could overflow.",
        sign=_in("large"),
    ),
    Mistake(
        "numbers read in the order of the memory",
        "The numbers of a tensor need not be side by side in memory, or in order. Do"
        " not use as_strided or storages, and use reshape instead of view.",
        sign=lambda request, reply, reference: request.layout != "contiguous",
    ),
    Mistake(
        "wrong in float32",
        "The numbers are right only in float64. Look for constants that float32 cannot"
        " hold, and for differences of large numbers.",
        sign=_in("float32"),
    ),
)
