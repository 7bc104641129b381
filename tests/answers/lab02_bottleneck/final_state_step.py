"""Answers to final_state_step."""

import torch
from answers.core import right, right_edits, variations, wide, wrong_edits
from answers.lab02_bottleneck.remember import OneSlot
from answers.lab02_bottleneck.shared import any_step
from answers.lab04_alignment.shared import (
    EMBED,
    by_gates,  # noqa: F401 (edits name these)
    token_by_token,  # noqa: F401
)
from answers.signs import CUT, DEVICE, DTYPE, FITS, ONE_AXIS, ORDER, TOO_MUCH
from torch import nn

from nbjudge import edit


class FinalState(OneSlot):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        inputs = self.tell(self.embed(token), memory)
        states = self.rnn(inputs, cache[None])[0]
        weights = states.new_ones(*token.shape, 1)
        return self.head(states), weights, states[:, -1]

    def embed(self, token):
        return self.embedding(token)

    def tell(self, embedded, memory):
        return embedded


@right("final_state_step")
class LastOfTheGRU(FinalState):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache.reshape(1, *cache.shape))
        return (
            self.head(states),
            memory.mask.to(states.dtype).expand(-1, token.size(1), -1),
            last.squeeze(0),
        )


def time_first(rnn, inputs, state):
    states = []
    for t in range(inputs.size(1)):
        state = rnn(inputs[:, t : t + 1], state[None].contiguous())[1].squeeze(0)
        states.append(state)
    return torch.stack(states).transpose(0, 1)


wide("final_state_step")(lambda g: any_step(g, FinalState))

STEP = FinalState.step
READ, ONES = "self.rnn(inputs, cache[None])[0]", "states.new_ones(*token.shape, 1)"
SAY, LAST = "self.head(states)", "states[:, -1]"
RETURN = f"return {SAY}, weights, {LAST}"
ELSE, OTHER_WEIGHTS = "the wrong state is passed on", "the wrong weights"
LAYERS = "the GRU state has the wrong shape"

WRITING = {
    "write_token_by_token": edit(
        STEP, READ, "token_by_token(self.rnn, inputs, cache.unsqueeze(0))"
    ),
    "write_by_gates": edit(STEP, READ, "by_gates(self.rnn, inputs, cache)"),
    "write_time_first": edit(STEP, READ, "time_first(self.rnn, inputs, cache)"),
    "say_by_product": edit(STEP, SAY, "states @ self.head.weight.T + self.head.bias"),
    "say_by_einsum": edit(
        STEP,
        SAY,
        "torch.einsum('btd,vd->btv', states, self.head.weight) + self.head.bias",
    ),
    "say_token_by_token": edit(
        STEP,
        SAY,
        "torch.stack([self.head(state) for state in states.unbind(1)], dim=1)",
    ),
    "weigh_by_softmax": edit(
        STEP, ONES, "torch.zeros_like(states[..., :1]).softmax(-1)"
    ),
    "weigh_ones_like": edit(STEP, ONES, "torch.ones_like(states[:, :, :1])"),
    "weigh_ones": edit(
        STEP,
        ONES,
        "torch.ones(*token.shape, 1, dtype=states.dtype, device=states.device)",
    ),
}
FIRST_STATE = edit(STEP, "cache[None]", "memory.state[None]")
NO_STATE = edit(STEP, ", cache[None]", "")
KEPT_ON_SELF = edit(
    STEP,
    f"states = {READ}",
    "states, self.state = self.rnn(inputs, getattr(self, 'state', cache[None]))",
)
NO_GRADIENT = edit(STEP, LAST, f"{LAST}.detach()")

variations("final_state_step", FinalState, embed=EMBED)
right_edits("final_state_step", FinalState, **WRITING)
wrong_edits(
    "final_state_step",
    FinalState,
    memory_for_cache=(FIRST_STATE, "every step starts from the initial state"),
    no_state=(NO_STATE, "every step starts from a zero state"),
    layers_handed_on=(edit(STEP, LAST, "states[None, :, -1]"), ELSE, ONE_AXIS),
    all_states_handed_on=(edit(STEP, LAST, "states"), ELSE, ONE_AXIS),
    layer_axis_second=(edit(STEP, "cache[None]", "cache[:, None]"), LAYERS),
    layer_axis_missing=(edit(STEP, "cache[None]", "cache"), LAYERS),
    softmaxed=(
        edit(STEP, SAY, f"torch.softmax({SAY}, dim=-1)"),
        "probabilities instead of logits",
    ),
    last_logits_only=(
        edit(STEP, SAY, "self.head(states[:, -1])[:, None]"),
        "logits for one token only",
    ),
    state_first=(edit(STEP, RETURN, f"return {LAST}, {SAY}, weights"), ORDER),
    no_weights=(edit(STEP, RETURN, f"return {SAY}, {LAST}"), TOO_MUCH),
    weights_of_zero=(
        edit(STEP, ONES, "torch.zeros_like(states[..., :1])"),
        OTHER_WEIGHTS,
    ),
    weights_for_one_token=(
        edit(STEP, "(*token.shape, 1)", "(token.size(0), 1, 1)"),
        OTHER_WEIGHTS,
        "weights of one step only",
    ),
    ones_of_their_own=(edit(STEP, "states.new_ones", "torch.ones"), DEVICE, DTYPE),
    past_detached=(edit(STEP, "cache[None]", "cache.detach()[None]"), CUT),
    told_nevertheless=(
        edit(
            FinalState.tell,
            "return embedded",
            "return torch.cat("
            "[embedded, memory.value.expand(-1, embedded.size(1), -1)], dim=-1)",
        ),
        FITS,
    ),
    begins_again_with_the_first_token=(
        edit(
            STEP,
            "cache[None]",
            "(memory.state if (token[:, 0] == 1).all() else cache)[None]",
        ),
        "every step starts from the initial state",
    ),
    begins_again_in_generation=(
        edit(
            STEP,
            "cache[None]",
            "(cache if self.training or len(token.T) > 1 else memory.state)[None]",
        ),
        "every step starts from the initial state",
    ),
    state_kept_on_self=(KEPT_ON_SELF, "the weights are right, the new state is wrong"),
    handed_on_without_gradient=(NO_GRADIENT, CUT),
)
