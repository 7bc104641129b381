"""Answers to remember."""

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab02_bottleneck.shared import LAST_COLUMN, some_lengths
from answers.lab04_alignment.shared import draw_for, sizes
from answers.signs import CUT, FITS, ONE_AXIS
from torch import nn

from attention_course.seq2seq import Memory
from nbjudge import edit
from nbjudge.question import Request


class OneSlot(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = encoded.final[:, None]
        state = torch.tanh(self.bridge(encoded.final))
        return Memory(slot, slot, encoded.mask[..., :1], state)


@right("remember")
class FromTheSlot(OneSlot):
    def remember(self, encoded):
        slot = encoded.final.unsqueeze(-2)
        return Memory(
            key=slot,
            value=slot,
            mask=encoded.mask[:, :, :1],
            state=self.bridge(slot).squeeze(1).tanh(),
        )


@wide("remember")
def any_encoded(g):
    for b, s, v, m, d, e, _ in sizes(g):
        inputs = (draw(g, b, s, e), draw(g, b, e), some_lengths(g, b, s))
        drawn = draw_for(g, OneSlot(v, m, d, e))
        yield Request(inputs, (v, m, d, e), drawn, gradients=True)


REMEMBER = OneSlot.remember
SLOT, ALLOWED = "encoded.final[:, None]", "encoded.mask[..., :1]"
FIRST = "torch.tanh(self.bridge(encoded.final))"
RETURNED = f"Memory(slot, slot, {ALLOWED}, state)"
OTHER_FIRST, OTHER_SLOT = "the wrong first state", "the key or the value is wrong"

right("remember")(OneSlot)
right_edits(
    "remember",
    OneSlot,
    slot_reshaped=edit(
        REMEMBER, SLOT, "encoded.final.reshape(encoded.final.size(0), 1, -1)"
    ),
    slot_stacked=edit(REMEMBER, SLOT, "torch.stack([encoded.final], dim=1)"),
    allow_ones=edit(
        REMEMBER,
        ALLOWED,
        "torch.ones(len(slot), 1, 1, dtype=torch.bool, device=slot.device)",
    ),
    allow_any=edit(REMEMBER, ALLOWED, "encoded.mask.any(dim=-1, keepdim=True)"),
    allow_where_something_is=edit(
        REMEMBER,
        ALLOWED,
        "torch.ones_like(encoded.final[:, :1, None], dtype=torch.bool)",
    ),
    first_by_product=edit(
        REMEMBER,
        FIRST,
        "torch.tanh(encoded.final @ self.bridge.weight.T + self.bridge.bias)",
    ),
    first_by_sigmoid=edit(
        REMEMBER, FIRST, "2 * torch.sigmoid(2 * self.bridge(encoded.final)) - 1"
    ),
    first_by_einsum=edit(
        REMEMBER,
        FIRST,
        "(torch.einsum('de,be->bd', self.bridge.weight, encoded.final)"
        " + self.bridge.bias).tanh()",
    ),
)
wrong_edits(
    "remember",
    OneSlot,
    all_states=(
        edit(REMEMBER, SLOT, "encoded.states") & edit(REMEMBER, "[..., :1]", ""),
        "a slot for every token",
    ),
    no_tanh=(edit(REMEMBER, "torch.tanh", ""), "tanh missing", OTHER_FIRST),
    relu_for_tanh=(edit(REMEMBER, "tanh", "relu"), OTHER_FIRST),
    bridge_after_tanh=(
        edit(REMEMBER, FIRST, "self.bridge(encoded.final.tanh())"),
        OTHER_FIRST,
    ),
    state_of_the_last_column=(
        edit(REMEMBER, "(encoded.final)", "(encoded.states[:, -1])"),
        LAST_COLUMN,
        OTHER_FIRST,
    ),
    mask_of_the_source=(
        edit(REMEMBER, "[..., :1]", ""),
        "the mask covers tokens instead of the slot",
        FITS,
    ),
    mask_inverted_slot=(
        edit(REMEMBER, ALLOWED, f"~{ALLOWED}"),
        "the slot is masked out",
    ),
    forbidden_if_alone=(
        edit(
            REMEMBER,
            ALLOWED,
            "encoded.mask[..., -1:] if len(slot) == 1 else encoded.mask[..., :1]",
        ),
        "the slot is masked out",
    ),
    too_few_fields=(edit(REMEMBER, "slot, slot", "slot"), "no Memory is returned"),
    a_state_only=(edit(REMEMBER, RETURNED, "state"), "no Memory is returned"),
    two_axes_only=(
        edit(REMEMBER, "[:, None]", "") & edit(REMEMBER, "[..., :1]", "[..., 0]"),
        "the slot axis is missing",
        ONE_AXIS,
    ),
    state_with_an_axis=(edit(REMEMBER, "(encoded.final)", "(slot)"), ONE_AXIS),
    detached=(
        edit(REMEMBER, SLOT, f"{SLOT}.detach()")
        & edit(REMEMBER, "(encoded.final)", "(slot[:, 0])"),
        CUT,
    ),
    slot_weight_for_mask=(
        edit(REMEMBER, ALLOWED, "slot.new_ones(len(slot), 1, 1)"),
        "numbers instead of True and False",
    ),
    mean_of_all_columns=(
        edit(REMEMBER, SLOT, "encoded.states.mean(1, keepdim=True)")
        & edit(REMEMBER, "(encoded.final)", "(slot[:, 0])"),
        OTHER_SLOT,
    ),
    bridged_already=(edit(REMEMBER, SLOT, f"{FIRST}[:, None]"), OTHER_SLOT),
)
