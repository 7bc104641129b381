"""Parity with the layers that the lectures show: Keras' attention, on its torch
backend."""

import os
import tempfile

import pytest
import torch
from torch.testing import assert_close

from attention_course.attention import attend
from attention_course.masks import causal_mask, padding_mask
from attention_course.scores import AdditiveScore, DotScore

os.environ["KERAS_BACKEND"] = "torch"
# or it would write into the home directory
os.environ.setdefault("KERAS_HOME", tempfile.mkdtemp())
keras = pytest.importorskip("keras")

B, T, S, D = 2, 3, 5, 7


@pytest.fixture
def inputs():
    return (
        torch.randn(B, T, D),
        torch.randn(B, S, D),
        torch.randn(B, S, D),
        torch.tensor([5, 3]),
    )


def test_attention_is_the_dot_score(inputs):
    query, key, value, lengths = inputs
    mask = padding_mask(lengths, S)
    theirs, their_weights = keras.layers.Attention()(
        [query, value, key], mask=[None, mask[:, 0]], return_attention_scores=True
    )
    ours, weights = attend(DotScore()(query, key), value, mask)
    assert_close(ours, theirs)
    assert_close(weights, their_weights)


def test_without_a_key_the_value_is_the_key(inputs):
    query, key, value, _ = inputs
    theirs = keras.layers.Attention()([query, value])
    assert_close(theirs, attend(DotScore()(query, value), value)[0])
    with pytest.raises(AssertionError):
        assert_close(theirs, attend(DotScore()(query, key), value)[0])


def test_the_scale_is_one_learned_number_that_begins_at_one(inputs):
    query, key, value, _ = inputs
    layer = keras.layers.Attention(use_scale=True)
    theirs = layer([query, value, key])
    assert_close(theirs, attend(DotScore()(query, key), value)[0])
    (scale,) = layer.trainable_weights
    assert scale.shape == ()
    scale.assign(0.3)
    theirs = layer([query, value, key])
    assert_close(theirs, attend(0.3 * DotScore()(query, key), value)[0])


def test_causal_attention_is_the_dot_score_under_a_causal_mask(inputs):
    _, key, value, _ = inputs
    theirs = keras.layers.Attention()([key, value, key], use_causal_mask=True)
    ours, _ = attend(DotScore()(key, key), value, causal_mask(S))
    assert_close(ours, theirs)


def test_additive_attention_is_the_additive_score_without_maps(inputs):
    query, key, value, lengths = inputs
    mask = padding_mask(lengths, S)
    layer = keras.layers.AdditiveAttention()
    layer.build([query.shape, value.shape, key.shape])
    layer.scale.assign(torch.randn(D))
    theirs = layer([query, value, key], mask=[None, mask[:, 0]])
    score = AdditiveScore(D, D, D)
    with torch.no_grad():
        # Keras adds query and key as they are
        score.query_proj.weight.copy_(torch.eye(D))
        score.key_proj.weight.copy_(torch.eye(D))
        score.energy_proj.weight.copy_(layer.scale.value[None])
    ours, _ = attend(score(query, score.project_keys(key)), value, mask)
    assert_close(ours, theirs)
