import copy
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers_small import (
    LENGTHS,
    SOURCE,
    STACK,
    TARGET,
    V_SOURCE,
    B,
    D,
    F,
    H,
    L,
    NoPositions,
    S,
    T,
    V,
    answers,
    both_orders,
    language_model,
    shaken,
    torchs_encoder_block,
    translator,
)

from attention_course.masks import causal_mask
from attention_course.models import (
    decoder_only,
    encoder_only,
    transformer_decoder,
)
from attention_course.rnn import RNNEncoder
from attention_course.seq2seq import Decoder, EncoderDecoder
from attention_course.transformer import SinusoidalPositions


@both_orders
def test_an_encoder_is_torchs_blocks_on_embeddings_with_positions(pre_norm):
    encoder = shaken(encoder_only(vocab_size=V_SOURCE, **STACK, pre_norm=pre_norm))
    encoded = encoder(SOURCE, LENGTHS)

    x = SinusoidalPositions(D)(encoder.embedding.weight[SOURCE] * math.sqrt(D))
    for block in encoder.blocks:
        x = torchs_encoder_block(block, pre_norm)(
            x, src_key_padding_mask=~encoded.mask[:, 0]
        )
    x = encoder.norm(x)
    assert_close(encoded.states[0], x[0])
    assert_close(encoded.states[1, :3], x[1, :3])
    assert_close(encoded.final, torch.stack([x[0].mean(dim=0), x[1, :3].mean(dim=0)]))
    assert isinstance(encoder.norm, nn.LayerNorm) is pre_norm


@pytest.mark.parametrize("tied", [True, False])
def test_one_table_may_serve_both_ends(tied):
    for model, embedding, head in (
        (decoder := translator(tied=tied).decoder, decoder.embedding, decoder.head),
        (lm := language_model(tied=tied), lm.embedding, lm.head),
    ):
        assert (head.weight is embedding.weight) is tied
        assert len(list(model.parameters())) == len({id(p) for p in model.parameters()})
        assert (
            copy.deepcopy(model).head.weight.data_ptr() != head.weight.data_ptr()
        ) and head.weight.shape == (V, D)


def test_embeddings_and_tied_logits_start_with_variance_one():
    decoder = transformer_decoder(
        vocab_size=997,
        dim=128,
        num_heads=4,
        hidden_dim=F,
        num_layers=1,
        positions=NoPositions(),
        tied=True,
    )
    embedded, logits = (
        decoder.embedding(torch.arange(997)[None]),
        decoder.head(torch.randn(1, 101, 128)),
    )

    assert_close(embedded.std(), torch.tensor(1.0), rtol=0, atol=0.02)
    assert_close(logits.std(), torch.tensor(1.0), rtol=0, atol=0.05)


def test_several_tokens_after_a_past():
    """A step may be longer than one token; each of its tokens sees the past, itself,
    and no later one."""
    model = translator()
    memory = model.encode(SOURCE, LENGTHS)
    logits, _ = model.decode(TARGET, memory)
    _, _, cache = model.decoder.step(TARGET[:, :1], memory, model.start(memory))
    rest, _, _ = model.decoder.step(TARGET[:, 1:], memory, cache)

    assert_close(rest, logits[:, 1:])


def test_weights_come_only_on_request():
    model = translator()
    _, none = model(SOURCE, LENGTHS, TARGET)
    _, weights = answers(model)

    assert none is None
    assert weights.shape == (B, L, H, T, S)
    assert not weights[1, ..., 3:].any()
    assert (weights[1, ..., :3] > 0).all()
    assert weights.std(dim=-1)[0].min() > 1e-4


def test_weights_are_each_layers_own():
    model = translator()
    memory = model.encode(SOURCE, LENGTHS)
    _, weights = answers(model)

    x, mask = model.decoder.embedding(TARGET), causal_mask(T)
    for layer, block in enumerate(model.decoder.blocks):
        x, expected, _ = block(
            x, memory.layers[layer], mask, memory.mask, need_weights=True
        )
        assert_close(weights[:, layer], expected)


class Counting(nn.Linear):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def test_the_source_is_projected_once_and_every_token_once():
    model = translator()
    attentions = [
        a
        for block in model.decoder.blocks
        for a in (block.self_attention, block.cross_attention)
    ]
    for attention in attentions:
        attention.key_proj = Counting(D, D)
    memory = model.encode(SOURCE, LENGTHS)
    cache = model.start(memory)
    for t in range(T):
        _, _, cache = model.step(TARGET[:, t : t + 1], memory, cache)

    assert [attention.key_proj.calls for attention in attentions] == [T, 1] * L


@pytest.mark.parametrize("kind", ["none", "sines", "learned"])
def test_only_positions_tell_the_order(kind):
    encoder = translator(kind).encoder
    order = torch.tensor([3, 0, 4, 1, 2])
    states = encoder(SOURCE[:1], LENGTHS[:1]).states
    shuffled = encoder(SOURCE[:1, order], LENGTHS[:1]).states

    assert torch.allclose(shuffled, states[:, order], atol=1e-5) is (kind == "none")


def test_encoders_and_decoders_mix():
    """A Transformer can ask a recurrent memory: all it needs is one vector of its width
    per source token."""
    rnn = RNNEncoder(V_SOURCE, 7, D // 2)
    model = EncoderDecoder(rnn, transformer_decoder(vocab_size=V, **STACK))
    logits, weights = answers(model)

    assert isinstance(model.decoder, Decoder)
    assert logits.shape == (B, T, V)
    assert_close(weights.sum(dim=-1), torch.ones(B, L, H, T))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_precisions(dtype, device):
    model = translator().to(device)
    logits, _ = model(SOURCE.to(device), LENGTHS, TARGET.to(device))
    other, weights = answers(
        copy.deepcopy(model).to(dtype), SOURCE.to(device), LENGTHS, TARGET.to(device)
    )

    assert other.dtype == weights.dtype == dtype
    tolerance = {torch.float16: 0.05, torch.bfloat16: 0.4}[dtype]
    assert_close(other.float(), logits, rtol=tolerance, atol=tolerance)


# What follows is about our own errors, and about compiling: it runs where no hook
# checks shapes before us.


@pytest.mark.plain
@pytest.mark.parametrize("build", [encoder_only, transformer_decoder, decoder_only])
def test_stacks_without_blocks_are_refused(build):
    with pytest.raises(ValueError, match=r"at least 1 block, got 0$"):
        build(vocab_size=V, **(STACK | {"num_layers": 0}))


@pytest.mark.plain
def test_a_source_of_another_width_is_refused():
    model = EncoderDecoder(
        RNNEncoder(V_SOURCE, 7, 11),
        transformer_decoder(vocab_size=V, **STACK),
    )
    with pytest.raises(ValueError, match=f"width {D}, got width 22"):
        model(SOURCE, LENGTHS, TARGET)


@pytest.mark.plain
@pytest.mark.parametrize(("pre_norm", "need_weights"), [(True, False), (False, True)])
def test_stacks_compile_as_one_graph(pre_norm, need_weights):
    model = translator(pre_norm=pre_norm, num_layers=1)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")

    expected = model(SOURCE, LENGTHS, TARGET, need_weights)
    assert_close(compiled(SOURCE, LENGTHS, TARGET, need_weights), expected)
