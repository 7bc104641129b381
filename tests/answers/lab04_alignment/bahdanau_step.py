"""Answers to bahdanau_step."""

import torch
from answers.core import wide, wrong_edits
from answers.lab04_alignment.shared import (
    FILL_TOO_HIGH,
    FORBIDDEN_OVERFLOW,
    MASK_FORGOTTEN,
    Decoder,
    any_decoder,
    enter_right,
    gates,  # noqa: F401 (an edit names it)
    in_parts,  # noqa: F401
)
from answers.signs import CUT, FITS, NAN, NO_NAME, ONE_AXIS, ORDER, TOO_MUCH, WEIGHT
from torch import nn

from nbjudge import edit


class Bahdanau(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embed(token)
        context, weights = self.look(cache[:, None], memory)
        state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
        logits = self.head(torch.cat([state[:, None], context, embedded], dim=-1))
        return logits, weights, state


wide("bahdanau_step")(lambda g: any_decoder(g, Bahdanau, tokens=1))

STEP = Bahdanau.step
READ = "torch.cat([embedded, context], dim=-1)[:, 0]"
SAY = "self.head(torch.cat([state[:, None], context, embedded], dim=-1))"
RETURN = "return logits, weights, state"

enter_right(
    "bahdanau_step",
    Bahdanau,
    update_squeezed=edit(
        STEP, READ, "torch.cat([embedded.squeeze(1), context.squeeze(1)], dim=1)"
    ),
    update_by_gates=edit(
        STEP,
        f"self.rnn({READ}, cache)",
        f"gates({READ}, cache, *self.rnn.parameters())",
    ),
    say_in_parts=edit(
        STEP, SAY, "in_parts(self.head, state[:, None], context, embedded)"
    ),
    say_without_time=edit(
        STEP,
        SAY,
        "self.head(torch.cat([state, context.squeeze(1), embedded.squeeze(1)], dim=-1)"
        ").unsqueeze(1)",
    ),
)
wrong_edits(
    "bahdanau_step",
    Bahdanau,
    asks_with_the_memory=(
        edit(STEP, "cache[:, None], memory", "memory.state[:, None], memory")
        & edit(STEP, f"{READ}, cache", f"{READ}, memory.state"),
        "the first state is the query at every step",
    ),
    updates_first=(
        edit(
            STEP,
            "context, weights = self.look(cache[:, None], memory)",
            "nothing = torch.zeros_like(memory.value[:, 0])\n"
            "    state = self.rnn(torch.cat([embedded[:, 0], nothing], dim=-1), cache)\n"
            "    context, weights = self.look(state[:, None], memory)",
        )
        & edit(STEP, f"self.rnn({READ}, cache)", "state"),
        "the weights are wrong",
    ),
    context_left_out=(
        edit(STEP, "[embedded, context]", "[embedded, torch.zeros_like(context)]"),
        "the weights are right, the new state is wrong",
    ),
    no_axis_for_the_query=(edit(STEP, "cache[:, None]", "cache"), FITS),
    keys_projected_again=(
        edit(Decoder.look, "memory.key", "self.score.project_keys(memory.key)"),
        FITS,
    ),
    mask_forgotten=(MASK_FORGOTTEN, WEIGHT),
    mask_inverted=(edit(Decoder.look, "memory.mask", "~memory.mask"), WEIGHT),
    predicts_too_early=(
        edit(STEP, "[state[:, None], context", "[cache[:, None], context"),
        "the old state goes into the output layer",
        "weights and state right, logits wrong",
    ),
    context_first_in_the_head=(
        edit(STEP, "state[:, None], context", "context, state[:, None]"),
        "weights and state right, logits wrong",
    ),
    weights_before_logits=(edit(STEP, RETURN, "return weights, logits, state"), ORDER),
    axis_taken_off=(
        edit(STEP, RETURN, "return logits[:, 0], weights[:, 0], state"),
        ONE_AXIS,
    ),
    state_detached=(
        edit(STEP, "cache[:, None]", "cache.detach()[:, None]")
        & edit(STEP, f"{READ}, cache", f"{READ}, cache.detach()"),
        CUT,
    ),
    nothing_handed_on=(edit(STEP, RETURN, "return logits, weights"), TOO_MUCH),
    every_axis_squeezed=(edit(STEP, "[:, 0], cache", ".squeeze(), cache"), FITS),
    forbidden_scores_overflow=(FORBIDDEN_OVERFLOW, NAN),
    fill_too_high=(FILL_TOO_HIGH, WEIGHT),
    nothing_learnt_for_token_0=(
        edit(
            Decoder.embed,
            "self.embedding(token)",
            "F.embedding(token, self.embedding.weight, padding_idx=0)",
        ),
        CUT,
    ),
    no_context_in_the_first_step=(
        edit(
            STEP,
            "    state =",
            "    context = context * (cache != memory.state).any()\n    state =",
        ),
    ),
    misspelt=(edit(Decoder.look, "memory.key", "memory.keys"), NO_NAME),
)
