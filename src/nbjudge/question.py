"""The vocabulary: Question, Property, Mistake; Request, Reply, Finding, Case, Result.

A question never touches a student's function or class itself. It sends `Request`s,
which are tensors and plain data, and gets `Reply`s back. `in_process.in_process`
answers from this process; a judge in another process only has to answer in another way.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nbjudge.edits import Edit


@dataclass(frozen=True)
class Request:
    """One use of an answer.

    Attributes:
        inputs: what to call it with: tensors, and numbers, strings, lists or dicts of
            plain data; None where an optional argument is left out.
        init: what to construct it with, if the answer is a class; None if it is a
            function.
        parameters: what to load into it then, by the names that the given `__init__`
            fixes.
        gradients: whether to differentiate a fixed random mixture of the outputs.
        dtype: of the floating-point inputs and parameters.
        device: of inputs and parameters.
        traced: whether to note which of torch's operators are called.
        training: the mode that a module is in.
        layout: how tensors lie in memory: "contiguous"; "strided", with gaps between
            the numbers; "transposed", where the axes in front are in another order, as
            of heads; "expanded", where equal rows are one row that is looked at several
            times.
        elsewhere: whether tensors that are made without `device=` land on another
            device than the inputs.
        before: what is asked first, of the same object or, if `init` is given, of
            another one; what comes of it is not looked at.
        refilled: whether what is asked first hands in the same tensors, and loads its
            parameters into the same object, before they hold the request's numbers.
        variation: that of the battery by which it was made.
        about: what it asks, in words that a student understands.
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
        """Return it as plain data and tensors, for `from_plain`."""
        return {**vars(self), "before": tuple(x.plain() for x in self.before)}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "Request":
        """Make a request of what `plain` returned."""
        before = tuple(map(cls.from_plain, data["before"]))
        return cls(**{**data, "before": before})


class Reply(NamedTuple):
    """What came of it.

    Attributes:
        outputs: what the answer returned.
        gradients: with respect to each input, then each parameter sent; None where
            there is none.
        changed: whether an input was changed in place.
        error: one line, empty if all went well.
        where: the line of the answer in which that happened, if it is known.
        written: False if the answer is still the empty one.
        operators: the names of the operators that it called, in order, if the request
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
    """What `use` returns if an answer has changed what it was handed.

    Of the inputs this is seen without it; here it is something that `use` made.
    """

    outputs: Any


Door = Callable[[Request], Reply]
Sign = Callable[[Request, Reply, Reply], bool]


class Case(NamedTuple):
    """A small example that a property does not hold for.

    Attributes:
        inputs: what went in, by name.
        given: the output that came, and is wrong.
        wanted: the right one.
    """

    inputs: tuple[tuple[str, Any], ...]
    given: Tensor
    wanted: Tensor


class Finding(NamedTuple):
    """Why a property does not hold.

    Attributes:
        seen: what came.
        wanted: what should have come.
        inputs: of what, in words.
        case: the same in small, if there is such an example.
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
        claim: what is checked, as the feedback says it.
        points: what it is worth.
        requests: makes the requests, from fresh random numbers.
        judge: compares a reply with the reference's in float64; returns None if the
            property holds.
        throughout: a judge of all replies to the question's requests so far, as
            something may go wrong where something else is looked at.
        checks: the keys of the requirements that it holds answers to.
    """

    claim: str
    points: int
    requests: Callable[[Any], Iterable[Request]]
    judge: Judge
    throughout: Judge | None = None
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """A mistake that has a name.

    It is recognised by an answer that makes it, by a sign in the reply, or by both.

    Attributes:
        name: "softmax over the wrong axis".
        hint: one sentence that sets it right without giving the code.
        section: where to read, as page#label of the book; empty where Python or torch
            is what to read about.
        made_by: an answer that makes this mistake and no other: an edit of the
            question's reference or, where no edit can say it, a function or class; a
            tuple if it is made in several ways.
        sign: whether a reply that is wrong, compared with the reference's, shows this
            mistake however it was made.
        undone: returns the reply without this mistake; if no reply is wrong any more,
            it was this mistake and no other.
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


# What computes attention in one call.
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
        name: as in `check(name, ...)`.
        reference: a right answer.
        properties: what must hold; the points of the later ones count only if the first
            one holds.
        mistakes: the mistakes that the feedback can name.
        use: how an answer is put to use: use(thing, *inputs) -> outputs.
        stand_ins: the course's own versions of earlier answers, which take the place of
            the student's, so that a mistake there costs no points here.
        make: how an answer that is a class is constructed: make(thing, *init) ->
            module.
        forbidden: names of functions and classes, of torch or of the course, that do in
            one call what is asked for; they refuse to where answers are graded.
        plain: whether `use` makes strings and lists of the inputs, so that their shapes
            mean nothing to a student.
        battery: what every answer of its kind is tried with.
        requirements: the sentences of the lab that an answer has to meet, word for
            word, by keys that properties name in `checks`.
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
        """What the question is worth."""
        return sum(p.points for p in self.properties)


@dataclass(frozen=True)
class Result:
    """What became of one property.

    Attributes:
        checked: the property.
        finding: None if it holds.
        mistake: the mistake that this looks like, if it is a known one.
        earned: points.
        exact: whether the replies are that mistake's, to all that the property asks;
            otherwise they show its sign.
    """

    checked: Property
    finding: Finding | None
    mistake: Mistake | None
    earned: int
    exact: bool = False
