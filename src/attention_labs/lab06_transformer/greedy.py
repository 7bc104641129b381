"""greedy: the likeliest token, and from it the next."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course import decoding
from attention_labs.lab06_transformer.blocks import CACHE, S, V
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    as_length,
    close,
    comparable,
    error_like,
    normal,
    of_output,
    same_numbers,
)

WRITING = "14_decoding.html#decoding-greedy"


class _Script:
    """A model that greedy decoding can be tried on: each token depends on all before
    it, and the end is known.

    The logits come from the last token, from a state that every token changes, and from
    the source.
    """

    def __init__(self, table: Tensor, mix: Tensor, ends: Tensor, eos: int):
        self.table, self.mix, self.ends, self.eos = table, mix, ends, eos
        self.encoded = self.stepped = 0

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        self.encoded += 1
        return self.table[source].sum(1) / lengths[:, None]

    def start(self, memory: Tensor) -> Any:
        return torch.zeros_like(memory), 0

    def step(self, token: Tensor, memory: Tensor, cache: Any) -> Any:
        state, steps = cache
        logits = []
        for one in token.unbind(1):
            self.stepped += 1
            state = torch.tanh(state @ self.mix + self.table[one])
            said = 3 * state @ self.mix.mT + memory
            said[:, self.eos] = torch.where(self.ends == steps, 1e3, -1e3)
            logits.append(said)
            steps += 1
        return torch.stack(logits, dim=1), None, (state, steps)


def _use_greedy(
    greedy: Any,
    table: Tensor,
    mix: Tensor,
    source: Tensor,
    ends: Tensor,
    bos: Tensor,
    eos: Tensor,
    longest: Tensor,
) -> Any:
    """Decode, and count: a source that was read, and tokens that were stepped over."""
    model = _Script(table, mix, ends, eos.size(0))
    lengths = 1 + torch.arange(len(source))
    decoded = greedy(model, source, lengths, bos.size(0), eos.size(0), longest.size(0))
    tokens = getattr(decoded, "tokens", decoded)  # the course's returns more
    return (
        None
        if tokens is None
        else (tokens, torch.tensor([model.encoded, model.stepped]))
    )


def _to_write(g: torch.Generator, ends: Sequence[int], longest: int) -> Request:
    """Ask for sentences with so many tokens before their EOS."""
    bos, eos = torch.randperm(V, generator=g)[:2].tolist()
    source = torch.randint(V, (len(ends), S), generator=g)
    sizes = (as_length(bos), as_length(eos), as_length(longest))
    return Request(
        (normal(g, V, V), normal(g, V, V) / 2, source, torch.tensor(ends), *sizes)
    )


def _same_tokens(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := of_output(0, same_numbers)(request, reply, reference):
        return (
            Finding("other tokens", "the likeliest tokens")
            if "wrong by" in finding.seen
            else finding
        )
    kind = reply.outputs[0].dtype
    return None if kind == torch.long else Finding(f"{kind}", f"{torch.long}")


def _same_counts(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if finding := _same_tokens(request, reply, reference):
        return finding
    given, few = (
        ", ".join(map(str, x.outputs[1].flatten().tolist())) for x in (reply, reference)
    )
    return (
        None
        if given == few
        else Finding(f"times that the source was read, tokens fed: {given}", few)
    )


def _endless(g: torch.Generator) -> Iterator[Request]:
    for _ in range(3):
        yield _to_write(g, (99, 99, 99), 6)


def _ended_apart(g: torch.Generator) -> Iterator[Request]:
    yield _to_write(g, (1, 9, 3), 6)
    yield _to_write(g, (0, 2, 9, 4), 7)


def _all_ended(g: torch.Generator) -> Iterator[Request]:
    yield _to_write(g, (1, 4, 2), 9)
    yield _to_write(g, (0, 0), 9)
    yield _to_write(g, (5,), 6)


def _script(**changes: bool) -> Callable[..., Tensor]:
    """Make greedy decoding with one thing in it wrong."""

    def wrong(
        model: Any, source: Tensor, lengths: Tensor, bos: int, eos: int, max_length: int
    ) -> Tensor:
        does = changes.get
        memory = model.encode(source, lengths)
        cache = first = model.start(memory)
        token = torch.full((source.size(0), 1), bos)
        ended = torch.zeros_like(token, dtype=torch.bool)
        tokens = [token] if does("begins") else []
        for _ in range(max_length):
            given = (
                tokens[0].new_full((len(token), 1), bos)
                if does("always_bos") and tokens
                else token
            )
            logits, _, cache = model.step(
                given, memory, first if does("forgets") else cache
            )
            token = logits.argmin(-1) if does("least") else logits.argmax(-1)
            token = token if does("goes_on") else token.masked_fill(ended, eos)
            tokens.append(token)
            ended = ended | (token == eos)
            if bool(ended.any() if does("first_ends") else ended.all()) and not does(
                "never_stops"
            ):
                break
        return torch.cat(tokens, dim=1)

    return wrong


def _whole_beginning(
    model: Any, source: Tensor, lengths: Tensor, bos: int, eos: int, max_length: int
) -> Tensor:
    memory = model.encode(source, lengths)
    cache, tokens = model.start(memory), torch.full((source.size(0), 1), bos)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    for _ in range(max_length):
        logits, _, cache = model.step(tokens, memory, cache)
        token = logits[:, -1:].argmax(-1).masked_fill(ended, eos)
        tokens, ended = torch.cat([tokens, token], dim=1), ended | (token == eos)
        if ended.all():
            break
    return tokens[:, 1:]


@comparable
def _right_until_the_end(request: Request, reply: Reply, reference: Reply) -> bool:
    ends = request.inputs[3]
    until = torch.arange(reference.outputs[0].size(1)) <= (
        0 if ends is None else ends[:, None]
    )
    return close(reply.outputs[0] * until, reference.outputs[0] * until)


def _length_differs(request: Request, reply: Reply, reference: Reply) -> bool:
    if reply.error or not reply.outputs or reply.outputs[0].dim() != 2:
        return False
    given, wanted = reply.outputs[0], reference.outputs[0]
    return (
        given.size(0) == wanted.size(0) and 0 < abs(given.size(1) - wanted.size(1)) < V
    )


def _tokens_right(request: Request, reply: Reply, reference: Reply) -> bool:
    return not reply.error and close(reply.outputs[0], reference.outputs[0])


GREEDY = Question(
    name="greedy",
    reference=decoding.greedy,
    use=_use_greedy,
    properties=(
        Property(
            "the likeliest token, and from it the next", 2, _endless, _same_tokens
        ),
        Property(
            "after its EOS a sentence has only EOS", 1, _ended_apart, _same_tokens
        ),
        Property(
            "ends when all sentences have; reads the source once, feeds each token"
            " once",
            1,
            _all_ended,
            _same_counts,
        ),
    ),
    mistakes=(
        Mistake(
            "BOS at every step",
            "A step is given the token that the step before it chose.",
            WRITING,
            _script(always_bos=True),
        ),
        Mistake(
            "the cache is not handed on",
            "Each step returns a cache: the next step wants it.",
            WRITING,
            _script(forgets=True),
        ),
        Mistake(
            "BOS is written down",
            "BOS starts the sentence and is no part of it.",
            WRITING,
            _script(begins=True),
        ),
        Mistake(
            "the whole beginning is fed at every step",
            "What came before is in the cache: a step is given one new token.",
            CACHE,
            _whole_beginning,
        ),
        Mistake(
            "a sentence goes on after its end",
            "Whatever the model says after a sentence's EOS, its tokens are EOS.",
            WRITING,
            _script(goes_on=True),
        ),
        Mistake(
            "the first sentence to end ends all",
            "Decoding stops when *every* sentence has had its EOS.",
            WRITING,
            _script(first_ends=True),
        ),
        Mistake(
            "written to max_length always",
            "When every sentence has had its EOS there is nothing left to write.",
            WRITING,
            _script(never_stops=True),
        ),
        Mistake(
            "a number chosen, not its place",
            "A token is the place of the largest logit, not the logit.",
            WRITING,
            sign=error_like("used as indices"),
        ),
        Mistake(
            "the least likely token",
            "The likeliest token has the largest logit.",
            WRITING,
            _script(least=True),
        ),
        *ANYWHERE,
        Mistake(
            "lists, where a tensor is meant",
            "The tokens of all steps, each (B, 1), are joined along the second axis to"
            " a tensor (B, T).",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "more work than needed",
            "The tokens are right. The source is read once, and each token fed once.",
            CACHE,
            sign=_tokens_right,
        ),
        Mistake(
            "a sentence goes on after its end",
            "Whatever the model says after a sentence's EOS, its tokens are EOS.",
            WRITING,
            sign=_right_until_the_end,
        ),
        Mistake(
            "another number of steps",
            "At most max_length tokens, BOS not counted; fewer if every sentence has"
            " had its EOS, which is counted.",
            WRITING,
            sign=_length_differs,
        ),
        Mistake(
            "other tokens are fed or chosen",
            "BOS goes in first, then always what was chosen last: the place of the"
            " largest of the V logits.",
            WRITING,
            sign=lambda request, reply, reference: bool(reply.outputs),
        ),
    ),
)
