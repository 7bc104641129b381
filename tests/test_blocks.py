import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers_small import (
    LENGTHS,
    B,
    D,
    F,
    H,
    S,
    T,
    both_orders,
    shaken,
    torchs_decoder_block,
    torchs_encoder_block,
)

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask, padding_mask
from attention_course.models import decoder_block, encoder_block
from attention_course.transformer import (
    AttentionBlock,
    EncoderBlock,
    FeedForward,
    Residual,
    RMSNorm,
    SwiGLU,
)


def test_feed_forward_by_hand():
    network = FeedForward(1, 2)
    with torch.no_grad():
        network.inner.weight.copy_(torch.tensor([[2.0], [-1.0]]))
        network.inner.bias.copy_(torch.tensor([1.0, 1.0]))
        network.outer.weight.copy_(torch.tensor([[1.0, 10.0]]))
        network.outer.bias.copy_(torch.tensor([0.5]))

    assert_close(
        network(torch.tensor([[[3.0], [-4.0]]])), torch.tensor([[[7.5], [50.5]]])
    )


def test_a_gated_network_by_hand():
    """Swish(2 * 3) * (3 + 1) * 10, where Swish(6) is 6 / (1 + e^-6)."""
    network = SwiGLU(2, 1)
    with torch.no_grad():
        network.gate.weight.copy_(torch.tensor([[2.0, 0.0]]))
        network.inner.weight.copy_(torch.tensor([[1.0, 1.0]]))
        network.outer.weight.copy_(torch.tensor([[10.0], [-1.0]]))
    gate = 6 / (1 + math.exp(-6))

    assert_close(
        network(torch.tensor([[[3.0, 1.0]]])), torch.tensor([[[40 * gate, -4 * gate]]])
    )


def test_a_norm_by_root_mean_square_by_hand():
    """The squares of 1 and 7 have mean 25; nothing is subtracted."""
    norm = RMSNorm(2, eps=0.0)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([5.0, 10.0]))

    assert_close(norm(torch.tensor([[1.0, 7.0]])), torch.tensor([[1.0, 14.0]]))


@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_a_norm_by_root_mean_square_is_torchs_own(eps, device):
    ours, theirs = RMSNorm(D, eps).to(device), nn.RMSNorm(D, eps).to(device)
    shaken(ours)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(B, S, D, device=device)

    assert_close(ours(x), theirs(x))
    assert not ours(torch.zeros(D, device=device)).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_large_halves_have_a_root_mean_square(dtype):
    norm = RMSNorm(D).to(dtype)
    large = norm(torch.full((1, D), 3e4, dtype=dtype))

    assert large.dtype == dtype
    assert_close(large.float(), torch.ones(1, D))


@both_orders
def test_an_encoder_block_is_torchs_own(pre_norm, device):
    ours = shaken(encoder_block(D, H, F, pre_norm=pre_norm)).to(device)
    x, mask = torch.randn(B, S, D, device=device), padding_mask(LENGTHS.to(device), S)

    states, _ = ours(x, mask)
    expected = torchs_encoder_block(ours, pre_norm).to(device)(
        x, src_key_padding_mask=~mask[:, 0]
    )
    assert_close(states[mask[:, 0]], expected[mask[:, 0]])


@both_orders
def test_a_decoder_block_is_torchs_own(pre_norm, device):
    ours = shaken(decoder_block(D, H, F, pre_norm=pre_norm)).to(device)
    x, source = torch.randn(B, T, D, device=device), torch.randn(B, S, D, device=device)
    mask, padding = causal_mask(T, device), padding_mask(LENGTHS.to(device), S)

    states, weights, _ = ours(
        x, ours.cross_attention.remember(source, source), mask, padding
    )
    theirs = torchs_decoder_block(ours, pre_norm).to(device)
    assert_close(
        states,
        theirs(x, source, tgt_mask=~mask, memory_key_padding_mask=~padding[:, 0]),
    )
    assert weights is None


@both_orders
def test_dropout_stands_on_what_is_added(pre_norm):
    """With everything dropped, nothing is added: a pre-norm block passes its input on,
    a post-norm block normalises."""
    x = torch.randn(B, S, D)
    block = encoder_block(D, H, F, dropout=1.0, pre_norm=pre_norm)
    expected = (
        x
        if pre_norm
        else nn.functional.layer_norm(nn.functional.layer_norm(x, [D]), [D])
    )

    assert_close(block(x)[0], expected)


@both_orders
def test_any_part_of_a_block_may_be_another(pre_norm):
    """An attention that hands on what it asked with, torch's own network, another norm:
    each is asked, and nothing else of the block has to be written again."""

    class Mirror(nn.Module):
        def remember(self, key, value):
            return KeyValue(key[:, None], value[:, None])

        def ask(self, query, memory, mask=None, need_weights=True):
            assert mask is None and not need_weights
            return 2 * query, None

    network, norms = nn.Linear(D, D), [nn.RMSNorm(D), nn.LayerNorm(D)]
    around = [Residual(norm, 0.0, pre_norm) for norm in norms]
    block = shaken(EncoderBlock(Mirror(), network, *around))
    x = torch.randn(B, T, D)

    if pre_norm:
        y = x + 2 * norms[0](x)
        expected, key = y + network(norms[1](y)), norms[0](x)
    else:
        y = norms[0](x + 2 * x)
        expected, key = norms[1](y + network(y)), x
    states, seen = block(x)
    assert_close(states, expected)
    assert_close(seen.key[:, 0], key)


@both_orders
def test_a_block_of_attention_alone_is_a_block_whose_network_says_nothing(pre_norm):
    class Silence(nn.Module):
        def forward(self, x):
            return torch.zeros_like(x)

    whole = shaken(encoder_block(D, H, F, pre_norm=pre_norm))
    silent = Residual(nn.RMSNorm(D), 0.0, pre_norm=True)
    silenced = EncoderBlock(whole.self_attention, Silence(), whole.around_self, silent)
    alone = AttentionBlock(whole.self_attention, whole.around_self)
    x, mask = torch.randn(B, S, D), causal_mask(S)

    (states, seen), (expected, all_seen) = alone(x, mask), silenced(x, mask)
    assert_close(states, expected)
    assert_close(seen, all_seen)
    rest, _ = alone(x[:, 2:], mask[2:], alone(x[:, :2], mask[:2, :2])[1])
    assert_close(rest, expected[:, 2:])


def test_a_past_is_what_a_block_has_seen():
    """P positions at once and T after them are as good as all of them at once."""
    block, x = shaken(encoder_block(D, H, F)), torch.randn(B, S, D)
    mask = causal_mask(S)
    states, seen = block(x, mask)
    _, past = block(x[:, :2], mask[:2, :2])
    rest, all_seen = block(x[:, 2:], mask[2:], past)

    assert_close(rest, states[:, 2:])
    assert_close(all_seen, seen)


@pytest.mark.plain
@pytest.mark.parametrize("pre_norm", [True, False])
def test_blocks_refuse_another_width(pre_norm):
    x, source = torch.zeros(B, T, D - 1), torch.zeros(B, S, D)
    decoder = decoder_block(D, H, F, pre_norm=pre_norm)
    memory = decoder.cross_attention.remember(source, source)
    for refuses in (
        encoder_block(D, H, F, pre_norm=pre_norm),
        lambda x: decoder(x, memory),
        FeedForward(D, F),
        SwiGLU(D, F),
        RMSNorm(D),
    ):
        with pytest.raises(ValueError, match=f"width {D}, got width {D - 1}"):
            refuses(x)
