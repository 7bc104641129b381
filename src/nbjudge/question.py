"""The vocabulary of questions: Question, Property, Mistake, Request, Reply, Finding ...

A question never touches a student's function or class itself. It sends `Request`s,
which consist of tensors and plain data, and gets `Reply`s back. `in_process.in_process`
answers the requests in this process; a judge in another process only has to answer them
in another way. `battery` makes the usual requests, `comparisons` judges replies, and
`signs` recognizes mistakes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nbjudge.edits import Edit


@dataclass(frozen=True)
class Request:
    """One use of an answer: what to call it with, and under which conditions.

    Attributes:
        inputs: the arguments of the call: tensors, and numbers, strings, lists or dicts
            of plain data; None where an optional argument is left out.
        init: the arguments of the constructor, if the answer is a class; None if it is
            a function.
        parameters: the parameters to load into the module that was constructed, by the
            names that the lab's `__init__` gives them.
        gradients: whether to compute gradients of a fixed weighted sum of the outputs.
        dtype: dtype of the floating-point inputs and parameters.
        device: device of the inputs and parameters.
        traced: whether to record which of torch's operators are called.
        training: whether a module is in training mode; False means eval mode.
        layout: how tensors lie in memory: "contiguous"; "strided", with gaps between
            the numbers and the rows; "transposed", with the leading axes stored in
            another order, as after splitting heads; "expanded", where equal rows share
            the same memory.
        elsewhere: whether tensors created without `device=` are put on a different
            device from the inputs.
        before: requests to make first, of the same object or, if they have an `init`,
            of another one; their outputs are not compared.
        refilled: whether the requests in `before` use the same tensors and the same
            object as this request: these first hold the earlier inputs and parameters,
            and then this request's.
        variation: name of the battery's variation that made the request.
        about: what the request tries, in words that a student understands.
    """

    inputs: tuple[Any, ...]
    init: tuple[Any, ...] | None = None
    parameters: Mapping[str, Tensor] = field(default_factory=dict)
    gradients: bool = False
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    traced: bool = False
    training: bool = True
    layout: str = "contiguous"
    elsewhere: bool = False
    before: tuple["Request", ...] = ()
    refilled: bool = False
    variation: str = ""
    about: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the request as plain data and tensors, for `from_plain`."""
        return {**vars(self), "before": tuple(x.plain() for x in self.before)}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "Request":
        """Make a request from what `plain` returned."""
        before = tuple(map(cls.from_plain, data["before"]))
        return cls(**{**data, "before": before})


class Reply(NamedTuple):
    """The result of a request.

    Attributes:
        outputs: what the answer returned.
        gradients: gradients with respect to each input, then to each parameter of the
            request; None where there is none.
        changed: whether an input was changed in place.
        error: the error in one line; empty if there was none.
        where: the line of the answer in which the error occurred, if it is known.
        written: False if the answer is still the empty stub from the lab.
        operators: the names of the operators that were called, in order, if the request
            was traced.
    """

    outputs: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor | None, ...] = ()
    changed: bool = False
    error: str = ""
    where: str = ""
    written: bool = True
    operators: tuple[str, ...] = ()


class Changed(NamedTuple):
    """Outputs that `use` returns if an answer has changed an argument in place.

    Changes to the request's inputs are detected without it; it reports changes to
    something that `use` itself made.
    """

    outputs: Any


def state_of(module: nn.Module) -> list[tuple[object, ...]]:
    """Describe a module's tensors: a call that only uses the module keeps them all.

    Returns:
        For each parameter and saved buffer: its name, its identity, its dtype, and
        whether it asks for a gradient.
    """
    return [
        (name, id(x), x.dtype, x.requires_grad)
        for name, x in module.state_dict(keep_vars=True).items()
    ]


Door = Callable[[Request], Reply]
Sign = Callable[[Request, Reply, Reply], bool]


class Case(NamedTuple):
    """A small example for which a property does not hold.

    Attributes:
        inputs: the inputs, by name.
        given: the answer's output, which is wrong.
        wanted: the right output.
    """

    inputs: tuple[tuple[str, Any], ...]
    given: Tensor
    wanted: Tensor


class Finding(NamedTuple):
    """Why a property does not hold.

    Attributes:
        seen: what the answer gave.
        wanted: what it should have given.
        inputs: the inputs, in words.
        case: a small example of the same failure, if there is one.
    """

    seen: str
    wanted: str
    inputs: str = ""
    case: Case | None = None


Judge = Callable[[Request, Reply, Reply], Finding | None]


@dataclass(frozen=True)
class Property:
    """Something that must hold for every right answer.

    Attributes:
        claim: what is checked, in the words of the feedback.
        points: the points that it is worth.
        requests: makes the requests from a `Draw` of random numbers.
        judge: compares a reply with the reference's reply in float64; returns None if
            the property holds.
        throughout: also judges the replies to the requests of all earlier properties,
            because something can go wrong while something else is being checked.
        checks: the keys of the question's `requirements` that it checks.
    """

    claim: str
    points: int
    requests: Callable[[Any], Iterable[Request]]
    judge: Judge
    throughout: Judge | None = None
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """A known mistake, with a name and a hint.

    It is recognized by comparison with an answer that makes it, by a sign in the reply,
    or by both.

    Attributes:
        name: for example "softmax over the wrong axis".
        hint: one sentence that says how to correct the mistake without giving the code.
        section: the section of the book to read, as page#label; empty if the
            documentation of Python or torch is what to read.
        made_by: an answer that makes this mistake and no other: an edit of the
            question's reference or, if no edit can express it, a function or class; a
            tuple if there are several ways to make it.
        sign: tells whether a wrong reply, compared with the reference's, shows this
            mistake, however it was made.
        undone: returns the reply without this mistake; if no reply is wrong then, the
            answer made this mistake and no other.
    """

    name: str
    hint: str
    section: str = ""
    made_by: Any = ()
    sign: Sign | None = None
    undone: Callable[[Request, Reply, Reply], Reply] | None = None

    def answers(self, reference: Any) -> list[Any]:
        """Return the answers that make this mistake.

        Args:
            reference: the right answer that edits start from.
        """
        ways = self.made_by if isinstance(self.made_by, tuple) else (self.made_by,)
        return [way.apply(reference) if isinstance(way, Edit) else way for way in ways]


# Functions and classes that compute attention in one call.
ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
)


def construct(thing: Any, *init: Any) -> Any:
    """Construct a class from plain numbers."""
    return thing(*init)


@dataclass(frozen=True, eq=False)
class Question:
    """What a graded cell asks.

    Attributes:
        name: the name, as in `check(name, ...)`.
        reference: a right answer.
        properties: what must hold; the points of later properties count only if the
            first one holds.
        mistakes: the mistakes that the feedback can name.
        use: calls an answer: use(thing, *inputs) -> outputs.
        stand_ins: the course's own versions of earlier answers, by name. They replace
            the student's versions, so that a mistake there costs no points here.
        make: constructs an answer that is a class: make(thing, *init) -> module.
        forbidden: names of functions and classes, of torch or of the course, that do in
            one call what the question asks for; calling them fails where answers are
            graded.
        plain: whether `use` turns the inputs into strings and lists, so that their
            shapes mean nothing to a student.
        battery: the `Battery` that answers are tried with, if there is one.
        requirements: sentences of the lab, word for word, that an answer has to meet;
            properties name their keys in `checks`.
    """

    name: str
    reference: Any
    properties: tuple[Property, ...]
    mistakes: tuple[Mistake, ...]
    use: Callable[..., Any]
    stand_ins: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[..., Any] = construct
    forbidden: tuple[str, ...] = ATTENTION
    plain: bool = False
    battery: Any = None
    requirements: Mapping[str, str] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """The points that the question is worth."""
        return sum(p.points for p in self.properties)


@dataclass(frozen=True)
class Result:
    """The result of checking one property.

    Attributes:
        checked: the property.
        finding: None if the property holds.
        mistake: the known mistake that the failure looks like, if there is one.
        earned: the points earned.
        exact: whether the replies to all requests of the property are exactly those of
            this mistake; otherwise they only show a sign of it.
    """

    checked: Property
    finding: Finding | None
    mistake: Mistake | None
    earned: int
    exact: bool = False
