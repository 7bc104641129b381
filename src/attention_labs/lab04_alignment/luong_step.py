"""Question `luong_step`: the query is the decoder's state after the update.

The step with the state before the update is in `bahdanau_step`.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from attention_course.rnn import LuongDecoder
from attention_course.seq2seq import Memory
from attention_labs.lab04_alignment.shared import (
    EVERYWHERE,
    LOGITS,
    MASK_LEFT_OUT,
    MEMORY,
    STATE,
    WEIGHTS,
    a_step,
    rare_steps,
    steps,
    use_step,
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
    of_output,
    same_gradients,
    same_numbers,
    wrong_in,
)

LUONG = "07_luong.html#luong-step"


class _Luong(LuongDecoder):
    """The course's decoder; the lab's has no windows, so its cache is the state."""

    def step(
        self, token: Tensor, memory: Memory, cache: Any, need_weights: bool = False
    ) -> Any:
        cache = self.start(memory)._replace(state=cache)
        logits, weights, cache = super().step(token, memory, cache)
        return logits, weights, cache.state


BATTERY = steps(_Luong, {"T": Axis("tokens", long=200)})


def _rare(d: Draw) -> list[Request]:
    """Draw rare steps, and one of a single token after a step from another state."""
    one = BATTERY.sized(d, T=1)
    request, earlier = (
        a_step(one, _Luong),
        a_step(BATTERY.sized(d, **one.sizes), _Luong),
    )
    return [
        *rare_steps(d, _Luong),
        replace(
            request,
            before=(replace(earlier, init=None, parameters={}),),
            about="a single token, after a step from another state",
        ),
    ]


STEP, ASKED = LuongDecoder.step, "(query, memory.key), memory.value, memory.mask"

QUESTION = Question(
    name="luong_step",
    reference=_Luong,
    use=use_step,
    make=with_score,
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        **MEMORY,
        "asks": "Update, then ask: the state after the update is the query.",
        "many": "Write `step` so that it takes T tokens (B, T). You can then compute"
        " the attention of all T queries at once.",
        "attentional": "$W_c$ is `attentional_proj`.",
        "token": "token: (B, T), ids.",
        "cache": "cache: (B, D), the state before the first of the tokens.",
        "returns": "Logits (B, T, V), weights (B, T, S), and the state after the last"
        " token (B, D).",
    },
    properties=(
        BATTERY.numbers(
            "the queries are the states after the update, one for each token",
            2,
            of_output(WEIGHTS, same_numbers),
            ("memory", "asks", "many", "token", "cache"),
        ),
        BATTERY.numbers(
            "logits from the attentional vectors, the last state, and all gradients",
            1,
            checks=("attached", "many", "attentional", "returns"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            checks=("lengths", "memory", "cache", "returns"),
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "h_{t-1} is the query instead of h_t",
            "This is Bahdanau's order. Luong's decoder updates first, and the state"
            " after the update is the query.",
            LUONG,
            edit(
                STEP,
                ASKED,
                "(torch.cat([cache.state[:, None], query[:, :-1]], dim=1), memory.key),"
                " memory.value, memory.mask",
            ),
        ),
        Mistake(
            "only the last state is a query",
            "Each of the T tokens has a state of its own, and each state asks for"
            " itself.",
            LUONG,
            edit(
                STEP,
                ASKED,
                ASKED.replace("(query", "(query[:, -1:].expand_as(query)"),
            ),
        ),
        Mistake(
            "the scores are scaled",
            "The score is called and used as it is. Dividing by the square root of the"
            " width belongs to the scaled dot product.",
            LUONG,
            edit(STEP, ASKED, ASKED.replace(")", ") / query.size(-1) ** 0.5")),
        ),
        Mistake(
            "the state after the first token is passed on",
            "A step may take many tokens, and the next step starts after the last of"
            " them.",
            LUONG,
            edit(STEP, "state[0], attentional", "query[:, 0], attentional"),
        ),
        Mistake(
            "every step starts from the initial state",
            "memory.state is the state before the first step. The state before this"
            " step is the cache.",
            LUONG,
            edit(STEP, "cache.state[None]", "memory.state[None]"),
        ),
        Mistake(
            "tanh missing",
            "The attentional vector is the tanh of W_c [c; h].",
            LUONG,
            edit(STEP, "torch.tanh(self", "(self"),
        ),
        Mistake(
            "state concatenated before the context",
            "The order of concatenation decides which weights each part meets: first"
            " the context, then the state.",
            LUONG,
            edit(STEP, "[context, query]", "[query, context]"),
        ),
        Mistake(
            "logits computed from the state, not the attentional vector",
            "Predicting from h_t, the decoder never sees the context: the head reads"
            " the attentional vector.",
            LUONG,
            edit(STEP, "self.head(attentional)", "self.head(query)"),
        ),
        Mistake(
            "the attentional vector is passed on as the state",
            "The recurrent state is passed on as it is. With input feeding, the"
            " attentional vector is passed on beside it.",
            LUONG,
            edit(STEP, "state[0], attentional", "attentional[:, -1], attentional"),
        ),
        replace(
            MASK_LEFT_OUT, made_by=edit(STEP, ASKED, ASKED.replace(", memory.mask", ""))
        ),
        *ANYWHERE,
        Mistake(
            "weights and state right, logits wrong",
            "Weights and state are right. It is the tanh of a linear map of context and"
            " state, and the head reads it.",
            LUONG,
            sign=wrong_in(LOGITS, WEIGHTS, STATE),
        ),
        Mistake(
            "the wrong state is passed on",
            "The weights are right. The next step starts from the state after the last"
            " token.",
            LUONG,
            sign=wrong_in(STATE, WEIGHTS),
        ),
        Mistake(
            "the weights are wrong",
            "The queries are the states after the update, one for each token.",
            LUONG,
            sign=wrong_in(WEIGHTS),
        ),
    ),
)
