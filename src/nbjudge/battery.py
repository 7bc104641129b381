"""The battery: try answers with all variations of a question's ordinary requests.

It provides three lines of the feedback: the numbers, the edge cases, and good manners
(inputs unchanged, dtype and device kept). A question that leaves out part of the
battery for its kind gives the reason. What is varied, and how, is in `variations`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nbjudge.comparisons import (
    good_manners,
    left_alone,
    same_gradients,
    same_numbers,
)
from nbjudge.inputs import Draw
from nbjudge.question import Finding, Judge, Property, Reply, Request
from nbjudge.variations import (
    EDGES,
    MANNERS,
    Drawn,
    OrdinaryRequests,
    Variation,
    one_open,
)

PLAIN = ("one", "zero", "long", "second call", "unchanged")
STATE = (*PLAIN, "another instance")
FUNCTION = (
    *("one", "zero", "alike", "in front", "long", "large", "second call"),
    *MANNERS,
)
MODULE = (
    *("one", "zero", "alike", "in front", "long", "large", "eval mode"),
    *("second call", "another instance"),
    *MANNERS,
)


class Battery(OrdinaryRequests):
    """The requests that an answer is tried with, as variations of ordinary ones."""

    def line(
        self,
        claim: str,
        points: int,
        requests: Drawn | None = None,
        judge: Judge = same_numbers,
        checks: tuple[str, ...] = (),
        times: int = 2,
        throughout: Judge | None = None,
    ) -> Property:
        """Make a property that is checked with several draws of all lengths.

        Args:
            claim: what is checked.
            points: the points that it is worth.
            requests: makes the requests from a draw; by default, the ordinary ones.
            judge: compares a reply with the reference's.
            checks: keys of the requirements that the property checks.
            times: the number of draws.
            throughout: see `Property`.
        """

        def asked(g: Draw) -> Iterator[Request]:
            for _ in range(times):
                yield from self.made(self.sized(g), requests)

        return Property(claim, points, asked, judge, throughout, checks)

    def numbers(
        self,
        claim: str,
        points: int,
        judge: Judge = same_gradients,
        checks: tuple[str, ...] = (),
        gradients: bool = True,
        requests: Drawn | None = None,
    ) -> Property:
        """Make the first property: two draws, and the gradients of the second.

        `requests` replaces the ordinary requests, for example with simpler ones.
        """

        def asked(g: Draw) -> Iterator[Request]:
            yield from self.made(self.sized(g), requests)
            for request in self.made(self.sized(g), requests):
                yield replace(request, gradients=gradients)

        return Property(claim, points, asked, judge, checks=checks)

    def edges(
        self,
        points: int,
        judge: Judge = same_gradients,
        checks: tuple[str, ...] = (),
        claim: str = "",
        also: Drawn | None = None,
    ) -> Property:
        """Make the property for edge cases; `also` adds ones of the question's own."""

        def asked(g: Draw) -> Iterator[Request]:
            if also is not None:
                yield from self.made(self.sized(g), also)
            yield from self._vary(EDGES, g)
            yield from one_open(self, g)

        if not claim:
            words = [EDGES[name][0] for name in self.applied() if name in EDGES]
            claim = "edges: " + ", ".join(words)
        return Property(claim, points, asked, judge, checks=checks)

    def manners(
        self,
        points: int,
        judge: Judge = good_manners,
        checks: tuple[str, ...] = (),
    ) -> Property:
        """Make the last property: inputs unchanged, dtype and device kept."""
        words = [MANNERS[name][0] for name in self.applied() if name in MANNERS]
        claim = ", ".join(dict.fromkeys(words))
        return Property(
            claim,
            points,
            lambda g: self._vary(MANNERS, g),
            judge,
            throughout=left_alone,
            checks=checks,
        )

    def rest(self, points: int, checks: tuple[str, ...] = ()) -> Property:
        """Combine edges and manners in one property, for a question with few points."""
        edges, manners = self.edges(points), self.manners(points, checks=checks)

        def judge(request: Request, reply: Reply, reference: Reply) -> Finding | None:
            finding = manners.judge(request, reply, reference)
            if finding or not request.gradients:
                return finding
            return edges.judge(request, reply, reference)

        return replace(
            manners,
            claim=f"{edges.claim}; {manners.claim}",
            requests=lambda g: (*edges.requests(g), *manners.requests(g)),
            judge=judge,
        )

    def _vary(
        self, variations: Mapping[str, tuple[str, Variation]], g: Draw
    ) -> Iterator[Request]:
        for name in self.applied():
            if name in variations:
                for request in variations[name][1](self, g):
                    yield replace(request, variation=name)
