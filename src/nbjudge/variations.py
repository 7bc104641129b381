"""Variations of a request: edge-case sizes, large numbers, repeated calls, dtypes ...

Each changes ordinary requests in one respect: it sets an axis to length one or zero,
adds or removes leading axes, makes inputs long or large, calls the answer again,
constructs another instance, or changes the dtype, the device or the memory layout.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nbjudge.inputs import Axis, Draw
from nbjudge.question import Request

Drawn = Callable[[Draw], "Request | Iterable[Request]"]


@dataclass(frozen=True)
class OrdinaryRequests:
    """Requests of the usual lengths, which the variations change in one respect each.

    Attributes:
        kind: the names of the variations for this kind of answer: FUNCTION, MODULE,
            PLAIN or STATE.
        draw: makes one or several ordinary requests with the lengths of a draw.
        axes: the axes by name; `draw.B` is the length of "B".
        leading: the largest number of axes that may take the place of B; there may also
            be none. 0 if B is always a single axis.
        leaves_out: variations of the kind that do not apply, each with the reason.
        large: factors for the floating-point inputs, which are multiplied one at a
            time; with the factor 0, also every second number alone. Parameters are
            multiplied by 30 and by 3000, all at once.
        gradients: whether gradients are compared for inputs that are zero.
    """

    kind: tuple[str, ...]
    draw: Drawn
    axes: Mapping[str, Axis]
    leading: int = 0
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    large: tuple[float, ...] = (0.0, 1e5)
    gradients: bool = True

    def applied(self) -> list[str]:
        """List the variations that apply."""
        return [name for name in self.kind if name not in self.leaves_out]

    def sized(self, g: Draw, unlike: Draw | None = None, /, **lengths: int) -> Draw:
        """Draw the lengths not given: all different, and different from `unlike`'s."""
        most = 2 if g.whole else 0
        order = torch.randperm(64, generator=g).tolist()
        sizes, taken = {}, set(lengths.values())
        for name, axis in self.axes.items():
            usual = 1 if g.whole else min(3, axis.most)
            low, high = max(axis.least, usual), axis.most
            high = min(high, low + most) if most else high
            before = unlike.sizes[name] if unlike else None
            free = [n for n in order if low <= n <= high and n != before]
            sizes[name] = next((n for n in free if n not in taken), (free or [low])[0])
            taken.add(sizes[name])
        in_front = self.leading > 0 and not (g.whole and sizes["B"] == 1)
        leading = (lengths.get("B", sizes["B"]),) if in_front else ()
        seed = int(torch.randint(1 << 40, (), generator=g))
        return Draw(seed, {**sizes, **lengths}, leading, g.whole)

    def again(self, d: Draw, g: Draw) -> Draw:
        """Draw new lengths for an existing object, which keeps its fixed ones."""
        kept = {name: d.sizes[name] for name, axis in self.axes.items() if axis.fixed}
        return self.sized(g, d, **kept)

    def made(self, d: Draw, requests: Drawn | None = None) -> list[Request]:
        """Make the requests of a draw, with its lengths in words."""
        made = (requests or self.draw)(d)
        lengths = ", ".join(
            f"{axis.words}: {d.sizes[name]}" for name, axis in self.axes.items()
        )
        return [
            replace(request, about=request.about or lengths)
            for request in ([made] if isinstance(made, Request) else made)
        ]


Variation = Callable[[OrdinaryRequests, Draw], Iterable[Request]]


def _noted(request: Request, note: str, **changes: Any) -> Request:
    about = f"{request.about}; {note}" if request.about else note
    return replace(request, about=about, **changes)


# --- edges ----------------------------------------------------------------------------


def _at_length(length: int) -> Variation:
    def variation(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
        for name, axis in ordinary.axes.items():
            if axis.least <= length:
                yield from ordinary.made(ordinary.sized(g, **{name: length}))

    return variation


def _all_at_one(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    yield from _at_length(1)(ordinary, g)
    yield from ordinary.made(_ones(ordinary, g))


def _ones(ordinary: OrdinaryRequests, g: Draw) -> Draw:
    """Draw lengths in which every axis that may have length one has it."""
    ones = {name: 1 for name, axis in ordinary.axes.items() if axis.least <= 1}
    return ordinary.sized(g, **ones)


def _alike(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    if len(ordinary.axes) > 1:
        least = max(axis.least for axis in ordinary.axes.values())
        most = min(axis.most for axis in ordinary.axes.values())
        length = min(max(least, g.number(3, 5)), most)
        yield from ordinary.made(
            ordinary.sized(g, **dict.fromkeys(ordinary.axes, length))
        )


def _in_front(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    fronts: tuple[tuple[int, ...], ...] = ((), (2, 3), (1, 2), (1, 2, 1))
    for leading in (front for front in fronts if len(front) <= ordinary.leading):
        d = ordinary.sized(g)
        d.leading = leading
        for request in ordinary.made(d):
            yield _noted(request, f"axes in front: {leading}")


def _long(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    for name, axis in ordinary.axes.items():
        if axis.long and not g.whole:
            yield from ordinary.made(ordinary.sized(g, **{name: axis.long}))


def _large(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    for request in [] if g.whole else ordinary.made(ordinary.sized(g)):
        for factor in ordinary.large:
            for i, x in enumerate(request.inputs):
                if isinstance(x, Tensor) and x.is_floating_point():
                    inputs = (*request.inputs[:i], factor * x, *request.inputs[i + 1 :])
                    there = ordinary.gradients and factor == 0
                    note = f"numbers around {factor:g}"
                    yield _noted(request, note, inputs=inputs, gradients=there)
        if 0.0 in ordinary.large:
            inputs = tuple(map(_every_second_zero, request.inputs))
            yield _noted(request, "every second number is zero", inputs=inputs)
        for factor in (30, 3000) if request.parameters else ():
            large = {name: factor * x for name, x in request.parameters.items()}
            about = f"parameters {factor} times as large"
            yield _noted(request, about, parameters=large)


def _every_second_zero(x: Any) -> Any:
    """Set numbers of a floating-point tensor to zero, as a ReLU does."""
    if not (isinstance(x, Tensor) and x.is_floating_point() and x.dim()):
        return x
    x = x.clone()
    x[..., 1::2] = 0
    return x


def _eval_mode(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    for request in ordinary.made(ordinary.sized(g)):
        yield _noted(request, "in eval mode", training=False, gradients=True)


def _second_call(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    d = ordinary.sized(g)
    same = ordinary.sized(g, **d.sizes)
    same.leading = d.leading
    other, alike = ordinary.made(ordinary.again(d, g)), ordinary.made(same)
    earlier = [*alike, *other, *alike]  # an answer may cache the first or last call
    calls = tuple(replace(x, init=None, parameters={}) for x in earlier)
    sizes = {
        name: d.sizes[name] if axis.fixed else max(axis.least, d.sizes[name] - 1)
        for name, axis in ordinary.axes.items()
    }
    shorter = tuple(
        replace(x, init=None, parameters={})
        for x in ordinary.made(ordinary.sized(g, **sizes))
    )
    for request in ordinary.made(d):
        twice = (*calls, replace(request, init=None, parameters={}))
        others = tuple(replace(x, inputs=request.inputs) for x in alike)
        modes = (True, False) if "eval mode" in ordinary.applied() else (True,)
        for training in modes:
            again = replace(request, training=training, refilled=True)
            note = "the tensors of an earlier call, which now hold other numbers"
            yield _noted(again, note, before=tuple(alike))
            if request.parameters:
                note = "after a call with the same inputs and other parameters"
                yield _noted(again, note, before=others)
        yield _noted(request, "after calls with other inputs", before=calls)
        yield _noted(request, "after a call with shorter inputs", before=shorter)
        yield _noted(request, "after a call with the same inputs", before=twice)
        if "eval mode" in ordinary.applied():
            yield _noted(
                request, "called again in eval mode", before=twice, training=False
            )


def _another_instance(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    d = ordinary.sized(g)
    others = ordinary.made(ordinary.sized(g, d)) + ordinary.made(
        ordinary.sized(g, **d.sizes)
    )
    for request in ordinary.made(d):
        # State kept on a class may come from the instance that was made last.
        for order in (others, others[::-1]):
            yield _noted(request, "beside another instance", before=tuple(order))


# Each variation in words, and the function that makes its requests. Repeated calls come
# last: if nothing failed before them, the answer kept something between calls.
EDGES: dict[str, tuple[str, Variation]] = {
    "one": ("length one", _all_at_one),
    "zero": ("empty inputs", _at_length(0)),
    "alike": ("equal lengths", _alike),
    "in front": ("more or fewer leading axes", _in_front),
    "long": ("long inputs", _long),
    "large": ("large numbers", _large),
    "eval mode": ("eval mode", _eval_mode),
    "second call": ("repeated calls", _second_call),
    "another instance": ("two instances", _another_instance),
}


def one_open(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    """Let masks allow everything in the first row, or in the last, and not in others.

    An answer may look at one sentence to find out whether there is any padding.
    """
    for request in ordinary.made(ordinary.sized(g)):
        for row, name in ((0, "first"), (-1, "last")):
            opened = tuple(
                x.index_fill(0, torch.tensor(row % len(x)), True)
                if isinstance(x, Tensor) and x.dtype == torch.bool and x.dim() > 1
                else x
                for x in request.inputs
            )
            if any(x is not y for x, y in zip(opened, request.inputs)):
                note = f"a mask that allows everything in the {name} row"
                yield _noted(request, note, inputs=opened, variation="open")


# --- manners --------------------------------------------------------------------------


def _as(note: str, **changes: Any) -> Variation:
    def variation(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
        short = [_ones(ordinary, g)] if "one" in ordinary.applied() else []
        for d in (ordinary.sized(g), *short):
            for request in ordinary.made(d):
                yield _noted(request, note, **changes)

    return variation


def _strided(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    yield from _as("not contiguous", layout="strided")(ordinary, g)
    if ordinary.leading >= 2:
        d = ordinary.sized(g)
        d.leading = (2, 3)
        for request in ordinary.made(d):
            note = "heads that were split off by a transpose"
            yield _noted(request, note, layout="transposed")


def _long_in_half(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    """Try long inputs in bfloat16, which cannot represent odd numbers beyond 256."""
    for request in _long(ordinary, g):
        yield _noted(request, "in bfloat16", dtype=torch.bfloat16)


def _on_meta(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    """Try device meta, which has no values, to check only dtype and device."""
    yield from _as("on device meta", device="meta")(ordinary, g)
    half = _as("in bfloat16 on device meta", device="meta", dtype=torch.bfloat16)
    yield from half(ordinary, g)


def _expanded(ordinary: OrdinaryRequests, g: Draw) -> Iterator[Request]:
    for request in ordinary.made(ordinary.sized(g)):
        inputs = tuple(
            x[:1].expand(x.shape).clone() if isinstance(x, Tensor) and x.dim() else x
            for x in request.inputs
        )
        yield _noted(request, "one row, expanded", inputs=inputs, layout="expanded")


MANNERS: dict[str, tuple[str, Variation]] = {
    "unchanged": ("inputs unchanged", _as("in float64")),
    "strided": ("inputs unchanged", _strided),
    "expanded": ("inputs unchanged", _expanded),
    "float32": ("dtype kept", _as("in float32", dtype=torch.float32)),
    "bfloat16": ("dtype kept", _as("in bfloat16", dtype=torch.bfloat16)),
    "long in bfloat16": ("dtype kept", _long_in_half),
    "device": ("device kept", _on_meta),
    "elsewhere": ("device kept", _as("on another device", elsewhere=True)),
}
