import copy
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from attention_course.masks import causal_mask, padding_mask
from attention_course.rnn import RNNEncoder
from attention_course.seq2seq import Decoder, EncoderDecoder
from attention_course.transformer import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LearnedPositions,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerEncoder,
    TransformerLM,
)

B, T, S = 2, 3, 5
H, D, F, L = 2, 14, 11, 3
V_SOURCE, V = 17, 19

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
# No token stands twice, so that the gradient of an embedding belongs to one position.
TARGET = torch.tensor([[1, 4, 5], [2, 6, 7]])


class NoPositions(nn.Module):
    def forward(self, x, past=0):
        return x


def positions(kind):
    return {
        "sines": SinusoidalPositions(D),
        "learned": LearnedPositions(23, D),
        "none": NoPositions(),
    }[kind]


def shaken(module):
    """Every parameter its own random numbers: no bias of 0, no norm that changes
    nothing."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module.eval()


def translator(kind="sines", pre_norm=True, tied=False, num_layers=L):
    encoder = TransformerEncoder(
        V_SOURCE, D, H, F, num_layers, positions(kind), 0.0, pre_norm
    )
    decoder = TransformerDecoder(
        V, D, H, F, num_layers, positions(kind), 0.0, pre_norm, tied
    )
    return shaken(EncoderDecoder(encoder, decoder))


def language_model(kind="sines", pre_norm=True, tied=False, num_layers=L):
    return shaken(
        TransformerLM(V, D, H, F, num_layers, positions(kind), 0.0, pre_norm, tied)
    )


both_orders = pytest.mark.parametrize(
    "pre_norm", [True, False], ids=["pre_norm", "post_norm"]
)


# Positions


def test_sines_by_hand(device):
    x = torch.zeros(1, 3, 4, device=device)
    slow = 10000.0**0.5
    expected = [
        [math.sin(t), math.cos(t), math.sin(t / slow), math.cos(t / slow)]
        for t in (5, 6, 7)
    ]

    assert_close(
        SinusoidalPositions(4)(x, past=5), torch.tensor([expected], device=device)
    )


def test_learned_positions_by_hand():
    learned, x = LearnedPositions(7, D), torch.randn(B, T, D)

    assert_close(learned(x, past=4), x + learned.table.weight[4:7])


@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_positions_go_on_where_the_past_ended(kind):
    add, x = positions(kind), torch.randn(B, S, D)

    assert_close(torch.cat([add(x[:, :2]), add(x[:, 2:], past=2)], dim=1), add(x))


def test_sines_have_no_last_position():
    assert SinusoidalPositions(D)(torch.zeros(1, 2, D), past=10**6).isfinite().all()


def test_shifting_sines_is_a_rotation():
    """Section 3.5: p_{t+k} is a linear function of p_t, so products of positions depend
    on their distance only."""
    p = SinusoidalPositions(D)(torch.zeros(1, 41, D))[0]

    assert_close(
        (p[:-7] * p[7:]).sum(dim=-1), (p[0] @ p[7]).expand(34), rtol=1e-4, atol=1e-4
    )


# Blocks, against torch's own


def torchs_attention(ours, name):
    projections = (ours.query_proj, ours.key_proj, ours.value_proj)
    return {
        f"{name}.in_proj_weight": torch.cat(
            [projection.weight for projection in projections]
        ),
        f"{name}.in_proj_bias": torch.cat(
            [projection.bias for projection in projections]
        ),
        f"{name}.out_proj.weight": ours.output_proj.weight,
        f"{name}.out_proj.bias": ours.output_proj.bias,
    }


def renamed(ours, name):
    return {f"{name}.{key}": value for key, value in ours.state_dict().items()}


def torchs_encoder_block(ours, pre_norm):
    theirs = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=pre_norm
    )
    theirs.load_state_dict(
        torchs_attention(ours.self_attention, "self_attn")
        | renamed(ours.feed_forward.inner, "linear1")
        | renamed(ours.feed_forward.outer, "linear2")
        | renamed(ours.around_self.norm, "norm1")
        | renamed(ours.around_feed_forward.norm, "norm2")
    )
    return theirs


def torchs_decoder_block(ours, pre_norm):
    theirs = nn.TransformerDecoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=pre_norm
    )
    theirs.load_state_dict(
        torchs_attention(ours.self_attention, "self_attn")
        | torchs_attention(ours.cross_attention, "multihead_attn")
        | renamed(ours.feed_forward.inner, "linear1")
        | renamed(ours.feed_forward.outer, "linear2")
        | renamed(ours.around_self.norm, "norm1")
        | renamed(ours.around_cross.norm, "norm2")
        | renamed(ours.around_feed_forward.norm, "norm3")
    )
    return theirs


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


@both_orders
def test_an_encoder_block_is_torchs_own(pre_norm, device):
    ours = shaken(EncoderBlock(D, H, F, pre_norm=pre_norm)).to(device)
    x, mask = torch.randn(B, S, D, device=device), padding_mask(LENGTHS.to(device), S)

    states, _ = ours(x, mask)
    expected = torchs_encoder_block(ours, pre_norm).to(device)(
        x, src_key_padding_mask=~mask[:, 0]
    )
    assert_close(states[mask[:, 0]], expected[mask[:, 0]])


@both_orders
def test_a_decoder_block_is_torchs_own(pre_norm, device):
    ours = shaken(DecoderBlock(D, H, F, pre_norm=pre_norm)).to(device)
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
    block = EncoderBlock(D, H, F, dropout=1.0, pre_norm=pre_norm)
    expected = (
        x
        if pre_norm
        else nn.functional.layer_norm(nn.functional.layer_norm(x, [D]), [D])
    )

    assert_close(block(x)[0], expected)


# Stacks


@both_orders
def test_an_encoder_is_torchs_blocks_on_embeddings_with_positions(pre_norm):
    encoder = shaken(
        TransformerEncoder(V_SOURCE, D, H, F, L, positions("sines"), pre_norm=pre_norm)
    )
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
    decoder = TransformerDecoder(997, 128, 4, F, 1, NoPositions(), tied=True)
    embedded, logits = (
        decoder.embedding(torch.arange(997)[None]),
        decoder.head(torch.randn(1, 101, 128)),
    )

    assert_close(embedded.std(), torch.tensor(1.0), rtol=0, atol=0.02)
    assert_close(logits.std(), torch.tensor(1.0), rtol=0, atol=0.05)


def answers(model, source=SOURCE, lengths=LENGTHS, target=TARGET):
    return model(source, lengths, target, need_weights=True)


@both_orders
@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_a_language_model_decodes_as_it_steps(pre_norm, kind, device):
    model = language_model(kind, pre_norm).to(device)
    target = torch.randint(1, V, (B, 7), device=device)
    logits, weights = model.decode(target)
    assert weights is None
    assert_close(model(target), logits)

    # a prompt of two tokens
    first, _, cache = model.step(target[:, :2], None, model.start())
    stacked = [first]
    for t in range(2, 7):
        step_logits, _, cache = model.step(target[:, t : t + 1], None, cache)
        stacked.append(step_logits)
    assert_close(torch.cat(stacked, dim=1), logits)


@both_orders
def test_a_language_model_is_torchs_encoder_blocks_under_a_causal_mask(pre_norm):
    model = language_model(pre_norm=pre_norm)
    x = model.embedding(TARGET)
    for block in model.blocks:
        x = torchs_encoder_block(block, pre_norm)(x, src_mask=~causal_mask(T))

    assert_close(model(TARGET), model.head(model.norm(x)))


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


@both_orders
def test_a_language_model_does_not_see_later_tokens(pre_norm):
    model = language_model(pre_norm=pre_norm)
    logits = model(TARGET)
    for b in range(B):
        for t in range(T):
            (gradient,) = torch.autograd.grad(
                logits[b, t].square().sum(), model.embedding.weight, retain_graph=True
            )
            reached = gradient.abs().sum(dim=-1) > 0
            assert reached[TARGET[b, : t + 1]].all()
            assert reached.sum() == t + 1  # no later token, and no other sentence's


@pytest.mark.parametrize("kind", ["none", "sines", "learned"])
def test_only_positions_tell_the_order(kind):
    encoder = translator(kind).encoder
    order = torch.tensor([3, 0, 4, 1, 2])
    states = encoder(SOURCE[:1], LENGTHS[:1]).states
    shuffled = encoder(SOURCE[:1, order], LENGTHS[:1]).states

    assert torch.allclose(shuffled, states[:, order], atol=1e-5) is (kind == "none")


def test_every_parameter_of_a_language_model_learns():
    model = language_model("learned")
    model(TARGET).logsumexp(dim=-1).sum().backward()

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_encoders_and_decoders_mix():
    """A Transformer can ask a recurrent memory: all it needs is one vector of its width
    per source token."""
    rnn = RNNEncoder(V_SOURCE, 7, D // 2)
    model = EncoderDecoder(rnn, TransformerDecoder(V, D, H, F, L, positions("sines")))
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


@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_a_language_model_runs_without_data(kind):
    model, target = language_model(kind).to("meta"), TARGET.to("meta")
    logits, _, cache = model.step(target[:, :2], None, model.start())
    step_logits, _, cache = model.step(target[:, 2:], None, cache)

    assert {
        tensor.device.type for tensor in tree_leaves((logits, step_logits, cache))
    } == {"meta"}
    assert (logits.shape, step_logits.shape) == ((B, 2, V), (B, 1, V))


# What follows is about our own errors, and about compiling: it runs where no hook
# checks shapes before us.


@pytest.mark.plain
def test_positions_beyond_the_table_are_refused():
    learned = LearnedPositions(7, D)
    learned(torch.zeros(B, T, D), past=4)
    with pytest.raises(ValueError, match="8 tokens.*learned for 7"):
        learned(torch.zeros(B, T, D), past=5)


@pytest.mark.plain
def test_no_positions_at_all_are_refused():
    with pytest.raises(ValueError, match=r"at least 1 .* max_length 0\b"):
        LearnedPositions(0, D)


@pytest.mark.plain
def test_sines_without_cosines_are_refused():
    with pytest.raises(ValueError, match="width 7"):
        SinusoidalPositions(7)


@pytest.mark.plain
@pytest.mark.parametrize("width", [1, D - 2])
@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_positions_of_another_width_are_refused(kind, width):
    with pytest.raises(ValueError, match=f"width {D}, got width {width}$"):
        positions(kind)(torch.zeros(B, T, width))


@pytest.mark.plain
@pytest.mark.parametrize("pre_norm", [True, False])
def test_blocks_refuse_another_width(pre_norm):
    x, source = torch.zeros(B, T, D - 1), torch.zeros(B, S, D)
    decoder = DecoderBlock(D, H, F, pre_norm=pre_norm)
    memory = decoder.cross_attention.remember(source, source)
    for refuses in (
        EncoderBlock(D, H, F, pre_norm=pre_norm),
        lambda x: decoder(x, memory),
        FeedForward(D, F),
    ):
        with pytest.raises(ValueError, match=f"width {D}, got width {D - 1}"):
            refuses(x)


@pytest.mark.plain
def test_decoders_without_blocks_are_refused():
    for kind in (TransformerDecoder, TransformerLM):
        with pytest.raises(ValueError, match=r"at least 1 block, got num_layers 0\b"):
            kind(V, D, H, F, 0, positions("sines"))


@pytest.mark.plain
def test_a_source_of_another_width_is_refused():
    model = EncoderDecoder(
        RNNEncoder(V_SOURCE, 7, 11),
        TransformerDecoder(V, D, H, F, L, positions("sines")),
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


@pytest.mark.plain
def test_a_stack_that_drops_compiles_as_one_graph():
    model = TransformerLM(V, D, H, F, 1, positions("sines"), dropout=0.5).train()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")

    compiled(TARGET).sum().backward()
    assert not torch.allclose(compiled(TARGET), compiled(TARGET))


@pytest.mark.plain
def test_a_language_model_compiles_as_one_graph():
    model = language_model(num_layers=2)

    assert_close(
        torch.compile(model, fullgraph=True, backend="aot_eager")(TARGET), model(TARGET)
    )
