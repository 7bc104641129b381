"""Answers to luong_step."""

import torch
from answers.core import wide, wrong_edits
from answers.lab04_alignment.shared import (
    FILL_TOO_HIGH,
    FORBIDDEN_OVERFLOW,
    MASK_FORGOTTEN,
    Decoder,
    any_decoder,
    by_gates,  # noqa: F401 (edits name these)
    enter_right,
    in_parts,  # noqa: F401
    token_by_token,  # noqa: F401
)
from answers.signs import CUT, FITS, NAN, ONE_AXIS, TOO_MUCH, WEIGHT
from torch import nn

from nbjudge import edit


class Luong(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(
            memory_dim + hidden_dim, hidden_dim, bias=False
        )
        self.head = nn.Linear(hidden_dim, vocab_size)

    def step(self, token, memory, cache):
        states = self.run(self.embed(token), cache)
        context, weights = self.look(states, memory)
        return self.head(self.mix(context, states)), weights, states[:, -1]

    def run(self, inputs, cache):
        return self.rnn(inputs, cache[None])[0]

    def mix(self, context, states):
        return torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))


wide("luong_step")(lambda g: any_decoder(g, Luong))

RUN = "self.rnn(inputs, cache[None])[0]"
RUN_AND_MIX = {
    "run_by_gates": edit(Luong.run, RUN, "by_gates(self.rnn, inputs, cache)"),
    "mix_in_parts": edit(
        Luong.mix,
        "self.attentional_proj(torch.cat([context, states], dim=-1))",
        "in_parts(self.attentional_proj, context, states)",
    ),
    "mix_by_sigmoid": edit(
        Luong.mix,
        "return torch.tanh(",
        "return -1 + 2 * torch.sigmoid(2 * ",
    ),
}
NO_TANH = edit(Luong.mix, "torch.tanh", "")
SOMETHING_ELSE = "weights and state right, logits wrong"

enter_right(
    "luong_step",
    Luong,
    run_token_by_token=edit(
        Luong.run, RUN, "token_by_token(self.rnn, inputs, cache[None])"
    ),
    **RUN_AND_MIX,
)
wrong_edits(
    "luong_step",
    Luong,
    old_state_asks=(
        edit(Luong.step, "look(states,", "look(cache[:, None].expand_as(states),"),
        "h_{t-1} is the query instead of h_t",
        "the weights are wrong",
    ),
    no_tanh=(NO_TANH, "tanh missing", SOMETHING_ELSE),
    relu_for_tanh=(edit(Luong.mix, "tanh", "relu"), SOMETHING_ELSE),
    mean_of_the_source=(
        edit(Luong.step, "(context,", "(memory.value.mean(1)[:, None] + 0 * context,"),
        SOMETHING_ELSE,
    ),
    plain_states_predict=(
        edit(Luong.step, "self.mix(context, states)", "states"),
        "logits computed from the state, not the attentional vector",
    ),
    layers_axis_kept=(
        edit(Luong.step, "states[:, -1]", "states[None, :, -1]"),
        ONE_AXIS,
    ),
    axis_at_the_wrong_place=(edit(Luong.run, "cache[None]", "cache[:, None]"), FITS),
    starts_from_nothing=(edit(Luong.run, ", cache[None]", ""), "the weights are wrong"),
    last_state_asks_alone=(
        edit(Luong.step, "look(states,", "look(states[None, :, -1].mT,"),
        FITS,
        ONE_AXIS,
        "the wrong state is passed on",
    ),
    no_mask=(MASK_FORGOTTEN, WEIGHT),
    first_state_handed_on=(
        edit(Luong.step, "states[:, -1]", "states[:, 0]"),
        "the wrong state is passed on",
        "the state after the first token is passed on",
    ),
    context_detached=(
        edit(Decoder.look, "memory.value", "memory.value.detach()"),
        CUT,
    ),
    forbidden_scores_overflow=(FORBIDDEN_OVERFLOW, NAN),
    fill_too_high=(FILL_TOO_HIGH, WEIGHT),
    logits_and_weights_only=(edit(Luong.step, ", states[:, -1]", ""), TOO_MUCH),
)
