"""Questions: declared once, asked through a narrow door.

A question never touches a student's function or class itself. It sends `Request`s, which are tensors and plain
data, through a door that sends `Reply`s back. `local` is the door to something in this process; a judge in another
process needs another door and nothing else.
"""

import types
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Request:
    """One use of an answer.

    Attributes:
        inputs: what to call it with; None where an optional argument is left out.
        init: what to construct it with, if the answer is a class; None if it is a function.
        parameters: what to load into it then, by the names that the given `__init__` fixes.
        gradients: whether to differentiate a fixed random mixture of the outputs.
        dtype: of the floating-point inputs and parameters.
        device: of inputs and parameters.
    """

    inputs: tuple[Tensor | None, ...]
    init: tuple[int, ...] | None = None
    parameters: Mapping[str, Tensor] = field(default_factory=dict)
    gradients: bool = False
    dtype: torch.dtype = torch.float64
    device: str = "cpu"


class Reply(NamedTuple):
    """What came of it.

    Attributes:
        outputs: what the answer returned.
        gradients: with respect to each input; None where there is none.
        changed: whether an input was changed in place.
        error: one line, empty if all went well.
        written: False if the answer is still the empty one.
    """

    outputs: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor | None, ...] = ()
    changed: bool = False
    error: str = ""
    written: bool = True


Door = Callable[[Request], Reply]


class Finding(NamedTuple):
    """Why a property does not hold: what was seen, and what was wanted."""

    seen: str
    wanted: str


@dataclass(frozen=True)
class Property:
    """Something that must hold for every right answer.

    Attributes:
        claim: what is checked, as the feedback says it.
        points: what it is worth.
        requests: makes the requests, from fresh random numbers.
        judge: compares a reply with the reference's in float64; returns None if the property holds.
    """

    claim: str
    points: int
    requests: Callable[[torch.Generator], Iterable[Request]]
    judge: Callable[[Request, Reply, Reply], Finding | None]


@dataclass(frozen=True)
class Misconception:
    """A mistake that has a name.

    Attributes:
        name: "softmax over the wrong axis".
        hint: one sentence that sets it right without giving the code.
        section: where to read, as page#label of the book.
        thing: an answer that makes this mistake, and no other.
    """

    name: str
    hint: str
    section: str
    thing: Any


@dataclass(frozen=True)
class Question:
    """What a graded cell asks.

    Attributes:
        name: as in `check(name, ...)`.
        reference: a right answer.
        properties: what must hold; the points of the later ones count only if the first one holds.
        misconceptions: the mistakes that the feedback can name.
        use: how an answer is put to use: use(thing, *inputs) -> outputs.
        stand_ins: the course's own versions of earlier answers, which take the place of the student's, so that a
            mistake there costs no points here.
    """

    name: str
    reference: Any
    properties: tuple[Property, ...]
    misconceptions: tuple[Misconception, ...]
    use: Callable[..., Any]
    stand_ins: Mapping[str, Any] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """What the question is worth."""
        return sum(p.points for p in self.properties)


@dataclass(frozen=True)
class Result:
    """What became of one property.

    Attributes:
        checked: the property.
        finding: None if it holds.
        misconception: the mistake that this looks like, if it is a known one.
        earned: points.
    """

    checked: Property
    finding: Finding | None
    misconception: Misconception | None
    earned: int


def evaluate(question: Question, ask: Door, seed: int | None = None) -> list[Result]:
    """Check every property of a question.

    Args:
        question: what to check.
        ask: the door to the answer.
        seed: of the random inputs; without it, one that depends on the question's name alone.

    Returns:
        One result per property, in their order.
    """
    seed = zlib.crc32(question.name.encode()) if seed is None else seed
    results: list[Result] = []
    for number, checked in enumerate(question.properties):
        generator = torch.Generator().manual_seed(seed + number)
        finding, misconception = _examine(question, checked, ask, generator)
        counts = finding is None and (not results or results[0].finding is None)
        results.append(Result(checked, finding, misconception, checked.points if counts else 0))
    return results


def local(question: Question, thing: Any) -> Door:
    """Open the door to something in this process."""
    if not callable(thing):
        kind = type(thing).__name__
        return lambda request: Reply(error=f"{kind} was handed over: hand over the function or class itself")
    if isinstance(thing, types.FunctionType) and question.stand_ins:
        thing = types.FunctionType(
            thing.__code__,
            {**thing.__globals__, **question.stand_ins},
            thing.__name__,
            thing.__defaults__,
            thing.__closure__,
        )
    return lambda request: _answer(question, thing, request)


def _examine(
    question: Question, checked: Property, ask: Door, generator: torch.Generator
) -> tuple[Finding | None, Misconception | None]:
    reference = local(question, question.reference)
    for request in checked.requests(generator):
        reply = ask(request)
        if not reply.written:
            return Finding("not written yet", "your code"), None
        finding = checked.judge(request, reply, reference(replace(request, dtype=torch.float64, device="cpu")))
        if finding:
            for misconception in question.misconceptions:
                if _alike(reply, local(question, misconception.thing)(request)):
                    return finding, misconception
            return finding, None
    return None, None


def _answer(question: Question, thing: Any, request: Request) -> Reply:
    place: dict[str, Any] = {"device": request.device, "dtype": request.dtype}
    inputs = [x if x is None else x.to(request.device).clone() if x.dtype == torch.bool else x.to(**place).clone()
              for x in request.inputs]  # fmt: skip
    before = [x if x is None else x.clone() for x in inputs]
    for x in inputs:
        if x is not None and request.gradients:
            x.requires_grad_(x.is_floating_point())
    try:
        if request.init is not None:
            thing = thing(*request.init).to(**place)
            if request.device != "meta":
                thing.load_state_dict(request.parameters)
        with torch.set_grad_enabled(request.gradients):
            outputs = question.use(thing, *inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        if not all(isinstance(output, Tensor) for output in outputs):
            return Reply(error=f"returned {[type(output).__name__ for output in outputs]}, wanted tensors")
        gradients = _gradients(outputs, inputs) if request.gradients else ()
    except NotImplementedError as error:
        # torch raises it, too, for what it cannot do on the meta device: then it has a message.
        return Reply(error=_line(error), written=bool(str(error)))
    except Exception as error:
        return Reply(error=_line(error))
    changed = request.device != "meta" and any(
        x is not None and not torch.equal(x.detach(), y) for x, y in zip(inputs, before) if y is not None
    )
    return Reply(tuple(output.detach() for output in outputs), gradients, changed)


def _gradients(outputs: tuple[Tensor, ...], inputs: list[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Differentiate a fixed, unsymmetric mixture of all output entries."""
    mixture = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        if output.requires_grad:
            coefficients = torch.sin(1.0 + torch.arange(output.numel(), dtype=output.dtype)).view_as(output)
            mixture = mixture + (coefficients * output).sum()
    if mixture.requires_grad:
        mixture.backward()
    return tuple(None if x is None else x.grad for x in inputs)


def _line(error: Exception) -> str:
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__


def _alike(one: Reply, other: Reply) -> bool:
    if one.error or other.error:
        return one.error == other.error
    if one.changed != other.changed:
        return False
    return _all_close(one.outputs, other.outputs) and _all_close(one.gradients, other.gradients)


def _all_close(one: tuple[Tensor | None, ...], other: tuple[Tensor | None, ...]) -> bool:
    if len(one) != len(other):
        return False
    return all(
        (x is None) == (y is None)
        and (
            x is None
            or y is None
            or (
                (x.shape, x.dtype, x.device) == (y.shape, y.dtype, y.device)
                and (x.is_meta or torch.allclose(x, y, rtol=1e-5, atol=1e-7, equal_nan=True))
            )
        )
        for x, y in zip(one, other)
    )
