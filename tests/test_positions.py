import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers_small import B, D, S, T, V, positions, shaken

from attention_course.transformer import (
    LearnedPositions,
    NoPositions,
    SegmentEmbedding,
    SinusoidalPositions,
    TokenEmbedding,
)


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


@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_each_row_may_have_a_past_of_its_own(kind, device):
    add = positions(kind).to(device)
    x, past = torch.randn(B, T, D, device=device), [4, 0]
    together = add(x, torch.tensor(past, device=device))

    for row in range(B):
        alone = add(x[row : row + 1], past[row])
        assert_close(together[row : row + 1], alone)


def test_sines_have_no_last_position():
    assert SinusoidalPositions(D)(torch.zeros(1, 2, D), past=10**6).isfinite().all()


def test_shifting_sines_is_a_rotation():
    """Section 3.5: p_{t+k} is a linear function of p_t, so products of positions depend
    on their distance only."""
    p = SinusoidalPositions(D)(torch.zeros(1, 41, D))[0]

    assert_close(
        (p[:-7] * p[7:]).sum(dim=-1), (p[0] @ p[7]).expand(34), rtol=1e-4, atol=1e-4
    )


def test_dropout_stands_on_the_sum_of_embeddings_and_positions():
    """Vaswani et al., Section 5.4: an entry goes with its position, or stays with it."""
    embedding = TokenEmbedding(V, 64, SinusoidalPositions(64), dropout=0.25)
    token = torch.arange(V)[None]
    dropped, kept = embedding(token), embedding.eval()(token)

    stays = dropped != 0
    assert_close(dropped[stays], kept[stays] / 0.75)
    share = (~stays).double().mean()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / stays.numel())
    assert_close(kept, SinusoidalPositions(64)(embedding.weight[token] * math.sqrt(64)))


def test_embeddings_may_be_left_as_they_are():
    embedding = TokenEmbedding(V, D, NoPositions(), scale=1.0)
    token = torch.randint(V, (B, T))

    assert_close(embedding(token, past=5), embedding.weight[token])


def test_embeddings_of_two_texts_by_hand():
    """(1, 2) + (2, 2) + (1, 8) is (4, 12), and normalized (-1, 1); in the first text it
    is (1, 2) + (0, -8) + (1, 8), and (0, 0) of variance 0."""
    embedding = SegmentEmbedding(
        1, 2, 2, LearnedPositions(1, 2), nn.LayerNorm(2)
    ).eval()
    with torch.no_grad():
        embedding.table.weight.copy_(torch.tensor([[1.0, 2.0]]))
        embedding.segments.weight.copy_(torch.tensor([[0.0, -8.0], [2.0, 2.0]]))
        embedding.positions.table.weight.copy_(torch.tensor([[1.0, 8.0]]))
    token = torch.zeros(1, 1, dtype=torch.long)

    first, second = torch.zeros(1, 1, 2), torch.tensor([[[-1.0, 1.0]]])
    assert_close(embedding(token, token + 1), second)
    assert_close(embedding(token, token), first)
    assert_close(embedding(token), first)


# What follows is about our own errors: it runs where no hook checks shapes before us.


@pytest.mark.plain
def test_positions_beyond_the_table_are_refused():
    learned = LearnedPositions(7, D)
    learned(torch.zeros(B, T, D), past=4)
    with pytest.raises(ValueError, match="8 tokens.*learned for 7"):
        learned(torch.zeros(B, T, D), past=5)


@pytest.mark.plain
def test_positions_of_a_row_beyond_the_table_are_refused():
    learned = LearnedPositions(7, D)
    learned(torch.zeros(B, T, D), past=torch.tensor([4, -2]))
    with pytest.raises(ValueError, match="^8 tokens.*learned for 7$"):
        learned(torch.zeros(B, T, D), past=torch.tensor([0, 5]))


@pytest.mark.plain
def test_positions_of_rows_compile_as_one_graph():
    learned, x = shaken(LearnedPositions(7, D)), torch.randn(B, T, D)
    past = torch.tensor([4, -2])
    compiled = torch.compile(learned, fullgraph=True, backend="aot_eager")

    assert_close(compiled(x, past), learned(x, past))


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


@pytest.mark.parametrize("sizes", [(0, 4), (5, 0)])
def test_a_table_without_numbers_is_refused(sizes):
    with pytest.raises(ValueError, match="at least 1"):
        TokenEmbedding(*sizes, NoPositions())
