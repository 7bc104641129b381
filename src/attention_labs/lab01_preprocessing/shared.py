"""What the questions of this lab share: draws, and how tokens come back as tensors."""

import copy
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from attention_course.tasks.core import SPECIALS, Vocabulary
from nbjudge import ANYWHERE, Finding, Mistake, Reply, Request, Sign, error_like

B, S, V = 3, 5, 11
SOURCES, TARGETS = "abcdefg", "nopqrst"
WORD = "abcdefghijkmnopqrstuvwxyz"

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
ONCE = Mistake(
    "something that can be read only once",
    "map, filter, zip and (... for ...) make iterators: after one loop over them"
    " nothing is left. tuple(...) or list(...) keeps what is in them.",
    sign=error_like("empty when it has been read once"),
)


def draw_ids(g: torch.Generator, *shape: int) -> Tensor:
    """Draw ids of tokens that are no specials."""
    return torch.randint(len(SPECIALS), V, shape, generator=g)


def draw_rows(g: torch.Generator, *sizes: int) -> list[list[int]]:
    """Draw rows of ids, so many in each."""
    ids = draw_ids(g, len(sizes), max(sizes)).tolist()
    return [row[:size] for row, size in zip(ids, sizes)]


def draw_words(g: torch.Generator, count: int, letters: str = WORD) -> list[str]:
    """Draw words of two to six letters."""
    sizes = torch.randint(2, 7, (count,), generator=g).tolist()
    ids = (torch.randint(len(letters), (n,), generator=g).tolist() for n in sizes)
    return ["".join(letters[i] for i in row) for row in ids]


def letter_task() -> SimpleNamespace:
    """Make a task whose vocabularies are letters."""
    # Vocabulary, not core.Vocabulary: where answers are graded, a stub stands there.
    return SimpleNamespace(
        source_vocabulary=Vocabulary(SOURCES), target_vocabulary=Vocabulary(TARGETS)
    )


def lend(use: Callable[[list[Any]], Any], given: Sequence[Any]) -> Any:
    """Let an answer read a list, and look whether the list is what it was."""
    theirs = copy.deepcopy(list(given))
    returned = use(theirs)
    if theirs != list(given):
        raise ValueError("the list that came in was changed")
    return returned


def as_list(returned: Any) -> list[Any]:
    """Take what one may go through as often as one likes."""
    if isinstance(returned, Iterator):
        raise TypeError(
            f"a {type(returned).__name__} was returned, which is empty when it has been"
            " read once"
        )
    return list(returned)


def as_letters(returned: Any) -> Tensor | None:
    """Lay out a list of tokens as one row of Unicode numbers, a zero before each."""
    if isinstance(returned, str):
        raise TypeError("a string was returned, wanted a tuple of tokens")
    tokens = None if returned is None else as_list(returned)
    for token in tokens or ():
        if not isinstance(token, str):
            raise TypeError(f"a token is a string, got {type(token).__name__}")
    letters = "".join(f"\0{token}" for token in tokens or ())
    return None if tokens is None else torch.tensor([[*map(ord, letters)]]).long()


def tokens_of(reply: Reply) -> list[str]:
    """Read the tokens of a reply; whatever else is in it becomes a question mark."""
    if (
        len(reply.outputs) != 1
        or reply.outputs[0].dim() != 2
        or reply.outputs[0].is_meta
    ):
        return ["?"]
    numbers = reply.outputs[0].flatten().long().tolist()
    return "".join(chr(i) if i in range(0xD800) else "?" for i in numbers).split("\0")[
        1:
    ]


def same_tokens(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """The tokens are the reference's."""
    given, wanted = tokens_of(reply), tokens_of(reference)
    if reply.error or given == wanted:
        return Finding(reply.error, "no error") if reply.error else None
    other = "other tokens" if len(given) == len(wanted) else f"{len(wanted)} tokens"
    return Finding(f"{len(given)} tokens: {' | '.join(given)}", other)


def sees(
    test: Callable[[Any, Any], object], read: Callable[[Reply], Any] = tokens_of
) -> Sign:
    """Look at what is read from replies: test(given, wanted)."""
    return lambda request, reply, reference: (
        not reply.error and bool(test(read(reply), read(reference)))
    )
