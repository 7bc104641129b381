import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course import models
from attention_course.rnn import (
    BahdanauDecoder,
    FinalStateDecoder,
    GNMTDecoder,
    LocalM,
    LuongDecoder,
)
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Encoded

B, T, S, D = 2, 3, 5, 7
H, E, A, V = 11, 17, 13, 19

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
# No token stands twice, so that the gradient of an embedding belongs to one position.
TARGET = torch.tensor([[1, 4, 5], [2, 6, 7]])


def encoded():
    """What some encoder of width E might have returned for lengths 5 and 3."""
    mask = torch.arange(S)[None, None] < LENGTHS[:, None, None]
    return Encoded(torch.randn(B, S, E), torch.randn(B, E), mask)


# One by one: each against its own equations


def test_the_final_state_decoder_is_torchs_gru():
    decoder = FinalStateDecoder(V, D, H, E)
    gru = nn.GRU(D, H)
    gru.load_state_dict(decoder.rnn.state_dict())
    given = encoded()
    logits, weights = decoder.decode(TARGET, decoder.remember(given))

    for b in range(B):
        h_0 = torch.tanh(given.final[b] @ decoder.bridge.weight.T + decoder.bridge.bias)
        states, _ = gru(decoder.embedding.weight[TARGET[b]], h_0[None])
        assert_close(logits[b], states @ decoder.head.weight.T + decoder.head.bias)
    assert_close(weights, torch.ones(B, T, 1))


def test_told_at_every_step_it_reads_the_final_state_beside_every_token():
    decoder = FinalStateDecoder(V, D, H, E, every_step=True)
    gru = nn.GRU(D + E, H)
    gru.load_state_dict(decoder.rnn.state_dict())
    given = encoded()
    logits, weights = decoder.decode(TARGET, decoder.remember(given))

    for b in range(B):
        h_0 = torch.tanh(decoder.bridge(given.final[b]))
        inputs = [
            torch.cat([decoder.embedding.weight[y], given.final[b]]) for y in TARGET[b]
        ]
        states, _ = gru(torch.stack(inputs), h_0[None])
        assert_close(logits[b], decoder.head(states))
    assert_close(weights, torch.ones(B, T, 1))


def look_up(score, query, annotations):
    """Eqs. 5 and 6 of Bahdanau et al. for one query (H) and the states (S, E) of one
    sentence without padding."""
    energies = torch.stack(
        [score(query[None], score.project_keys(k[None]))[0, 0] for k in annotations]
    )
    alphas = energies.exp() / energies.exp().sum()
    return sum(alpha * k for alpha, k in zip(alphas, annotations)), alphas


def test_bahdanau_asks_then_updates():
    decoder = BahdanauDecoder(V, D, H, E, AdditiveScore(H, E, A))
    cell = nn.GRUCell(D + E, H)
    cell.load_state_dict(decoder.rnn.state_dict())
    given = encoded()
    logits, weights = decoder.decode(TARGET, decoder.remember(given))

    for b in range(B):
        annotations = given.states[b, : LENGTHS[b]]
        h = torch.tanh(decoder.bridge(given.final[b]))
        for t in range(T):
            y = decoder.embedding.weight[TARGET[b, t]]
            context, alphas = look_up(decoder.score, h, annotations)
            h = cell(torch.cat([y, context]), h)
            assert_close(logits[b, t], decoder.head(torch.cat([h, context, y])))
            assert_close(weights[b, t, : LENGTHS[b]], alphas)


def test_luong_updates_then_asks():
    decoder = LuongDecoder(V, D, H, E, AdditiveScore(H, E, A))
    cell = nn.GRUCell(D, H)
    cell.load_state_dict(
        {
            name.removesuffix("_l0"): weight
            for name, weight in decoder.rnn.state_dict().items()
        }
    )
    given = encoded()
    logits, weights = decoder.decode(TARGET, decoder.remember(given))

    for b in range(B):
        annotations = given.states[b, : LENGTHS[b]]
        h = torch.tanh(decoder.bridge(given.final[b]))
        for t in range(T):
            h = cell(decoder.embedding.weight[TARGET[b, t]], h)
            context, alphas = look_up(decoder.score, h, annotations)
            attentional = torch.tanh(
                torch.cat([context, h]) @ decoder.attentional_proj.weight.T
            )
            assert_close(logits[b, t], decoder.head(attentional))
            assert_close(weights[b, t, : LENGTHS[b]], alphas)


def test_input_feeding_attaches_the_last_attentional_vector_to_the_next_input():
    decoder = LuongDecoder(V, D, H, E, AdditiveScore(H, E, A), input_feeding=True)
    cell = nn.GRUCell(D + H, H)
    cell.load_state_dict(
        {
            name.removesuffix("_l0"): weight
            for name, weight in decoder.rnn.state_dict().items()
        }
    )
    given = encoded()
    logits, weights = decoder.decode(TARGET, decoder.remember(given))

    for b in range(B):
        annotations = given.states[b, : LENGTHS[b]]
        h, attentional = torch.tanh(decoder.bridge(given.final[b])), torch.zeros(H)
        for t in range(T):
            h = cell(
                torch.cat([decoder.embedding.weight[TARGET[b, t]], attentional]), h
            )
            context, alphas = look_up(decoder.score, h, annotations)
            attentional = torch.tanh(
                torch.cat([context, h]) @ decoder.attentional_proj.weight.T
            )
            assert_close(logits[b, t], decoder.head(attentional))
            assert_close(weights[b, t, : LENGTHS[b]], alphas)


def test_without_input_feeding_all_steps_are_one_pass():
    passes = []
    for input_feeding in (False, True):
        decoder = LuongDecoder(
            V, D, H, E, AdditiveScore(H, E, A), input_feeding=input_feeding
        )
        calls = []
        decoder.rnn.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        decoder.decode(TARGET, decoder.remember(encoded()))
        passes.append(len(calls))

    assert passes == [1, T]


def test_a_luong_decoder_attends_where_its_window_says():
    """The same scores as without a window, and of each step the positions t - 1, t and
    t + 1."""
    score, given = AdditiveScore(H, E, A), encoded()
    everywhere = LuongDecoder(V, D, H, E, score)
    within = LuongDecoder(V, D, H, E, score, window=LocalM(half_width=1))
    within.load_state_dict(everywhere.state_dict())
    (_, all_weights), (_, weights) = (
        d.decode(TARGET, d.remember(given)) for d in (everywhere, within)
    )

    near = (torch.arange(S) - torch.arange(T)[:, None]).abs() <= 1
    expected = all_weights * near
    assert_close(weights, expected / expected.sum(dim=-1, keepdim=True))


@pytest.mark.parametrize("window", [None, LocalM(half_width=1)])
def test_a_target_may_come_in_parts(window):
    decoder = LuongDecoder(V, D, H, E, AdditiveScore(H, E, A), window)
    memory = decoder.remember(encoded())
    expected = decoder.decode(TARGET, memory)
    *first, cache = decoder.step(TARGET[:, :2], memory, decoder.start(memory))
    *second, _ = decoder.step(TARGET[:, 2:], memory, cache)

    for whole, parts in zip(expected, zip(first, second)):
        assert_close(whole, torch.cat(parts, dim=1))


def test_a_luong_decoder_outlives_its_source_under_a_moving_window():
    decoder = LuongDecoder(
        V, D, H, E, AdditiveScore(H, E, A), window=LocalM(half_width=1)
    )
    logits, weights = decoder.decode(
        torch.randint(V, (B, 11)), decoder.remember(encoded())
    )

    # one step more than the lengths, by the half-width
    assert (weights.sum(dim=-1) > 0).sum(dim=-1).tolist() == [6, 4]
    assert logits.isfinite().all()


def first_step_gradients(decoder, given):
    """How the first step's weights depend on the decoder's first state and on its first
    token."""
    memory = decoder.remember(given)
    state = memory.state.detach().requires_grad_()
    memory = memory._replace(key=memory.key.detach(), state=state)
    _, weights, _ = decoder.step(TARGET[:, :1], memory, decoder.start(memory))
    # weights always sum to one; a weighted sum of them has a gradient
    slots = torch.randn(S)
    inputs = (state, decoder.embedding.weight)
    by_state, by_token = torch.autograd.grad(
        (weights * slots).sum(), inputs, allow_unused=True
    )
    return by_state, by_token


def test_the_two_orders():
    """Bahdanau asks with the state before the first token was read, Luong with the
    state after."""
    score = AdditiveScore(H, E, A)
    given = encoded()
    by_state, by_token = first_step_gradients(BahdanauDecoder(V, D, H, E, score), given)
    assert (by_state.abs().sum(dim=-1) > 0).all()
    assert by_token is None or not by_token.any()

    by_state, by_token = first_step_gradients(LuongDecoder(V, D, H, E, score), given)
    assert (by_state.abs().sum(dim=-1) > 0).all()
    assert (by_token[TARGET[:, 0]].abs().sum(dim=-1) > 0).all()


def test_only_the_second_bahdanau_query_has_read_the_first_token():
    score = AdditiveScore(H, E, A)
    given, other = encoded(), TARGET.clone()
    other[:, 0] = 15
    for decoder, first_differs in (
        (BahdanauDecoder(V, D, H, E, score), False),
        (LuongDecoder(V, D, H, E, score), True),
    ):
        memory = decoder.remember(given)
        (_, weights), (_, others) = (
            decoder.decode(TARGET, memory),
            decoder.decode(other, memory),
        )
        assert (
            torch.allclose(weights[:, 0], others[:, 0], atol=1e-7) is not first_differs
        )
        assert not torch.allclose(weights[:, 1], others[:, 1], atol=1e-7)


class CountingScore(AdditiveScore):
    projections = 0

    def project_keys(self, key):
        self.projections += 1
        return super().project_keys(key)


@pytest.mark.parametrize("kind", [BahdanauDecoder, LuongDecoder, GNMTDecoder])
def test_keys_are_projected_once_per_source(kind):
    decoder = kind(V, D, H, E, CountingScore(H, E, A))
    memory = decoder.remember(encoded())
    decoder.decode(TARGET, memory)
    cache = decoder.start(memory)
    for t in range(T):
        _, _, cache = decoder.step(TARGET[:, t : t + 1], memory, cache)

    assert decoder.score.projections == 1


@pytest.mark.plain
@pytest.mark.parametrize(
    "order", [BahdanauDecoder, lambda *sizes: LuongDecoder(*sizes, input_feeding=True)]
)
def test_where_steps_wait_for_one_another_a_step_takes_one_token(order):
    decoder = order(V, D, H, E, AdditiveScore(H, E, A))
    memory = decoder.remember(encoded())
    with pytest.raises(ValueError, match="takes 1 token, got 3"):
        decoder.step(TARGET, memory, decoder.start(memory))


@pytest.mark.plain
@pytest.mark.parametrize(
    "kind", [FinalStateDecoder, BahdanauDecoder, LuongDecoder, GNMTDecoder]
)
def test_a_source_of_another_width_is_refused(kind):
    score = [] if kind is FinalStateDecoder else [AdditiveScore(H, E, A)]
    states, final, mask = encoded()
    with pytest.raises(ValueError, match=f"width {E}, got width {E - 1}"):
        kind(V, D, H, E, *score).remember(
            Encoded(states[..., 1:], final[..., 1:], mask)
        )


# Dropout


@pytest.mark.parametrize(
    "name", ["final_state", "context_every_step", "bahdanau", "luong"]
)
def test_dropping_everything_leaves_the_bias(name):
    score = (
        {"score": AdditiveScore(H, 2 * H, A)} if name in ("bahdanau", "luong") else {}
    )
    sizes = {"source_size": V, "target_size": V, "embedding_dim": D, "hidden_dim": H}
    sizes |= {"num_layers": 2}
    dropping = getattr(models, name)(**sizes, dropout=1.0, **score)
    keeping = getattr(models, name)(**sizes, **copy.deepcopy(score))
    keeping.load_state_dict(dropping.state_dict())

    assert_close(
        dropping(SOURCE, LENGTHS, TARGET)[0], dropping.decoder.head.bias.expand(B, T, V)
    )
    states = dropping.encoder(SOURCE, LENGTHS).states
    assert_close(states[0], dropping.encoder(SOURCE.flip(1), LENGTHS).states[0])
    assert_close(
        dropping.eval()(SOURCE, LENGTHS, TARGET), keeping(SOURCE, LENGTHS, TARGET)
    )
