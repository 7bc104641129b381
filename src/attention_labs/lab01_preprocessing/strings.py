"""What questions about strings share: how texts travel as tensors, and what is seen in
tokens."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nbjudge import ANYWHERE, Finding, Mistake, Reply, Request, error_like

# Of the signs, those that say something about strings and lists, too.
PLAIN = tuple(
    mistake
    for mistake in ANYWHERE
    if mistake.name
    in (
        "nothing returned",
        "too much or too little is returned",
        "an argument that may be left out is required",
        "a name that does not exist",
    )
)


def as_letters(texts: Sequence[str]) -> Tensor:
    """Lay texts out as rows of Unicode numbers, filled up with zeros."""
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a token is a string, got {type(text).__name__}")
    width = max((len(text) for text in texts), default=0)
    rows = [
        [ord(letter) for letter in text] + [0] * (width - len(text)) for text in texts
    ]
    return torch.tensor(rows, dtype=torch.long).reshape(len(rows), width)


def as_texts(letters: Tensor) -> list[str]:
    """Read rows of Unicode numbers; whatever else is in a reply becomes a question
    mark."""
    if letters.dim() != 2 or letters.is_meta:
        return []
    known = range(1, 0xD800)
    rows = letters.long().tolist()
    return [
        "".join(chr(i) if i in known else "?" for i in row if i != 0) for row in rows
    ]


def as_tokens(returned: Any) -> Tensor | None:
    """Take what should be a list or tuple of tokens."""
    if isinstance(returned, str):
        raise TypeError("a string was returned, wanted a tuple of tokens")
    return None if returned is None else as_letters(as_list(returned))


def as_list(returned: Any) -> list[Any]:
    """Take what one may go through as often as one likes."""
    if isinstance(returned, Iterator):
        raise TypeError(
            f"a {type(returned).__name__} was returned, which is empty when it has been"
            " read once"
        )
    return list(returned)


def _first_difference(reply: Reply, reference: Reply) -> Finding | None:
    """Compare two lists of tokens."""
    given, wanted = as_texts(reply.outputs[0]), as_texts(reference.outputs[0])
    if len(given) != len(wanted):
        return Finding(f"{len(given)} tokens", f"{len(wanted)} tokens")
    for place, (one, other) in enumerate(zip(given, wanted)):
        if one != other:
            return Finding(f"{one!r} at place {place}", "another token")
    return None


def same_tokens(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """The tokens are the reference's."""
    if reply.error:
        return Finding(reply.error, "no error")
    if len(reply.outputs) != 1 or reply.outputs[0].dim() != 2:
        return Finding("something else", "tokens")
    return _first_difference(reply, reference)


def draw_words(
    g: torch.Generator, count: int, letters: str = "abcdefghijkmnopqrstuvwxyz"
) -> list[str]:
    """Draw words of two to six letters."""
    sizes = torch.randint(2, 7, (count,), generator=g).tolist()
    return [
        "".join(
            letters[i] for i in torch.randint(len(letters), (n,), generator=g).tolist()
        )
        for n in sizes
    ]


def sees(
    test: Callable[[list[str], list[str]], bool],
) -> Callable[[Request, Reply, Reply], bool]:
    """Look at tokens: test(given, wanted)."""

    def sign(request: Request, reply: Reply, reference: Reply) -> bool:
        if reply.error or len(reply.outputs) != 1:
            return False
        return test(as_texts(reply.outputs[0]), as_texts(reference.outputs[0]))

    return sign


ONCE = Mistake(
    "something that can be read only once",
    "map, filter, zip and (... for ...) make iterators: after one loop over them"
    " nothing is left. tuple(...) or list(...) keeps what is in them.",
    sign=error_like("empty when it has been read once"),
)
