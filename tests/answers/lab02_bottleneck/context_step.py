"""Answers to context_step."""

import torch
from answers.core import right_edits, variations, wide, wrong_edits
from answers.lab02_bottleneck.final_state_step import (
    ELSE,
    FIRST_STATE,
    KEPT_ON_SELF,
    LAST,
    NO_GRADIENT,
    NO_STATE,
    RETURN,
    SAY,
    STEP,
    WRITING,
    FinalState,
)
from answers.lab02_bottleneck.shared import any_step
from answers.lab04_alignment.shared import EMBED
from answers.signs import CUT, FITS, TOO_MUCH
from torch import nn

from nbjudge import edit


class Context(FinalState):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def tell(self, embedded, memory):
        told = memory.value.expand(-1, embedded.size(1), -1)
        return torch.cat([embedded, told], dim=-1)


wide("context_step")(lambda g: any_step(g, Context))

TELL = Context.tell
TOLD, BOTH = (
    "memory.value.expand(-1, embedded.size(1), -1)",
    "torch.cat([embedded, told], dim=-1)",
)

variations("context_step", Context, embed=EMBED)
right_edits(
    "context_step",
    Context,
    **WRITING,
    tell_repeated=edit(TELL, TOLD, "memory.value.repeat(1, embedded.size(1), 1)"),
    tell_by_attention=edit(
        TELL,
        TOLD,
        "embedded.new_zeros(*embedded.shape[:2], 1).masked_fill(~memory.mask, -1e30)"
        ".softmax(-1) @ memory.value",
    ),
    tell_token_by_token=edit(
        TELL,
        BOTH,
        "torch.stack([torch.cat([x, memory.value[:, 0]], dim=-1)"
        " for x in embedded.unbind(1)], dim=1)",
    ),
    tell_by_key=edit(
        TELL,
        TOLD,
        "memory.key.squeeze(1).unsqueeze(1)"
        ".expand(embedded.size(0), embedded.size(1), memory.key.size(-1)).contiguous()",
    ),
)
wrong_edits(
    "context_step",
    Context,
    source_in_front=(
        edit(TELL, "[embedded, told]", "[told, embedded]"),
        "source concatenated before the token",
    ),
    not_repeated=(
        edit(TELL, TOLD, "memory.value"),
        "tensors of different lengths are concatenated",
        FITS,
    ),
    not_told=(edit(TELL, BOTH, "embedded"), FITS),
    state_told=(edit(TELL, "memory.value", "memory.state[:, None]"), FITS),
    stacked_in_time=(
        edit(TELL, BOTH, "torch.cat([embedded, memory.value], dim=1)"),
        FITS,
    ),
    starts_again=(FIRST_STATE, "every step starts from the initial state"),
    no_past=(NO_STATE, "every step starts from a zero state"),
    old_cache_handed_on=(
        edit(STEP, LAST, "cache"),
        "the new state is not passed on",
        ELSE,
    ),
    first_handed_on=(
        edit(STEP, LAST, "states[:, 0]"),
        "the state after the first token is passed on",
        ELSE,
    ),
    head_after_tanh=(
        edit(STEP, SAY, "self.head(torch.relu(states))"),
        "only the logits are wrong",
    ),
    ones_over_the_source=(
        edit(STEP, "shape, 1)", "shape, memory.value.size(-1))"),
        "the wrong weights",
    ),
    source_detached=(edit(TELL, "memory.value", "memory.value.detach()"), CUT),
    logits_and_state=(edit(STEP, RETURN, f"return {SAY}, {LAST}"), TOO_MUCH),
    mean_of_the_embeddings=(
        edit(
            TELL,
            "[embedded, told]",
            "[embedded.mean(0, keepdim=True).expand_as(embedded), told]",
        ),
        "the weights are right, the new state is wrong",
    ),
    goes_on_when_all_have_ended=(
        edit(STEP, LAST, f"cache if (token[:, -1] == 2).all() else {LAST}"),
        "the new state is not passed on",
        ELSE,
    ),
    told_of_the_first_source=(
        edit(
            TELL,
            "memory.value",
            "self.__dict__.setdefault('told', memory).value",
        )
        & edit(
            Context.remember,
            "slot = ",
            "self.__dict__.pop('told', None)\n    slot = ",
        ),
        "the source comes from self, not from memory",
    ),
    told_state_kept_on_self=(
        KEPT_ON_SELF,
        "the weights are right, the new state is wrong",
    ),
    told_handed_on_without_gradient=(NO_GRADIENT, CUT),
)
