"""Evaluate an answer: check every property, and name the mistake behind a failure."""

import contextlib
import functools
import inspect
import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nbjudge.anywhere import KEPT, VARIED
from nbjudge.battery import STATE
from nbjudge.comparisons import is_exact, is_nobodys_fault
from nbjudge.in_process import all_close, in_process
from nbjudge.inputs import Draw
from nbjudge.question import (
    Case,
    Door,
    Finding,
    Judge,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    Result,
    Sign,
)
from nbjudge.signs import close


class Asked(NamedTuple):
    """A request, the answer's reply, and the reference's reply in float64."""

    request: Request
    reply: Reply
    reference: Reply


def evaluate(question: Question, ask: Door, seed: int | None = None) -> list[Result]:
    """Check every property of a question.

    Args:
        question: what to check.
        ask: sends a request to the answer and returns its reply.
        seed: seed of the random inputs; by default, one that depends only on the
            question's name.

    Returns:
        One result per property, in the order of the properties.
    """
    seed = zlib.crc32(question.name.encode()) if seed is None else seed
    results: list[Result] = []
    so_far: list[Asked] = []
    for number, checked in enumerate(question.properties):
        on_course = not results or results[0].finding is None
        examined = _Examination(question, checked, ask, seed + number)
        finding, mistake, exact = examined.outcome(so_far, on_course)
        so_far += examined.asked
        counts = finding is None and on_course
        earned = checked.points if counts else 0
        results.append(Result(checked, finding, mistake, earned, exact))
    return results


def is_right(question: Question, ask: Door, seed: int) -> bool:
    """Return whether `evaluate` would find nothing wrong; stop at the first error."""
    so_far: list[Asked] = []
    for number, checked in enumerate(question.properties):
        examined = _Examination(question, checked, ask, seed + number)
        judge, throughout = map(_counting, (checked.judge, checked.throughout or _fine))
        for one in examined.every():
            if not one.reply.written or judge(*one):
                return False
            examined.asked.append(one)
        if any(throughout(*one) for one in so_far):
            return False
        so_far += examined.asked
    return True


def _fine(request: Request, reply: Reply, reference: Reply) -> None:
    """Find nothing wrong."""


class _Requests:
    """The requests of a property for one seed, and the replies of known answers.

    They are made as needed, and kept: the next answer gets the same requests.
    """

    def __init__(self, question: Question, checked: Property, seed: int, whole: bool):
        self.question = question
        self.reference = in_process(question, question.reference)
        battery = question.battery
        self.has_state = battery is not None and battery.kind == STATE
        self.rest = iter(checked.requests(Draw(seed, whole=whole)))
        self.made: list[tuple[Request, Reply]] = []
        self.replies: dict[Any, tuple[Request, Reply]] = {}

    def __iter__(self) -> Iterator[tuple[Request, Reply]]:
        for number in itertools.count():
            while number == len(self.made):
                if (request := next(self.rest, None)) is None:
                    return
                alone = replace(request, device="cpu", elsewhere=False)
                if not self.has_state:  # then earlier calls change nothing
                    alone = replace(alone, before=(), refilled=False)
                reference = self.reference(replace(alone, dtype=torch.float64))
                if all(x.is_meta or x.isfinite().all() for x in reference.outputs):
                    self.made.append((request, self._as_exact(alone, reference)))
            yield self.made[number]

    def _as_exact(self, alone: Request, reference: Reply) -> Reply:
        """Replace numbers by NaN if the reference itself is inexact in this dtype."""
        if alone.dtype == torch.float64:
            return reference
        own = self.reference(alone)
        if all(map(is_exact, own.outputs, reference.outputs)):
            return reference
        return reference._replace(
            outputs=tuple(
                torch.full_like(x, torch.nan) if x.is_floating_point() else x
                for x in reference.outputs
            )
        )

    def reply_of(self, answer: Any, request: Request) -> Reply:
        """Return a known answer's reply to a request."""
        key = answer, id(request)
        if key not in self.replies:
            reply = in_process(self.question, answer)(request)
            self.replies[key] = request, reply  # keeping it keeps its id unique
        return self.replies[key][1]


# Enough for the questions of a lab, which are the same for all submissions.
_requests = functools.lru_cache(maxsize=64)(_Requests)


class _Examination:
    """The check of one property."""

    def __init__(self, question: Question, checked: Property, ask: Door, seed: int):
        self.question, self.checked, self.ask = question, checked, ask
        self.kept = functools.partial(_requests, question, checked, seed)
        self.asked: list[Asked] = []

    def outcome(
        self, so_far: Iterable[Asked], on_course: bool
    ) -> tuple[Finding | None, Mistake | None, bool]:
        """Return what is wrong, which mistake it looks like, and whether exactly."""
        for one in self.every():
            self.asked.append(one)
            if not one.reply.written:
                return Finding("not written yet", "your code"), None, False
        judge = _counting(self.checked.judge)
        wrong = [one for one in self.asked if judge(*one)]
        if self.checked.throughout and not on_course:
            # Wrong numbers have been reported already; what remains is manners.
            wrong = [x for x in wrong if not _of_numbers(judge(*x))]
        if not wrong and self.checked.throughout:
            judge = _counting(self.checked.throughout)
            wrong = [one for one in so_far if judge(*one)]
        if not wrong:
            return None, None, False
        finding = judge(*wrong[0])
        assert finding is not None
        if line := wrong[0].reply.where:
            finding = finding._replace(seen=f"{finding.seen} ({line})")
        finding = finding._replace(inputs=self._inputs(wrong[0]), case=self._case())
        return finding, *self._recognise(wrong, judge, on_course)

    def every(self, whole: bool = False) -> Iterator[Asked]:
        for request, reference in self.kept(whole=whole):
            yield Asked(request, _with_numbers(request, self.ask(request)), reference)

    def _inputs(self, one: Asked) -> str:
        """Describe the inputs: in words, or by the names that `use` gives them."""
        if one.request.about or self.question.plain:
            return one.request.about
        return ", ".join(
            f"{name} {tuple(x.shape) if isinstance(x, Tensor) else repr(x)}"
            for name, x in self._named(one.request)
        )

    def _named(self, request: Request) -> list[tuple[str, Any]]:
        names = list(inspect.signature(self.question.use).parameters)[1:]
        return list(zip(names, request.inputs))

    def _case(self) -> Case | None:
        """Look for an example with a few small whole numbers."""
        if self.question.battery is None or self.question.plain:
            return None
        for one in itertools.islice(self.every(whole=True), 12):
            request, reply, reference = one
            if reply.error or request.device == "meta":
                continue
            if not _counting(self.checked.judge)(*one):
                continue
            for given, wanted in zip(reply.outputs, reference.outputs):
                if given.shape != wanted.shape or not close(given, wanted):
                    if max(given.numel(), wanted.numel()) <= 64:
                        return Case(tuple(self._named(request)), given, wanted)
        return None

    def _recognise(
        self, wrong: list[Asked], judge: Judge, on_course: bool
    ) -> tuple[Mistake | None, bool]:
        """Name the mistake, and say whether the replies match it exactly.

        The strongest evidence is that the judge cannot distinguish the replies from
        those of a known mistake: for all requests, or at least where something is
        wrong. It is equally strong if no reply is wrong any more once a mistake is
        undone. A sign that all wrong replies show is weaker, and a sign that the first
        and half of them show is weakest. If the first property does not hold, what goes
        wrong after it is mostly the same mistake in another form.
        """
        question, like = self.question, None
        for known in question.mistakes:
            for answer in known.answers(question.reference):
                said = functools.partial(self.kept(whole=False).reply_of, answer)

                def agrees(one: Asked, said: Any = said) -> bool:
                    known = one._replace(reply=said(one.request))
                    return alike(one.reply, known.reply) or _as_wrong(judge, one, known)

                def errs(one: Asked, said: Any = said) -> bool:
                    return judge(*one._replace(reply=said(one.request))) is not None

                if all(agrees(one) and errs(one) for one in wrong):
                    if all(map(agrees, self.asked)):
                        return known, True
                    like = like or known
            if all(_right_without(known, judge, one) for one in wrong):
                return known, True
        signs: list[Mistake] = []
        if on_course:
            signs += KEPT
        if like is not None and len(wrong) > 1:
            signs.append(replace(like, sign=lambda *one: True))
        if on_course:
            signs += (*question.mistakes, *VARIED)
        for share in (1.0, 0.5):
            for known in signs:
                if known.sign is not None:
                    shown = [_shows(known.sign, one) for one in wrong]
                    if shown[0] and sum(shown) >= share * len(wrong):
                        return known, False
        return None, False


def _counting(judge: Judge) -> Judge:
    """Check the number of outputs before a judge looks at them.

    Errors that are torch's fault alone are not held against the answer.
    """

    def judged(request: Request, reply: Reply, reference: Reply) -> Finding | None:
        given, wanted = len(reply.outputs), len(reference.outputs)
        if is_nobodys_fault(request, reply):
            return None
        if not reply.error and given != wanted:
            return Finding(f"{given} tensors returned", f"{wanted} tensors")
        return judge(request, reply, reference)

    return judged


def _of_numbers(finding: Finding | None) -> bool:
    return finding is not None and finding.seen.startswith(("entries", "shape"))


def _right_without(known: Mistake, judge: Judge, one: Asked) -> bool:
    """Return whether a reply is right once a mistake is undone."""
    # `undone` may look for outputs and axes that a wrong reply does not have.
    with contextlib.suppress(IndexError, RuntimeError, TypeError, ValueError):
        if known.undone:
            return not judge(one.request, known.undone(*one), one.reference)
    return False


def _as_wrong(judge: Judge, one: Asked, known: Asked) -> bool:
    """Return whether two replies are equal to a judge and wrong in the same places.

    An answer that makes two mistakes is recognized by the outputs that a property looks
    at, even if the other mistake shows in the other outputs. These have to hold more
    than one number, because too many mistakes agree in a single number.
    """
    if one.reply.error or known.reply.error:
        return False
    request, *replies = one.request, one.reply, known.reply
    if judge(request, *replies) or judge(request, *reversed(replies)):
        return False
    told = False
    for given, same, wanted in zip(
        one.reply.outputs, known.reply.outputs, one.reference.outputs
    ):
        if any(x.is_meta for x in (given, same, wanted)) or close(same, wanted):
            continue
        if close(given, wanted):
            return False
        told = told or (given.numel() > 1 and close(given, same))
    return told


def _shows(sign: Sign, one: Asked) -> bool:
    # A sign may look along axes that a wrong reply does not have.
    with contextlib.suppress(IndexError, RuntimeError):
        return sign(*one)
    return False


def _with_numbers(request: Request, reply: Reply) -> Reply:
    """Refuse tensors on device meta, which has no values, if values were asked for."""
    tensors = (x for x in (*reply.outputs, *reply.gradients) if x is not None)
    if request.device != "meta" and any(x.is_meta for x in tensors):
        elsewhere = "a tensor was made on another device than the inputs' (device=...)"
        nowhere = "a tensor on device meta was returned, which has no numbers"
        return Reply(error=elsewhere if request.elsewhere else nowhere)
    return reply


def alike(one: Reply, other: Reply) -> bool:
    """Return whether two replies are equal up to rounding."""
    if one.error or other.error:
        return one.error == other.error
    if one.changed != other.changed:
        return False
    return all_close(one.outputs, other.outputs) and all_close(
        one.gradients, other.gradients
    )
