import math

import pytest
import torch
from torch.testing import assert_close

from attention_course.attention import attend
from attention_course.rnn import LocalM, LocalP
from attention_course.seq2seq import Memory

B, T, S, H, E = 2, 3, 7, 11, 5
LENGTHS = torch.tensor([7, 3])
WINDOWS = {"m": lambda: LocalM(half_width=1), "p": lambda: LocalP(H, 13, half_width=2)}


@pytest.fixture(params=list(WINDOWS))
def window(request):
    return WINDOWS[request.param]()


def remembered(device="cpu", dtype=torch.float32):
    mask = (torch.arange(S) < LENGTHS[:, None])[:, None]
    return Memory(
        torch.randn(B, S, H, device=device, dtype=dtype),
        torch.randn(B, S, E, device=device, dtype=dtype),
        mask.to(device),
        torch.randn(B, H, device=device, dtype=dtype),
    )


def asked(device="cpu", dtype=torch.float32):
    return torch.randn(B, T, S, device=device, dtype=dtype), torch.randn(
        B, T, H, device=device, dtype=dtype
    )


def at(*positions, device="cpu"):
    return torch.tensor(positions, device=device)


def predict(window, share):
    """Make a window of query width H predict this share of the length, for a query of
    ones."""
    with torch.no_grad():
        window.hidden_proj.weight.zero_()
        window.hidden_proj.weight[0] = 1.0
        window.position_proj.weight.zero_()
        window.position_proj.weight[0, 0] = math.log(share / (1 - share)) / math.tanh(H)


def test_local_m_by_hand(device):
    window, memory = LocalM(half_width=1), remembered(device)
    scores = (
        torch.tensor([0.0, 3.0, 1.0, 2.0, 0.0, 5.0, 7.0], device=device)
        .log()
        .expand(B, T, S)
    )
    _, weights = window(
        scores, torch.randn(B, T, H, device=device), at(0, 2, device=device), memory
    )

    # The first sentence has 7 tokens and is at steps 0, 1, 2; the second has 3 and is
    # at steps 2, 3, 4.
    first = [
        [0, 1, 0, 0, 0, 0, 0],
        [0, 3 / 4, 1 / 4, 0, 0, 0, 0],
        [0, 3 / 6, 1 / 6, 2 / 6, 0, 0, 0],
    ]
    second = [
        [0, 3 / 4, 1 / 4, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert_close(
        weights, torch.tensor([first, second], device=device, dtype=torch.float32)
    )


def test_local_p_by_hand(device):
    window, memory = LocalP(H, 13, half_width=2).to(device), remembered(device)
    predict(window, 0.5)
    ones = torch.ones(B, T, H, device=device)
    _, weights = window(
        torch.zeros(B, T, S, device=device), ones, at(0, 0, device=device), memory
    )

    # Half of 7 is 3.5: two of the five positions within 2 are on each side, at
    # distances 0.5 and 1.5. Half of 3 is 1.5: its three tokens are at 1.5, 0.5 and 0.5.
    # Sigma is 1.
    near, far = math.exp(-(0.5**2) / 2), math.exp(-(1.5**2) / 2)
    first = [0, 0, far / 4, near / 4, near / 4, far / 4, 0]
    second = [far / 3, near / 3, near / 3, 0, 0, 0, 0]
    assert_close(weights, torch.tensor([[first] * T, [second] * T], device=device))


def test_sigma_is_half_of_the_half_width():
    window, memory = LocalP(H, 13, half_width=6), remembered()
    predict(window, 3 / 7)
    _, weights = window(torch.zeros(B, T, S), torch.ones(B, T, H), at(0, 0), memory)

    assert_close(weights[0, 0, 3], torch.tensor(1 / 7))
    assert_close(weights[0, 0, 6], torch.tensor(math.exp(-1 / 2) / 7))  # 3 tokens away


def test_the_gaussian_comes_after_the_softmax():
    window, memory = LocalP(H, 13, half_width=2), remembered()
    scores, query = asked()
    _, weights = window(scores, query, at(0, 0), memory)
    shifted = window(scores + 100.0, query, at(0, 0), memory)[1]

    assert_close(shifted, weights, rtol=1e-4, atol=1e-4)
    assert (weights.sum(dim=-1) < 1).all()


@pytest.mark.parametrize("share", [1e-6, 0.3, 0.5, 1 - 1e-6])
def test_a_predicted_window_is_never_empty(share):
    window, memory = LocalP(H, 13, half_width=1), remembered()
    predict(window, share)
    _, weights = window(torch.zeros(B, T, S), torch.ones(B, T, H), at(0, 0), memory)

    assert (weights.sum(dim=-1) > 0.1).all()


def test_local_m_is_global_when_its_window_is_wide():
    scores, query = asked()
    memory = remembered()
    expected = attend(scores, memory.value, memory.mask)
    for found, wanted in zip(
        LocalM(half_width=S)(scores, query, at(0, 0), memory), expected
    ):
        assert_close(found, wanted)


def test_the_context_is_the_weighted_sum_of_values(window):
    memory = remembered()
    context, weights = window(*asked(), at(1, 1), memory)

    for b in range(B):
        for t in range(T):
            expected = sum(weights[b, t, s] * memory.value[b, s] for s in range(S))
            assert_close(context[b, t], expected)


def test_padding_gets_nothing_and_changes_nothing(window):
    scores, query = asked()
    memory = remembered()
    context, weights = window(scores, query, at(0, 0), memory)
    alone = Memory(
        *(part[1:, :3] for part in memory[:2]), memory.mask[1:, :, :3], memory.state[1:]
    )
    alone_context, alone_weights = window(scores[1:, :, :3], query[1:], at(0), alone)

    assert not weights[1, :, 3:].any()
    assert_close(alone_weights[0], weights[1, :, :3])
    assert_close(alone_context[0], context[1])


def test_a_window_past_the_end_attends_to_nothing_and_has_finite_gradients():
    window, memory = LocalM(half_width=2), remembered()
    scores, query = asked()
    scores.requires_grad_()
    context, weights = window(scores, query, at(20, 20), memory)
    context.square().sum().backward()

    assert not weights.any()
    assert not context.any()
    assert not scores.grad.any()


def test_the_predicted_position_has_a_gradient():
    window, memory = (
        LocalP(H, 13, half_width=3).double(),
        remembered(dtype=torch.float64),
    )
    scores, query = asked(dtype=torch.float64)
    query.requires_grad_()

    def weights(query, *_):
        return window(scores, query, at(0, 0), memory)[1]

    (gradient,) = torch.autograd.grad(weights(query).square().sum(), query)
    assert gradient[:, :, :].abs().amax(dim=-1).min() > 1e-6
    assert torch.autograd.gradcheck(weights, (query, *window.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_no_nan(window, dtype):
    window, (scores, query) = window.to(dtype), asked(dtype=dtype)
    query.requires_grad_()
    context, weights = window(
        scores.requires_grad_(), query, at(0, 20), remembered(dtype=dtype)
    )
    context.sum().backward()

    assert context.dtype == weights.dtype == dtype
    assert context.isfinite().all()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_tells_the_places_of_a_long_source_apart(dtype):
    size = 701  # its middle is 350.5, and above 256 bfloat16 has even numbers only
    window, scores, query = (
        LocalP(H, 13, half_width=2),
        torch.randn(1, 1, size),
        torch.ones(1, 1, H),
    )
    predict(window, 0.5)
    mask = torch.ones(1, 1, size, dtype=torch.bool)
    memory = Memory(
        torch.randn(1, size, H), torch.randn(1, size, E), mask, torch.randn(1, H)
    )
    _, expected = window(scores, query, at(0), memory)
    memory = Memory(
        memory.key.to(dtype), memory.value.to(dtype), mask, memory.state.to(dtype)
    )
    _, weights = window.to(dtype)(scores.to(dtype), query.to(dtype), at(0), memory)

    assert weights.dtype == dtype
    assert_close(weights.float(), expected, rtol=0, atol=0.01)


def test_runs_without_data(window):
    context, weights = window.to("meta")(
        *asked("meta"), at(0, 0, device="meta"), remembered("meta")
    )
    assert context.device.type == weights.device.type == "meta"


@pytest.mark.plain
@pytest.mark.parametrize(
    ("build", "least", "given"),
    [(LocalM, 0, -1), (LocalM, 0, math.nan), (lambda d: LocalP(H, 13, d), 1, 0)],
)
def test_a_window_has_a_width(build, least, given):
    with pytest.raises(ValueError, match=f"at least {least} .*half_width {given}"):
        build(given)


@pytest.mark.plain
@pytest.mark.parametrize(
    "wrong", ["scores", "query", "position", "value", "mask", "batch", "dtype"]
)
def test_what_does_not_fit_together_is_refused(window, wrong):
    (scores, query), position, memory = asked(), at(0, 0), remembered()
    if wrong == "scores":
        scores = scores[..., 1:]
    elif wrong == "query":
        query = query[:, :1]
    elif wrong == "position":
        position = position[:1]
    elif wrong == "value":
        memory = memory._replace(value=memory.value[:1], mask=memory.mask[:1])
    elif wrong == "mask":
        memory = memory._replace(mask=memory.mask[..., 1:])
    elif wrong == "batch":
        memory = memory._replace(mask=memory.mask[[0, 1, 1]])
    else:
        memory = memory._replace(mask=memory.mask.float())
    # which it does not look at
    if wrong == {LocalM: "query", LocalP: "position"}[type(window)]:
        window(scores, query, position, memory)
        return
    with pytest.raises(ValueError, match=r"\(\d, .*\(\d, |got torch.float32"):
        window(scores, query, position, memory)


@pytest.mark.plain
def test_a_query_of_another_width_predicts_nothing():
    scores, query = asked()
    with pytest.raises(ValueError, match=f"width {H}, got width {H - 1}"):
        LocalP(H, 13, half_width=2)(scores, query[..., 1:], at(0, 0), remembered())


@pytest.mark.plain
def test_compiles_as_one_graph(window):
    scores, query = asked()
    position, memory = at(0, 1), remembered()
    compiled = torch.compile(window, fullgraph=True, backend="aot_eager")
    assert_close(
        compiled(scores, query, position, memory),
        window(scores, query, position, memory),
    )
