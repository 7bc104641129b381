"""Question `bahdanau_step`: the query is the decoder's state before the update.

The step with the state after the update is in `luong_step`.
"""

from dataclasses import replace

from attention_course.rnn import BahdanauDecoder
from attention_labs.lab04_alignment.shared import (
    BAHDANAU,
    EVERYWHERE,
    LOGITS,
    MASK_LEFT_OUT,
    MEMORY,
    STATE,
    WEIGHTS,
    rare_steps,
    steps,
    use_step,
    with_score,
)
from nbjudge import (
    ANYWHERE,
    Mistake,
    Question,
    edit,
    of_output,
    same_gradients,
    same_numbers,
    wrong_in,
)

BATTERY = steps(BahdanauDecoder)
STEP, ADVANCE = BahdanauDecoder.step, BahdanauDecoder._advance
FIRST_ASKS = edit(ADVANCE, "query = state[", "query = memory.state[")
ASKED = "return state, context, weights"
READ = "[state[:, None], context, embedded]"
SAY = "self.head(self.dropout(features))"
FIRST_UPDATED = edit(ADVANCE, "[:, 0], state)", "[:, 0], memory.state)")

QUESTION = Question(
    name="bahdanau_step",
    reference=BahdanauDecoder,
    use=use_step,
    make=with_score,
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        **MEMORY,
        "asks": "Ask, then update: the state before the update is the query.",
        "logits": "Do not apply a softmax to the logits, because the loss does that.",
        "token": "token: (B, 1), ids.",
        "cache": "cache: (B, D), the state before this step.",
        "returns": "Logits (B, 1, V), weights (B, 1, S), and the state after this step"
        " (B, D).",
    },
    properties=(
        BATTERY.numbers(
            "the query is the state before the update",
            2,
            of_output(WEIGHTS, same_numbers),
            ("memory", "asks", "cache"),
        ),
        BATTERY.line(
            "the context enters the update",
            1,
            judge=of_output(STATE, same_numbers),
            checks=("attached", "token", "returns"),
        ),
        BATTERY.numbers(
            "the logits, and all gradients",
            1,
            checks=("attached", "logits", "returns"),
        ),
        BATTERY.edges(
            1,
            same_gradients,
            checks=("lengths", "memory", "cache", "returns"),
            also=lambda d: rare_steps(d, BahdanauDecoder),
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "the first state is the query at every step",
            "memory.state is the state before the first step. The state before this"
            " step is the cache.",
            BAHDANAU,
            (FIRST_ASKS, FIRST_ASKS & FIRST_UPDATED),
        ),
        Mistake(
            "every step starts from the initial state",
            "memory.state is the state before the first step. The state before this"
            " step is the cache.",
            BAHDANAU,
            FIRST_UPDATED,
        ),
        Mistake(
            "the state after the update is the query",
            "The step asks once, before the update. Its weights and its context serve"
            " the update and the output layer.",
            BAHDANAU,
            edit(
                ADVANCE,
                ASKED,
                "return state, *attend(self.score(state[:, None], memory.key),"
                " memory.value, memory.mask)",
            ),
        ),
        Mistake(
            "probabilities instead of logits",
            "The softmax is part of the loss. Return the numbers from the head"
            " unchanged.",
            BAHDANAU,
            edit(STEP, SAY, f"{SAY}.log_softmax(-1)"),
        ),
        Mistake(
            "the old state goes into the output layer",
            "The update comes before the prediction: h_t, not h_{t-1}, goes into the"
            " output layer.",
            BAHDANAU,
            edit(STEP, "[state[:, None], context", "[cache[:, None], context"),
        ),
        Mistake(
            "the new state is not passed on",
            "The last thing that a step returns is the state after the update. The"
            " next step starts from it.",
            BAHDANAU,
            edit(STEP, ", weights, state", ", weights, cache"),
        ),
        Mistake(
            "the new state overwrites the cache",
            "The caller may go on from the same cache with another token: leave it as"
            " it is, and return a new tensor.",
            BAHDANAU,
            edit(STEP, ", weights, state", ", weights, cache.copy_(state)"),
        ),
        Mistake(
            "context concatenated before the token",
            "The order of concatenation decides which weights each part meets: first"
            " the token, then the context.",
            BAHDANAU,
            edit(ADVANCE, "[embedded, context]", "[context, embedded]"),
        ),
        Mistake(
            "the wrong order in the output layer",
            "The order of concatenation decides which weights each part meets: state,"
            " context, token.",
            BAHDANAU,
            edit(STEP, READ, "[embedded, context, state[:, None]]"),
        ),
        replace(
            MASK_LEFT_OUT,
            made_by=edit(ADVANCE, "memory.value, memory.mask", "memory.value"),
        ),
        *ANYWHERE,
        Mistake(
            "the weights are right, the new state is wrong",
            "The weights are right. The recurrent cell reads the embedded token and"
            " the context, concatenated in this order, and starts from the state"
            " before the update.",
            BAHDANAU,
            sign=wrong_in(STATE, WEIGHTS),
        ),
        Mistake(
            "weights and state right, logits wrong",
            "Weights and state are right. The logits come from the state after the"
            " update, the context and the token.",
            BAHDANAU,
            sign=wrong_in(LOGITS, WEIGHTS, STATE),
        ),
        Mistake(
            "the weights are wrong",
            "The query is the state before the update, with an axis for the one target"
            " position.",
            BAHDANAU,
            sign=wrong_in(WEIGHTS),
        ),
    ),
)
