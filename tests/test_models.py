import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from attention_course import models
from attention_course.scores import AdditiveScore, DotScore, GeneralScore, LocationScore

B, T, S = 2, 3, 5
SIZES = {"source_size": 17, "target_size": 19, "embedding_dim": 7, "hidden_dim": 11}
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
TARGET = torch.tensor([[1, 4, 5], [1, 6, 18]])


def test_the_two_vocabularies_are_not_mixed_up(model):
    """16 is the last source token and 18 the last target token: neither a word fewer
    nor the sizes swapped."""
    logits, _ = model(
        SOURCE.clamp(max=16).masked_fill(SOURCE == 8, 16), LENGTHS, TARGET
    )
    assert logits.size(-1) == 19
    with pytest.raises(IndexError):
        model(SOURCE + 13, LENGTHS, TARGET)
    with pytest.raises(IndexError):
        model(SOURCE, LENGTHS, TARGET + 1)


def test_a_decoder_can_use_any_score():
    for build in (models.bahdanau, models.luong):
        for score in (
            GeneralScore(query_dim=11, key_dim=22),
            AdditiveScore(query_dim=11, key_dim=22, hidden_dim=13),
            LocationScore(query_dim=11, max_length=7),
        ):
            model = build(**SIZES, score=score)
            _, weights = model(SOURCE, LENGTHS, TARGET)
            assert model.decoder.score is score
            assert_close(weights.sum(dim=-1), torch.ones(B, T))


@pytest.mark.parametrize(
    "build",
    [models.final_state, models.context_every_step, models.bahdanau, models.luong],
)
def test_an_encoder_is_what_was_asked_for(build):
    sizes = SIZES.copy()
    if build in (models.bahdanau, models.luong):
        sizes["score"] = DotScore()
    for kinds, model in (
        ([nn.LSTM] * 3, build(**sizes, num_layers=3, cell=nn.LSTM)),
        ([nn.GRU], build(**sizes)),
    ):
        stack = model.encoder.layers
        assert (
            [type(layer) for layer in stack.forwards]
            == [type(layer) for layer in stack.backwards]
            == kinds
        )


def test_the_depth_of_gnmt_is_that_of_both_stacks():
    model = models.gnmt(**SIZES, score=DotScore(), num_layers=4)
    assert len(model.encoder.upper) == len(model.decoder.upper) == 3


def test_a_bottleneck_has_one_slot_and_its_weight_is_one(one_slot_model):
    memory = one_slot_model.encode(SOURCE, LENGTHS)
    _, weights = one_slot_model.decode(TARGET, memory)
    _, step_weights, _ = one_slot_model.step(
        TARGET[:, :1], memory, one_slot_model.start(memory)
    )

    assert memory.key.size(1) == memory.value.size(1) == memory.mask.size(2) == 1
    assert_close(weights, torch.ones(B, T, 1))
    assert_close(step_weights, torch.ones(B, 1, 1))


def test_an_attentive_memory_has_a_slot_for_every_token(attentive_model):
    memory = attentive_model.encode(SOURCE, LENGTHS)
    _, weights = attentive_model.decode(TARGET, memory)

    assert memory.key.size(1) == memory.value.size(1) == memory.mask.size(2) == S
    assert (weights[0] > 0).all()
    assert (weights[1, :, :3] > 0).all()
    assert not weights[1, :, 3:].any()
    assert weights.std(dim=-1).min() > 1e-3  # it prefers some tokens to others
    assert_close(weights.sum(dim=-1), torch.ones(B, T))


def test_a_local_memory_has_a_slot_for_every_token_and_weights_for_some(local_model):
    _, weights = local_model(SOURCE, LENGTHS, TARGET)

    assert weights.shape == (B, T, S)
    assert (weights[0].count_nonzero(dim=-1) < S).all()
    assert not weights[1, :, 3:].any()
    assert (weights.sum(dim=-1) > 0.1).all()
    assert (weights.sum(dim=-1) < 1 + 1e-5).all()


def test_runs_without_data(model):
    """On "meta" a tensor that some line makes on the default device cannot be combined
    with the others."""
    model = model.to("meta")
    source, target = SOURCE.to("meta"), TARGET.to("meta")
    memory = model.encode(source, LENGTHS)
    logits, weights = model.decode(target, memory, need_weights=True)
    _, _, cache = model.step(target[:, :1], memory, model.start(memory))
    step_logits, step_weights, cache = model.step(
        target[:, 1:2], memory, cache, need_weights=True
    )

    made = tree_leaves((memory, logits, weights, step_logits, step_weights, cache))
    assert {tensor.device.type for tensor in made} == {"meta"}
    assert (logits.shape, step_logits.shape) == ((B, T, 19), (B, 1, 19))
    assert (weights.size(0), *weights.shape[-2:]) == (B, T, memory.mask.size(-1))


def test_transformers_are_built_as_asked():
    sizes = {"dim": 6, "num_heads": 3, "hidden_dim": 13, "num_layers": 2}
    sizes |= {"dropout": 0.25, "pre_norm": False}
    translator = models.transformer(source_size=17, target_size=19, **sizes, tied=True)
    writer = models.decoder_only(vocab_size=19, **sizes, tied=True)
    reader = models.encoder_only(vocab_size=17, **sizes)

    assert (
        translator(SOURCE, LENGTHS, TARGET)[0].shape
        == writer(TARGET).shape
        == (B, T, 19)
    )
    assert reader(SOURCE, LENGTHS).states.shape == (B, S, 6)
    assert translator.decoder.head.weight is translator.decoder.embedding.weight
    assert writer.head.weight is writer.embedding.weight
    for part in (translator.encoder, translator.decoder, writer, reader):
        assert len(part.blocks) == 2
        for block in part.blocks:
            around = block.around_self
            assert (
                block.self_attention.num_heads,
                around.dropout.p,
                around.pre_norm,
            ) == (3, 0.25, False)
            assert block.feed_forward.inner.out_features == 13
