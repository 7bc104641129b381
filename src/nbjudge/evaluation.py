"""Evaluate an answer: check every property, and name the mistake behind a failure."""

import contextlib
import inspect
import zlib
from dataclasses import replace

import torch
from torch import Tensor

from nbjudge.in_process import all_close, in_process
from nbjudge.question import (
    Door,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    Result,
)


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
        finding, mistake = _examine(question, checked, ask, generator, on_course)
        counts = finding is None and on_course
        results.append(
            Result(checked, finding, mistake, checked.points if counts else 0)
        )
    return results


def _examine(
    question: Question,
    checked: Property,
    ask: Door,
    generator: torch.Generator,
    on_course: bool,
) -> tuple[Finding | None, Mistake | None]:
    ask_reference = in_process(question, question.reference)
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
        f"{name} {tuple(x.shape) if isinstance(x, Tensor) else repr(x)}"
        for name, x in zip(names, request.inputs)
    )
    return ", ".join(parts)


def _recognise(
    question: Question,
    request: Request,
    reply: Reply,
    reference: Reply,
    on_course: bool,
) -> Mistake | None:
    """Name the mistake.

    The same reply as that of a known one says most, a sign that several share says
    less. Where the first property does not hold, what goes wrong after it is mostly the
    same mistake in other clothes.
    """
    for known in question.mistakes:
        for answer in known.answers(question.reference):
            if alike(reply, in_process(question, answer)(request)):
                return known
    for known in question.mistakes:
        if on_course and known.sign is not None:
            # A sign looks along axes that a wrong reply may not have.
            with contextlib.suppress(IndexError, RuntimeError):
                if known.sign(request, reply, reference):
                    return known
    return None


def alike(one: Reply, other: Reply) -> bool:
    """Whether two replies are the same but for rounding."""
    if one.error or other.error:
        return one.error == other.error
    if one.changed != other.changed:
        return False
    return all_close(one.outputs, other.outputs) and all_close(
        one.gradients, other.gradients
    )
