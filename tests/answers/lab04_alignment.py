"""Answers to lab04_alignment, written as in the lab: with its imports and its given class."""

import dataclasses
import itertools

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.signs import CUT, DEVICE, FITS, NO_NAME, ONE_AXIS, ORDER, TOO_MUCH, WEIGHT
from torch import nn

from attention_course.attention import attend, masked_softmax
from attention_course.questions.core import Request

# --- what equivalent answers agree on ---------------------------------------------------------------------------------


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def sizes(g):
    for b, s in ((1, 1), (1, 4), (3, 1), (4, 6), (2, 9), (3, 5), (2, 3), (4, 4)):
        yield b, s, *torch.randint(1, 7, (5,), generator=g).tolist()


def memories(g, b, s, d, e, a):
    for share in (0.4, 0.8, 1.0):
        mask = torch.rand(b, 1, s, generator=g) < share
        mask[:, :, 0] = True
        yield draw(g, b, s, a), draw(g, b, s, e), mask, draw(g, b, d)


def decoder_weights(g, vocabulary, embedding, d, e, a, reads, says, mixes=None):
    def map_of(name, *shape):
        return {name: draw(g, *shape) / 2}

    weights = {
        **map_of("embedding.weight", vocabulary, embedding),
        **map_of("bridge.weight", d, e),
        **map_of("bridge.bias", d),
        **map_of("score.query_proj.weight", a, d),
        **map_of("score.key_proj.weight", a, e),
        **map_of("score.energy_proj.weight", 1, a),
        **map_of("head.weight", vocabulary, says),
        **map_of("head.bias", vocabulary),
    }
    layer = "" if mixes is None else "_l0"
    for which, width in (("ih", reads), ("hh", d)):
        weights |= map_of(f"rnn.weight_{which}{layer}", 3 * d, width)
        weights |= map_of(f"rnn.bias_{which}{layer}", 3 * d)
    return weights if mixes is None else weights | map_of("attentional_proj.weight", d, mixes)


@wide("bahdanau_step")
def any_bahdanau(g):
    for b, s, v, m, d, e, a in sizes(g):
        for memory in memories(g, b, s, d, e, a):
            weights = decoder_weights(g, v, m, d, e, a, reads=m + e, says=d + e + m)
            inputs = (torch.randint(v, (b, 1), generator=g), draw(g, b, d), *memory)
            yield Request(inputs, (v, m, d, e, a), weights, gradients=True)


@wide("luong_step")
def any_luong(g):
    for b, s, v, m, d, e, a in sizes(g):
        for t, memory in enumerate(memories(g, b, s, d, e, a), start=1):
            weights = decoder_weights(g, v, m, d, e, a, reads=m, says=d, mixes=e + d)
            inputs = (torch.randint(v, (b, t), generator=g), draw(g, b, d), *memory)
            yield Request(inputs, (v, m, d, e, a), weights, gradients=True)


@wide("input_feeding")
def any_feeding(g):
    for b, s, v, m, d, e, a in sizes(g):
        for t, memory in enumerate(memories(g, b, s, d, e, a), start=1):
            weights = decoder_weights(g, v, m, d, e, a, reads=m + d, says=d, mixes=e + d)
            yield Request((torch.randint(v, (b, t), generator=g), *memory), (v, m, d, e, a), weights, gradients=True)


@wide("local_p")
def any_window(g):
    for b, s, t, _, d, e, a in sizes(g):
        for half_width in (1, 2, 6):
            lengths = torch.randint(1, 4 * s + 1, (b, 1, 1), generator=g)
            mask = torch.arange(4 * s) < lengths
            weights = {"hidden_proj.weight": draw(g, a, d), "position_proj.weight": draw(g, 1, a)}
            inputs = (draw(g, b, t, 4 * s), draw(g, b, t, d), draw(g, b, 4 * s, e), mask)
            yield Request(inputs, (d, a, half_width), weights, gradients=True)


@wide("alignment_hit_rate")
def any_maps(g):
    for n, s, t, *_ in sizes(g):
        weights = draw(g, n, t, s).relu()
        gold = torch.rand(n, t, s, generator=g) < 0.4
        gold[0, 0, 0] = True
        yield Request((weights, gold, torch.randint(1, t + 1, (n,), generator=g)))


# --- the lab's given class, and the parts of a step -------------------------------------------------------------------


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.bridge = nn.Linear(memory_dim, hidden_dim)
        self.score = score

    def start(self, memory):
        return memory.state

    # A student writes these lines one below the other; here they are apart, so that each can be written otherwise.
    def embed(self, token):
        return self.embedding(token)

    def look(self, query, memory):
        return attend(self.score(query, memory.key), memory.value, memory.mask)


def embed_by_index(self, token):
    return self.embedding.weight[token]


def embed_by_product(self, token):
    weight = self.embedding.weight
    chosen = token.unsqueeze(-1) == torch.arange(weight.size(0), device=token.device)
    return chosen.to(weight.dtype) @ weight


def look_with_a_fill(self, query, memory):
    scores = self.score(query, memory.key).masked_fill(~memory.mask, -1e30)
    weights = torch.softmax(scores, dim=-1)
    return weights @ memory.value, weights


def look_with_einsum(self, query, memory):
    weights = masked_softmax(self.score(query, memory.key), memory.mask)
    return torch.einsum("bts,bse->bte", weights, memory.value), weights


def look_by_shares(self, query, memory):
    weights = masked_softmax(self.score(query, memory.key), memory.mask)
    return (weights[..., None] * memory.value[:, None]).sum(2), weights


def look_by_hand(self, query, memory):
    hidden = torch.tanh(self.score.query_proj(query)[:, :, None] + memory.key[:, None])
    scores = torch.where(memory.mask, (hidden * self.score.energy_proj.weight[0]).sum(-1), -1e30)
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    return torch.bmm(weights, memory.value), weights


def look_query_by_query(self, query, memory):
    found = [attend(self.score(q, memory.key), memory.value, memory.mask) for q in query.split(1, dim=1)]
    contexts, weights = zip(*found)
    return torch.cat(contexts, dim=1), torch.cat(weights, dim=1)


PARTS = {
    "embed": (embed_by_index, embed_by_product),
    "look": (look_with_a_fill, look_with_einsum, look_by_shares, look_by_hand),
}


def gates(x, state, w_x, w_h, b_x, b_h):
    """One step of a gated recurrent unit, as its documentation writes it."""
    r_x, z_x, n_x = F.linear(x, w_x, b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = F.linear(state, w_h, b_h).chunk(3, dim=-1)
    z = torch.sigmoid(z_x + z_h)
    return (1 - z) * torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h) + z * state


def variations(question, base, more):
    """Enter a decoder, and the same with each of its parts written otherwise."""
    right(question)(base)
    for part, others in {**PARTS, **more}.items():
        for other in (*PARTS.get(part, ()), *(others if part in more else ())):
            right(question)(type(other.__name__, (base,), {part: other}))


# --- bahdanau_step ----------------------------------------------------------------------------------------------------


class Bahdanau(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRUCell(embedding_dim + memory_dim, hidden_dim)
        self.head = nn.Linear(hidden_dim + memory_dim + embedding_dim, vocab_size)

    def step(self, token, memory, cache):
        embedded = self.embed(token)
        context, weights = self.look(cache.unsqueeze(1), memory)
        state = self.update(embedded, context, cache)
        return self.say(state, context, embedded), weights, state

    def update(self, embedded, context, cache):
        return self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)

    def say(self, state, context, embedded):
        return self.head(torch.cat([state[:, None], context, embedded], dim=-1))


def update_squeezed(self, embedded, context, cache):
    return self.rnn(torch.cat([embedded.squeeze(1), context.squeeze(1)], dim=1), cache)


def update_by_gates(self, embedded, context, cache):
    x = torch.cat([embedded, context], dim=-1).squeeze(1)
    return gates(x, cache, self.rnn.weight_ih, self.rnn.weight_hh, self.rnn.bias_ih, self.rnn.bias_hh)


def say_in_parts(self, state, context, embedded):
    parts = self.head.weight.split([state.size(-1), context.size(-1), embedded.size(-1)], dim=1)
    return F.linear(state[:, None], parts[0], self.head.bias) + context @ parts[1].T + embedded @ parts[2].T


def say_without_time(self, state, context, embedded):
    return self.head(torch.cat([state, context.squeeze(1), embedded.squeeze(1)], dim=-1)).unsqueeze(1)


variations(
    "bahdanau_step",
    Bahdanau,
    {"update": (update_squeezed, update_by_gates), "say": (say_in_parts, say_without_time), "look": ()},
)


def bahdanau(step):
    return type(step.__name__, (Bahdanau,), {"step": step})


@wrong("bahdanau_step", "the first state asks at every step")
@bahdanau
def asks_with_the_memory(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(memory.state[:, None], memory.key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], memory.state)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", "another query")
@bahdanau
def updates_first(self, token, memory, cache):
    embedded = self.embedding(token)
    nothing = memory.value.new_zeros(token.size(0), memory.value.size(-1))
    state = self.rnn(torch.cat([embedded[:, 0], nothing], dim=-1), cache)
    context, weights = attend(self.score(state[:, None], memory.key), memory.value, memory.mask)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", "the update reads something else than token and context")
@bahdanau
def context_left_out(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, torch.zeros_like(context)], dim=-1)[:, 0], cache)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", FITS)
@bahdanau
def no_axis_for_the_query(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache, memory.key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", FITS)
@bahdanau
def keys_projected_again(self, token, memory, cache):
    embedded = self.embedding(token)
    key = self.score.project_keys(memory.key)
    context, weights = attend(self.score(cache[:, None], key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", WEIGHT)
@bahdanau
def mask_forgotten(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", WEIGHT)
@bahdanau
def mask_inverted(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value, ~memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", "the old state predicts", "the output layer reads something else")
@bahdanau
def predicts_too_early(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
    logits = self.head(torch.cat([cache[:, None], context, embedded], dim=-1))
    return logits, weights, self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)


@wrong("bahdanau_step", "the output layer reads something else")
@bahdanau
def context_first_in_the_head(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1)[:, 0], cache)
    return self.head(torch.cat([context, state[:, None], embedded], dim=-1)), weights, state


@wrong("bahdanau_step", ORDER)
@bahdanau
def weights_before_logits(self, token, memory, cache):
    logits, weights, state = Bahdanau.step(self, token, memory, cache)
    return weights, logits, state


@wrong("bahdanau_step", ONE_AXIS)
@bahdanau
def axis_taken_off(self, token, memory, cache):
    logits, weights, state = Bahdanau.step(self, token, memory, cache)
    return logits[:, 0], weights[:, 0], state


@wrong("bahdanau_step", CUT)
@bahdanau
def state_detached(self, token, memory, cache):
    return Bahdanau.step(self, token, memory, cache.detach())


@wrong("bahdanau_step", TOO_MUCH)
@bahdanau
def nothing_handed_on(self, token, memory, cache):
    return Bahdanau.step(self, token, memory, cache)[:2]


@wrong("bahdanau_step", FITS)
@bahdanau
def every_axis_squeezed(self, token, memory, cache):
    embedded = self.embedding(token)
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
    state = self.rnn(torch.cat([embedded, context], dim=-1).squeeze(), cache)
    return self.head(torch.cat([state[:, None], context, embedded], dim=-1)), weights, state


@wrong("bahdanau_step", NO_NAME)
@bahdanau
def misspelt(self, token, memory, cache):
    context, weights = attend(self.score(cache[:, None], memory.keys), memory.values, memory.mask)
    return context, weights, cache


# --- luong_step -------------------------------------------------------------------------------------------------------


class Luong(Decoder):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, batch_first=True)
        self.attentional_proj = nn.Linear(memory_dim + hidden_dim, hidden_dim, bias=False)
        self.head = nn.Linear(hidden_dim, vocab_size)

    def step(self, token, memory, cache):
        states = self.run(self.embed(token), cache)
        context, weights = self.look(states, memory)
        return self.head(self.mix(context, states)), weights, states[:, -1]

    def run(self, embedded, cache):
        return self.rnn(embedded, cache[None])[0]

    def mix(self, context, states):
        return torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))


def run_token_by_token(self, embedded, cache):
    states, state = [], cache[None]
    for token in embedded.split(1, dim=1):
        output, state = self.rnn(token, state)
        states.append(output)
    return torch.cat(states, dim=1)


def run_by_gates(self, embedded, cache):
    states = []
    for x in embedded.unbind(1):
        cache = gates(x, cache, *self.rnn.all_weights[0])
        states.append(cache)
    return torch.stack(states, dim=1)


def mix_in_parts(self, context, states):
    w_c, w_h = self.attentional_proj.weight.split([context.size(-1), states.size(-1)], dim=1)
    return (context @ w_c.T + states @ w_h.T).tanh()


def mix_by_sigmoid(self, context, states):
    return 2 * torch.sigmoid(2 * self.attentional_proj(torch.cat((context, states), dim=2))) - 1


LUONG = {"run": (run_token_by_token, run_by_gates), "mix": (mix_in_parts, mix_by_sigmoid)}
variations("luong_step", Luong, LUONG)


def luong(step):
    return type(step.__name__, (Luong,), {"step": step})


@wrong("luong_step", "h_{t-1} asks, where h_t is meant", "another query")
@luong
def old_state_asks(self, token, memory, cache):
    context, weights = attend(self.score(cache[:, None], memory.key), memory.value, memory.mask)
    states, last = self.rnn(self.embedding(token), cache[None])
    context = context.expand(-1, states.size(1), -1)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last[0]


@wrong("luong_step", "tanh missing", "the attentional vector is made of something else")
@luong
def no_tanh(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(self.attentional_proj(torch.cat([context, states], dim=-1))), weights, last.squeeze(0)


@wrong("luong_step", "the attentional vector is made of something else")
@luong
def relu_for_tanh(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(torch.relu(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last[0]


@wrong("luong_step", "the attentional vector is made of something else")
@luong
def mean_of_the_source(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    _, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    context = memory.value.mean(1, keepdim=True).expand(-1, states.size(1), -1)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last[0]


@wrong("luong_step", "the state predicts, not the attentional vector")
@luong
def plain_states_predict(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    _, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(states), weights, last[0]


@wrong("luong_step", ONE_AXIS)
@luong
def layers_axis_kept(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last


@wrong("luong_step", FITS)
@luong
def axis_at_the_wrong_place(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[:, None])
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last[0]


@wrong("luong_step", "another query")
@luong
def starts_from_nothing(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token))
    context, weights = attend(self.score(states, memory.key), memory.value, memory.mask)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last[0]


@wrong("luong_step", FITS, ONE_AXIS, "another state is handed on")
@luong
def last_state_asks_alone(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(last.mT, memory.key), memory.value, memory.mask)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, last.mT], dim=-1)))), weights, last[0]


@wrong("luong_step", WEIGHT)
@luong
def no_mask(self, token, memory, cache):
    states, last = self.rnn(self.embedding(token), cache[None])
    context, weights = attend(self.score(states, memory.key), memory.value)
    return self.head(torch.tanh(self.attentional_proj(torch.cat([context, states], dim=-1)))), weights, last[0]


@wrong("luong_step", "another state is handed on")
@luong
def first_state_handed_on(self, token, memory, cache):
    logits, weights, _ = Luong.step(self, token, memory, cache)
    return logits, weights, self.rnn(self.embedding(token), cache[None])[0][:, 0]


@wrong("luong_step", CUT)
@luong
def context_detached(self, token, memory, cache):
    return Luong.step(self, token, memory._replace(value=memory.value.detach()), cache)


@wrong("luong_step", TOO_MUCH)
@luong
def logits_and_weights_only(self, token, memory, cache):
    logits, weights, _ = Luong.step(self, token, memory, cache)
    return logits, weights


# --- input_feeding ----------------------------------------------------------------------------------------------------


class Feeding(Luong):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, memory_dim, score):
        super().__init__(vocab_size, embedding_dim, hidden_dim, memory_dim, score)
        self.rnn = nn.GRU(embedding_dim + hidden_dim, hidden_dim, batch_first=True)

    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)[:, None]

    def step(self, token, memory, cache):
        state, attentional = cache
        states = self.run(torch.cat([self.embed(token), attentional], dim=-1), state)
        context, weights = self.look(states, memory)
        attentional = self.mix(context, states)
        return self.head(attentional), weights, (states[:, -1], attentional)


class FeedingByName(Feeding):
    """A cache of another kind."""

    def start(self, memory):
        return {"h": memory.state, "tilde": memory.state.new_zeros(len(memory.state), 1, memory.state.size(1))}

    def step(self, token, memory, cache):
        x = torch.cat((self.embed(token).squeeze(1), cache["tilde"].squeeze(1)), dim=1)
        states, last = self.rnn(x.unsqueeze(1), cache["h"].unsqueeze(0))
        context, weights = self.look(states, memory)
        tilde = self.mix(context, states)
        return self.head(tilde), weights, {"h": last.squeeze(0), "tilde": tilde}


variations("input_feeding", Feeding, {"run": (run_by_gates,), "mix": (mix_in_parts, mix_by_sigmoid)})
right("input_feeding")(FeedingByName)


def feeding(**parts):
    return type(next(iter(parts.values())).__name__, (Feeding,), parts)


def feeding_step(step):
    return feeding(step=step)


@wrong("input_feeding", "zeros are fed at every step")
@feeding_step
def never_fed(self, token, memory, cache):
    state, nothing = cache
    logits, weights, (state, _) = Feeding.step(self, token, memory, cache)
    return logits, weights, (state, nothing)


@wrong("input_feeding", "the state is fed, not the attentional vector")
@feeding_step
def state_fed(self, token, memory, cache):
    logits, weights, (state, _) = Feeding.step(self, token, memory, cache)
    return logits, weights, (state, state[:, None])


@wrong("input_feeding", "the first state is fed first", "zeros are fed at every step")
class FirstStateFed(Feeding):
    def start(self, memory):
        return memory.state, memory.state[:, None]


@wrong("input_feeding", FITS)
@feeding_step
def context_fed(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
    context, weights = self.look(states, memory)
    return self.head(self.mix(context, states)), weights, (states[:, -1], context)


@wrong("input_feeding", "something else is handed on")
@feeding_step
def state_not_handed_on(self, token, memory, cache):
    logits, weights, (_, attentional) = Feeding.step(self, token, memory, cache)
    return logits, weights, (memory.state, attentional)


@wrong("input_feeding", CUT, "something else is handed on")
@feeding_step
def fed_without_gradient(self, token, memory, cache):
    logits, weights, (state, attentional) = Feeding.step(self, token, memory, (cache[0].detach(), cache[1].detach()))
    return logits, weights, (state, attentional)


@wrong("input_feeding", "something else is handed on")
@feeding_step
def logits_of_before_tanh(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
    context, weights = self.look(states, memory)
    mixed = self.attentional_proj(torch.cat([context, states], dim=-1))
    return self.head(mixed.tanh()), weights, (states[:, -1], mixed)


@wrong("input_feeding", DEVICE, "dtype lost on the way")
class ZerosOfTheirOwn(Feeding):
    def start(self, memory):
        return memory.state, torch.zeros(memory.state.size(0), 1, memory.state.size(1))


@wrong("input_feeding", "the weights are right, the logits are not")
@feeding_step
def tanh_forgotten(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([self.embed(token), fed], dim=-1), state)
    context, weights = self.look(states, memory)
    mixed = self.attentional_proj(torch.cat([context, states], dim=-1))
    return self.head(mixed), weights, (states[:, -1], mixed)


@wrong("input_feeding", "attentional vector before token")
@feeding_step
def fed_in_front(self, token, memory, cache):
    state, fed = cache
    states = self.run(torch.cat([fed, self.embed(token)], dim=-1), state)
    context, weights = self.look(states, memory)
    mixed = self.mix(context, states)
    return self.head(mixed), weights, (states[:, -1], mixed)


@wrong("input_feeding", WEIGHT)
class FeedingUnmasked(Feeding):
    def look(self, query, memory):
        return attend(self.score(query, memory.key), memory.value)


@wrong("input_feeding", FITS)
class TwoAxesOfZeros(Feeding):
    def start(self, memory):
        return memory.state, torch.zeros_like(memory.state)


# --- local_p ----------------------------------------------------------------------------------------------------------


class Window(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        centre = self.centre(query, memory)
        distance = self.distance(centre, scores)
        weights = self.weigh(scores, memory.mask & (distance <= self.half_width)) * self.gauss(distance)
        return self.mix(weights, memory.value), weights

    def centre(self, query, memory):
        share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query)))).squeeze(-1)
        return memory.mask.sum(dim=-1) * share

    def distance(self, centre, scores):
        return (torch.arange(scores.size(-1), device=scores.device) - centre[..., None]).abs()

    def weigh(self, scores, mask):
        return masked_softmax(scores, mask)

    def gauss(self, distance):
        return torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))

    def mix(self, weights, value):
        return weights @ value


def centre_by_functions(self, query, memory):
    hidden = F.linear(query, self.hidden_proj.weight).tanh()
    return (memory.mask.to(query.dtype).sum(-1, keepdim=True) * F.linear(hidden, self.position_proj.weight).sigmoid())[
        ..., 0
    ]


def centre_with_exp(self, query, memory):
    x = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
    return memory.mask.sum(-1) / (1 + torch.exp(-x))


def centre_by_tanh(self, query, memory):
    x = self.position_proj(torch.tanh(self.hidden_proj(query))).flatten(1)
    return memory.mask.sum(-1) * (1 + torch.tanh(x / 2)) / 2


def distance_by_difference(self, centre, scores):
    positions = torch.ones_like(scores).cumsum(-1) - 1
    return torch.abs(centre.unsqueeze(-1) - positions)


def distance_with_max(self, centre, scores):
    positions = torch.arange(scores.size(-1), device=scores.device, dtype=scores.dtype)
    return torch.maximum(centre.unsqueeze(-1) - positions, positions - centre.unsqueeze(-1))


def weigh_by_hand(self, scores, mask):
    e = torch.where(mask, scores, -1e30)
    e = (e - e.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp_min(1e-30)


def weigh_with_a_fill(self, scores, mask):
    return scores.masked_fill(mask.logical_not(), -1e30).softmax(-1) * mask


def gauss_doubled(self, distance):
    return torch.exp(-2 * (distance / self.half_width).square())


def gauss_as_a_power(self, distance):
    return torch.pow(torch.e, distance.mul(distance).div(self.half_width**2 / 2).neg())


def mix_with_einsum(self, weights, value):
    return torch.einsum("bts,bse->bte", weights, value)


def mix_by_shares(self, weights, value):
    return (weights.unsqueeze(-1) * value.unsqueeze(1)).sum(dim=-2)


WINDOW = {
    "centre": (centre_by_functions, centre_with_exp, centre_by_tanh),
    "distance": (distance_by_difference, distance_with_max),
    "weigh": (weigh_by_hand, weigh_with_a_fill),
    "gauss": (gauss_doubled, gauss_as_a_power),
    "mix": (mix_with_einsum, mix_by_shares),
}
right("local_p")(Window)
for part, others in WINDOW.items():
    for other in others:
        right("local_p")(type(other.__name__, (Window,), {part: other}))


def window(**parts):
    return type(next(iter(parts.values())).__name__, (Window,), parts)


def window_with(part):
    return lambda function: window(**{part: function})


@wrong("local_p", "padding counted in the sentence's length")
@window_with("forward")
def padded_length(self, scores, query, position, memory):
    share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
    distance = (torch.arange(scores.size(-1), device=scores.device) - scores.size(-1) * share).abs()
    weights = self.weigh(scores, memory.mask & (distance <= self.half_width)) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", WEIGHT)
@window_with("forward")
def padding_in_the_window(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(scores, distance <= self.half_width) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", "the Gaussian is as wide as the window")
@window_with("gauss")
def wide_gauss(self, distance):
    return torch.exp(-distance.square() / (2 * self.half_width**2))


@wrong("local_p", "another Gaussian")
@window_with("gauss")
def narrow_gauss(self, distance):
    return torch.exp(-distance.square() / (self.half_width / 2) ** 2)


@wrong("local_p", "no Gaussian")
@window_with("gauss")
def flat(self, distance):
    return torch.ones_like(distance)


@wrong("local_p", "no window")
@window_with("forward")
def everywhere(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(scores, memory.mask) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", "the weights are normalised again")
@window_with("forward")
def normalised_again(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(scores, memory.mask & (distance <= self.half_width)) * self.gauss(distance)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return weights @ memory.value, weights


@wrong("local_p", CUT)
@window_with("centre")
def rounded(self, query, memory):
    share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query)))).squeeze(-1)
    return (memory.mask.sum(dim=-1) * share).detach()


@wrong("local_p", "the position is not scaled to the sentence")
@window_with("centre")
def share_as_position(self, query, memory):
    return torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[..., 0]


@wrong("local_p", "the context is no weighted sum of the values")
@window_with("forward")
def context_before_the_gaussian(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    context, weights = attend(scores, memory.value, memory.mask & (distance <= self.half_width))
    return context, weights * self.gauss(distance)


@wrong("local_p", "no window")
@window_with("forward")
def mask_before_nothing(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(scores, memory.mask | (distance <= self.half_width)) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", FITS)
@window_with("centre")
def axis_left(self, query, memory):
    return memory.mask.sum(dim=-1) * torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))


@wrong("local_p", FITS)
@window_with("centre")
def every_axis_gone(self, query, memory):
    share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query)))).squeeze()
    return memory.mask.sum(dim=-1) * share


@wrong("local_p", DEVICE)
@window_with("distance")
def positions_on_the_cpu(self, centre, scores):
    return (torch.arange(scores.size(-1)) - centre[..., None]).abs()


@wrong("local_p", "another window")
@window_with("centre")
def no_sigmoid(self, query, memory):
    return memory.mask.sum(dim=-1) * self.position_proj(torch.tanh(self.hidden_proj(query))).squeeze(-1)


# --- alignment_hit_rate -----------------------------------------------------------------------------------------------


@right("alignment_hit_rate")
def with_a_list(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            if marked:
                hits.append(max(row) > 0 and row.index(max(row)) in marked)
    return sum(hits) / len(hits)


@right("alignment_hit_rate")
def with_two_counts(weights, gold):
    hits = total = 0
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            if len(marked) > 0:
                total += 1
                best = max(range(len(row)), key=lambda s: row[s])
                if best in marked and row[best] > 0:
                    hits += 1
    return hits / total


@right("alignment_hit_rate")
def with_indices(weights, gold):
    hits, total = 0.0, 0.0
    for i in range(len(gold)):
        for t in range(len(gold[i])):
            if not gold[i][t]:
                continue
            total = total + 1.0
            largest = 0.0
            where = None
            for s in range(len(weights[i][t])):
                if weights[i][t][s] > largest:
                    largest, where = weights[i][t][s], s
            hits = hits + (1.0 if where in gold[i][t] else 0.0)
    return hits / total


@right("alignment_hit_rate")
def in_one_expression(weights, gold):
    pairs = [pair for rows, positions in zip(weights, gold) for pair in zip(rows, positions) if pair[1]]
    return sum(max(row) > 0 and row.index(max(row)) in marked for row, marked in pairs) / len(pairs)


@right("alignment_hit_rate")
def with_tensors(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        best = torch.tensor(rows).argmax(-1).tolist()
        hits += [b in g and row[b] > 0 for b, g, row in zip(best, positions, rows) if g]
    return torch.tensor(hits).float().mean().item()


@right("alignment_hit_rate")
def with_chain(weights, gold):
    rows = itertools.chain.from_iterable(w[: len(g)] for w, g in zip(weights, gold))
    marked = itertools.chain.from_iterable(gold)
    hits = [any(row) and row.index(max(row)) in g for row, g in zip(rows, marked) if g]
    return len([hit for hit in hits if hit]) / len(hits)


@right("alignment_hit_rate")
def by_comparing_maxima(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            if marked:
                inside = max(row[s] for s in marked)
                outside = max([row[s] for s in range(len(row)) if s not in marked], default=0.0)
                hits.append(inside > outside)
    return sum(hits) / len(hits)


@right("alignment_hit_rate")
def by_enumeration(weights, gold):
    found = []
    for number, positions in enumerate(gold):
        for t, marked in enumerate(positions):
            if marked:
                weight, where = max((w, -s) for s, w in enumerate(weights[number][t]))
                found.append(weight > 0 and -where in marked)
    return found.count(True) / len(found)


@right("alignment_hit_rate")
def by_sorting(weights, gold):
    hits, misses = 0, 0
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            order = sorted(range(len(row)), key=row.__getitem__, reverse=True)
            if marked and row[order[0]] > 0 and order[0] in marked:
                hits += 1
            elif marked:
                misses += 1
    return hits / (hits + misses)


@right("alignment_hit_rate")
def recursively(weights, gold):
    def hits_of(row, marked):
        if not marked:
            return []
        return [bool(sum(row)) and row.index(max(row)) in marked]

    flat = sum((sum((hits_of(*pair) for pair in zip(w, g)), []) for w, g in zip(weights, gold)), [])
    return sum(flat) / len(flat)


@right("alignment_hit_rate")
def with_a_helper(weights, gold):
    @dataclasses.dataclass
    class Tally:
        hits: int = 0
        seen: int = 0

    tally = Tally()
    for rows, positions in zip(weights, gold):
        for row, marked in zip(rows, positions):
            tally.seen += bool(marked)
            tally.hits += bool(marked and max(row) > 0 and row.index(max(row)) in marked)
    return tally.hits / tally.seen


@wrong("alignment_hit_rate", "mean of the sentences' shares")
def mean_of_means(weights, gold):
    shares = [with_a_list([w], [g]) for w, g in zip(weights, gold)]
    return sum(shares) / len(shares)


@wrong("alignment_hit_rate", "positions that came from nowhere counted as misses")
def hyphens_missed(weights, gold):
    hits = []
    for rows, positions in zip(weights, gold):
        hits += [max(row) > 0 and row.index(max(row)) in marked for row, marked in zip(rows, positions)]
    return sum(hits) / len(hits)


@wrong("alignment_hit_rate", "a row of zeros points to the first token")
def zeros_point(weights, gold):
    hits = [row.index(max(row)) in g for w, gs in zip(weights, gold) for row, g in zip(w, gs) if g]
    return sum(hits) / len(hits)


@wrong("alignment_hit_rate", "the weight on gold positions, where hits are meant")
def mass(weights, gold):
    shares = [sum(row[s] for s in g) for w, gs in zip(weights, gold) for row, g in zip(w, gs) if g]
    return sum(shares) / len(shares)


@wrong("alignment_hit_rate", "hits counted, not their share")
def counted(weights, gold):
    return sum(row.index(max(row)) in g and max(row) > 0 for w, gs in zip(weights, gold) for row, g in zip(w, gs) if g)


@wrong("alignment_hit_rate")
def more_than_half(weights, gold):
    hits = [sum(row[s] for s in g) > 0.5 for w, gs in zip(weights, gold) for row, g in zip(w, gs) if g]
    return sum(hits) / len(hits)


@wrong("alignment_hit_rate", "no number is returned")
def both_counts(weights, gold):
    hits = [row.index(max(row)) in g for w, gs in zip(weights, gold) for row, g in zip(w, gs) if g]
    return sum(hits), len(hits)


@wrong("alignment_hit_rate", "tensors expected, where lists come")
def expects_tensors(weights, gold):
    best = weights.argmax(-1)
    return (gold.gather(-1, best[..., None])).float().mean()


@wrong("alignment_hit_rate", "a position that came from nowhere is counted")
def stumbles_over_hyphens(weights, gold):
    hits = [max(row[s] for s in g) == max(row) > 0 for w, gs in zip(weights, gold) for row, g in zip(w, gs)]
    return sum(hits) / len(hits)


@wrong("alignment_hit_rate", "nothing returned")
def printed(weights, gold):
    print(with_a_list(weights, gold))


@wrong("alignment_hit_rate", "a position that came from nowhere is counted")
def hyphens_hit(weights, gold):
    hits = [
        not g or (max(row) > 0 and row.index(max(row)) in g) for w, gs in zip(weights, gold) for row, g in zip(w, gs)
    ]
    return sum(hits) / len(hits)


@wrong("alignment_hit_rate")
def one_row_late(weights, gold):
    return with_a_list([rows[1:] for rows in weights], gold)


@wrong("alignment_hit_rate", "the caller's lists are changed")
def rows_beyond_popped(weights, gold):
    hits = []
    for rows, sets in zip(weights, gold):
        while len(rows) > len(sets):
            rows.pop()
        hits += [max(row) > 0 and row.index(max(row)) in places for row, places in zip(rows, sets) if places]
    return sum(hits) / len(hits)
