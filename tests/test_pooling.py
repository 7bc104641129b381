import copy
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from attention_course import models
from attention_course.pooling import (
    AttentionPooling,
    Classifier,
    Labeller,
    answer_with,
    gradient_times_input,
)
from attention_course.rnn import FrameEncoder, RNNEncoder
from attention_course.scores import AdditiveScore, DotScore, GeneralScore
from attention_course.seq2seq import Encoded

B, S, D, E, A, V = 2, 5, 7, 11, 13, 3
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 0, 0]])
LENGTHS = torch.tensor([5, 3])
MASK = (torch.arange(S) < LENGTHS[:, None])[:, None]


def encoded():
    return Encoded(torch.randn(B, S, E), torch.randn(B, E), MASK)


def test_pooling_by_hand():
    pooling = AttentionPooling(2, DotScore())
    with torch.no_grad():
        pooling.query.copy_(torch.tensor([math.log(3.0), 0.0]))
    # scores log 3, 0, and one that is masked
    states = torch.tensor([[[1.0, 8.0], [0.0, 4.0], [2.0, 5.0]]])
    given = Encoded(states, states[:, 0], torch.tensor([[[True, True, False]]]))
    context, weights = pooling(given)

    assert_close(weights, torch.tensor([[[0.75, 0.25, 0.0]]]))
    assert_close(context, torch.tensor([[0.75, 7.0]]))


def test_word_attention_as_in_the_paper():
    """Yang et al.: u = tanh(W h + b), a = softmax(u . u_w): the learned query only
    stands for the bias."""
    pooling, given = AttentionPooling(D, AdditiveScore(D, E, A)), encoded()
    context, weights = pooling(given)

    score = pooling.score
    bias, word_context = score.query_proj(pooling.query), score.energy_proj.weight[0]
    for b in range(B):
        h = given.states[b, : LENGTHS[b]]
        u = torch.tanh(h @ score.key_proj.weight.T + bias)
        alphas = (u @ word_context).exp() / (u @ word_context).exp().sum()
        assert_close(weights[b, 0, : LENGTHS[b]], alphas)
        assert_close(context[b], alphas @ h)
    assert not weights[1, :, 3:].any()


def test_any_score_will_do():
    for score, query_dim in (
        (GeneralScore(D, E), D),
        (DotScore(), E),
        (AdditiveScore(D, E, A), D),
    ):
        _, weights = AttentionPooling(query_dim, score)(encoded())
        assert_close(weights.sum(dim=-1), torch.ones(B, 1))


def test_a_labeller_maps_each_state():
    encoder = RNNEncoder(17, D, E)
    model = Labeller(encoder, nn.Linear(2 * E, V))
    logits, none = model(SOURCE, LENGTHS)

    assert none is None
    states = encoder(SOURCE, LENGTHS).states
    for s in range(S):
        assert_close(logits[:, s], states[:, s] @ model.head.weight.T + model.head.bias)


def test_a_frame_encoder_is_an_encoder_behind_a_linear_map():
    encoder, frames = FrameEncoder(A, D, E, num_layers=2), torch.randn(B, S, A)
    words = RNNEncoder(B * S, D, E, num_layers=2)
    words.layers.load_state_dict(encoder.layers.state_dict())
    with torch.no_grad():
        words.embedding.weight.copy_(
            (frames @ encoder.embedding.weight.T + encoder.embedding.bias).flatten(0, 1)
        )

    assert_close(
        encoder(frames, LENGTHS), words(torch.arange(B * S).view(B, S), LENGTHS)
    )
    assert encoder.output_dim == 2 * E


WIDTHS = {"embedding_dim": D, "hidden_dim": E}
BUILDERS = {
    "classifier": lambda: models.classifier(
        source_size=17, num_classes=V, **WIDTHS, score=AdditiveScore(E, 2 * E, A)
    ),
    "tagger": lambda: models.tagger(
        source_size=17, num_labels=V, **WIDTHS, num_layers=2, cell=nn.LSTM
    ),
    "frame_labeller": lambda: models.frame_labeller(
        frame_dim=A, num_labels=V, **WIDTHS
    ),
}


@pytest.fixture(params=list(BUILDERS))
def reader(request):
    return BUILDERS[request.param]()


def random_source(reader, size=S):
    frames = isinstance(reader.encoder, FrameEncoder)
    return torch.randn(B, size, A) if frames else torch.randint(4, 17, (B, size))


def on_tokens(logits):
    return [logits[0], logits[1, :3] if logits.dim() == 3 else logits[1]]


def test_padding_changes_nothing(reader):
    junk = random_source(reader, S + 2)
    logits, weights = reader(junk[:, :S], LENGTHS)
    junk_logits, junk_weights = reader(junk, LENGTHS)
    alone, _ = reader(junk[1:, :3], LENGTHS[1:])

    if weights is not None:
        assert_close(junk_weights[..., :S], weights)
    else:
        junk_logits = junk_logits[:, :S]
    assert_close(on_tokens(junk_logits), on_tokens(logits))
    assert_close(alone[0], on_tokens(logits)[1])


def test_every_parameter_learns(reader):
    logits, _ = reader(random_source(reader), LENGTHS)
    logits.logsumexp(dim=-1).sum().backward()

    for name, parameter in reader.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_runs_without_data(reader):
    made = tree_leaves(reader.to("meta")(random_source(reader).to("meta"), LENGTHS))
    assert {tensor.device.type for tensor in made if tensor is not None} == {"meta"}


def test_double_precision_stays_double(reader):
    source = random_source(reader)
    double = copy.deepcopy(reader).double()(
        source.double() if source.is_floating_point() else source, LENGTHS
    )[0]
    assert double.dtype == torch.float64
    assert_close(double.float(), reader(source, LENGTHS)[0], rtol=1e-4, atol=1e-4)


def test_a_classifier_is_its_parts():
    model, given = (
        Classifier(
            nn.Module(), AttentionPooling(D, AdditiveScore(D, E, A)), nn.Linear(E, V)
        ),
        encoded(),
    )
    model.encoder.forward = lambda source, lengths: given
    logits, weights = model(SOURCE, LENGTHS)

    context, expected = model.pooling(given)
    assert_close(weights, expected)
    assert_close(logits, model.head(context))


@pytest.mark.plain
def test_readers_refuse_another_width():
    with pytest.raises(ValueError, match=f"width {2 * E - 1}, got width {2 * E}"):
        Labeller(RNNEncoder(17, D, E), nn.Linear(2 * E - 1, V))(SOURCE, LENGTHS)
    with pytest.raises(ValueError, match=f"width {A}, got width {A - 1}"):
        FrameEncoder(A, D, E)(torch.randn(B, S, A - 1), LENGTHS)


# Does attention explain an answer?


@pytest.fixture(params=[False, True], ids=["states", "words"])
def classifier(request):
    return models.classifier(
        source_size=12,
        num_classes=V,
        embedding_dim=7,
        hidden_dim=13,
        score=AdditiveScore(13, 26, 5),
        look_up_words=request.param,
    ).eval()


def test_with_its_own_weights_a_model_answers_as_ever(classifier):
    logits, weights = classifier(SOURCE, LENGTHS)
    assert_close(answer_with(classifier, SOURCE, LENGTHS, weights), logits)


def test_other_weights_look_up_other_slots(classifier):
    one_hot = nn.functional.one_hot(torch.tensor([[3], [1]]), S).float()
    values = (
        classifier.encoder.embedding(SOURCE)
        if classifier.values
        else classifier.encoder(SOURCE, LENGTHS).states
    )
    assert_close(
        answer_with(classifier, SOURCE, LENGTHS, one_hot),
        classifier.head(values[[0, 1], [3, 1]]),
    )


def test_gradient_times_input_is_what_a_little_less_of_a_word_costs(classifier):
    """Central differences: each word's embedding, everywhere that it goes, a little
    longer and a little shorter."""
    classifier, step = classifier.double(), 1e-4
    table = classifier.encoder.embedding.weight

    def leads():
        best = classifier(SOURCE, LENGTHS)[0].topk(2).values
        return (best[:, 0] - best[:, 1]).detach()

    found = gradient_times_input(classifier, SOURCE, LENGTHS)
    for s in (0, 2):
        for b in range(B):
            row, kept = SOURCE[b, s], table.detach().clone()
            ends = []
            for factor in (1 + step, 1 - step):
                with torch.no_grad():
                    table[row] = kept[row] * factor
                ends.append(leads()[b])
                with torch.no_grad():
                    table.copy_(kept)
            assert_close(
                found[b, s], (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-7
            )


def test_gradients_leave_nothing_behind(classifier):
    gradient_times_input(classifier, SOURCE, LENGTHS)
    assert not classifier.encoder.embedding._forward_hooks
    assert all(parameter.grad is None for parameter in classifier.parameters())
