import pytest
import torch

from attention_course.fast.tanh import tanh


def test_it_is_torchs():
    x = torch.cat(
        [
            torch.linspace(-12, 12, 10_007),
            torch.tensor([0.0, -1e-7, 1e4, -torch.inf, torch.inf]),
        ]
    )
    assert torch.allclose(tanh(x), x.tanh(), rtol=0, atol=2e-7)
    assert tanh(torch.tensor([0.0])).item() == 0


def test_its_gradients_are_torchs():
    x, toward = torch.randn(7, 11, requires_grad=True), torch.randn(7, 11)

    def gradients(squash):
        (first,) = torch.autograd.grad(squash(x), x, toward, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return first, second

    for ours, torchs in zip(gradients(tanh), gradients(torch.tanh), strict=True):
        assert torch.allclose(ours, torchs, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes_use_torchs(dtype):
    x = torch.randn(13, 2).to(dtype)
    assert torch.equal(tanh(x), x.tanh())


def test_other_devices_use_torchs():
    assert tanh(torch.ones(3, 2, device="meta")).shape == (3, 2)
