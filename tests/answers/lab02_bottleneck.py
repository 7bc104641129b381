"""Answers to lab02_bottleneck, written as in the lab: with its imports and its given parts."""

import sys

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, wrong
from answers.lab04_alignment.steps import embed_by_index, embed_by_product, gates, sizes
from answers.signs import ANOTHER, CUT, DEVICE, DTYPE, FITS, NO_NAME, NOTHING, ONE_AXIS, ORDER, TOO_MUCH
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.questions.core import Request
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory

LAST_COLUMN = "the last column is taken for the final state"


# --- what equivalent answers agree on ---------------------------------------------------------------------------------


def some_lengths(g, batch, size):
    return torch.randint(1, size + 1, (batch,), generator=g).index_fill(0, torch.tensor(batch - 1), size)


def gru(g, name, layer, reads, hidden):
    shapes = {"ih": (3 * hidden, reads), "hh": (3 * hidden, hidden)}
    weights = {f"{name}.weight_{which}_{layer}": draw(g, *shape) / 2 for which, shape in shapes.items()}
    return weights | {f"{name}.bias_{which}_{layer}": draw(g, 3 * hidden) / 2 for which in shapes}


@wide("at_end")
def any_vectors(g):
    for b, s, d, *_ in sizes(g):
        yield Request((draw(g, b, s, d), some_lengths(g, b, s)), gradients=True)
        yield Request((draw(g, b, s + 2, d), some_lengths(g, b, s)), gradients=True)


@wide("encoder")
def any_source(g):
    for b, s, m, d, *_ in sizes(g):
        lengths = some_lengths(g, b, s)
        weights = {"embedding.weight": draw(g, 9, m)} | gru(g, "rnn", "l0", m, d)
        yield Request((torch.randint(9, (b, s), generator=g), lengths), (9, m, d), weights, gradients=True)


@wide("stacked_encoder")
def any_stack(g):
    for b, s, m, d, *_ in sizes(g):
        for layers in (1, 2, 3):
            weights = {"embedding.weight": draw(g, 9, m)}
            for layer in range(layers):
                for way in ("forwards", "backwards"):
                    weights |= gru(g, f"{way}.{layer}", "l0", 2 * d if layer else m, d)
            source = torch.randint(9, (b, s), generator=g)
            yield Request((source, some_lengths(g, b, s)), (9, m, d, layers), weights, gradients=True)


def shared(g, v, m, d, e):
    linear = {"bridge": (d, e), "head": (v, d)}
    weights = {f"{name}.weight": draw(g, *shape) / 2 for name, shape in linear.items()}
    return weights | {f"{name}.bias": draw(g, shape[0]) for name, shape in linear.items()} | {
        "embedding.weight": draw(g, v, m)
    }  # fmt: skip


@wide("remember")
def any_encoded(g):
    for b, s, v, m, d, e, _ in sizes(g):
        inputs = (draw(g, b, s, e), draw(g, b, e), some_lengths(g, b, s))
        yield Request(inputs, (v, m, d, e), shared(g, v, m, d, e), gradients=True)


def any_step(g, told):
    for b, t, v, m, d, e, _ in sizes(g):
        inputs = (torch.randint(v, (b, t), generator=g), draw(g, b, d), draw(g, b, 1, e), draw(g, b, d))
        weights = shared(g, v, m, d, e) | gru(g, "rnn", "l0", m + e * told, d)
        yield Request(inputs, (v, m, d, e), weights, gradients=True)


wide("final_state_step")(lambda g: any_step(g, told=False))
wide("context_step")(lambda g: any_step(g, told=True))


# --- at_end -----------------------------------------------------------------------------------------------------------


@right("at_end")
def by_two_indices(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right("at_end")
def by_gather(x, lengths):
    index = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(-1))
    return x.gather(1, index).squeeze(1)


@right("at_end")
def one_by_one(x, lengths):
    return torch.stack([row[length - 1] for row, length in zip(x, lengths.tolist())])


@right("at_end")
def cut_then_last(x, lengths):
    return torch.cat([x[b : b + 1, :length][:, -1] for b, length in enumerate(lengths.tolist())])


@right("at_end")
def by_a_sum_of_one(x, lengths):
    chosen = torch.arange(x.size(1), device=x.device) == lengths.to(x.device)[:, None] - 1
    return (chosen[..., None] * x).sum(1)


@right("at_end")
def by_a_product(x, lengths):
    chosen = F.one_hot(lengths.to(x.device) - 1, x.size(1)) if not x.is_meta else x[:, :, 0]
    return torch.einsum("bs,bsd->bd", chosen.to(x.dtype), x)


@right("at_end")
def by_a_flat_index(x, lengths):
    places = torch.arange(x.size(0)) * x.size(1) + lengths - 1
    return x.reshape(-1, x.size(-1)).index_select(0, places.to(x.device))


@right("at_end")
def by_take_along(x, lengths):
    return torch.take_along_dim(x, lengths.to(x.device).view(-1, 1, 1) - 1, dim=1)[:, 0]


@right("at_end")
def by_bmm(x, lengths):
    ends = (torch.arange(1, x.size(1) + 1, device=x.device) == lengths.to(x.device).unsqueeze(1)).to(x.dtype)
    return torch.bmm(ends.unsqueeze(1), x).squeeze(1)


@right("at_end")
def after_turning(x, lengths):
    return reverse_padded(x, lengths)[:, 0]


@right("at_end")
def filled_in(x, lengths):
    found = x.new_empty(x.size(0), x.size(2))
    for b in range(x.size(0)):
        found[b] = x[b, int(lengths[b]) - 1]
    return found


@right("at_end")
def by_difference_of_sums(x, lengths):
    print("lengths", lengths.tolist(), file=sys.stderr)
    positions = torch.arange(x.size(1), device=x.device)[None, :, None]
    ends = lengths.to(x.device)[:, None, None]
    return x.where(positions + 1 == ends, 0).sum(dim=1)


@wrong("at_end", "the last column")
def in_the_last_column(x, lengths):
    return x[:, x.shape[1] - 1, :]


@wrong("at_end", "one position too far")
def no_minus_one(x, lengths):
    return x[torch.arange(x.size(0)), lengths]


@wrong("at_end", "one position too far")
def gathered_too_far(x, lengths):
    return x.gather(1, lengths.to(x.device)[:, None, None].expand(-1, 1, x.size(-1)))[:, 0]


@wrong("at_end", "every sentence at every end")
def all_ends(x, lengths):
    return x.index_select(1, lengths.to(x.device) - 1)


@wrong("at_end", ONE_AXIS)
def axis_left(x, lengths):
    return x.gather(1, (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(-1)))


@wrong("at_end", "one number of every vector")
def one_number(x, lengths):
    return x.gather(1, (lengths.to(x.device) - 1)[:, None, None])[:, 0]


@wrong("at_end", CUT)
def without_gradient(x, lengths):
    return x.detach()[torch.arange(x.size(0)), lengths - 1]


@wrong("at_end", "the sum or the mean of a sentence")
def mean_of_tokens(x, lengths):
    return torch.stack([row[:length].mean(0) for row, length in zip(x, lengths.tolist())])


@wrong("at_end", "the longest sentence's end for all", "the last column")
def longest_end(x, lengths):
    return x[:, int(lengths.max()) - 1]


@wrong("at_end", "the first sentence stands for all")
def first_sentence(x, lengths):
    return x[0, lengths - 1]


@wrong("at_end", NOTHING)
def not_returned(x, lengths):
    x[torch.arange(x.size(0)), lengths - 1]


@wrong("at_end", "the first vector")
def at_the_start(x, lengths):
    return reverse_padded(x, lengths)[torch.arange(len(x)), lengths - 1]


@wrong("at_end", DTYPE)
def in_single_precision(x, lengths):
    return x.float()[torch.arange(x.size(0)), lengths - 1]


# --- encoder ----------------------------------------------------------------------------------------------------------


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.output_dim = hidden_dim

    def forward(self, source, lengths):
        states = self.run(self.embed(source), lengths)
        return Encoded(states, self.end(states, lengths), self.allow(source, lengths))

    # A student writes these lines one below the other; here they are apart, so that each can be written otherwise.
    def embed(self, source):
        return self.embedding(source)

    def run(self, embedded, lengths):
        return self.rnn(embedded)[0]

    def end(self, states, lengths):
        return at_end(states, lengths)

    def allow(self, source, lengths):
        return padding_mask(lengths.to(source.device), source.size(1))


def run_token_by_token(self, embedded, lengths):
    states, state = [], None
    for token in embedded.split(1, dim=1):
        output, state = self.rnn(token, state)
        states.append(output)
    return torch.cat(states, dim=1)


def run_by_gates(self, embedded, lengths):
    state, states = embedded.new_zeros(embedded.size(0), self.rnn.hidden_size), []
    for x in embedded.unbind(1):
        state = gates(x, state, *self.rnn.all_weights[0])
        states.append(state)
    return torch.stack(states, dim=1)


def run_packed(self, embedded, lengths):
    packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=embedded.size(1))[0]


def run_from_zeros(self, embedded, lengths):
    first = embedded.new_zeros(1, embedded.size(0), self.rnn.hidden_size)
    return self.rnn(embedded, first)[0]


def run_with_padding_wiped(self, embedded, lengths):
    tokens = padding_mask(lengths.to(embedded.device), embedded.size(1)).mT
    return self.rnn(embedded * tokens)[0] * tokens


def allow_by_comparison(self, source, lengths):
    return ~(torch.arange(source.size(1), device=source.device) >= lengths.to(source.device)[:, None, None])


class PackedEncoder(Encoder):
    """What a recurrent layer returns second is right, if it was packed."""

    def forward(self, source, lengths):
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True, enforce_sorted=False)
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        return Encoded(states=states, final=last[-1], mask=self.allow(source, lengths))


def variations(question, base, **parts):
    """Enter a class, and the same with each of its parts written otherwise."""
    right(question)(base)
    for part, others in parts.items():
        for other in others:
            right(question)(type(other.__name__, (base,), {part: other}))


ENDS = (
    lambda self, states, lengths: by_gather(states, lengths),
    lambda self, states, lengths: one_by_one(states, lengths),
)
RUNS = (run_token_by_token, run_by_gates, run_packed, run_from_zeros, run_with_padding_wiped)
variations(
    "encoder", Encoder, embed=(embed_by_index, embed_by_product), run=RUNS, end=ENDS, allow=(allow_by_comparison,)
)
right("encoder")(PackedEncoder)


def encoder(forward):
    return type(forward.__name__, (Encoder,), {"forward": forward})


@wrong("encoder", LAST_COLUMN)
@encoder
def column_minus_one(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(states, states[:, -1], padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", LAST_COLUMN)
@encoder
def second_of_the_gru(self, source, lengths):
    states, last = self.rnn(self.embedding(source))
    return Encoded(states, last.squeeze(0), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", "the axis of the layers is left")
@encoder
def layers_left(self, source, lengths):
    states, last = self.rnn(self.embedding(source))
    return Encoded(states, last, padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", "the final state is one position too early", "another final state")
@encoder
def one_too_early(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(states, at_end(states, lengths - 1), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", "another final state")
@encoder
def mean_for_final(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    mask = padding_mask(lengths.to(source.device), source.size(1))
    return Encoded(states, (mask.to(states.dtype) @ states)[:, 0] / lengths[:, None].to(states), mask)


@wrong("encoder", "mask the wrong way around")
@encoder
def mask_inverted(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(states, at_end(states, lengths), ~padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", "padding allowed")
@encoder
def all_allowed(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    mask = torch.ones(len(source), 1, source.size(1), dtype=torch.bool, device=source.device)
    return Encoded(states, at_end(states, lengths), mask)


@wrong("encoder", "numbers, where True and False are meant")
@encoder
def mask_of_numbers(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)).float())


@wrong("encoder", ONE_AXIS)
@encoder
def mask_without_axis(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1))[:, 0])


@wrong("encoder", "no Encoded is returned")
@encoder
def plain_tuple(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1))


@wrong("encoder", NO_NAME)
@encoder
def tuple_taken_for_states(self, source, lengths):
    states = self.rnn(self.embedding(source))
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", FITS, "dtype lost on the way")
@encoder
def not_embedded(self, source, lengths):
    states, _ = self.rnn(source)
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", CUT)
@encoder
def embedding_frozen(self, source, lengths):
    states, _ = self.rnn(self.embedding(source).detach())
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", "read across the batch")
@encoder
def time_first(self, source, lengths):
    states, _ = self.rnn(self.embedding(source).transpose(0, 1))
    states = states.transpose(0, 1)
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", ANOTHER)
@encoder
def goes_on_from_the_last_batch(self, source, lengths):
    states, self.state = self.rnn(self.embedding(source), getattr(self, "state", None))
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@wrong("encoder", ANOTHER)
@encoder
def begins_at_random(self, source, lengths):
    embedded = self.embedding(source)
    states, _ = self.rnn(embedded, torch.randn(1, len(source), self.output_dim).to(embedded))
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


@right("encoder")
@encoder
def allowed_where_there_is_an_id(self, source, lengths):
    states, _ = self.rnn(self.embedding(source))
    return Encoded(mask=(source != 0)[:, None], final=at_end(states, lengths), states=states)


@wrong("encoder", "other states")
@encoder
def squashed_again(self, source, lengths):
    states = torch.tanh(self.rnn(self.embedding(source))[0])
    return Encoded(states, at_end(states, lengths), padding_mask(lengths.to(source.device), source.size(1)))


# --- remember ---------------------------------------------------------------------------------------------------------


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
    return torch.ones(len(encoded.final), 1, 1, dtype=torch.bool, device=encoded.final.device)


def allow_any(self, encoded):
    return encoded.mask.any(dim=-1, keepdim=True)


def allow_where_something_is(self, encoded):
    return torch.ones_like(encoded.final[:, :1, None], dtype=torch.bool)


def first_by_product(self, final):
    return torch.tanh(final @ self.bridge.weight.T + self.bridge.bias)


def first_by_sigmoid(self, final):
    return 2 * torch.sigmoid(2 * self.bridge(final)) - 1


def first_by_einsum(self, final):
    return (torch.einsum("de,be->bd", self.bridge.weight, final) + self.bridge.bias).tanh()


class FromTheSlot(OneSlot):
    def remember(self, encoded):
        slot = encoded.final.unsqueeze(-2)
        return Memory(key=slot, value=slot, mask=encoded.mask[:, :, :1], state=self.bridge(slot).squeeze(1).tanh())


variations(
    "remember",
    OneSlot,
    slot=(slot_reshaped, slot_stacked),
    allow=(allow_ones, allow_any, allow_where_something_is),
    first=(first_by_product, first_by_sigmoid, first_by_einsum),
)
right("remember")(FromTheSlot)


def remember(function):
    return type(function.__name__, (OneSlot,), {"remember": function})


@wrong("remember", "a slot for every token")
@remember
def all_states(self, encoded):
    return Memory(encoded.states, encoded.states, encoded.mask, torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "tanh missing", "another first state")
@remember
def no_tanh(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(slot, slot, encoded.mask[:, :, :1], self.bridge(encoded.final))


@wrong("remember", "another first state")
@remember
def relu_for_tanh(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(slot, slot, encoded.mask[:, :, :1], torch.relu(self.bridge(encoded.final)))


@wrong("remember", "another first state")
@remember
def bridge_after_tanh(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(slot, slot, encoded.mask[:, :, :1], self.bridge(encoded.final.tanh()))


@wrong("remember", LAST_COLUMN, "another first state")
@remember
def state_of_the_last_column(self, encoded):
    slot = encoded.final.unsqueeze(1)
    return Memory(slot, slot, encoded.mask[:, :, :1], torch.tanh(self.bridge(encoded.states[:, -1])))


@wrong("remember", "a mask for every token", FITS)
@remember
def mask_of_the_source(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, slot, encoded.mask, torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "the slot is forbidden")
@remember
def mask_inverted_slot(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, slot, ~encoded.mask[..., :1], torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "no Memory is returned")
@remember
def too_few_fields(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, encoded.mask[..., :1], torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "no Memory is returned")
@remember
def a_state_only(self, encoded):
    return torch.tanh(self.bridge(encoded.final))


@wrong("remember", "the axis of the slots is missing", ONE_AXIS)
@remember
def two_axes_only(self, encoded):
    return Memory(encoded.final, encoded.final, encoded.mask[..., 0], torch.tanh(self.bridge(encoded.final)))


@wrong("remember", ONE_AXIS)
@remember
def state_with_an_axis(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(slot)))


@wrong("remember", CUT)
@remember
def detached(self, encoded):
    slot = encoded.final[:, None].detach()
    return Memory(slot, slot, encoded.mask[..., :1], torch.tanh(self.bridge(slot[:, 0])))


@wrong("remember", "numbers, where True and False are meant")
@remember
def slot_weight_for_mask(self, encoded):
    slot = encoded.final[:, None]
    return Memory(slot, slot, slot.new_ones(len(slot), 1, 1), torch.tanh(self.bridge(encoded.final)))


@wrong("remember", "something else in the slot")
@remember
def mean_of_all_columns(self, encoded):
    mean = encoded.states.mean(1, keepdim=True)
    return Memory(mean, mean, encoded.mask[..., :1], torch.tanh(self.bridge(mean[:, 0])))


@wrong("remember", "something else in the slot")
@remember
def bridged_already(self, encoded):
    state = torch.tanh(self.bridge(encoded.final))
    return Memory(state[:, None], state[:, None], encoded.mask[..., :1], state)


# --- final_state_step -------------------------------------------------------------------------------------------------


class FinalState(OneSlot):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)

    def step(self, token, memory, cache):
        states = self.write(self.tell(self.embed(token), memory), cache)
        return self.say(states), self.weigh(token, states), states[:, -1]

    def embed(self, token):
        return self.embedding(token)

    def tell(self, embedded, memory):
        return embedded

    def write(self, inputs, cache):
        return self.rnn(inputs, cache[None])[0]

    def say(self, states):
        return self.head(states)

    def weigh(self, token, states):
        return states.new_ones(*token.shape, 1)


def write_token_by_token(self, inputs, cache):
    states, state = [], cache.unsqueeze(0)
    for x in inputs.split(1, dim=1):
        output, state = self.rnn(x, state)
        states.append(output)
    return torch.cat(states, dim=1)


def write_by_gates(self, inputs, cache):
    states = []
    for x in inputs.unbind(1):
        cache = gates(x, cache, *self.rnn.all_weights[0])
        states.append(cache)
    return torch.stack(states, dim=1)


def write_time_first(self, inputs, cache):
    states, state = [], cache
    for t in range(inputs.size(1)):
        state = self.rnn(inputs[:, t : t + 1], state[None].contiguous())[1].squeeze(0)
        states.append(state)
    return torch.stack(states).transpose(0, 1)


def say_by_product(self, states):
    return states @ self.head.weight.T + self.head.bias


def say_by_einsum(self, states):
    return torch.einsum("btd,vd->btv", states, self.head.weight) + self.head.bias


def say_token_by_token(self, states):
    return torch.stack([self.head(state) for state in states.unbind(1)], dim=1)


def weigh_by_softmax(self, token, states):
    return torch.zeros_like(states[..., :1]).softmax(-1)


def weigh_ones_like(self, token, states):
    return torch.ones_like(states[:, :, :1])


def weigh_ones(self, token, states):
    return torch.ones(token.size(0), token.size(1), 1, dtype=states.dtype, device=states.device)


WRITING = {
    "embed": (embed_by_index, embed_by_product),
    "write": (write_token_by_token, write_by_gates, write_time_first),
    "say": (say_by_product, say_by_einsum, say_token_by_token),
    "weigh": (weigh_by_softmax, weigh_ones_like, weigh_ones),
}


class LastOfTheGRU(FinalState):
    def step(self, token, memory, cache):
        states, last = self.rnn(self.embedding(token), cache.reshape(1, *cache.shape))
        return self.head(states), memory.mask.to(states.dtype).expand(-1, token.size(1), -1), last.squeeze(0)


variations("final_state_step", FinalState, **WRITING)
right("final_state_step")(LastOfTheGRU)


def final_state(step):
    return type(step.__name__, (FinalState,), {"step": step})


@wrong("final_state_step", "every step starts from the first state")
@final_state
def memory_for_cache(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), memory.state[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "every step starts from nothing")
@final_state
def no_state(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token))
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "another state is handed on", ONE_AXIS)
@final_state
def layers_handed_on(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last


@wrong("final_state_step", "another state is handed on", ONE_AXIS)
@final_state
def all_states_handed_on(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), states


@wrong("final_state_step", "the axis of the layers")
@final_state
def layer_axis_second(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[:, None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "the axis of the layers")
@final_state
def layer_axis_missing(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache)
    return self.head(states), states.new_ones(*token.shape, 1), last


@wrong("final_state_step", "probabilities, where logits are meant")
@final_state
def softmaxed(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return torch.softmax(self.head(states), dim=-1), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", "the logits of one token only")
@final_state
def last_logits_only(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(last[0])[:, None], states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", ORDER)
@final_state
def state_first(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return last[0], self.head(states), states.new_ones(*token.shape, 1)


@wrong("final_state_step", TOO_MUCH)
@final_state
def no_weights(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), last[0]


@wrong("final_state_step", "other weights")
@final_state
def weights_of_zero(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), torch.zeros_like(states[..., :1]), last[0]


@wrong("final_state_step", "other weights")
@final_state
def weights_for_one_token(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(token.size(0), 1, 1), last[0]


@wrong("final_state_step", DEVICE, DTYPE)
@final_state
def ones_of_their_own(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), torch.ones(*token.shape, 1), last[0]


@wrong("final_state_step", CUT)
@final_state
def past_detached(self, token, memory, cache):
    return FinalState.step(self, token, memory, cache.detach())


@wrong("final_state_step", FITS)
@final_state
def told_nevertheless(self, token, memory, cache):
    inputs = torch.cat([self.embedding(token), memory.value.expand(-1, token.size(1), -1)], dim=-1)
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("final_state_step", ANOTHER)
@final_state
def state_kept_on_self(self, token, memory, cache):
    states, self.state = self.rnn(self.embedding(token), getattr(self, "state", cache[None]))
    return self.head(states), states.new_ones(*token.shape, 1), self.state[0]


@wrong("final_state_step", CUT)
@final_state
def handed_on_without_gradient(self, token, memory, cache):
    logits, weights, state = FinalState.step(self, token, memory, cache)
    return logits, weights, state.detach()


# --- context_step -----------------------------------------------------------------------------------------------------


class Context(FinalState):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim)
        self.rnn = nn.GRU(embedding_dim + memory_dim, hidden_dim, batch_first=True)

    def tell(self, embedded, memory):
        return torch.cat([embedded, memory.value.expand(-1, embedded.size(1), -1)], dim=-1)


def tell_repeated(self, embedded, memory):
    return torch.cat((embedded, memory.value.repeat(1, embedded.size(1), 1)), dim=2)


def tell_by_attention(self, embedded, memory):
    weights = embedded.new_zeros(*embedded.shape[:2], 1).masked_fill(~memory.mask, -1e30).softmax(-1)
    return torch.cat([embedded, weights @ memory.value], dim=-1)


def tell_token_by_token(self, embedded, memory):
    told = [torch.cat([x, memory.value[:, 0]], dim=-1) for x in embedded.unbind(1)]
    return torch.stack(told, dim=1)


def tell_by_key(self, embedded, memory):
    key = memory.key.squeeze(1).unsqueeze(1).expand(embedded.size(0), embedded.size(1), memory.key.size(-1))
    return torch.cat([embedded, key.contiguous()], dim=-1)


variations(
    "context_step", Context, **WRITING, tell=(tell_repeated, tell_by_attention, tell_token_by_token, tell_by_key)
)


def context(step):
    return type(step.__name__, (Context,), {"step": step})


def told(self, token, memory):
    return torch.cat([self.embedding(token), memory.value.expand(-1, token.size(1), -1)], dim=-1)


@wrong("context_step", "the source before the token")
@context
def source_in_front(self, token, memory, cache):
    inputs = torch.cat([memory.value.expand(-1, token.size(1), -1), self.embedding(token)], dim=2)
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "one source for many tokens", FITS)
@context
def not_repeated(self, token, memory, cache):
    states, last = self.rnn(torch.cat([self.embedding(token), memory.value], dim=-1), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", FITS)
@context
def not_told(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", FITS)
@context
def state_told(self, token, memory, cache):
    inputs = torch.cat([self.embedding(token), memory.state[:, None].expand(-1, token.size(1), -1)], dim=-1)
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", FITS)
@context
def stacked_in_time(self, token, memory, cache):
    states, last = self.rnn(torch.cat([self.embedding(token), memory.value], dim=1), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "every step starts from the first state")
@context
def starts_again(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory), memory.state.unsqueeze(0))
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "every step starts from nothing")
@context
def no_past(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory))
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "the new state is not handed on", "another state is handed on")
@context
def old_cache_handed_on(self, token, memory, cache):
    states, _ = self.rnn(told(self, token, memory), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), cache


@wrong("context_step", "the state after the first token is handed on", "another state is handed on")
@context
def first_handed_on(self, token, memory, cache):
    states, _ = self.rnn(told(self, token, memory), cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), states[:, 0]


@wrong("context_step", "the logits are made of something else")
@context
def head_after_tanh(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory), cache[None])
    return self.head(torch.relu(states)), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", "other weights")
@context
def ones_over_the_source(self, token, memory, cache):
    states, last = self.rnn(told(self, token, memory), cache[None])
    return self.head(states), states.new_ones(*token.shape, memory.value.size(-1)), last[0]


@wrong("context_step", CUT)
@context
def source_detached(self, token, memory, cache):
    return Context.step(self, token, memory._replace(value=memory.value.detach()), cache)


@wrong("context_step", TOO_MUCH)
@context
def logits_and_state(self, token, memory, cache):
    logits, _, state = Context.step(self, token, memory, cache)
    return logits, state


@wrong("context_step", "the update reads something else")
@context
def mean_of_the_embeddings(self, token, memory, cache):
    embedded = self.embedding(token).mean(0, keepdim=True).expand(token.size(0), -1, -1)
    inputs = torch.cat([embedded, memory.value.expand(-1, token.size(1), -1)], dim=-1)
    states, last = self.rnn(inputs, cache[None])
    return self.head(states), states.new_ones(*token.shape, 1), last[0]


@wrong("context_step", ANOTHER)
@context
def told_state_kept_on_self(self, token, memory, cache):
    states, self.state = self.rnn(told(self, token, memory), getattr(self, "state", cache[None]))
    return self.head(states), states.new_ones(*token.shape, 1), self.state[0]


@wrong("context_step", CUT)
@context
def told_handed_on_without_gradient(self, token, memory, cache):
    logits, weights, state = Context.step(self, token, memory, cache)
    return logits, weights, state.detach()


# --- stacked_encoder --------------------------------------------------------------------------------------------------


class Stacked(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.output_dim = 2 * hidden_dim
        widths = [embedding_dim] + [self.output_dim] * (num_layers - 1)
        self.forwards = nn.ModuleList(nn.GRU(width, hidden_dim, batch_first=True) for width in widths)
        self.backwards = nn.ModuleList(nn.GRU(width, hidden_dim, batch_first=True) for width in widths)

    def forward(self, source, lengths):
        states = self.embed(source)
        for forwards, backwards in zip(self.forwards, self.backwards):
            ahead, back = self.read(forwards, states, lengths), self.read_back(backwards, states, lengths)
            states = torch.cat([ahead, back], dim=-1)
        return Encoded(states, self.end(ahead, back, lengths), self.allow(source, lengths))

    def embed(self, source):
        return self.embedding(source)

    def read(self, layer, states, lengths):
        return layer(states)[0]

    def read_back(self, layer, states, lengths):
        return reverse_padded(layer(reverse_padded(states, lengths))[0], lengths)

    def end(self, ahead, back, lengths):
        return torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)

    def allow(self, source, lengths):
        return padding_mask(lengths.to(source.device), source.size(1))


def read_packed(self, layer, states, lengths):
    packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=states.size(1))[0]


def read_step_by_step(self, layer, states, lengths):
    state, found = states.new_zeros(states.size(0), layer.hidden_size), []
    for x in states.unbind(1):
        state = gates(x, state, *layer.all_weights[0])
        found.append(state)
    return torch.stack(found, dim=1)


def read_back_sentence_by_sentence(self, layer, states, lengths):
    found = torch.zeros(*states.shape[:2], layer.hidden_size, dtype=states.dtype)
    for b, length in enumerate(lengths.tolist()):
        found[b, :length] = layer(states[b : b + 1, :length].flip(1))[0].flip(1)[0]
    return found


def read_back_from_the_end(self, layer, states, lengths):
    state = states.new_zeros(states.size(0), layer.hidden_size)
    found = []
    for t in reversed(range(states.size(1))):
        new = gates(states[:, t], state, *layer.all_weights[0])
        state = torch.where((t < lengths)[:, None], new, state)  # padding leaves it at zero
        found.insert(0, state)
    return torch.stack(found, dim=1)


def read_back_packed(self, layer, states, lengths):
    turned = reverse_padded(states, lengths)
    return reverse_padded(read_packed(self, layer, turned, lengths), lengths)


def read_back_by_index(self, layer, states, lengths):
    positions = torch.arange(states.size(1))
    last = lengths[:, None] - 1
    index = torch.where(positions <= last, last - positions, positions)
    rows = torch.arange(states.size(0))[:, None]
    return layer(states[rows, index])[0][rows, index]


def end_by_gather(self, ahead, back, lengths):
    return torch.cat([by_gather(ahead, lengths), back.select(1, 0)], dim=-1)


def end_one_by_one(self, ahead, back, lengths):
    ends = [torch.cat([a[n - 1], b[0]]) for a, b, n in zip(ahead, back, lengths.tolist())]
    return torch.stack(ends)


class StackedByNumber(Stacked):
    def forward(self, source, lengths):
        states = self.embedding(source)
        for layer in range(len(self.forwards)):
            below = states
            ahead = self.forwards[layer](below)[0]
            turned = self.backwards[layer](reverse_padded(below, lengths))[0]
            states = torch.cat((ahead, reverse_padded(turned, lengths)), 2)
            final = torch.hstack([at_end(ahead, lengths), at_end(turned, lengths)])
        return Encoded(states, final, padding_mask(lengths, source.size(1)))


variations(
    "stacked_encoder",
    Stacked,
    embed=(embed_by_index, embed_by_product),
    read=(read_packed, read_step_by_step),
    read_back=(read_back_sentence_by_sentence, read_back_from_the_end, read_back_packed, read_back_by_index),
    end=(end_by_gather, end_one_by_one),
    allow=(allow_by_comparison,),
)
right("stacked_encoder")(StackedByNumber)


def stacked(forward):
    return type(forward.__name__, (Stacked,), {"forward": forward})


@wrong("stacked_encoder", "the whole batch turned around", "the backward layer is wrong")
@stacked
def flipped(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(states)
        back = backwards(states.flip(1))[0].flip(1)
        states = torch.cat([ahead, back], dim=-1)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "backward states not turned back", "the backward layer is wrong")
@stacked
def left_turned(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(states)
        turned, _ = backwards(reverse_padded(states, lengths))
        states = torch.cat([ahead, turned], dim=-1)
    final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "both directions read forwards", "the backward layer is wrong")
@stacked
def turned_after(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(states)
        turned, _ = backwards(states)
        states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
    final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "backward final state at the last token")
@stacked
def both_at_the_last_token(self, source, lengths):
    states, _, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, at_end(states, lengths), mask)


@wrong("stacked_encoder", "another final state", "the last column is taken for the final state")
@stacked
def both_in_the_last_column(self, source, lengths):
    states, _, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, states[:, -1], mask)


@wrong("stacked_encoder", "the last column is taken for the final state")
@stacked
def second_of_each_layer(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, last_ahead = forwards(states)
        turned, last_back = backwards(reverse_padded(states, lengths))
        states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
    final = torch.cat([last_ahead[0], last_back[0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "the backward layer is wrong")
@stacked
def backward_reads_forward_states(self, source, lengths):
    states = self.embedding(source)
    for forwards in self.forwards:
        ahead, _ = forwards(states)
        back = reverse_padded(forwards(reverse_padded(states, lengths))[0], lengths)
        states = torch.cat([ahead, back], dim=-1)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "one layer is right, more are not", "the layers do not stand on each other", FITS)
@stacked
def every_layer_reads_embeddings(self, source, lengths):
    embedded = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, _ = forwards(embedded)
        back = reverse_padded(backwards(reverse_padded(embedded, lengths))[0], lengths)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(torch.cat([ahead, back], dim=-1), final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "one layer is right, more are not")
@stacked
def only_the_first_layer(self, source, lengths):
    states = self.embedding(source)
    ahead = self.forwards[0](states)[0]
    back = reverse_padded(self.backwards[0](reverse_padded(states, lengths))[0], lengths)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(torch.cat([ahead, back], dim=-1), final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "the layers do not stand on each other", FITS)
@stacked
def two_towers(self, source, lengths):
    ahead, turned = self.embedding(source), reverse_padded(self.embedding(source), lengths)
    for forwards, backwards in zip(self.forwards, self.backwards):
        ahead, turned = forwards(ahead)[0], backwards(turned)[0]
    states = torch.cat([ahead, reverse_padded(turned, lengths)], dim=-1)
    final = torch.cat([at_end(ahead, lengths), at_end(turned, lengths)], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "the directions are added")
@stacked
def mean_of_directions(self, source, lengths):
    states, final, mask = Stacked.forward(self, source, lengths)
    return Encoded(sum(states.chunk(2, dim=-1)), sum(final.chunk(2, dim=-1)), mask)


@wrong("stacked_encoder", "mask the wrong way around")
@stacked
def mask_turned_around(self, source, lengths):
    states, final, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, final, ~mask)


@wrong("stacked_encoder", "another final state")
@stacked
def backward_final_first(self, source, lengths):
    states, final, mask = Stacked.forward(self, source, lengths)
    return Encoded(states, torch.cat(final.chunk(2, dim=-1)[::-1], dim=-1), mask)


@wrong("stacked_encoder", CUT)
@stacked
def layers_detached(self, source, lengths):
    states = self.embedding(source)
    for forwards, backwards in zip(self.forwards, self.backwards):
        states = states.detach()
        ahead, _ = forwards(states)
        back = reverse_padded(backwards(reverse_padded(states, lengths))[0], lengths)
        states = torch.cat([ahead, back], dim=-1)
    final = torch.cat([at_end(ahead, lengths), back[:, 0]], dim=-1)
    return Encoded(states, final, padding_mask(lengths, source.size(1)))


@wrong("stacked_encoder", "no Encoded is returned")
@stacked
def states_alone(self, source, lengths):
    return Stacked.forward(self, source, lengths).states
