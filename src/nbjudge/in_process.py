"""Use an answer in this process: construct, load, call, differentiate, trace."""

import contextlib
import copy
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nbjudge.question import Door, Question, Reply, Request

# Of one answer: to look at more takes time, and says no more.
MOST_OUTPUTS = 1000


def in_process(question: Question, thing: Any) -> Door:
    """Open the door to something in this process."""
    if not callable(thing):
        kind = type(thing).__name__
        return lambda request: Reply(
            error=f"{kind} was handed over: hand over the function or class itself"
        )
    return lambda request: _answer(question, thing, request)


def _answer(question: Question, thing: Any, request: Request) -> Reply:
    inputs = [_placed(x, request) for x in request.inputs]
    before = copy.deepcopy(inputs)
    for x in inputs:
        if isinstance(x, Tensor) and request.gradients:
            x.requires_grad_(x.is_floating_point())
    parameters: Mapping[str, Tensor] = {}
    try:
        with (
            _stand_ins(thing, question.stand_ins),
            torch.set_grad_enabled(request.gradients),
        ):
            if request.init is not None:
                thing = question.make(thing, *request.init)
                thing.to(device=request.device, dtype=request.dtype)
                if request.device != "meta":
                    thing.load_state_dict(request.parameters)
                parameters = dict(thing.named_parameters())
            earlier = None
            plainly = request.device == "cpu" and not (
                request.gradients or request.traced
            )
            if request.init is not None and plainly and not question.once:
                # What a module keeps from one call, whether it is the first or the
                # last, would be wrong in the next.
                question.use(thing, *map(_flipped, inputs))
                earlier = question.use(thing, *copy.deepcopy(inputs))
            with (
                _Operators() if request.traced else contextlib.nullcontext([])
            ) as operators:
                outputs = question.use(thing, *inputs)
        if outputs is None:
            return Reply(error="nothing was returned")
        outputs = _several(outputs)
        if len(outputs) > MOST_OUTPUTS:
            return Reply(error=f"returned {len(outputs)} things, wanted a few tensors")
        if not all(
            isinstance(output, Tensor) and output.layout == torch.strided
            for output in outputs
        ):
            return Reply(
                error=(
                    f"returned {[type(output).__name__ for output in outputs]}, wanted"
                    " tensors"
                )
            )
        if earlier is not None and not all_close(_several(earlier), outputs):
            return Reply(
                error=(
                    "the second call with the same inputs gave other outputs than the"
                    " first"
                )
            )
        leaves = [x if isinstance(x, Tensor) else None for x in inputs]
        leaves += [parameters.get(name) for name in request.parameters]
        gradients = _gradients(outputs, leaves) if request.gradients else ()
    except NotImplementedError as error:
        # torch raises it, too, for what it cannot do on the meta device: then it has a
        # message.
        return Reply(error=_line(error), written=bool(str(error)))
    except Exception as error:
        return Reply(error=_line(error))
    changed = request.device != "meta" and not all(map(_same, inputs, before))
    return Reply(
        tuple(output.detach() for output in outputs),
        gradients,
        changed,
        operators=tuple(operators),
    )


def _placed(x: Any, request: Request) -> Any:
    """Copy an input, with the request's dtype and device if it is a tensor."""
    if not isinstance(x, Tensor):
        return copy.deepcopy(x)
    dtype = request.dtype if x.is_floating_point() else x.dtype
    return x.to(device=request.device, dtype=dtype, copy=True)


def _flipped(x: Any) -> Any:
    return x.flip(0) if isinstance(x, Tensor) and x.dim() else copy.deepcopy(x)


def _same(x: Any, y: Any) -> bool:
    return torch.equal(x.detach(), y) if isinstance(x, Tensor) else bool(x == y)


def _several(outputs: Any) -> tuple[Any, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


@contextlib.contextmanager
def _stand_ins(thing: Any, stand_ins: Mapping[str, Any]) -> Iterator[None]:
    """Put the course's versions in the place of the student's earlier answers."""
    code = vars(thing).values() if isinstance(thing, type) else [thing]
    names = next((x.__globals__ for x in code if isinstance(x, types.FunctionType)), {})
    theirs = {name: names[name] for name in stand_ins if name in names}
    names.update({name: stand_ins[name] for name in theirs})
    try:
        yield
    finally:
        names.update(theirs)


class _Operators(TorchDispatchMode):
    """Note the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __enter__(self) -> list[str]:
        super().__enter__()
        return self.names

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def _gradients(
    outputs: tuple[Tensor, ...], leaves: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Differentiate a fixed, unsymmetric mixture of all output entries."""
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
    """Whether tensors are the same, in number, shape, dtype, device and entries."""
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
