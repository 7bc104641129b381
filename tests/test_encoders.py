import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from attention_course.rnn import RNNEncoder, at_end, reverse_padded

B, S, D, H = 2, 5, 7, 11
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])


def test_reverse_padded_by_hand(device):
    x = torch.tensor([[1.0, 2, 3, 4, 5], [6, 7, 8, 0, -1]], device=device)[..., None]

    expected = torch.tensor([[5.0, 4, 3, 2, 1], [8, 7, 6, 0, -1]], device=device)
    assert_close(reverse_padded(x, LENGTHS)[..., 0], expected)


def test_reverse_padded_moves_whole_vectors_and_undoes_itself():
    x = torch.randn(B, S, D)
    backwards = reverse_padded(x, LENGTHS)

    assert_close(backwards[1, 0], x[1, 2])
    assert_close(reverse_padded(backwards, LENGTHS), x)


def test_at_end_by_hand(device):
    x = torch.arange(B * S * 2, dtype=torch.float32, device=device).reshape(B, S, 2)

    # the vector at place 4 of the first sentence, and at place 2 of the second
    assert_close(
        at_end(x, LENGTHS), torch.tensor([[8.0, 9.0], [14.0, 15.0]], device=device)
    )


def as_torchs(encoder, cell, num_layers, bidirectional):
    """Build torch's own stack with the encoder's weights."""
    stack = cell(D, H, num_layers, batch_first=True, bidirectional=bidirectional)
    weights = {}
    for layers, suffix in (
        (encoder.layers.forwards, ""),
        (encoder.layers.backwards, "_reverse"),
    ):
        for i, layer in enumerate(layers):
            for name, weight in layer.state_dict().items():
                weights[name.replace("_l0", f"_l{i}{suffix}")] = weight
    stack.load_state_dict(weights)
    return stack


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("cell", [nn.RNN, nn.GRU, nn.LSTM])
def test_the_encoder_is_torchs_stack_on_packed_sequences(
    cell, num_layers, bidirectional, device
):
    encoder = RNNEncoder(17, D, H, num_layers, bidirectional, cell).to(device)
    stack = as_torchs(encoder, cell, num_layers, bidirectional).to(device)
    directions = 2 if bidirectional else 1
    source = SOURCE.to(device)
    states, final, mask = encoder(source, LENGTHS)

    packed = pack_padded_sequence(
        encoder.embedding(source), LENGTHS, batch_first=True, enforce_sorted=False
    )
    packed_states, h_n = stack(packed)
    if cell is nn.LSTM:
        h_n, _ = h_n
    expected, _ = pad_packed_sequence(packed_states, batch_first=True)
    assert encoder.output_dim == states.size(-1) == directions * H
    assert_close(states[0], expected[0])
    assert_close(states[1, :3], expected[1, :3])
    assert_close(final, torch.cat(list(h_n[-directions:]), dim=-1))
    assert mask.tolist() == [[[True] * 5], [[True, True, True, False, False]]]


def test_an_encoder_reads_with_grus_unless_told_otherwise():
    assert type(RNNEncoder(17, D, H).layers.forwards[0]) is nn.GRU


def test_padding_does_not_reach_states_on_tokens():
    encoder = RNNEncoder(17, D, H, num_layers=2)
    states, final, _ = encoder(SOURCE, LENGTHS)
    junk = torch.tensor([[4, 5, 6, 7, 8, 3, 12], [9, 10, 11, 13, 14, 15, 16]])
    junk_states, junk_final, mask = encoder(junk, LENGTHS)

    assert_close(junk_final, final)
    assert_close(junk_states[0, :5], states[0])
    assert_close(junk_states[1, :3], states[1, :3])
    assert mask.sum(dim=-1).tolist() == [[5], [3]]


@pytest.mark.plain
def test_no_layers_at_all_are_refused():
    with pytest.raises(ValueError, match=r"at least 1 layer, got num_layers 0\b"):
        RNNEncoder(17, D, H, num_layers=0)
