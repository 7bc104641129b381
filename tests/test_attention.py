import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from attention_course.attention import (
    KeyValue,
    MultiHeadAttention,
    attend,
    masked_softmax,
)
from attention_course.masks import causal_mask, padding_mask, sliding_window_mask

B, T, S, D = 2, 3, 5, 7
HALVES_AND_SINGLE = [torch.float16, torch.bfloat16, torch.float32]


def test_weights_by_hand():
    e = math.e
    weights = masked_softmax(torch.tensor([[[0.0, 1.0]]]))

    assert_close(weights, torch.tensor([[[1 / (1 + e), e / (1 + e)]]]))


def test_masked_weights_by_hand():
    scores = torch.tensor([[[0.0, 1.0, 9.0], [0.0, 1.0, 9.0]]])
    mask = torch.tensor([[[True, True, False], [False, True, False]]])

    e = math.e
    expected = torch.tensor([[[1 / (1 + e), e / (1 + e), 0.0], [0.0, 1.0, 0.0]]])
    assert_close(masked_softmax(scores, mask), expected)


def test_context_by_hand():
    scores = torch.tensor([[[0.0, math.log(3.0)]]])  # the weights are 1/4 and 3/4
    value = torch.tensor([[[4.0, 0.0, 8.0], [0.0, 4.0, 8.0]]])
    context, weights = attend(scores, value)

    assert_close(weights, torch.tensor([[[0.25, 0.75]]]))
    assert_close(context, torch.tensor([[[1.0, 3.0, 8.0]]]))


def test_context_is_the_weighted_sum(device):
    scores, value = (
        torch.randn(B, T, S, device=device),
        torch.randn(B, S, D, device=device),
    )
    mask = padding_mask(torch.tensor([3, 5], device=device), S)
    context, weights = attend(scores, value, mask)

    for b in range(B):
        for t in range(T):
            assert_close(
                context[b, t], sum(weights[b, t, s] * value[b, s] for s in range(S))
            )


def test_masked_keys_might_as_well_not_be_there():
    scores, value = torch.randn(B, T, S), torch.randn(B, S, D)
    keep = [0, 2, 3]
    mask = torch.zeros(1, 1, S, dtype=torch.bool)
    mask[..., keep] = True

    context, weights = attend(scores, value, mask)
    context_without, weights_without = attend(scores[..., keep], value[:, keep])
    assert_close(context, context_without)
    assert_close(weights[..., keep], weights_without)
    assert not weights[..., [1, 4]].any()


def test_what_stands_on_masked_keys_does_not_matter():
    scores, value = torch.randn(B, T, S), torch.randn(B, S, D)
    mask = padding_mask(torch.tensor([3, 3]), S)
    context, weights = attend(scores, value, mask)

    scores[..., 3:], value[:, 3:] = 1e4, -1e4
    assert_close(attend(scores, value, mask), (context, weights))


def test_a_mask_broadcasts_over_batch_queries_and_heads():
    scores = torch.randn(B, 11, T, S)
    padding = padding_mask(torch.tensor([3, 5]), S)  # (B, 1, S)
    weights = masked_softmax(scores, padding[:, None])

    for h in range(11):
        assert_close(
            weights[:, h], masked_softmax(scores[:, h], padding.expand(B, T, S))
        )


@pytest.mark.parametrize("dtype", HALVES_AND_SINGLE)
def test_a_row_that_may_attend_to_nothing_is_zero(dtype, device):
    scores = torch.randn(B, T, S, dtype=dtype, device=device, requires_grad=True)
    value = torch.randn(B, S, D, dtype=dtype, device=device, requires_grad=True)
    mask = torch.ones(B, T, S, dtype=torch.bool, device=device)
    mask[0, 1] = False
    mask[1] = False
    context, weights = attend(scores, value, mask)

    assert weights.dtype == context.dtype == dtype
    assert not weights[0, 1].any()
    assert not context[0, 1].any()
    assert not weights[1].any()
    assert not context[1].any()
    assert_close(
        weights[0, 0].sum().float(),
        torch.tensor(1.0, device=device),
        rtol=0.01,
        atol=0.01,
    )

    # no NaN on the way back either, also none that is overwritten
    with torch.autograd.set_detect_anomaly(True):
        context.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert value.grad.isfinite().all()
    assert not scores.grad[0, 1].any()
    assert not scores.grad[1].any()
    assert not value.grad[1].any()
    assert scores.grad[0, 0].any()


@pytest.mark.parametrize("dtype", HALVES_AND_SINGLE)
def test_large_scores_neither_overflow_nor_leak(dtype):
    scores = torch.tensor([[[-6e4, 6e4, 6e4]]], dtype=dtype)
    mask = torch.tensor([True, True, False])

    assert_close(masked_softmax(scores).float(), torch.tensor([[[0.0, 0.5, 0.5]]]))
    assert_close(
        masked_softmax(scores, mask).float(), torch.tensor([[[0.0, 1.0, 0.0]]])
    )


def test_dropout_acts_on_the_context_and_not_on_the_returned_weights():
    # so that the context is the weights used
    scores, value = torch.randn(B, T, S), torch.eye(S).expand(B, S, S)
    dropout = nn.Dropout(0.5)
    context, weights = attend(scores, value, dropout=dropout)

    assert_close(weights, scores.softmax(dim=-1))
    dropped = context == 0
    assert 0 < dropped.sum() < dropped.numel()
    # what is left is scaled by 1 / (1 - 0.5)
    assert_close(context[~dropped], 2 * weights[~dropped])


def test_dropout_rests_in_eval_mode():
    scores, value = torch.randn(B, T, S), torch.randn(B, S, D)

    assert_close(
        attend(scores, value, dropout=nn.Dropout(0.5).eval()), attend(scores, value)
    )


def test_inputs_are_not_changed():
    scores, value = torch.randn(B, T, S), torch.randn(B, S, D)
    mask = padding_mask(torch.tensor([3, 5]), S)
    before = scores.clone(), value.clone(), mask.clone()
    attend(scores, value, mask, nn.Dropout(0.5))

    assert all(
        torch.equal(now, then) for now, then in zip((scores, value, mask), before)
    )


def test_gradients():
    scores = torch.randn(1, T, S, dtype=torch.float64, requires_grad=True)
    value = torch.randn(1, S, 2, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])

    assert torch.autograd.gradcheck(lambda e, v: attend(e, v, mask), (scores, value))


def test_runs_without_data():
    mask = padding_mask(torch.tensor([3, 5]).to("meta"), S)
    context, weights = attend(
        torch.randn(B, T, S, device="meta"), torch.randn(B, S, D, device="meta"), mask
    )

    assert context.device.type == weights.device.type == "meta"
    assert (context.shape, weights.shape) == ((B, T, D), (B, T, S))


numbers = st.floats(min_value=-50, max_value=50, width=32)


@st.composite
def scores_and_masks(draw):
    t, s = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    scores = draw(
        st.lists(st.lists(numbers, min_size=s, max_size=s), min_size=t, max_size=t)
    )
    mask = draw(
        st.lists(
            st.lists(st.booleans(), min_size=s, max_size=s), min_size=t, max_size=t
        )
    )
    return torch.tensor([scores], dtype=torch.float32), torch.tensor([mask])


@given(scores_and_masks())
def test_rows_sum_to_one_unless_they_are_empty(pair):
    scores, mask = pair
    weights = masked_softmax(scores, mask)

    assert (weights >= 0).all()
    assert not weights[~mask].any()
    assert_close(weights.sum(dim=-1), mask.any(dim=-1).float())


@given(scores_and_masks(), st.integers(-20, 20))
def test_adding_a_constant_to_all_scores_changes_nothing(pair, constant):
    scores, mask = pair

    assert_close(
        masked_softmax(scores + constant, mask),
        masked_softmax(scores, mask),
        rtol=1e-4,
        atol=1e-5,
    )


@given(scores_and_masks(), st.integers(0, 2**31))
def test_the_order_of_the_source_does_not_matter(pair, seed):
    scores, mask = pair
    torch.manual_seed(seed)
    value, order = torch.randn(1, scores.size(-1), 3), torch.randperm(scores.size(-1))

    context, _ = attend(scores, value, mask)
    shuffled, _ = attend(scores[..., order], value[:, order], mask[..., order])
    assert_close(shuffled, context)


@given(scores_and_masks(), st.integers(0, 2**31))
def test_a_context_lies_between_the_values_it_is_made_of(pair, seed):
    scores, mask = pair
    torch.manual_seed(seed)
    value = torch.randn(1, scores.size(-1), 1)
    context, _ = attend(scores, value, mask)

    for t in range(scores.size(1)):
        allowed = value[0, mask[0, t], 0]
        if len(allowed):
            assert allowed.min() - 1e-5 <= context[0, t, 0] <= allowed.max() + 1e-5


# Many heads: width W = H * Dh, with both factors prime

H, DH = 3, 7
W = H * DH


def torchs_own(attention, dropout=0.0):
    """Build torch's multi-head attention with the same weights."""
    theirs = nn.MultiheadAttention(W, H, dropout, batch_first=True)
    projections = (attention.query_proj, attention.key_proj, attention.value_proj)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat(
                [projection.weight for projection in projections]
            ),
            "in_proj_bias": torch.cat([projection.bias for projection in projections]),
            "out_proj.weight": attention.output_proj.weight,
            "out_proj.bias": attention.output_proj.bias,
        }
    )
    return theirs


def multi_head_attention():
    """With weights three times torch's own, so that the attention is far from uniform,
    and biases that are not 0."""
    attention = MultiHeadAttention(W, H)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(3)
    return attention


def queries_keys_values(b=B, t=T, s=S, **like):
    return (
        torch.randn(b, t, W, **like),
        torch.randn(b, s, W, **like),
        torch.randn(b, s, W, **like),
    )


def test_heads_by_hand():
    """Two heads of width one, all maps the identity: each head sees its own number, and
    scores are products."""
    attention = MultiHeadAttention(2, 2)
    with torch.no_grad():
        for projection in (
            attention.query_proj,
            attention.key_proj,
            attention.value_proj,
            attention.output_proj,
        ):
            projection.weight.copy_(torch.eye(2))
            projection.bias.zero_()
    query = torch.tensor([[[1.0, 0.0]]])
    key = torch.tensor([[[0.0, 5.0], [math.log(3.0), 7.0]]])
    value = torch.tensor([[[4.0, 10.0], [8.0, 20.0]]])
    context, weights = attention(query, key, value)

    assert_close(weights, torch.tensor([[[[0.25, 0.75]], [[0.5, 0.5]]]]))
    assert_close(context, torch.tensor([[[7.0, 15.0]]]))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(("b", "t", "s"), [(2, 3, 5), (2, 5, 3), (1, 1, 1)])
def test_heads_are_torchs_own(b, t, s, need_weights, device):
    attention = multi_head_attention().to(device)
    query, key, value = queries_keys_values(b, t, s, device=device)
    padding = padding_mask(torch.randint(1, s + 1, (b,), device=device), s)
    allowed = torch.rand(t, s, device=device) < 0.7
    allowed[:, 0] = True
    context, weights = attention(query, key, value, padding & allowed, need_weights)

    theirs, their_weights = torchs_own(attention).to(device)(
        query,
        key,
        value,
        key_padding_mask=~padding[:, 0],
        attn_mask=~allowed,
        average_attn_weights=False,
    )
    assert_close(context, theirs)
    if need_weights:
        assert_close(weights, their_weights)
    else:
        assert weights is None


def test_a_head_is_torchs_scaled_dot_product_attention(device):
    """The readable line and torch's kernel, on what is already projected."""
    q, k, v = (torch.randn(B, H, n, DH, device=device) for n in (T, S, S))
    mask = padding_mask(torch.tensor([3, 5], device=device), S)[:, None]
    context, _ = attend(multi_head_attention().score(q, k), v, mask)

    assert_close(context, F.scaled_dot_product_attention(q, k, v, mask))


def masks_of_each_kind(device=None):
    padding = padding_mask(torch.tensor([3, 5], device=device), S)
    empty = torch.ones(B, T, S, dtype=torch.bool, device=device)
    empty[0, 1], empty[1] = False, False
    window = sliding_window_mask(S, 1, device)[:T]
    one_row, one_number = padding[0, 0], padding[0, 0, 0]
    masks = {
        "none": None,
        "padding": padding,
        "window": window,
        "both": padding & window,
        "empty rows": empty,
    }
    return masks | {"one row": one_row, "one number": one_number}


@pytest.mark.parametrize(
    "kind", ["none", "padding", "window", "both", "empty rows", "one row", "one number"]
)
def test_the_fused_path_is_the_readable_one(kind, device):
    attention, inputs = (
        multi_head_attention().to(device),
        queries_keys_values(device=device),
    )
    mask = masks_of_each_kind(device)[kind]
    leaves = [x.requires_grad_() for x in inputs] + list(attention.parameters())
    direction = torch.randn(B, T, W, device=device)
    readable, _ = attention(*inputs, mask, need_weights=True)
    fused, _ = attention(*inputs, mask, need_weights=False)

    assert_close(fused, readable)
    # A constant added to all keys changes no weights, so the true gradient of their
    # bias is zero: rounding, on both.
    assert_close(
        torch.autograd.grad((fused * direction).sum(), leaves),
        torch.autograd.grad((readable * direction).sum(), leaves),
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_single_query_takes_the_readable_path_and_shows_no_weights_unasked(device):
    attention, (query, key, value) = (
        multi_head_attention().to(device),
        queries_keys_values(device=device),
    )
    padding = masks_of_each_kind(device)["padding"]
    fused, _ = attention(query, key, value, padding, need_weights=False)
    single, weights = attention(query[:, :1], key, value, padding, need_weights=False)

    assert_close(single, fused[:, :1])
    assert weights is None


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", HALVES_AND_SINGLE)
def test_heads_that_may_look_at_nothing_say_nothing(dtype, need_weights, device):
    attention = multi_head_attention().to(device, dtype)
    inputs = [
        x.requires_grad_() for x in queries_keys_values(dtype=dtype, device=device)
    ]
    context, weights = attention(
        *inputs, masks_of_each_kind(device)["empty rows"], need_weights
    )
    context.sum().backward()

    assert context.dtype == dtype
    assert context.isfinite().all()
    assert_close(context[1], attention.output_proj.bias.expand(T, W))
    assert_close(context[0, 1], attention.output_proj.bias)
    assert not torch.allclose(context[0, 0], attention.output_proj.bias)
    assert all(x.grad.isfinite().all() for x in [*inputs, *attention.parameters()])
    # nobody looked at the second sentence's keys ...
    assert not inputs[1].grad[1].any()
    assert not inputs[2].grad[1].any()  # ... or values
    if need_weights:
        assert not weights[1].any()
        assert not weights[0, :, 1].any()


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_of_heads_rests_in_eval_mode(need_weights):
    attention, inputs = MultiHeadAttention(W, H, dropout=0.5), queries_keys_values()
    dropped, weights = attention(*inputs, None, need_weights)
    rested, _ = attention.eval()(*inputs, None, need_weights)

    assert not torch.allclose(dropped, rested)
    assert_close(rested, torchs_own(attention)(*inputs)[0])
    if need_weights:
        assert_close(weights.sum(dim=-1), torch.ones(B, H, T))  # those before dropout


def test_a_source_is_projected_once_and_asked_often():
    attention = multi_head_attention()
    query, key, value = queries_keys_values()
    memory = attention.remember(key, value)
    context, weights = attention(query, key, value)

    assert memory.key.shape == memory.value.shape == (B, H, S, DH)
    for t in range(T):
        one, one_weights = attention.ask(query[:, t : t + 1], memory)
        assert_close(one, context[:, t : t + 1])
        assert_close(one_weights, weights[:, :, t : t + 1])


def test_a_memory_grows():
    attention = multi_head_attention()
    _, key, value = queries_keys_values()
    grown = attention.remember(key[:, :2], value[:, :2]).extend(
        attention.remember(key[:, 2:], value[:, 2:])
    )

    assert isinstance(grown, KeyValue)
    assert_close(grown, attention.remember(key, value))


@pytest.mark.parametrize("need_weights", [True, False])
def test_self_attention_without_positions_knows_no_order(need_weights):
    attention, (x, _, _), order = (
        multi_head_attention(),
        queries_keys_values(t=S),
        torch.randperm(S),
    )
    context, weights = attention(x, x, x, None, need_weights)
    shuffled, shuffled_weights = attention(
        x[:, order], x[:, order], x[:, order], None, need_weights
    )

    assert_close(shuffled, context[:, order])
    if need_weights:
        assert_close(shuffled_weights, weights[:, :, order][..., order])


def test_gradients_of_heads():
    attention = MultiHeadAttention(4, 2).double()
    inputs = [
        torch.randn(1, n, 4, dtype=torch.float64, requires_grad=True) for n in (2, 3, 3)
    ]
    mask = torch.tensor([[True, False, True], [False, False, False]])

    assert torch.autograd.gradcheck(lambda *x: attention(*x, mask), inputs)


@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_run_without_data(need_weights):
    attention = MultiHeadAttention(W, H).to("meta")
    mask = padding_mask(torch.tensor([3, 5]).to("meta"), S)
    context, weights = attention(
        *queries_keys_values(device="meta"), mask, need_weights
    )

    assert context.device.type == "meta"
    assert context.shape == (B, T, W)
    assert weights.shape == (B, H, T, S) if need_weights else weights is None


# What follows is about our own errors, and runs where no hook checks shapes before us.


@pytest.mark.plain
@pytest.mark.parametrize("dtype", [torch.float32, torch.long])
def test_a_mask_that_is_not_bool_is_refused(dtype):
    with pytest.raises(ValueError, match=f"torch.bool.*got {dtype}"):
        masked_softmax(torch.randn(B, T, S), torch.ones(B, T, S, dtype=dtype))


@pytest.mark.plain
@pytest.mark.parametrize(
    "shape", [(B, 1, S + 1), (B, T + 1, S), (B + 1, 1, S), (T,), (1, B, T, S)]
)
def test_a_mask_that_does_not_broadcast_is_refused(shape):
    with pytest.raises(ValueError) as error:
        masked_softmax(torch.randn(B, T, S), torch.ones(shape, dtype=torch.bool))

    assert str(shape) in str(error.value)
    assert str((B, T, S)) in str(error.value)


@pytest.mark.plain
def test_scores_and_values_that_disagree_are_refused():
    with pytest.raises(ValueError, match=r"\b5 source positions.*\b7 values"):
        attend(torch.randn(B, T, 5), torch.randn(B, 7, D))


@pytest.mark.plain
@pytest.mark.parametrize(
    ("of_scores", "of_values"),
    [((B,), (1,)), ((1,), (B,)), ((B,), ()), ((B, 11), (B,)), ((2,), (3,))],
)
def test_scores_and_values_of_different_batches_are_refused(of_scores, of_values):
    with pytest.raises(ValueError, match="not of one batch") as error:
        attend(torch.randn(*of_scores, T, S), torch.randn(*of_values, S, D))

    assert str((*of_scores, T, S)) in str(error.value)
    assert str((*of_values, S, D)) in str(error.value)


@pytest.mark.plain
@pytest.mark.parametrize("masked", [False, True])
def test_compiles_as_one_graph(masked):
    def function(scores, value):
        return attend(scores, value, mask)

    scores, value = torch.randn(B, T, S), torch.randn(B, S, D)
    mask = padding_mask(torch.tensor([3, 5]), S) if masked else None
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert_close(compiled(scores, value), function(scores, value))


@pytest.mark.plain
@pytest.mark.parametrize("num_heads", [0, 4])
def test_heads_that_do_not_divide_the_width_are_refused(num_heads):
    with pytest.raises(ValueError, match=f"width {W} .* {num_heads} heads"):
        MultiHeadAttention(W, num_heads)


@pytest.mark.plain
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_heads_refuse_another_width(wrong):
    inputs = list(queries_keys_values())
    inputs[wrong] = inputs[wrong][..., :-1]
    with pytest.raises(ValueError, match=f"width {W}, got width {W - 1}"):
        MultiHeadAttention(W, H)(*inputs)


@pytest.mark.plain
def test_heads_refuse_keys_without_values():
    query, key, value = queries_keys_values()
    with pytest.raises(ValueError, match="5 keys, but 4 values"):
        MultiHeadAttention(W, H)(query, key, value[:, :4])


@pytest.mark.plain
@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_refuse_another_batch(need_weights):
    query, key, value = queries_keys_values()
    with pytest.raises(ValueError, match="for 2 sentences, but a memory of 1"):
        MultiHeadAttention(W, H)(query, key[:1], value[:1], None, need_weights)
    with pytest.raises(ValueError, match="for 2 sentences, but values for 1"):
        MultiHeadAttention(W, H)(query, key, value[:1], None, need_weights)


@pytest.mark.plain
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(("dim", "num_heads"), [(DH, 1), (W, 1), (2 * W, H)])
def test_heads_refuse_what_other_heads_remember(dim, num_heads, need_weights):
    source = torch.randn(B, S, dim)
    memory = MultiHeadAttention(dim, num_heads).remember(source, source)
    with pytest.raises(
        ValueError,
        match=(
            f"3 heads of width 7, but the memory {num_heads} of width"
            f" {dim // num_heads}$"
        ),
    ):
        MultiHeadAttention(W, H).ask(torch.randn(B, T, W), memory, None, need_weights)


@pytest.mark.plain
@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_refuse_a_wrong_mask(need_weights):
    attention, inputs = MultiHeadAttention(W, H), queries_keys_values()
    with pytest.raises(ValueError, match="torch.bool.*got torch.float32"):
        attention(*inputs, torch.zeros(B, T, S), need_weights)
    for shape in [(B, 1, S + 1), (B + 1, T, S), (S, T), (B, 1, T, S)]:
        with pytest.raises(ValueError) as error:
            attention(*inputs, torch.ones(shape, dtype=torch.bool), need_weights)
        assert str(shape) in str(error.value)
        assert str((B, T, S)) in str(error.value)


@pytest.mark.plain
@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_compile_as_one_graph(need_weights):
    attention, (x, _, _) = multi_head_attention(), queries_keys_values(t=S)
    mask = padding_mask(torch.tensor([3, 5]), S) & causal_mask(S)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    assert_close(
        compiled(x, x, x, mask, need_weights), attention(x, x, x, mask, need_weights)
    )
