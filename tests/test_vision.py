import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course import models
from attention_course.decoding import beam_search, greedy
from attention_course.rnn import BahdanauDecoder
from attention_course.scores import AdditiveScore
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import PatchEmbedding
from attention_course.vision import GridEncoder

B, T, V = 2, 3, 19
C, HEIGHT, WIDTH, GRID = 3, 20, 12, 15  # a grid of 5 rows of 3 cells
LENGTHS = torch.tensor([GRID, GRID])
TARGET = torch.tensor([[1, 4, 5], [2, 6, 7]])


def captioner():
    model = models.captioner(
        grid_size=GRID,
        target_size=V,
        output_dim=14,
        embedding_dim=7,
        hidden_dim=11,
        score=AdditiveScore(11, 14, 13),
        channels=C,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model.eval()


def patch_encoder():
    return models.patch_encoder(
        channels=C,
        patch_size=4,
        grid_size=GRID,
        dim=14,
        num_heads=2,
        hidden_dim=20,
        num_layers=2,
    )


def images():
    return torch.randn(B, C, HEIGHT, WIDTH)


def test_a_cell_sees_the_pixels_around_it_and_no_others():
    encoder, image = GridEncoder(C, 5, 7, GRID), images().abs().requires_grad_()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.abs_()  # so that no ReLU is silent
    encoded = encoder(image, LENGTHS)
    row, column = 3, 1
    (gradient,) = torch.autograd.grad(encoded.states[0, row * 3 + column, 0], image)

    seen = gradient.abs().sum(dim=1) > 0
    near = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
    # 15 x 15 pixels around pixel (4 row, 4 column), cut off
    near[4 * row - 7 : 4 * row + 8, : 4 * column + 8] = True
    assert not seen[1].any()
    assert torch.equal(seen[0], near)


def test_features_start_as_strong_as_the_pixels():
    """He et al. (2015). By torch's own start each layer's are fainter than what it
    reads, and a tenth is left after three."""

    def strengths(layers):
        x, found = torch.randn(64, 1, 24, 24), []
        for layer in layers:
            x = layer(x)
            if isinstance(layer, nn.Conv2d):
                found.append(x.square().mean().sqrt().item())
        return found

    layers = GridEncoder(1, 32, 64, GRID).features
    assert all(1 < strength < 2 for strength in strengths(layers))
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            layer.reset_parameters()
    assert strengths(layers)[-1] < 0.2


def test_a_grid_is_a_memory_without_padding():
    encoder, image = GridEncoder(C, 5, 7, GRID), images()
    states, final, mask = encoder(image, LENGTHS)

    assert states.shape == (B, GRID, 7)
    assert mask.all() and mask.shape == (B, 1, GRID)
    assert_close(final, sum(states[:, s] for s in range(GRID)) / GRID)


def test_only_positions_tell_where_a_cell_lies():
    encoder = GridEncoder(1, 5, 7, GRID)
    blank = encoder(torch.zeros(1, 1, HEIGHT, WIDTH), LENGTHS[:1]).states[0]
    # above one another, and neither sees the upper or lower border
    assert not torch.allclose(blank[7], blank[10])
    with torch.no_grad():
        encoder.positions.table.weight.zero_()
    blank = encoder(torch.zeros(1, 1, HEIGHT, WIDTH), LENGTHS[:1]).states[0]
    assert_close(blank[7], blank[10])


def test_a_captioner_decodes_as_it_steps():
    model = captioner()
    memory = model.encode(images(), LENGTHS)
    logits, weights = model.decode(TARGET, memory)
    assert weights.shape == (B, T, GRID)
    assert_close(weights.sum(dim=-1), torch.ones(B, T))

    cache, stacked = model.start(memory), []
    for t in range(T):
        step_logits, _, cache = model.step(TARGET[:, t : t + 1], memory, cache)
        stacked.append(step_logits)
    assert_close(torch.cat(stacked, dim=1), logits)


def test_an_image_does_not_see_its_batch():
    model, both = captioner(), images()
    logits, weights = model(both, LENGTHS, TARGET)
    for b in range(B):
        alone = model(both[b : b + 1], LENGTHS[:1], TARGET[b : b + 1])
        assert_close(
            alone, (logits[b : b + 1], weights[b : b + 1]), rtol=1e-4, atol=1e-5
        )


def test_captions_are_decoded_like_sentences():
    model, both = captioner(), images()
    decoded = greedy(model, both, LENGTHS, 1, 2, 7)

    assert decoded.tokens.dtype == torch.long
    prefix = torch.full((B, 1), 1)
    for t in range(decoded.tokens.size(1)):
        best = model(both, LENGTHS, prefix)[0][:, -1].argmax(dim=-1)
        going = (decoded.tokens[:, :t] != 2).all(dim=1)
        assert torch.equal(decoded.tokens[going, t], best[going])
        prefix = torch.cat([prefix, decoded.tokens[:, t : t + 1]], dim=1)
    assert torch.equal(
        beam_search(model, both, LENGTHS, 1, 2, 7, 1).tokens, decoded.tokens
    )


def test_every_parameter_learns():
    classifier = models.image_classifier(
        grid_size=GRID,
        num_classes=5,
        output_dim=14,
        score=AdditiveScore(14, 14, 13),
        channels=C,
    )
    for model, logits in (
        (classifier, classifier(images(), LENGTHS)[0]),
        (c := captioner(), c(images(), LENGTHS, TARGET)[0]),
    ):
        logits.logsumexp(dim=-1).sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.any(), name


def test_runs_without_data():
    model = captioner().to("meta")
    logits, weights = model(images().to("meta"), LENGTHS, TARGET.to("meta"))
    assert logits.device.type == weights.device.type == "meta"


def test_patches_are_embedded_row_by_row_pixel_by_pixel():
    """Dosovitskiy et al. (2021), Equation 1, by hand."""
    embedding, image = PatchEmbedding(C, 4, GRID, 14), images()
    embedded = embedding(image)

    assert embedded.shape == (B, GRID, 14)
    for row in range(5):
        for column in range(3):
            s = 3 * row + column
            patch = image[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            assert_close(
                embedded[:, s],
                patch.flatten(1) @ embedding.weight
                + embedding.projection.bias
                + embedding.positions.table.weight[s],
            )


def test_every_patch_sees_every_other_and_no_other_image():
    encoder, image = patch_encoder(), images().requires_grad_()
    encoded = encoder(image, LENGTHS)
    assert encoded.states.shape == (B, GRID, encoder.output_dim)
    assert encoded.mask.all() and encoded.mask.shape == (B, 1, GRID)
    assert_close(encoded.final, encoded.states.mean(dim=1))

    (gradient,) = torch.autograd.grad(encoded.states[0, 4, 0], image)
    assert gradient[0].abs().sum(dim=0).all() and not gradient[1].any()


def test_the_same_captioner_looks_at_patches():
    score = AdditiveScore(11, 14, 13)
    model = EncoderDecoder(patch_encoder(), BahdanauDecoder(V, 7, 11, 14, score))
    logits, weights = model(images(), LENGTHS, TARGET)
    assert logits.shape == (B, T, V)
    assert_close(weights.sum(dim=-1), torch.ones(B, T))
    logits.logsumexp(dim=-1).sum().backward()
    for name, parameter in model.encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


@pytest.mark.plain
@pytest.mark.parametrize(
    ("height", "width", "said"),
    [
        (22, 12, "height is a multiple of the patch's 4 pixels, got 22"),
        (20, 13, "width is a multiple of the patch's 4 pixels, got 13"),
        (0, 12, "height is a multiple of the patch's 4 pixels, got 0"),
        (20, 3, "width is a multiple of the patch's 4 pixels, got 3"),
    ],
)
def test_images_that_patches_do_not_divide_are_refused(height, width, said):
    with pytest.raises(ValueError, match=said):
        PatchEmbedding(C, 4, GRID, 14)(torch.zeros(B, C, height, width))


@pytest.mark.plain
def test_what_cannot_be_patches_is_refused():
    with pytest.raises(ValueError, match="at least 1 pixel a side, got 0"):
        PatchEmbedding(C, 0, GRID, 14)
    with pytest.raises(ValueError, match="3 channels, got 1"):
        PatchEmbedding(C, 4, GRID, 14)(torch.zeros(B, 1, HEIGHT, WIDTH))
    with pytest.raises(ValueError, match="18 tokens.*learned for 15"):
        PatchEmbedding(C, 4, GRID, 14)(torch.zeros(B, C, HEIGHT + 4, WIDTH))


@pytest.mark.plain
def test_a_larger_image_than_the_grid_is_refused():
    with pytest.raises(ValueError, match="18 tokens.*learned for 15"):
        GridEncoder(C, 5, 7, GRID)(torch.randn(B, C, HEIGHT + 4, WIDTH), LENGTHS)


@pytest.mark.plain
def test_images_of_other_channels_are_refused():
    with pytest.raises(ValueError, match="3 channels, got 1"):
        GridEncoder(C, 5, 7, GRID)(torch.randn(B, 1, HEIGHT, WIDTH), LENGTHS)
