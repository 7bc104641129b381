import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map

from attention_course.rnn import (
    GNMTDecoder,
    GNMTEncoder,
    RNNEncoder,
)
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import Encoded

B, T, S, D = 2, 3, 5, 7
H, E, A, V = 11, 17, 13, 19

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
TARGET = torch.tensor([[1, 4, 5], [2, 6, 7]])


def encoded():
    """What some encoder of width E might have returned for lengths 5 and 3."""
    mask = torch.arange(S)[None, None] < LENGTHS[:, None, None]
    return Encoded(torch.randn(B, S, E), torch.randn(B, E), mask)


def build(num_layers):
    return GNMTDecoder(V, D, H, E, AdditiveScore(H, E, A), num_layers)


def as_cell(lstm):
    cell = nn.LSTMCell(lstm.input_size, lstm.hidden_size)
    cell.load_state_dict(
        {name.removesuffix("_l0"): weight for name, weight in lstm.state_dict().items()}
    )
    return cell


def test_the_encoder_is_its_equations():
    encoder = GNMTEncoder(17, D, H, num_layers=4)
    second, third, fourth = (as_cell(lstm) for lstm in encoder.upper)
    states, final, mask = encoder(SOURCE, LENGTHS)

    for b in range(B):
        n = int(LENGTHS[b])
        bottom = RNNEncoder(17, D, H, cell=nn.LSTM)
        bottom.load_state_dict(encoder.bottom.state_dict())
        x_1 = bottom(SOURCE[b : b + 1, :n], LENGTHS[b : b + 1]).states[0]
        zeros = torch.zeros(H)
        s_2 = s_3 = s_4 = (zeros, zeros)
        for s in range(n):
            s_2 = second(x_1[s], s_2)
            x_2 = s_2[0]
            s_3 = third(x_2, s_3)
            x_3 = s_3[0] + x_2
            s_4 = fourth(x_3, s_4)
            x_4 = s_4[0] + x_3
            assert_close(states[b, s], x_4)
        assert_close(final[b], x_4)
    assert mask.sum(dim=-1).tolist() == [[5], [3]]


def test_the_decoder_is_its_equations():
    decoder = build(num_layers=4)
    second, third, fourth = (as_cell(lstm) for lstm in decoder.upper)
    given = encoded()
    logits, weights = decoder.decode(TARGET, decoder.remember(given))

    for b in range(B):
        keys = given.states[b, : LENGTHS[b]]
        states = [
            (h, torch.zeros(H))
            for h in torch.tanh(decoder.bridge(given.final[b])).split(H)
        ]
        for t in range(T):
            query = states[0][0]
            energies = [
                decoder.score(query[None], decoder.score.project_keys(k[None]))[0, 0]
                for k in keys
            ]
            alphas = torch.stack(energies).softmax(dim=0)
            c = alphas @ keys
            x_0 = decoder.embedding.weight[TARGET[b, t]]
            states[0] = decoder.bottom(torch.cat([x_0, c]), states[0])
            x_1 = states[0][0]
            states[1] = second(torch.cat([x_1, c]), states[1])
            x_2 = states[1][0]
            states[2] = third(torch.cat([x_2, c]), states[2])
            x_3 = states[2][0] + x_2
            states[3] = fourth(torch.cat([x_3, c]), states[3])
            x_4 = states[3][0] + x_3
            assert_close(weights[b, t, : LENGTHS[b]], alphas)
            assert_close(logits[b, t], decoder.head(x_4))


def test_the_bottom_layer_asks_with_its_state_of_the_step_before():
    decoder = build(num_layers=3)
    memory = decoder.remember(encoded())
    memory = memory._replace(
        key=memory.key.detach(), state=memory.state.detach().requires_grad_()
    )
    _, weights = decoder.decode(TARGET, memory)
    embedding, upper = decoder.embedding.weight, list(decoder.upper.parameters())

    for t in range(T):
        by_state, by_token, *by_upper = torch.autograd.grad(
            (weights[:, t] * torch.randn(S)).sum(),
            (memory.state, embedding, *upper),
            allow_unused=True,
            materialize_grads=True,
            retain_graph=True,
        )
        assert by_state[:, 0].abs().sum(dim=-1).min() > 0
        assert not by_state[:, 1:].any()  # no upper layer asks
        assert not any(gradient.any() for gradient in by_upper)
        read = by_token.abs().sum(dim=-1) > 0
        # the tokens before step t
        assert read.nonzero()[:, 0].tolist() == sorted(TARGET[:, :t].flatten().tolist())


def test_only_the_bottom_layer_waits():
    decoder, calls = build(num_layers=3), []
    for layer in (decoder.bottom, *decoder.upper):
        layer.register_forward_hook(lambda layer, *_: calls.append(layer))
    decoder.decode(TARGET, decoder.remember(encoded()))

    assert calls == [decoder.bottom] * T + list(decoder.upper)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_reordered_rows_go_on_as_their_own_sentences(num_layers):
    decoder, rows = build(num_layers), torch.tensor([1, 0, 1])
    memory = decoder.remember(encoded())
    _, _, cache = decoder.step(TARGET[:, :2], memory, decoder.start(memory))
    logits, weights, _ = decoder.step(TARGET[:, 2:], memory, cache)
    assert len(tree_leaves(cache)) == 2 * num_layers

    chosen, chosen_cache = tree_map(lambda part: part[rows], (memory, cache))
    found = decoder.step(TARGET[rows, 2:], chosen, chosen_cache)[:2]
    assert_close(found, (logits[rows], weights[rows]))


@pytest.mark.plain
def test_an_encoder_of_one_layer_is_refused():
    with pytest.raises(ValueError, match=r"at least 2 .*num_layers 1\b"):
        GNMTEncoder(17, D, H, num_layers=1)


@pytest.mark.plain
def test_a_decoder_without_layers_is_refused():
    with pytest.raises(ValueError, match=r"at least 1 .*num_layers 0\b"):
        build(num_layers=0)
