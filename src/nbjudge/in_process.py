"""Use an answer in this process: construct it, load parameters, call it, differentiate.

To run an answer in a sandbox, see `nbjudge.grading.judge`.
"""

import contextlib
import copy
import traceback
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbjudge.question import Changed, Door, Question, Reply, Request
from nbjudge.watching import watch

# Saved before any answer runs, because an answer may replace torch's functions.
_equal = torch.equal
# Outputs of one answer: checking more takes time and reveals nothing new.
MOST_OUTPUTS = 1000


def in_process(question: Question, thing: Any) -> Door:
    """Return a function that sends requests to an answer in this process."""
    if not callable(thing):
        kind = type(thing).__name__
        return lambda request: Reply(
            error=f"{kind} was handed over: hand over the function or class itself"
        )
    return lambda request: _answer(question, thing, request)


def _answer(question: Question, thing: Any, request: Request) -> Reply:
    code = _files(thing)
    inputs = [_placed(x, request) for x in request.inputs]
    before = [x.clone() if isinstance(x, Tensor) else copy.deepcopy(x) for x in inputs]
    leaves = [_leaf(x, request) for x in inputs]
    # The inputs are not leaves, so that a change in place is possible and is detected.
    inputs = [x if leaf is None else leaf.clone() for x, leaf in zip(inputs, leaves)]
    init = copy.deepcopy(request.init)
    try:
        with (
            ordinary_defaults(),
            _stand_ins(thing, question.stand_ins),
            torch.set_grad_enabled(request.gradients),
        ):
            made = _constructed(question, thing, replace(request, init=init))
            returned: list[tuple[Tensor, Tensor]] = []
            for earlier in request.before:
                if request.refilled:
                    with _holding(inputs, earlier) as held, _loaded(made, earlier):
                        question.use(made, *held)
                    continue
                other = made
                if earlier.init is not None:
                    own = copy.deepcopy(earlier.init)
                    other = _constructed(question, thing, replace(earlier, init=own))
                given = (_placed(x, earlier) for x in earlier.inputs)
                returned += _copied(question.use(other, *given))
            with watch(request) as (operators, elsewhere):
                outputs = question.use(made, *inputs)
        changed = isinstance(outputs, Changed)
        outputs = outputs.outputs if changed else outputs
        if outputs is None:
            return Reply(error="nothing was returned")
        if not all(_same(x, copied) for x, copied in returned):
            return Reply(error="what an earlier call had returned was overwritten")
        outputs = _several(outputs)
        if len(outputs) > MOST_OUTPUTS:
            return Reply(error=f"returned {len(outputs)} things, wanted a few tensors")
        if not all(
            isinstance(output, Tensor) and output.layout == torch.strided
            for output in outputs
        ):
            kinds = [type(output).__name__ for output in outputs]
            return Reply(error=f"returned {kinds}, wanted tensors")
        outputs = tuple(
            x.to("meta") if elsewhere.has_fetched(x) else x for x in outputs
        )
        handed, intact = [*inputs, *(init or ())], [*before, *(request.init or ())]
        if request.device != "meta":
            changed = changed or not all(map(_same, handed, intact))
        gradients: tuple[Tensor | None, ...] = ()
        if request.gradients:
            named = dict(made.named_parameters()) if request.init is not None else {}
            leaves += [named.get(name) for name in request.parameters]
            # It may be impossible to differentiate through numbers changed in place.
            with contextlib.suppress(*[RuntimeError] * changed):
                gradients = _gradients(outputs, leaves)
    except NotImplementedError as error:
        # Torch raises it, too, for what it cannot do on device meta: then it has a
        # message.
        return Reply(
            error=_line(error), where=where(error, code), written=bool(str(error))
        )
    except Exception as error:
        return Reply(error=_line(error), where=where(error, code))
    return Reply(
        tuple(output.detach() for output in outputs),
        gradients,
        changed,
        operators=tuple(operators),
    )


def _constructed(question: Question, thing: Any, request: Request) -> Any:
    """Construct an answer that is a class, and load the request's parameters."""
    if request.init is None:
        return thing
    made = question.make(thing, *request.init)
    if not isinstance(made, nn.Module) and not request.parameters:
        return made
    made.to(device=request.device, dtype=request.dtype)
    if request.device != "meta":
        missing, unknown = made.load_state_dict(request.parameters, strict=False)
        # Buffers are up to the answer.
        missing = [name for name, _ in made.named_parameters() if name in missing]
        if missing or unknown:
            raise RuntimeError(
                f"the parameters are not those of the given __init__: {missing} are"
                f" new, {unknown} are gone"
            )
    return made.train(request.training)


@contextlib.contextmanager
def ordinary_defaults() -> Iterator[None]:
    """Use the default device and dtype that torch starts with.

    Afterwards, restore those that a notebook has set.

    Raises:
        RuntimeError: they were changed meanwhile, which is an error in the answer.
    """
    ordinary = torch.device("cpu"), torch.float32
    before = torch.get_default_device(), torch.get_default_dtype()
    _set_defaults(*ordinary)
    try:
        yield
        if (torch.get_default_device(), torch.get_default_dtype()) != ordinary:
            raise RuntimeError("torch's default device or dtype has been changed")
    finally:
        _set_defaults(*before)


def _set_defaults(device: torch.device, dtype: torch.dtype) -> None:
    if torch.get_default_device() != device:
        # None, if no device was set, saves a check in every call
        torch.set_default_device(None if device.type == "cpu" else device)
    torch.set_default_dtype(dtype)


@contextlib.contextmanager
def _holding(inputs: Sequence[Any], earlier: Request) -> Iterator[list[Any]]:
    """Fill tensors for a while with an earlier request's numbers, if shapes match."""
    given = [_placed(x, earlier) for x in earlier.inputs]
    same = [
        i
        for i, (x, y) in enumerate(zip(inputs, given))
        if isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape
    ]
    kept = [inputs[i].clone() for i in same]
    for i in same:
        inputs[i].copy_(given[i])
        given[i] = inputs[i]
    yield given
    for i, numbers in zip(same, kept):
        inputs[i].copy_(numbers)


@contextlib.contextmanager
def _loaded(made: Any, earlier: Request) -> Iterator[None]:
    """Give an object an earlier request's parameters for a while."""
    if not earlier.parameters:
        yield
        return
    named = dict(made.named_parameters())
    kept = {name: named[name].data for name in earlier.parameters}
    for name, numbers in earlier.parameters.items():
        named[name].data = numbers.to(kept[name], copy=True)
    yield
    for name, numbers in kept.items():
        named[name].data = numbers


def where(error: BaseException, files: Collection[str]) -> str:
    """Return the innermost line of the given files that led to an error."""
    for entry in reversed(traceback.extract_tb(error.__traceback__)):
        if entry.filename in files:
            return (
                f"line {entry.lineno}: {entry.line}"
                if entry.line
                else f"line {entry.lineno}"
            )
    return ""


def _files(thing: Any) -> set[str]:
    """Find the files or notebook cells in which a function or class is written."""
    code = vars(thing).values() if isinstance(thing, type) else [thing]
    return {x.__code__.co_filename for x in code if isinstance(x, types.FunctionType)}


def _placed(x: Any, request: Request) -> Any:
    """Copy an input; a tensor gets the request's dtype, device and layout."""
    if not isinstance(x, Tensor):
        return copy.deepcopy(x)
    dtype = request.dtype if x.is_floating_point() else x.dtype
    x = x.to(device=request.device, dtype=dtype, copy=True)
    if request.layout == "strided":
        wide = torch.cat([x, x], dim=-1) if x.dim() else x
        spread = torch.stack([wide, wide], dim=-1)[..., 0]
        return spread[..., : x.size(-1)] if x.dim() else spread
    if request.layout == "transposed":
        last = x.dim() - 2
        order = [*reversed(range(last)), *range(max(last, 0), x.dim())]
        return x.permute(order).contiguous().permute(order)
    if request.layout == "expanded":
        for axis in range(x.dim()):
            row = x.narrow(axis, 0, min(1, x.size(axis)))
            if x.size(axis) > 1 and _equal(x, row.expand_as(x)):
                x = row.expand_as(x)
    return x


def _leaf(x: Any, request: Request) -> Tensor | None:
    """Return a copy of an input whose gradient is wanted; None if it is not."""
    wanted = request.gradients and isinstance(x, Tensor) and x.is_floating_point()
    return x.clone().requires_grad_() if wanted else None


def _same(x: Any, y: Any) -> bool:
    if type(x) is not type(y):
        return False
    if isinstance(x, dict):  # in the same order, too
        return _same([*x], [*y]) and _same([*x.values()], [*y.values()])
    if isinstance(x, list | tuple):
        return len(x) == len(y) and all(map(_same, x, y))
    if not isinstance(x, Tensor):
        return bool(x == y)
    alike = (x.shape, x.dtype, x.device) == (y.shape, y.dtype, y.device)
    return alike and _equal(x.detach().nan_to_num(), y.nan_to_num())


def _several(outputs: Any) -> tuple[Any, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def _copied(outputs: Any) -> list[tuple[Tensor, Tensor]]:
    """Pair the output tensors with copies; omit parameters, which may change later."""
    several = () if outputs is None else _several(outputs)
    return [
        (x, x.detach().clone())
        for x in several
        if isinstance(x, Tensor) and not isinstance(x, torch.nn.Parameter)
    ]


@contextlib.contextmanager
def _stand_ins(thing: Any, stand_ins: Mapping[str, Any]) -> Iterator[None]:
    """Replace the student's earlier answers with the course's versions for a while."""
    code = vars(thing).values() if isinstance(thing, type) else [thing]
    names = next((x.__globals__ for x in code if isinstance(x, types.FunctionType)), {})
    theirs = {name: names[name] for name in stand_ins if name in names}
    names.update({name: stand_ins[name] for name in theirs})
    try:
        yield
    finally:
        names.update(theirs)


def _gradients(
    outputs: tuple[Tensor, ...], leaves: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Differentiate a weighted sum of all output entries, with fixed weights."""
    mixture = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        if output.requires_grad:
            coefficients = torch.sin(
                1.0 + torch.arange(output.numel(), dtype=output.dtype)
            ).view_as(output)
            mixture = mixture + (coefficients * output).sum()
    if mixture.requires_grad:
        mixture.backward()
    return tuple(None if x is None else x.grad for x in leaves)


def _line(error: Exception) -> str:
    message = " ".join(str(error).split())
    return (
        f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__
    )


def all_close(one: tuple[Tensor | None, ...], other: tuple[Tensor | None, ...]) -> bool:
    """Return whether tensors agree in number, shape, dtype, device and entries."""
    if len(one) != len(other):
        return False
    return all(
        (x is None) == (y is None)
        and (
            x is None
            or y is None
            or (
                (x.shape, x.dtype, x.device) == (y.shape, y.dtype, y.device)
                and (
                    x.is_meta
                    or torch.allclose(x, y, rtol=1e-5, atol=1e-7, equal_nan=True)
                )
            )
        )
        for x, y in zip(one, other)
    )
