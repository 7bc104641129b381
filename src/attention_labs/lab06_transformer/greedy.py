"""greedy: the likeliest token, and from it the next."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_course import decoding
from attention_labs.lab06_transformer.shared import CACHE, S, V
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    error_like,
    in_words,
    normal,
    of_output,
    same_numbers,
)

WRITING = "14_decoding.html#decoding-greedy"


class _Script:
    """A model whose tokens depend on all before them, and whose end is known.

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
    bos: int,
    eos: int,
    max_length: int,
) -> Any:
    """Decode, and count: a source that was read, and tokens that were stepped over."""
    model = _Script(table, mix, ends, eos)
    lengths = 1 + torch.arange(len(source))
    decoded = greedy(model, source, lengths, bos, eos, max_length)
    if decoded is None:
        return None
    tokens = getattr(decoded, "tokens", decoded)  # the course's returns more
    return tokens, torch.tensor([model.encoded, model.stepped])


def _to_write(g: torch.Generator, ends: Sequence[int], max_length: int) -> Request:
    """Ask for sentences with so many tokens before their EOS."""
    bos, eos = torch.randperm(V, generator=g)[:2].tolist()
    source = torch.randint(V, (len(ends), S), generator=g)
    tables = (normal(g, V, V), normal(g, V, V) / 2)
    return Request((*tables, source, torch.tensor(ends), bos, eos, max_length))


def _whole_numbers(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    kind = reply.outputs[0].dtype
    return None if kind == torch.long else Finding(f"{kind}", f"{torch.long}")


_same_tokens = each_of(
    in_words(
        of_output(0, same_numbers),
        lambda request, reply, reference: Finding(
            "other tokens", "the likeliest tokens"
        ),
    ),
    _whole_numbers,
)


def _same_counts(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    given, few = (
        ", ".join(map(str, x.outputs[1].flatten().tolist())) for x in (reply, reference)
    )
    if given == few:
        return None
    return Finding(f"times that the source was read, tokens fed: {given}", few)


@comparable
def _right_until_the_end(request: Request, reply: Reply, reference: Reply) -> bool:
    wanted, ends = reference.outputs[0], request.inputs[3]
    until = torch.arange(wanted.size(1)) <= ends[:, None]
    return close(reply.outputs[0] * until, wanted * until)


def _length_differs(request: Request, reply: Reply, reference: Reply) -> bool:
    given, wanted = reply.outputs[0].shape, reference.outputs[0].shape
    same = len(given) == 2 and given[0] == wanted[0]
    return same and 0 < abs(given[1] - wanted[1]) < V


STEPS = decoding._one_by_one  # what all that decodes token by token does
STEP = "logits, step_weights, cache = model.step(token, memory, cache)"
WHOLE = """so_far = torch.cat([torch.full_like(token, bos), *tokens], dim=1)
        logits, step_weights, cache = model.step(so_far, memory, cache)
        logits = logits[:, -1:]"""

GREEDY = Question(
    name="greedy",
    reference=decoding.greedy,
    use=_use_greedy,
    properties=(
        Property(
            "the likeliest token, and from it the next",
            2,
            lambda g: [_to_write(g, (99, 99, 99), 6) for _ in range(3)],
            _same_tokens,
        ),
        Property(
            "after its EOS a sentence has only EOS",
            1,
            lambda g: [_to_write(g, (1, 9, 3), 6), _to_write(g, (0, 2, 9, 4), 7)],
            _same_tokens,
        ),
        Property(
            "ends when all sentences have; reads the source once, feeds each token"
            " once",
            1,
            lambda g: [
                _to_write(g, (1, 4, 2), 9),
                _to_write(g, (0, 0), 9),
                _to_write(g, (5,), 6),
            ],
            each_of(_same_tokens, _same_counts),
        ),
    ),
    mistakes=(
        Mistake(
            "BOS at every step",
            "A step is given the token that the step before it chose.",
            WRITING,
            edit(
                decoding._one_by_one, "step(token,", "step(torch.full_like(token, bos),"
            ),
        ),
        Mistake(
            "the cache is not handed on",
            "Each step returns a cache: the next step wants it.",
            WRITING,
            edit(
                decoding._one_by_one, "memory, cache)", "memory, model.start(memory))"
            ),
        ),
        Mistake(
            "BOS is written down",
            "BOS starts the sentence and is no part of it.",
            WRITING,
            edit(STEPS, "gains = []", "gains = [token]"),
        ),
        Mistake(
            "the whole beginning is fed at every step",
            "What came before is in the cache: a step is given one new token.",
            CACHE,
            edit(STEPS, STEP, WHOLE),
        ),
        Mistake(
            "the first sentence to end ends all",
            "Decoding stops when *every* sentence has had its EOS.",
            WRITING,
            edit(STEPS, "ended.all()", "ended.any()"),
        ),
        Mistake(
            "written to max_length always",
            "When every sentence has had its EOS there is nothing left to write.",
            WRITING,
            edit(STEPS, "ended.all()", "False"),
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
            edit(decoding.greedy, "argmax", "argmin"),
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
            sign=lambda request, reply, reference: close(
                reply.outputs[0], reference.outputs[0]
            ),
        ),
        Mistake(
            "a sentence goes on after its end",
            "Whatever the model says after a sentence's EOS, its tokens are EOS.",
            WRITING,
            edit(STEPS, "masked_fill(ended, eos)", "clone()"),
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
