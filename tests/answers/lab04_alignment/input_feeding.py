"""Answers to input_feeding."""

import torch
from answers.core import right, wide, wrong, wrong_edits
from answers.lab04_alignment.luong_step import NO_TANH, RUN_AND_MIX, Luong
from answers.lab04_alignment.shared import (
    FILL_TOO_HIGH,
    FORBIDDEN_OVERFLOW,
    MASK_FORGOTTEN,
    any_decoder,
    enter_right,
)
from answers.signs import CUT, FITS, NAN, WEIGHT
from torch import nn

from nbjudge import edit


class Feeding(Luong):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, fed = cache
        states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
        context, weights = self.look(states, memory)
        mixed = self.mix(context, states)
        return self.head(mixed), weights, (states[:, -1], mixed)


@right("input_feeding")
class FeedingByName(Feeding):
    """A cache of another kind."""

    def start(self, memory):
        return {
            "h": memory.state,
            "tilde": memory.state.new_zeros(len(memory.state), 1, memory.state.size(1)),
        }

    def step(self, token, memory, cache):
        x = torch.cat((self.embed(token).squeeze(1), cache["tilde"].squeeze(1)), dim=1)
        states, last = self.rnn(x.unsqueeze(1), cache["h"].unsqueeze(0))
        context, weights = self.look(states, memory)
        tilde = self.mix(context, states)
        return self.head(tilde), weights, {"h": last.squeeze(0), "tilde": tilde}


@wrong("input_feeding", "wrong when two tokens follow the same cache")
class FeedingWithNotes(FeedingByName):
    """All caches share a list, to which each step adds its weights."""

    def start(self, memory):
        return {**super().start(memory), "weights": []}

    def step(self, token, memory, cache):
        logits, weights, new = super().step(token, memory, cache)
        cache["weights"].append(weights)
        return logits, weights, {**new, "weights": cache["weights"]}


@wrong("input_feeding", "wrong when two tokens follow the same cache")
class FeedingWithBuffer(Feeding):
    """The last weights are kept, for a plot."""

    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.register_buffer("drawn", None, persistent=False)

    def step(self, token, memory, cache):
        logits, self.drawn, new = super().step(token, memory, cache)
        return logits, self.drawn, new


wide("input_feeding")(lambda g: any_decoder(g, Feeding, states=0))

HANDED_ON, ZEROS = "(states[:, -1], mixed)", "torch.zeros_like(memory.state)"
ELSE = "something else is passed on"

enter_right("input_feeding", Feeding, **RUN_AND_MIX)
wrong_edits(
    "input_feeding",
    Feeding,
    never_fed=(
        edit(Feeding.step, HANDED_ON, "(states[:, -1], fed)"),
        "zeros are fed at every step",
    ),
    state_fed=(
        edit(Feeding.step, HANDED_ON, "(states[:, -1], states)"),
        "the state is fed instead of the attentional vector",
    ),
    FirstStateFed=(
        edit(Feeding.start, ZEROS, "memory.state"),
        "the initial state is fed first, not zeros",
        "zeros are fed at every step",
    ),
    context_fed=(edit(Feeding.step, HANDED_ON, "(states[:, -1], context)"), FITS),
    state_not_handed_on=(
        edit(Feeding.step, HANDED_ON, "(memory.state, mixed)"),
        ELSE,
    ),
    fed_without_gradient=(
        edit(Feeding.step, "fed = cache", "fed = (x.detach() for x in cache)"),
        CUT,
        ELSE,
    ),
    logits_of_before_tanh=(
        NO_TANH & edit(Feeding.step, "self.head(mixed)", "self.head(mixed.tanh())"),
        "the attentional vector is fed without its tanh",
    ),
    ZerosOfTheirOwn=(
        edit(Feeding.start, ZEROS, "torch.zeros(memory.state.shape)"),
        "zeros of a different dtype or device",
    ),
    tanh_forgotten=(NO_TANH, "first step's weights right, logits wrong"),
    fed_in_front=(
        edit(Feeding.step, "[self.embed(token), fed]", "[fed, self.embed(token)]"),
        "attentional vector concatenated before the token",
    ),
    FeedingUnmasked=(MASK_FORGOTTEN, WEIGHT),
    forbidden_scores_overflow=(FORBIDDEN_OVERFLOW, NAN),
    fill_too_high=(FILL_TOO_HIGH, WEIGHT),
    TwoAxesOfZeros=(edit(Feeding.start, "[:, None]", ""), FITS),
)
