"""Questions: declared once, asked through a narrow door.

A question never touches a student's function or class itself. It sends `Request`s,
which are tensors and plain data, through a door that sends `Reply`s back. `local` is
the door to something in this process; a judge in another process needs another door and
nothing else.
"""

import contextlib
import inspect
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Request:
    """One use of an answer.

    Attributes:
        inputs: what to call it with; None where an optional argument is left out.
        init: what to construct it with, if the answer is a class; None if it is a
            function.
        parameters: what to load into it then, by the names that the given `__init__`
            fixes.
        gradients: whether to differentiate a fixed random mixture of the outputs.
        dtype: of the floating-point inputs and parameters.
        device: of inputs and parameters.
        traced: whether to note which of torch's operators are called.
    """

    inputs: tuple[Tensor | None, ...]
    init: tuple[int, ...] | None = None
    parameters: Mapping[str, Tensor] = field(default_factory=dict)
    gradients: bool = False
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    traced: bool = False


class Reply(NamedTuple):
    """What came of it.

    Attributes:
        outputs: what the answer returned.
        gradients: with respect to each input, then each parameter sent; None where
            there is none.
        changed: whether an input was changed in place.
        error: one line, empty if all went well.
        written: False if the answer is still the empty one.
        operators: the names of the operators that it called, in order, if the request
            was traced.
    """

    outputs: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor | None, ...] = ()
    changed: bool = False
    error: str = ""
    written: bool = True
    operators: tuple[str, ...] = ()


Door = Callable[[Request], Reply]


class Finding(NamedTuple):
    """Why a property does not hold: what was seen, and what was wanted, for inputs of
    which shapes."""

    seen: str
    wanted: str
    inputs: str = ""


@dataclass(frozen=True)
class Property:
    """Something that must hold for every right answer.

    Attributes:
        claim: what is checked, as the feedback says it.
        points: what it is worth.
        requests: makes the requests, from fresh random numbers.
        judge: compares a reply with the reference's in float64; returns None if the
            property holds.
    """

    claim: str
    points: int
    requests: Callable[[torch.Generator], Iterable[Request]]
    judge: Callable[[Request, Reply, Reply], Finding | None]


Sign = Callable[[Request, Reply, Reply], bool]


@dataclass(frozen=True)
class Misconception:
    """A mistake that has a name. It is known by an answer that makes it, by a sign in
    the reply, or by both.

    Attributes:
        name: "softmax over the wrong axis".
        hint: one sentence that sets it right without giving the code.
        section: where to read, as page#label of the book; empty where Python or torch
            is what to read about.
        thing: an answer that makes this mistake, and no other; None if there is only a
            sign.
        sign: whether a reply that is wrong, compared with the reference's, shows this
            mistake however it was made.
    """

    name: str
    hint: str
    section: str = ""
    thing: Any = None
    sign: Sign | None = None


# Of one answer: to look at more takes time, and says no more.
MOST_OUTPUTS = 1000
# What computes attention in one call.
ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
)


def construct(thing: Any, *init: int) -> Any:
    """Construct a class from plain numbers."""
    return thing(*init)


@dataclass(frozen=True)
class Question:
    """What a graded cell asks.

    Attributes:
        name: as in `check(name, ...)`.
        reference: a right answer.
        properties: what must hold; the points of the later ones count only if the first
            one holds.
        misconceptions: the mistakes that the feedback can name.
        use: how an answer is put to use: use(thing, *inputs) -> outputs.
        stand_ins: the course's own versions of earlier answers, which take the place of
            the student's, so that a mistake there costs no points here.
        make: how an answer that is a class is constructed: make(thing, *init) ->
            module.
        forbidden: of torch.nn, what does in one call what is asked for; it refuses to
            where answers are graded.
        plain: whether `use` makes strings and lists of the inputs, so that their shapes
            mean nothing to a student.
        once: whether `use` leaves a module changed, so that it is not used several
            times.
    """

    name: str
    reference: Any
    properties: tuple[Property, ...]
    misconceptions: tuple[Misconception, ...]
    use: Callable[..., Any]
    stand_ins: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[..., Any] = construct
    forbidden: tuple[str, ...] = ATTENTION
    plain: bool = False
    once: bool = False

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
        seed: of the random inputs; without it, one that depends on the question's name
            alone.

    Returns:
        One result per property, in their order.
    """
    seed = zlib.crc32(question.name.encode()) if seed is None else seed
    results: list[Result] = []
    for number, checked in enumerate(question.properties):
        generator = torch.Generator().manual_seed(seed + number)
        on_course = not results or results[0].finding is None
        finding, misconception = _examine(question, checked, ask, generator, on_course)
        counts = finding is None and on_course
        results.append(
            Result(checked, finding, misconception, checked.points if counts else 0)
        )
    return results


def local(question: Question, thing: Any) -> Door:
    """Open the door to something in this process."""
    if not callable(thing):
        kind = type(thing).__name__
        return lambda request: Reply(
            error=f"{kind} was handed over: hand over the function or class itself"
        )
    return lambda request: _answer(question, thing, request)


def _examine(
    question: Question,
    checked: Property,
    ask: Door,
    generator: torch.Generator,
    on_course: bool,
) -> tuple[Finding | None, Misconception | None]:
    ask_reference = local(question, question.reference)
    for request in checked.requests(generator):
        reply = _with_numbers(request, ask(request))
        if not reply.written:
            return Finding("not written yet", "your code"), None
        reference = ask_reference(replace(request, dtype=torch.float64, device="cpu"))
        if finding := checked.judge(request, reply, reference):
            finding = finding._replace(inputs=_shapes(question, request))
            return finding, _recognise(question, request, reply, reference, on_course)
    return None, None


def _with_numbers(request: Request, reply: Reply) -> Reply:
    """Refuse tensors on device meta, which have none, where numbers were asked for."""
    tensors = (x for x in (*reply.outputs, *reply.gradients) if x is not None)
    if request.device != "meta" and any(x.is_meta for x in tensors):
        return Reply(error="a tensor on device meta was returned, which has no numbers")
    return reply


def _shapes(question: Question, request: Request) -> str:
    """Say what the inputs were, by the names that the question's `use` gives them."""
    if question.plain:
        return ""
    names = list(inspect.signature(question.use).parameters)[1:]
    parts = (
        f"{name} {'None' if x is None else tuple(x.shape)}"
        for name, x in zip(names, request.inputs)
    )
    return ", ".join(parts)


def _recognise(
    question: Question,
    request: Request,
    reply: Reply,
    reference: Reply,
    on_course: bool,
) -> Misconception | None:
    """Name the mistake: the same reply as that of a known one says most, a sign that
    several share says less.

    Where the first property does not hold, what goes wrong after it is mostly the same
    mistake in other clothes.
    """
    for known in question.misconceptions:
        if known.thing is not None and _alike(
            reply, local(question, known.thing)(request)
        ):
            return known
    for known in question.misconceptions:
        if on_course and known.sign is not None:
            # A sign looks along axes that a wrong reply may not have.
            with contextlib.suppress(IndexError, RuntimeError):
                if known.sign(request, reply, reference):
                    return known
    return None


def _answer(question: Question, thing: Any, request: Request) -> Reply:
    place: dict[str, Any] = {"device": request.device, "dtype": request.dtype}
    inputs = [
        (
            None
            if x is None
            else x.to(
                **place if x.is_floating_point() else {"device": request.device}
            ).clone()
        )
        for x in request.inputs
    ]
    before = [None if x is None else x.clone() for x in inputs]
    for x in inputs:
        if x is not None and request.gradients:
            x.requires_grad_(x.is_floating_point())
    parameters: Mapping[str, Tensor] = {}
    try:
        with (
            _stand_ins(thing, question.stand_ins),
            torch.set_grad_enabled(request.gradients),
        ):
            if request.init is not None:
                thing = question.make(thing, *request.init).to(**place)
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
                question.use(
                    thing,
                    *(x.flip(0) if x is not None and x.dim() else x for x in inputs),
                )
                earlier = question.use(
                    thing, *(None if x is None else x.clone() for x in inputs)
                )
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
        if earlier is not None and not _all_close(_several(earlier), outputs):
            return Reply(
                error=(
                    "the second call with the same inputs gave other outputs than the"
                    " first"
                )
            )
        leaves = [*inputs, *(parameters.get(name) for name in request.parameters)]
        gradients = _gradients(outputs, leaves) if request.gradients else ()
    except NotImplementedError as error:
        # torch raises it, too, for what it cannot do on the meta device: then it has a
        # message.
        return Reply(error=_line(error), written=bool(str(error)))
    except Exception as error:
        return Reply(error=_line(error))
    changed = request.device != "meta" and any(
        x is not None and not torch.equal(x.detach(), y)
        for x, y in zip(inputs, before)
        if y is not None
    )
    return Reply(
        tuple(output.detach() for output in outputs),
        gradients,
        changed,
        operators=tuple(operators),
    )


def _several(outputs: Any) -> tuple[Any, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


@contextlib.contextmanager
def _stand_ins(thing: Any, stand_ins: Mapping[str, Any]) -> Iterator[None]:
    """Put the course's versions where an answer, and whatever it calls, looks for the
    student's earlier ones."""
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


def _alike(one: Reply, other: Reply) -> bool:
    if one.error or other.error:
        return one.error == other.error
    if one.changed != other.changed:
        return False
    return _all_close(one.outputs, other.outputs) and _all_close(
        one.gradients, other.gradients
    )


def _all_close(
    one: tuple[Tensor | None, ...], other: tuple[Tensor | None, ...]
) -> bool:
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
