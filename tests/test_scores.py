import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attention_course.attention import attend
from attention_course.masks import causal_mask, padding_mask
from attention_course.scores import (
    AdditiveScore,
    ConstantScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
    Score,
)

B, T, S, D = 2, 3, 5, 7
DK, A, H = 11, 13, 4

# For each kind: a builder from (query_dim, key_dim); the parameter-free ones need the
# two to be equal.
KINDS = {
    "dot": lambda dq, dk: DotScore(),
    "scaled": lambda dq, dk: ScaledDotScore(),
    "cosine": lambda dq, dk: CosineScore(),
    "general": GeneralScore,
    "additive": lambda dq, dk: AdditiveScore(dq, dk, A),
    "location": lambda dq, dk: LocationScore(dq, max_length=S),
    "gaussian": lambda dq, dk: GaussianScore(bandwidth=1.5),
    "constant": lambda dq, dk: ConstantScore(),
}
# the kinds that look at the keys
CONTENT = sorted(KINDS.keys() - {"location", "constant"})


@pytest.fixture(params=list(KINDS))
def score(request):
    """One of each kind, for queries and keys of width D."""
    return KINDS[request.param](D, D)


@pytest.fixture(params=CONTENT)
def content_score(request):
    """One of each kind that looks at the keys."""
    return KINDS[request.param](D, D)


def test_a_score_has_to_say_how_it_compares():
    with pytest.raises(TypeError, match="abstract.*forward"):
        Score()

    class Halfway(Score):
        def project_keys(self, key):
            return key / 2

    with pytest.raises(TypeError, match="abstract.*forward"):
        Halfway()


def score_all(score, query, key):
    return score(query, score.project_keys(key))


def set_weight(linear, rows):
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(rows))


QUERY = torch.tensor([[[1.0, 2.0]]])  # (B, T, D) = (1, 1, 2)
KEYS = torch.tensor([[[3.0, 4.0], [5.0, -6.0], [0.0, 0.0]]])  # (B, S, D) = (1, 3, 2)


def test_dot_by_hand():
    # 1*3 + 2*4, 1*5 - 2*6, 0
    assert_close(
        score_all(DotScore(), QUERY, KEYS), torch.tensor([[[11.0, -7.0, 0.0]]])
    )


def test_scaled_dot_by_hand():
    root = math.sqrt(2)
    assert_close(
        score_all(ScaledDotScore(), QUERY, KEYS),
        torch.tensor([[[11 / root, -7 / root, 0.0]]]),
    )


def test_general_by_hand():
    score = GeneralScore(query_dim=2, key_dim=3)
    set_weight(score.key_proj, [[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    keys = torch.tensor([[[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]])

    # W k is (1 + 6, -2 + 3) = (7, 1) and (0, -1); with q = (1, 2) that makes 7 + 2 and
    # 0 - 2
    assert_close(score.project_keys(keys), torch.tensor([[[7.0, 1.0], [0.0, -1.0]]]))
    assert_close(score_all(score, QUERY, keys), torch.tensor([[[9.0, -2.0]]]))


def test_additive_by_hand():
    score = AdditiveScore(query_dim=2, key_dim=1, hidden_dim=2)
    set_weight(score.query_proj, [[1.0, 0.0], [0.0, 1.0]])
    set_weight(score.key_proj, [[1.0], [-1.0]])
    set_weight(score.energy_proj, [[2.0, 3.0]])
    keys = torch.tensor([[[0.5], [-1.0]]])

    # W q + U k is (1 + 0.5, 2 - 0.5) for the first key and (1 - 1, 2 + 1) for the
    # second
    expected = [
        2 * math.tanh(1.5) + 3 * math.tanh(1.5),
        2 * math.tanh(0.0) + 3 * math.tanh(3.0),
    ]
    assert_close(score_all(score, QUERY, keys), torch.tensor([[expected]]))


def test_cosine_by_hand():
    # (3, 4) and (6, 8) have one direction, (-4, 3) is at a right angle to it, and zeros
    # have none
    query = torch.tensor([[[3.0, 4.0], [0.0, -2.0]]])
    keys = torch.tensor([[[6.0, 8.0], [-4.0, 3.0], [0.0, 0.0]]])

    assert_close(
        CosineScore().project_keys(keys),
        torch.tensor([[[0.6, 0.8], [-0.8, 0.6], [0.0, 0.0]]]),
    )
    assert_close(
        score_all(CosineScore(), query, keys),
        torch.tensor([[[1.0, 0.0, 0.0], [-0.8, -0.6, 0.0]]]),
    )


def test_location_by_hand():
    score = LocationScore(query_dim=2, max_length=4)
    set_weight(score.query_proj, [[1.0, 0.0], [0.0, 3.0], [2.0, -1.0], [100.0, 100.0]])

    # with q = (1, 2) the rows of W say 1, 6, 0 and 300; three keys leave the fourth row
    # out
    assert_close(score_all(score, QUERY, KEYS), torch.tensor([[[1.0, 6.0, 0.0]]]))
    assert_close(
        score_all(score, QUERY, torch.randn(1, 4, 5)),
        torch.tensor([[[1.0, 6.0, 0.0, 300.0]]]),
    )


def test_a_constant_score_takes_the_mean():
    value, mask = (
        torch.tensor([[[1.0], [3.0], [50.0]]]),
        torch.tensor([[[True, True, False]]]),
    )
    context, _ = attend(
        score_all(ConstantScore(), torch.randn(1, 1, 2), torch.randn(1, 3, 5)),
        value,
        mask,
    )
    assert_close(context, torch.tensor([[[2.0]]]))


def test_gaussian_by_hand():
    # (1, 2) is at the squared distances 4 + 4, 16 + 64 and 1 + 4; twice the squared
    # bandwidth is 8
    scores = score_all(GaussianScore(bandwidth=2.0), QUERY, KEYS)
    assert_close(scores, torch.tensor([[[-1.0, -10.0, -5 / 8]]]))


def test_gaussian_attention_is_nadaraya_watson():
    x, y = [-1.0, 0.0, 2.0, 3.5], [5.0, -1.0, 2.0, 4.0]
    where, bandwidth = [-2.0, 0.3, 1.0], 0.7
    expected = []
    for x_0 in where:
        kernel = [math.exp(-((x_0 - x_i) ** 2) / (2 * bandwidth**2)) for x_i in x]
        expected.append(sum(k * y_i for k, y_i in zip(kernel, y)) / sum(kernel))

    query, key, value = (
        torch.tensor(numbers)[None, :, None] for numbers in (where, x, y)
    )
    context, _ = attend(score_all(GaussianScore(bandwidth), query, key), value)
    assert_close(context[0, :, 0], torch.tensor(expected))


def test_gaussian_is_minus_the_squared_distance():
    query, key = torch.randn(B, T, D), torch.randn(B, S, D)
    assert_close(
        score_all(GaussianScore(0.5), query, key), -2 * torch.cdist(query, key).square()
    )


def test_cosine_is_torchs():
    query, key = torch.randn(B, T, D), torch.randn(B, S, D)
    expected = F.cosine_similarity(query[:, :, None], key[:, None], dim=-1)
    assert_close(score_all(CosineScore(), query, key), expected)


def test_rows_are_queries_and_columns_are_keys(content_score):
    score = content_score
    query, key = torch.randn(B, T, D), torch.randn(B, S, D)
    scores = score_all(score, query, key)

    for b in range(B):
        for t in range(T):
            for s in range(S):
                alone = score_all(
                    score, query[b : b + 1, t : t + 1], key[b : b + 1, s : s + 1]
                )
                assert_close(scores[b, t, s], alone[0, 0, 0])


def test_location_does_not_look_at_the_keys():
    score, query = LocationScore(D, max_length=S), torch.randn(B, T, D)
    assert_close(
        score_all(score, query, torch.randn(B, S, D)),
        score_all(score, query, torch.randn(B, S, DK)),
    )


@pytest.mark.parametrize("kind", [ConstantScore, DotScore, ScaledDotScore])
def test_keys_without_a_projection_are_used_as_they_are(kind):
    key = torch.randn(B, S, D)
    assert kind().project_keys(key) is key


def test_general_is_dot_after_its_projection():
    score = GeneralScore(query_dim=D, key_dim=DK)
    query, key = torch.randn(B, T, D), torch.randn(B, S, DK)

    bilinear = torch.einsum("btq,qk,bsk->bts", query, score.key_proj.weight, key)
    assert_close(score_all(score, query, key), bilinear)
    assert_close(
        score_all(score, query, key), DotScore()(query, score.project_keys(key))
    )


def test_additive_is_luongs_concat():
    score = AdditiveScore(query_dim=D, key_dim=DK, hidden_dim=A)
    query, key = torch.randn(B, T, D), torch.randn(B, S, DK)

    # (A, Dq + Dk)
    w = torch.cat([score.query_proj.weight, score.key_proj.weight], dim=1)
    pairs = torch.cat(
        [query[:, :, None].expand(-1, -1, S, -1), key[:, None].expand(-1, T, -1, -1)],
        dim=-1,
    )
    concat = torch.tanh(pairs @ w.mT) @ score.energy_proj.weight[0]
    assert_close(score_all(score, query, key), concat)


def test_scaled_dot_keeps_unit_variance_at_every_width():
    for width in (4, 64, 1024):
        query, key = torch.randn(1, 200, width), torch.randn(1, 200, width)
        assert score_all(ScaledDotScore(), query, key).var().item() == pytest.approx(
            1.0, abs=0.15
        )
        assert score_all(DotScore(), query, key).var().item() == pytest.approx(
            width, rel=0.15
        )


@pytest.mark.parametrize("masked", ["nothing", "padding", "causal", "both"])
def test_scaled_dot_and_attend_are_torchs_attention(masked, device):
    query, key, value = (
        torch.randn(B, n, d, device=device) for n, d in ((S, D), (S, D), (S, DK))
    )
    padding, causal = (
        padding_mask(torch.tensor([3, 5], device=device), S),
        causal_mask(S, device),
    )
    mask = {
        "nothing": None,
        "padding": padding,
        "causal": causal,
        "both": padding & causal,
    }[masked]

    context, _ = attend(score_all(ScaledDotScore(), query, key), value, mask)
    assert_close(
        context, F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    )


def test_scaled_dot_and_attend_are_torchs_attention_with_heads():
    query, key, value = (
        torch.randn(B, H, T, D),
        torch.randn(B, H, S, D),
        torch.randn(B, H, S, DK),
    )
    mask = padding_mask(torch.tensor([3, 5]), S)[:, None]  # (B, 1, 1, S)

    context, _ = attend(score_all(ScaledDotScore(), query, key), value, mask)
    assert_close(
        context, F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    )


def test_leading_axes_do_not_mix(score):
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, S, D)
    scores = score_all(score, query, key)

    assert scores.shape == (B, H, T, S)
    for h in range(H):
        assert_close(scores[:, h], score_all(score, query[:, h], key[:, h]))


@pytest.mark.parametrize("kind", list(KINDS))
def test_gradients(kind):
    score = KINDS[kind](3, 3).double()
    query = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    key = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    parameters = tuple(score.parameters())

    # The parameters are inputs of the check too, so that their gradients are looked at.
    assert torch.autograd.gradcheck(
        lambda q, k, *_: score_all(score, q, k), (query, key, *parameters)
    )


@pytest.mark.parametrize("kind", ["cosine", "gaussian"])
def test_second_derivatives(kind):
    score = KINDS[kind](3, 3)
    query = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    key = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradgradcheck(
        lambda q, k: score_all(score, q, k), (query, key)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close_to_single(score, dtype, device):
    score = score.to(device)
    query, key = (
        torch.randn(B, T, D, device=device),
        torch.randn(B, S, D, device=device),
    )
    expected = score_all(score, query, key)
    scores = score_all(score.to(dtype), query.to(dtype), key.to(dtype))

    assert scores.dtype == dtype
    assert_close(scores.float(), expected, rtol=0.05, atol=0.05)


def test_scaled_dot_survives_float16_where_the_plain_product_overflows():
    query = key = torch.full(
        (1, 1, 1024), 10.0, dtype=torch.float16
    )  # the product is 102400, the largest float16 65504

    assert DotScore()(query, key).isinf().all()
    assert_close(ScaledDotScore()(query, key).item(), 3200.0, rtol=1e-2, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_vector_of_zeros_has_a_cosine_and_a_gradient(dtype):
    query = torch.zeros(1, 2, 3, dtype=dtype, requires_grad=True)
    scores = score_all(CosineScore(), query, torch.cat([query, query + 1], dim=1))
    scores.sum().backward()

    assert not scores.any()
    assert query.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_distances_between_long_vectors_survive_half_precision(dtype):
    """In half precision the squared lengths, 102400 each, would be infinite or rounded
    to a multiple of 512."""
    query = torch.full((1, 1, 1024), 10.0, dtype=dtype)
    key = torch.cat([query, query], dim=1)
    key[0, 1, :8] = 12.0

    assert_close(
        score_all(GaussianScore(1.0), query, key),
        torch.tensor([[[0.0, -16.0]]], dtype=dtype),
    )


def test_runs_without_data(score):
    score = score.to("meta")
    scores = score_all(
        score, torch.randn(B, T, D, device="meta"), torch.randn(B, S, D, device="meta")
    )

    assert scores.device.type == "meta"
    assert scores.shape == (B, T, S)


def test_inputs_are_not_changed(score):
    query, key = torch.randn(B, T, D), torch.randn(B, S, D)
    query_before, key_before = query.clone(), key.clone()
    score_all(score, query, key)

    assert torch.equal(query, query_before)
    assert torch.equal(key, key_before)


sizes = st.integers(min_value=1, max_value=6)


@given(
    t=sizes, s=sizes, d=sizes, seed=st.integers(0, 2**31), kind=st.sampled_from(CONTENT)
)
def test_permuting_keys_permutes_scores(t, s, d, seed, kind):
    torch.manual_seed(seed)
    score = KINDS[kind](d, d)
    query, key, order = torch.randn(2, t, d), torch.randn(2, s, d), torch.randperm(s)

    assert_close(
        score_all(score, query, key[:, order]), score_all(score, query, key)[..., order]
    )


@given(
    d=sizes,
    factor=st.floats(-4, 4),
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["dot", "scaled", "general"]),
)
def test_products_are_linear_in_the_query(d, factor, seed, kind):
    torch.manual_seed(seed)
    score = KINDS[kind](d, d)
    one, two, key = torch.randn(1, 2, d), torch.randn(1, 2, d), torch.randn(1, 3, d)

    expected = score_all(score, one, key) + factor * score_all(score, two, key)
    assert_close(
        score_all(score, one + factor * two, key), expected, rtol=1e-4, atol=1e-4
    )


@given(factor=st.floats(0.1, 100), seed=st.integers(0, 2**31))
def test_cosine_is_bounded_and_knows_no_length(factor, seed):
    torch.manual_seed(seed)
    query, key = torch.randn(1, 2, 3), torch.randn(1, 4, 3)
    scores = score_all(CosineScore(), query, key)

    assert scores.abs().max() <= 1 + 1e-5
    assert_close(score_all(CosineScore(), factor * query, key / factor), scores)


@given(shift=st.floats(-3, 3), seed=st.integers(0, 2**31))
def test_gaussian_knows_no_origin_and_no_direction(shift, seed):
    torch.manual_seed(seed)
    score, query, key = GaussianScore(0.7), torch.randn(1, 2, 3), torch.randn(1, 4, 3)
    expected = score_all(score, query, key)

    assert_close(
        score_all(score, query + shift, key + shift), expected, rtol=1e-4, atol=1e-3
    )
    assert_close(score_all(score, key, query), expected.mT)


@given(scale=st.floats(-100, 100), seed=st.integers(0, 2**31))
def test_additive_is_bounded_by_its_last_layer(scale, seed):
    torch.manual_seed(seed)
    score = AdditiveScore(3, 5, 7)
    scores = score_all(
        score, scale * torch.randn(1, 2, 3), scale * torch.randn(1, 4, 5)
    )

    assert scores.abs().max() <= score.energy_proj.weight.abs().sum() + 1e-5


# What follows is about our own errors, and runs where no hook checks shapes before us.


@pytest.mark.plain
@pytest.mark.parametrize("kind", [DotScore, ScaledDotScore, CosineScore])
def test_query_and_key_of_different_widths_are_refused(kind):
    with pytest.raises(ValueError, match=r"width 7\b.*width 11\b"):
        kind()(torch.randn(B, T, 7), torch.randn(B, S, 11))


@pytest.mark.plain
@pytest.mark.parametrize(
    "score",
    [GeneralScore(7, 11), AdditiveScore(7, 11, 13)],
    ids=["general", "additive"],
)
def test_keys_of_the_wrong_width_are_refused(score):
    with pytest.raises(ValueError, match=r"width 11\b.*width 7\b"):
        score.project_keys(torch.randn(B, S, 7))


@pytest.mark.plain
def test_queries_of_the_wrong_width_are_refused():
    key = torch.randn(B, S, 11)
    general, additive = GeneralScore(7, 11), AdditiveScore(7, 11, 13)

    with pytest.raises(ValueError, match=r"width 11\b.*width 7\b"):
        general(torch.randn(B, T, 11), general.project_keys(key))
    with pytest.raises(ValueError, match=r"width 7\b.*width 11\b"):
        additive(torch.randn(B, T, 11), additive.project_keys(key))


@pytest.mark.plain
def test_unprojected_keys_are_refused():
    with pytest.raises(ValueError, match=r"width 13\b.*width 11\b.*project_keys"):
        AdditiveScore(7, 11, 13)(torch.randn(B, T, 7), torch.randn(B, S, 11))


@pytest.mark.plain
def test_unprojected_keys_of_a_gaussian_are_refused():
    with pytest.raises(ValueError, match=r"width 8\b.*width 7\b.*project_keys"):
        GaussianScore(1.0)(torch.randn(B, T, 7), torch.randn(B, S, 7))


@pytest.mark.plain
@pytest.mark.parametrize(
    ("of_queries", "of_keys"),
    [((B,), (1,)), ((1,), (B,)), ((), (B,)), ((B, H), (B, 1)), ((2,), (3,))],
)
def test_queries_and_keys_of_different_batches_are_refused(score, of_queries, of_keys):
    with pytest.raises(ValueError, match="not of one batch") as error:
        score(
            torch.randn(*of_queries, T, D),
            score.project_keys(torch.randn(*of_keys, S, D)),
        )

    assert str((*of_queries, T, D)) in str(error.value)
    assert str((*of_keys, S))[:-1] in str(error.value)


@pytest.mark.plain
def test_queries_of_the_wrong_width_have_no_location():
    with pytest.raises(ValueError, match=r"width 7\b.*width 11\b"):
        LocationScore(7, max_length=S)(torch.randn(B, T, 11), torch.randn(B, S, 7))


@pytest.mark.plain
def test_a_source_longer_than_the_table_of_locations_is_refused():
    with pytest.raises(ValueError, match=r"\b5 tokens.*max_length 3\b"):
        LocationScore(7, max_length=3)(torch.randn(B, T, 7), torch.randn(B, 5, 7))


@pytest.mark.plain
@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan")])
def test_a_bandwidth_is_positive(bandwidth):
    with pytest.raises(ValueError, match=f"0.*{bandwidth}"):
        GaussianScore(bandwidth)


@pytest.mark.plain
def test_compiles_as_one_graph(score):
    def function(query, key):
        return score_all(score, query, key)

    query, key = torch.randn(B, T, D), torch.randn(B, S, D)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert_close(compiled(query, key), function(query, key))
