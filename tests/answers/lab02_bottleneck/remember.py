"""Answers to remember."""

import torch
from answers.core import draw, right, variations, wide, with_part, wrong
from answers.lab02_bottleneck.networks import LAST_COLUMN, shared, some_lengths
from answers.lab04_alignment.shared import sizes
from answers.signs import CUT, FITS, ONE_AXIS
from torch import nn

from attention_course.seq2seq import Memory
from nbjudge.question import Request


@wide("remember")
def any_encoded(g):
    for b, s, v, m, d, e, _ in sizes(g):
        inputs = (draw(g, b, s, e), draw(g, b, e), some_lengths(g, b, s))
        yield Request(inputs, (v, m, d, e), shared(g, v, m, d, e), gradients=True)


class OneSlot(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def remember(self, encoded):
        slot = self.slot(encoded)
        return Memory(slot, slot, self.allow(encoded), self.first(encoded.final))

    def slot(self, encoded):
        return encoded.final[:, None]

    def allow(self, encoded):
        return encoded.mask[..., :1]

    def first(self, final):
        return torch.tanh(self.bridge(final))


def slot_reshaped(self, encoded):
    return encoded.final.reshape(encoded.final.size(0), 1, -1)


def slot_stacked(self, encoded):
    return torch.stack([encoded.final], dim=1)


def allow_ones(self, encoded):
    return torch.ones(
        len(encoded.final), 1, 1, dtype=torch.bool, device=encoded.final.device
    )


def allow_any(self, encoded):
    return encoded.mask.any(dim=-1, keepdim=True)


def allow_where_something_is(self, encoded):
    return torch.ones_like(encoded.final[:, :1, None], dtype=torch.bool)


def first_by_product(self, final):
    return torch.tanh(final @ self.bridge.weight.T + self.bridge.bias)


def first_by_sigmoid(self, final):
    return 2 * torch.sigmoid(2 * self.bridge(final)) - 1


def first_by_einsum(self, final):
    return (
        torch.einsum("de,be->bd", self.bridge.weight, final) + self.bridge.bias
    ).tanh()


class FromTheSlot(OneSlot):
    def remember(self, encoded):
        slot = encoded.final.unsqueeze(-2)
        return Memory(
            key=slot,
            value=slot,
            mask=encoded.mask[:, :, :1],
            state=self.bridge(slot).squeeze(1).tanh(),
        )


variations(
    "remember",
    OneSlot,
    slot=(slot_reshaped, slot_stacked),
    allow=(allow_ones, allow_any, allow_where_something_is),
    first=(first_by_product, first_by_sigmoid, first_by_einsum),
)
right("remember")(FromTheSlot)


@wrong("remember", "a slot for every token")
@with_part(OneSlot, "remember")
def all_states(self, encoded):
    return Memory(
        encoded.states,
        encoded.states,
        encoded.mask,
        torch.tanh(self.bridge(encoded.final)),
    )


@wrong("remember", "tanh missing", "another first state")
@with_part(OneSlot, "remember")
def no_tanh(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(slot, slot, encoded.mask[:, :, :1], self.bridge(encoded.final))


@wrong("remember", "another first state")
@with_part(OneSlot, "remember")
def relu_for_tanh(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(
        slot, slot, encoded.mask[:, :, :1], torch.relu(self.bridge(encoded.final))
    )


@wrong("remember", "another first state")
@with_part(OneSlot, "remember")
def bridge_after_tanh(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(slot, slot, encoded.mask[:, :, :1], self.bridge(encoded.final.tanh()))


@wrong("remember", LAST_COLUMN, "another first state")
@with_part(OneSlot, "remember")
def state_of_the_last_column(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(
        slot,
        slot,
        encoded.mask[:, :, :1],
        torch.tanh(self.bridge(encoded.states[:, -1])),
    )


@wrong("remember", "a mask for every token", FITS)
@with_part(OneSlot, "remember")
def mask_of_the_source(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, slot, encoded.mask, torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "the slot is forbidden")
@with_part(OneSlot, "remember")
def mask_inverted_slot(self, encoded):
    slot = encoded.final[:, None]
    return Memory(
        slot, slot, ~encoded.mask[..., :1], torch.tanh(self.bridge(encoded.final))
    )


@wrong("remember", "no Memory is returned")
@with_part(OneSlot, "remember")
def too_few_fields(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, encoded.mask[..., :1], torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "no Memory is returned")
@with_part(OneSlot, "remember")
def a_state_only(self, encoded):
    return torch.tanh(self.bridge(encoded.final))


@wrong("remember", "the axis of the slots is missing", ONE_AXIS)
@with_part(OneSlot, "remember")
def two_axes_only(self, encoded):
    return Memory(
        encoded.final,
        encoded.final,
        encoded.mask[..., 0],
        torch.tanh(self.bridge(encoded.final)),
    )


@wrong("remember", ONE_AXIS)
@with_part(OneSlot, "remember")
def state_with_an_axis(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(slot)))


@wrong("remember", CUT)
@with_part(OneSlot, "remember")
def detached(self, encoded):
    slot = encoded.final[:, None].detach()
    return Memory(
        slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(slot[:, 0]))
    )


@wrong("remember", "numbers, where True and False are meant")
@with_part(OneSlot, "remember")
def slot_weight_for_mask(self, encoded):
    slot = encoded.final[:, None]
    return Memory(
        slot,
        slot,
        slot.new_ones(len(slot), 1, 1),
        torch.tanh(self.bridge(encoded.final)),
    )


@wrong("remember", "something else in the slot")
@with_part(OneSlot, "remember")
def mean_of_all_columns(self, encoded):
    mean = encoded.states.mean(1, keepdim=True)
    return Memory(
        mean, mean, encoded.mask[..., :1], torch.tanh(self.bridge(mean[:, 0]))
    )


@wrong("remember", "something else in the slot")
@with_part(OneSlot, "remember")
def bridged_already(self, encoded):
    state = torch.tanh(self.bridge(encoded.final))
    return Memory(state[:, None], state[:, None], encoded.mask[..., :1], state)
