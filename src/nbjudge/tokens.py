"""Answers that return strings, lists or numbers: make tensors of them and compare them.

A reply holds only tensors. Tokens become one row of Unicode code points; next to it,
the reply holds the name of the type in which they were returned, so that a judge can
require that type.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from nbjudge.anywhere import ANYWHERE
from nbjudge.question import Finding, Mistake, Reply, Request, Sign
from nbjudge.signs import error_like

# The signs that also apply to strings and lists.
PLAIN_SIGNS = tuple(
    mistake
    for mistake in ANYWHERE
    if mistake.name
    in (
        "nothing is returned",
        "wrong number of return values",
        "a required argument is missing in a call",
        "a name, attribute or key does not exist",
    )
)
ONCE = Mistake(
    "an iterator is returned",
    "map, filter, zip and (... for ...) make iterators: after one loop over them"
    " nothing is left. tuple(...) or list(...) keeps what is in them.",
    sign=error_like("empty when it has been read once"),
)


def as_list(returned: Any) -> list[Any]:
    """Return a list of the returned values; refuse iterators, which work only once."""
    if isinstance(returned, Iterator):
        raise TypeError(
            f"a {type(returned).__name__} was returned, which is empty when it has been"
            " read once"
        )
    return list(returned)


def as_letters(returned: Any) -> Tensor:
    """Encode a list of tokens as one row of code points, a zero before each token."""
    if isinstance(returned, str):
        raise TypeError("a string was returned, wanted a tuple of tokens")
    tokens = as_list(returned)
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"a token is a string, got {type(token).__name__}")
    return torch.tensor([[ord(c) for token in tokens for c in f"\0{token}"]]).long()


def with_kind(value: Tensor, returned: Any) -> tuple[Tensor, Tensor]:
    """Return a value together with the encoded type of what the answer returned."""
    kinds = [kind for kind in (tuple, list, float) if isinstance(returned, kind)]
    return value, as_letters([[*kinds, type(returned)][0].__name__])


def tokens_of(reply: Reply, output: int = 0) -> list[str]:
    """Decode the tokens of a reply; anything else becomes a question mark."""
    if (
        len(reply.outputs) <= output
        or reply.outputs[output].dim() != 2
        or reply.outputs[output].is_meta
    ):
        return ["?"]
    numbers = reply.outputs[output].flatten().long().tolist()
    letters = "".join(chr(i) if i in range(0xD800) else "?" for i in numbers)
    return letters.split("\0")[1:]


def same_tokens(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check that the tokens are the reference's."""
    given, wanted = tokens_of(reply), tokens_of(reference)
    if reply.error or given == wanted:
        return Finding(reply.error, "no error") if reply.error else None
    other = "other tokens" if len(given) == len(wanted) else f"{len(wanted)} tokens"
    return Finding(f"{len(given)} tokens: {' | '.join(given):.200}", other)


def same_kind(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """Check that the answer returned the reference's type."""
    (given, *_), (wanted, *_) = tokens_of(reply, 1), tokens_of(reference, 1)
    return None if given == wanted else Finding(f"type {given}", f"type {wanted}")


def sees(
    test: Callable[[Any, Any], object], read: Callable[[Reply], Any] = tokens_of
) -> Sign:
    """Test what `read` finds in the replies: test(given, wanted)."""
    return lambda request, reply, reference: (
        not reply.error and bool(test(read(reply), read(reference)))
    )


def another_kind(name: str, hint: str) -> Mistake:
    """Make the mistake of returning the right values in another type."""
    return Mistake(
        name,
        hint,
        sign=lambda request, reply, reference: (
            bool(reply.outputs)
            and torch.equal(reply.outputs[0], reference.outputs[0])
            and same_kind(request, reply, reference) is not None
        ),
        undone=lambda request, reply, reference: reply._replace(
            outputs=(*reply.outputs[:1], *reference.outputs[1:])
        ),
    )
