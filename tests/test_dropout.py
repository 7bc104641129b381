import pytest
import torch
from torch import nn

from attention_course.fast.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_it_drops_the_share_and_keeps_the_mean(p):
    y = Dropout(p)(torch.ones(1009, 101))

    dropped = (y == 0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / y.numel()) ** 0.5)
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - p)))


def test_decisions_are_independent_of_each_other():
    keep = (Dropout(0.5)(torch.ones(100_003)) != 0).double() - 0.5

    for shift in (1, 2, 3, 4, 8):  # four of them come from one draw
        assert abs((keep[shift:] * keep[:-shift]).mean()) < 5 * 0.25 / 100_000**0.5


def test_the_gradient_goes_where_the_numbers_went():
    x = torch.randn(7, 11, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert torch.allclose(x.grad * x, y)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing_is_torchs(p):
    x = torch.randn(5, 3)
    assert torch.equal(Dropout(p)(x), nn.Dropout(p)(x))


def test_nothing_is_dropped_in_use():
    x = torch.randn(5, 3)
    assert torch.equal(Dropout(0.9).eval()(x), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_dtype_stays(dtype):
    y = Dropout(0.5)(torch.ones(13, 2, dtype=dtype))
    assert y.dtype == dtype and set(y.flatten().tolist()) == {0.0, 2.0}


def test_a_seed_repeats_it():
    x = torch.ones(31)
    first, second = (torch.manual_seed(5) and Dropout(0.5)(x) for _ in range(2))
    assert torch.equal(first, second)


def test_other_devices_use_torchs():
    assert Dropout(0.5)(torch.ones(3, 2, device="meta")).shape == (3, 2)
