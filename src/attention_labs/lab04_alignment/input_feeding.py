"""Question `input_feeding`: each step gets the last step's attentional vector."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_course.rnn import LuongDecoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.shared import (
    EVERYWHERE,
    LOGITS,
    MEMORY,
    WEIGHTS,
    a_step,
    rare_steps,
    steps,
    weight_off_mask,
    with_score,
)
from nbjudge import (
    ANYWHERE,
    Axis,
    Draw,
    Mistake,
    Question,
    Request,
    edit,
    of_outputs,
    right_in,
    same_gradients,
    same_numbers,
)

FEEDING = "07_luong.html#luong-feeding"
_KEPT = "a step has kept something on self"
_CHANGED = "a step has changed the cache that it got"


def _feeding(
    vocabulary: int, embedding: int, state: int, memory: int, score: AdditiveScore
) -> LuongDecoder:
    return LuongDecoder(vocabulary, embedding, state, memory, score, input_feeding=True)


def _use_feeding(
    decoder: Any,
    tokens: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    first: Tensor,
    others: Tensor | None = None,
) -> Any:
    """Go through all tokens; what the cache holds is the decoder's own affair.

    The first step's logits and weights come before those of all steps.
    Before each token, another one may be tried after the same cache, as a search does.
    """
    memory = Memory(key, value, mask, first)
    before = _kept(decoder)
    cache, logits, weights = decoder.start(memory), [], []
    for t, token in enumerate(tokens.split(1, dim=1)):
        if others is not None:
            as_it_was = _noted(cache)
            decoder.step(others[:, t : t + 1], memory, cache)
            if not _same(_noted(cache), as_it_was):
                raise ValueError(_CHANGED)
        step_logits, step_weights, cache = decoder.step(token, memory, cache)
        logits.append(step_logits)
        weights.append(step_weights)
    if others is not None and _kept(decoder) != before:
        raise ValueError(_KEPT)
    return logits[0], weights[0], torch.cat(logits, dim=1), torch.cat(weights, dim=1)


def _kept(decoder: Any) -> dict[tuple[str, str], Any]:
    """Note what stands on `self` and its parts: of lists and dicts what is in them."""
    return {
        (part, name): [*map(id, kept.values() if isinstance(kept, dict) else kept)]
        if isinstance(kept, list | dict)
        else id(kept)
        for part, module in decoder.named_modules()
        for name, kept in vars(module).items()
    }


def _noted(cache: Any) -> Any:
    """Copy what a cache holds, whatever kind of cache it is."""
    if isinstance(cache, Tensor):
        return cache.detach().clone()
    if isinstance(cache, dict):
        return {name: _noted(kept) for name, kept in cache.items()}
    if isinstance(cache, list | tuple):
        return [_noted(kept) for kept in cache]
    if isinstance(cache, int | float | str | None):
        return cache
    return _noted(vars(cache)) if hasattr(cache, "__dict__") else None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and (one.is_meta or torch.equal(one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and _same([*one.values()], [*other.values()])
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _searched(d: Draw) -> list[Request]:
    fed, others = a_step(d, _feeding, 0), torch.randint(d.V, (d.B, d.T), generator=d)
    note = "after each cache two tokens are tried, one after the other"
    searched = replace(fed, inputs=(*fed.inputs, others), about=note)
    return [fed, searched, *rare_steps(d, _feeding, 0)]


BATTERY = steps(_feeding, {"T": Axis("tokens", long=50)}, states=0)
STEP, HANDED_ON = LuongDecoder.step, "state[0], attentional[:, -1:]"
START, ATTACHED = LuongDecoder.start, "[embedded, cache.attentional]"
FIRST = "torch.zeros_like(state)[:, None]"

QUESTION = Question(
    name="input_feeding",
    reference=_feeding,
    use=_use_feeding,
    make=with_score,
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "memory": MEMORY["memory"],
        "fed": "Input feeding solves this problem: concatenate the last attentional"
        " vector to the next input.",
        "zeros": "Before the first step, the attentional vector consists of zeros."
        " Give it the same width, dtype and device as the state.",
        "cache": "Choose the cache yourself. `start` and `step` must put into it the"
        " two things that the next step needs.",
        "twice": "A search may continue from the same cache with several different"
        " tokens. So `step` must not change the cache that it gets, and must not store"
        " anything on `self` or on its parts.",
        "token": "token: (B, 1), ids.",
        "handed": "cache: from `start`, then from the step before.",
        "returns": "Logits (B, 1, V), weights (B, 1, S), and the next cache.",
    },
    properties=(
        BATTERY.numbers(
            "the first step, which gets zeros as the attentional vector",
            1,
            of_outputs(0, 2, same_numbers),
            ("memory", "zeros", "token"),
        ),
        BATTERY.numbers(
            "every later step gets the attentional vector of the step before",
            1,
            checks=("fed", "handed", "returns"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            claim="two tokens tried after the same cache; edges: length one, equal"
            " lengths, long inputs, large numbers, eval mode, repeated calls, two"
            " instances",
            checks=("lengths", "memory", "cache", "twice"),
            also=_searched,
        ),
        BATTERY.manners(1, checks=("zeros", "manners")),
    ),
    mistakes=(
        Mistake(
            "zeros are fed at every step",
            "Only the first step gets zeros. Each later step gets the attentional"
            " vector of the step before it.",
            FEEDING,
            edit(STEP, HANDED_ON, "state[0], torch.zeros_like(attentional)"),
        ),
        Mistake(
            "the state is fed instead of the attentional vector",
            "The recurrent cell knows its own state anyway. It does not know what the"
            " decoder has looked at.",
            FEEDING,
            edit(STEP, HANDED_ON, "state[0], query"),
        ),
        Mistake(
            "the attentional vector is passed on as the state",
            "The attentional vector is part of the next *input*. The recurrent state"
            " is passed on as it is.",
            FEEDING,
            edit(STEP, HANDED_ON, "attentional[:, 0], attentional"),
        ),
        Mistake(
            "the attentional vector is fed without its tanh",
            "The vector that is fed is the one that the logits are made of.",
            FEEDING,
            edit(
                STEP,
                HANDED_ON,
                "state[0], self.attentional_proj(torch.cat([context, query], -1))",
            ),
        ),
        Mistake(
            "the initial state is fed first, not zeros",
            "Before the first step, nothing has been looked at, so zeros are fed.",
            FEEDING,
            edit(START, "torch.zeros_like(state)", "state"),
        ),
        Mistake(
            "zeros of a different dtype or device",
            "torch.zeros makes float32 on the CPU, whatever the state is. new_zeros and"
            " torch.zeros_like take dtype and device from a tensor.",
            FEEDING,
            edit(START, FIRST, "torch.zeros(len(state), 1, state.size(1))"),
        ),
        Mistake(
            "attentional vector concatenated before the token",
            "The order of concatenation decides which weights each part meets: first"
            " the token, then the attentional vector.",
            FEEDING,
            edit(LuongDecoder._input, ATTACHED, "[cache.attentional, embedded]"),
        ),
        Mistake(
            "a masked position has nonzero weight",
            "The memory has a mask. Pass it to `attend`.",
            FEEDING,
            sign=weight_off_mask,
        ),
        Mistake(
            "wrong when two tokens follow the same cache",
            "Put both things that the next step needs into a new cache, and nothing on"
            " self. Then a search can try two tokens after the same cache.",
            FEEDING,
            (
                edit(START, "return", f"self.fed = {FIRST}; return")
                & edit(LuongDecoder._input, ATTACHED, "[embedded, self.fed]")
                & edit(
                    STEP,
                    "cache = LuongCache(",
                    "self.fed = attentional; cache = LuongCache(",
                ),
                edit(
                    START,
                    f"LuongCache(state, {FIRST}, position)",
                    f"type('', (), dict(state=state, attentional={FIRST},"
                    " position=position))()",
                )
                & edit(
                    STEP,
                    "cache = LuongCache(",
                    "cache.state, cache.attentional, cache.position = (",
                ),
            ),
            sign=lambda request, reply, reference: (
                len(request.inputs) > 5
                or _KEPT in reply.error
                or _CHANGED in reply.error
            ),
        ),
        *ANYWHERE,
        Mistake(
            "something else is passed on",
            "The first step is right. The second step needs the recurrent state and"
            " the attentional vector of the first.",
            FEEDING,
            sign=right_in(LOGITS, WEIGHTS),
        ),
        Mistake(
            "first step's weights right, logits wrong",
            "The logits come from the attentional vector, the tanh of W_c [c; h].",
            FEEDING,
            sign=right_in(WEIGHTS),
        ),
    ),
)
