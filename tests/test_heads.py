import pytest
import torch
from torch.testing import assert_close
from transformers_small import shaken

from attention_course import models
from attention_course.heads import induction_score, previous_token_score, run_heads
from attention_course.masks import causal_mask
from attention_course.transformer import (
    AttentionBlock,
    GroupedQueryAttention,
    LearnedPositions,
    NoPositions,
    Residual,
    RMSNorm,
    TokenEmbedding,
    TransformerLM,
)

B, T, H, V, L = 2, 7, 3, 19, 2
D = H * 10
ROLES = ("query", "key", "value")


def attention_only(**sizes):
    sizes = {"vocab_size": V, "dim": D, "num_heads": H, "num_layers": L} | sizes
    return shaken(models.attention_only(**sizes))


def tokens():
    return torch.randint(V, (B, T))


def test_the_weight_on_the_token_before_by_hand():
    weights = torch.tensor(
        [[[[1.0, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25]]]]
    )  # queries 1 and 2 give 0.25 each to the one before
    weights = torch.cat([weights, torch.eye(3)[None, None]], dim=1)

    assert_close(previous_token_score(weights), torch.tensor([0.25, 0.0]))
    assert_close(previous_token_score(torch.ones(2, 3, 1, 1)), torch.zeros(3))


def test_the_weight_on_what_came_next_by_hand():
    """Of a b a a, query 2 looks for key 1, and query 3, whose latest a is at 2, for
    itself; the first string has nothing that comes again."""
    token = torch.tensor([[5, 6, 7, 8], [1, 2, 1, 1]])
    weights = torch.rand(2, 2, 4, 4)
    weights[1, :, 2, 1] = torch.tensor([0.5, 0.2])
    weights[1, :, 3, 3] = torch.tensor([0.25, 0.6])

    assert_close(induction_score(token, weights), torch.tensor([0.375, 0.4]))
    assert_close(induction_score(token[:1], weights[:1]), torch.zeros(2))


def test_the_maps_change_nothing():
    for model in (
        attention_only(),
        attention_only(positions=LearnedPositions(T, D)),
        attention_only(num_layers=3),
    ):
        token = tokens()
        logits, maps = run_heads(model, token)

        assert_close(logits, model(token))
        assert len(maps) == len(model.blocks)
        for weights in maps:
            assert_close(weights.sum(dim=-1), torch.ones(B, H, T))
            assert (weights.triu(1) == 0).all()


def test_the_first_map_is_that_of_the_attention_itself():
    model, token = attention_only(), tokens()
    block = model.blocks[0]
    x = block.around_self.before(model.embedding(token))
    _, weights = block.self_attention(x, x, x, causal_mask(T))

    assert_close(run_heads(model, token)[1][0], weights)


@pytest.mark.parametrize("layer", range(L))
def test_a_removed_head_is_one_whose_columns_are_zero(layer):
    model, token = attention_only(), tokens()
    logits, _ = run_heads(model, token, removed=[(layer, 1)])
    with torch.no_grad():
        columns = model.blocks[layer].self_attention.output_proj.weight
        columns.unflatten(1, (H, -1))[:, 1] = 0

    assert_close(logits, model(token))


def test_heads_that_share_keys_write_what_is_theirs():
    def around():
        return Residual(RMSNorm(D), 0.0, pre_norm=True)

    model = shaken(
        TransformerLM(
            TokenEmbedding(V, D, NoPositions()),
            [AttentionBlock(GroupedQueryAttention(D, 6, 3), around())],
            RMSNorm(D),
            torch.nn.Linear(D, V),
        )
    )
    token = tokens()
    logits, _ = run_heads(model, token, removed=[(0, 4)])
    with torch.no_grad():
        columns = model.blocks[0].self_attention.output_proj.weight
        columns.unflatten(1, (6, -1))[:, 4] = 0

    assert_close(logits, model(token))


def test_what_nobody_reads_is_as_good_as_removed():
    """In the upper of two layers; the way around it still has what the head wrote."""
    model, token = attention_only(), tokens()
    below = [(0, h) for h in range(H)]
    _, cut = run_heads(model, token, cut=dict.fromkeys(ROLES, below))
    _, removed = run_heads(model, token, removed=below)

    assert_close(cut[1], removed[1])


def test_what_is_cut_from_values_changes_no_map():
    model, token = attention_only(), tokens()
    logits, maps = run_heads(model, token)
    other_logits, other_maps = run_heads(model, token, cut={"value": [(0, 1)]})

    assert_close(other_maps, maps)
    assert (other_logits - logits).abs().max() > 0.01


@pytest.mark.parametrize("role", ["query", "key"])
def test_what_is_cut_from_queries_or_keys_changes_the_map_above(role):
    model, token = attention_only(), tokens()
    _, maps = run_heads(model, token)
    _, cut = run_heads(model, token, cut={role: [(0, 1)]})

    assert_close(cut[0], maps[0])
    assert (cut[1] - maps[1]).abs().max() > 0.01


@pytest.mark.parametrize("role", ROLES)
def test_what_the_heads_of_a_layer_write_is_all_that_the_layer_adds(role):
    """Also when the layer reads something else as queries, keys or values."""
    model, token = attention_only(), tokens()
    all_above = [(1, h) for h in range(H)]
    cut, _ = run_heads(model, token, removed=all_above, cut={role: [(0, 1)]})
    whole, _ = run_heads(model, token, removed=all_above)

    assert_close(cut, whole)


def test_the_top_layer_is_read_by_nobody():
    model, token = attention_only(), tokens()
    logits, _ = run_heads(model, token, cut=dict.fromkeys(ROLES, [(L - 1, 0)]))

    assert_close(logits, model(token))


def test_without_positions_of_its_own_a_model_turns_its_keys():
    """Two strings that differ in their order give the last letter different maps."""
    there, back = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 1, 3]])
    (turned, back_turned), (added, back_added) = (
        [run_heads(model, token)[1][0][0, :, 2, :2] for token in (there, back.clone())]
        for model in (attention_only(), attention_only(positions=NoPositions()))
    )

    assert_close(added, back_added.flip(-1))
    assert (turned - back_turned.flip(-1)).abs().max() > 1e-3


@pytest.mark.plain
def test_bad_input():
    model, token = attention_only(), tokens()
    with pytest.raises(ValueError, match=r"no head \(0, 3\)"):
        run_heads(model, token, removed=[(0, H)])
    with pytest.raises(ValueError, match=r"no head \(2, 0\)"):
        run_heads(model, token, cut={"key": [(L, 0)]})
    with pytest.raises(ValueError, match="query, key, value, not from 'keys'"):
        run_heads(model, token, cut={"keys": [(0, 0)]})
    other = models.llama(
        vocab_size=V, dim=D, num_heads=H, num_key_heads=H, hidden_dim=11, num_layers=1
    )
    with pytest.raises(ValueError, match="got EncoderBlock"):
        run_heads(other, token)
